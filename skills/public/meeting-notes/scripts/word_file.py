"""The notes as a Word document. For render.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import docx
from docx.shared import Cm, Pt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTHS = (1.0, 7.5, 3.0, 2.6, 2.9)
"""Of the actions' columns, in cm: what A4 has between its margins."""
SMALL = 9


def write_docx(
    path: Path, notes: dict[str, Any], label: dict[str, str], cited: Callable[[dict[str, Any]], str]
) -> None:
    """label: headings by their names. cited: where an item was said."""
    document = docx.Document()
    for section in document.sections:
        section.page_width, section.page_height = Cm(21), Cm(29.7)
        section.left_margin = section.right_margin = Cm(2)
    document.core_properties.title = notes["title"]
    document.core_properties.author = ""
    document.add_heading(notes["title"], 0)
    facts = [(label["date"], notes["date"])]
    facts += [(label[key], ", ".join(notes[key])) for key in ("participants", "absent") if notes.get(key)]
    for name, value in facts:
        line = document.add_paragraph()
        line.paragraph_format.space_after = Pt(0)
        line.add_run(f"{name}: ").bold = True
        line.add_run(value)
    document.add_heading(label["summary"], 1)
    for each in notes["summary"]:
        document.add_paragraph(each, style="List Bullet")
    _listed(document, notes, "decisions", "by", label, cited)
    if notes.get("actions"):
        document.add_heading(label["actions"], 1)
        _actions(document, notes["actions"], label, cited)
    _listed(document, notes, "questions", "owner", label, cited)
    if notes.get("topics"):
        document.add_heading(label["topics"], 1)
    for topic in notes.get("topics", []):
        document.add_heading(topic["heading"], 2)
        for point in topic["points"]:
            document.add_paragraph(point, style="List Bullet")
    document.save(str(path))


def _listed(
    document: Any,
    notes: dict[str, Any],
    kind: str,
    person: str,
    label: dict[str, str],
    cited: Callable[[dict[str, Any]], str],
) -> None:
    if not notes.get(kind):
        return
    document.add_heading(label[kind], 1)
    for item in notes[kind]:
        line = document.add_paragraph(style="List Number" if kind == "decisions" else "List Bullet")
        line.add_run(item["text"] + (f" ({item[person]})" if item.get(person) else ""))
        if cited(item):
            line.add_run(f"  [{cited(item)}]").font.size = Pt(SMALL)


def _actions(
    document: Any, actions: list[dict[str, Any]], label: dict[str, str], cited: Callable[[dict[str, Any]], str]
) -> None:
    table = document.add_table(rows=1, cols=len(WIDTHS), style="Light Grid Accent 1")
    table.autofit = False
    heads = ("#", label["what"], label["who"], label["until"], label["evidence"])
    for cell, text in zip(table.rows[0].cells, heads, strict=True):
        cell.text = text
    for number, item in enumerate(actions, 1):
        values = (
            str(number),
            item["text"],
            item.get("owner") or label["unassigned"],
            item.get("due") or label["undated"],
            cited(item),
        )
        for cell, value in zip(table.add_row().cells, values, strict=True):
            cell.text = value
    for row in table.rows:
        for cell, width in zip(row.cells, WIDTHS, strict=True):
            cell.width = Cm(width)
