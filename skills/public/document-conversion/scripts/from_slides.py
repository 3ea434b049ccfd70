"""PowerPoint decks as Markdown: a heading for each slide. For pathways.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blocks import table_as_markdown
from packages import package
from pptx import Presentation
from pptx.enum.shapes import MSO_SHAPE_TYPE

if TYPE_CHECKING:
    from pathlib import Path

    from report import Report


def read(path: Path, report: Report, pictures: Path) -> str:
    """A heading for each slide, its texts from top to bottom, tables, pictures, notes."""
    package(path).close()
    deck = Presentation(str(path))
    parts = []
    lost = dict.fromkeys(("charts", "other objects"), 0)
    for number, slide in enumerate(deck.slides, 1):
        title = slide.shapes.title
        name = " ".join(title.text_frame.text.split()) if title is not None else ""
        parts.append(f"## {number}. {name or 'Slide'}\n")
        rest = [shape for shape in _flat(slide.shapes) if title is None or shape.shape_id != title.shape_id]
        for shape in sorted(rest, key=lambda each: (each.top or 0, each.left or 0)):
            parts.append(_shape(shape, pictures, lost))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip():
            notes = slide.notes_slide.notes_text_frame.text.strip().replace("\n", "\n> ")
            parts.append(f"> Notes: {notes}\n")
    report.kept["slides"] = len(deck.slides)
    report.lost |= lost
    report.notes.append("looks, animations and the places of things on the slides are not taken over")
    return "\n".join(part for part in parts if part)


def _flat(shapes: Any) -> list[Any]:
    found = []
    for shape in shapes:
        found += _flat(shape.shapes) if shape.shape_type == MSO_SHAPE_TYPE.GROUP else [shape]
    return found


def _shape(shape: Any, pictures: Path, lost: dict[str, int]) -> str:
    if getattr(shape, "has_chart", False):
        lost["charts"] += 1
    elif getattr(shape, "has_table", False):
        rows = [[cell.text for cell in row.cells] for row in shape.table.rows]
        return "\n" + table_as_markdown(rows)
    elif shape.shape_type == MSO_SHAPE_TYPE.PICTURE:
        pictures.mkdir(parents=True, exist_ok=True)
        target = pictures / f"picture-{len(list(pictures.iterdir())) + 1}.{shape.image.ext}"
        target.write_bytes(shape.image.blob)
        alt = shape._element.xpath(".//p:cNvPr")[0].get("descr", "")
        return f"\n![{' '.join(alt.split())}]({pictures.name}/{target.name})\n"
    elif shape.has_text_frame:
        lines = [(each.level, "".join(run.text for run in each.runs)) for each in shape.text_frame.paragraphs]
        return "".join(f"{'  ' * level}- {text.strip()}\n" for level, text in lines if text.strip())
    else:
        lost["other objects"] += 1
    return ""
