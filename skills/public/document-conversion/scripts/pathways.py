"""From one kind of document to another, by way of Markdown or tables. For convert.py."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import blocks
from matrix import NEVER, PICTURES, targets
from plain_text import decoded
from report import CannotConvert, Report

if TYPE_CHECKING:
    import argparse

    from tables import Table

TABLE_KINDS = (".xlsx", ".csv", ".json")
TABLE_SOURCES = (".xlsx", ".xls", ".csv", ".json")
READERS = {".docx": "from_word", ".pptx": "from_slides", ".html": "from_web", ".htm": "from_web", ".epub": "from_web"}
"""Modules with `read(path, report, pictures)`; loaded when needed, for the packages of one kind take long."""


def convert(source: Path, output: Path, report: Report, options: argparse.Namespace) -> None:
    """Raises CannotConvert."""
    kind, wanted = source.suffix.lower(), output.suffix.lower()
    if kind in NEVER:
        raise CannotConvert(f"{kind} is not read here: {NEVER[kind]}, and send that")
    if wanted not in targets(source):
        able = ", ".join(targets(source)) or "nothing here"
        raise CannotConvert(f"{kind or source.name} does not become {wanted or output.name} here; it becomes {able}")
    output.parent.mkdir(parents=True, exist_ok=True)
    if kind in PICTURES:
        import pictures

        if wanted == ".pdf":
            pictures.as_pdf([source], output, report, fit=True)
        else:
            pictures.convert(source, output, report, longest=options.longest, quality=options.quality)
    elif wanted in TABLE_KINDS:
        import tables

        found = tables_in(source, report, options)
        (tables.write_xlsx if wanted == ".xlsx" else tables.write_others)(output, found, report)
    else:
        _text(source, output, report, options)


def _text(source: Path, output: Path, report: Report, options: argparse.Namespace) -> None:
    wanted = output.suffix.lower()
    with tempfile.TemporaryDirectory() as folder:
        beside = output.with_name(f"{output.stem}-pictures") if wanted == ".md" else Path(folder) / "pictures"
        text = markdown_of(source, report, beside, options)
        if wanted == ".md":
            output.write_text(text, encoding="utf-8")
            report.written += [output, *([beside] if beside.is_dir() else [])]
            report.kept |= blocks.counts(blocks.parse(text))
            return
        base = Path(folder) if beside.is_dir() else source.parent
        if source.suffix.lower() == ".pdf" and wanted == ".txt":
            output.write_text(text, encoding="utf-8")
        else:
            _written(output, blocks.parse(text), report, base, options)
        report.written.append(output)


def _written(output: Path, parsed: list[blocks.Block], report: Report, base: Path, options: argparse.Namespace) -> None:
    import to_html

    title = options.title or next((blocks.plain(each.pieces) for each in parsed if each.kind == "heading"), output.stem)
    match output.suffix.lower():
        case ".docx":
            import to_word

            to_word.write(output, parsed, report, folder=base, paper=options.paper, title=title)
        case ".pdf":
            import to_pdf

            to_pdf.write(output, parsed, report, folder=base, paper=options.paper, title=title)
        case ".html":
            to_html.write(output, parsed, report, folder=base, title=title, language=options.language)
        case _:
            output.write_text(to_html.text_of(parsed), encoding="utf-8")
    report.kept |= blocks.counts(parsed)


def markdown_of(source: Path, report: Report, beside: Path, options: Any) -> str:
    """beside: where pictures of the source go. Raises CannotConvert."""
    kind = source.suffix.lower()
    if kind in TABLE_SOURCES:
        import tables

        return tables.as_markdown(tables_in(source, report, options))
    if kind in READERS:
        found: str = import_module(READERS[kind]).read(source, report, beside)
        return found
    if kind == ".pdf":
        import pdf_text

        if options.output.suffix.lower() != ".txt":
            return pdf_text.markdown_of(source, report, pages=options.pages, password=options.password)
        texts = pdf_text.text_of(source, report, pages=options.pages, password=options.password, layout=options.layout)
        return "\n\n".join(texts) + "\n"
    text, used = decoded(source.read_bytes(), options.encoding, source.name)
    report.notes += [f"{source.name} was read as {used}"] if used != "utf-8" else []
    return text if kind == ".md" else re.sub(r"^([#>*+-])", r"\\\1", text, flags=re.MULTILINE)


def tables_in(source: Path, report: Report, options: Any) -> list[Table]:
    """Raises CannotConvert when there are none."""
    import tables

    kind = source.suffix.lower()
    if kind == ".csv":
        wishes = {"encoding": options.encoding, "delimiter": options.delimiter}
        return [tables.read_csv(source, report, **wishes, decimal_comma=options.decimal_comma)]
    if kind in (".xlsx", ".xls"):
        found = tables.read_workbook(source, report)
    elif kind == ".json":
        found = tables.read_json(source)
    elif kind == ".pdf":
        import pdf_tools

        found = pdf_tools.tables_of(source, report, pages=options.pages, password=options.password, loose=options.loose)
    else:
        folder = Path(tempfile.mkdtemp())
        parsed = blocks.parse(markdown_of(source, report, folder / "pictures", options))
        shutil.rmtree(folder)
        rows = [[[blocks.plain(cell) for cell in row] for row in each.rows] for each in parsed if each.kind == "table"]
        found = [tables.Table(f"table {number}", each) for number, each in enumerate(rows, 1)]
        report.notes.append("text around the tables is not taken over")
    if not found:
        raise CannotConvert(f"{source.name} has no tables")
    return found


def compare(source: Path, output: Path) -> list[str]:
    """Words of both, and which of the source's are missing; for documents of text."""
    texts = []
    for path in (source, output):
        if not path.is_file():
            raise CannotConvert(f"{path} does not exist")
        with tempfile.TemporaryDirectory() as folder:
            options = _Options(path)
            texts.append(_words(markdown_of(path, Report(), Path(folder) / "pictures", options)))
    before, after = texts
    missing = [word for word in dict.fromkeys(before) if word not in set(after)]
    lines = [f"{source.name}: {len(before)} words; {output.name}: {len(after)} words"]
    lines.append(
        f"{len(missing)} different words are missing: {', '.join(missing[:20])}" if missing else "no word is missing"
    )
    return lines


class _Options:
    """What `markdown_of` asks for, where nothing was chosen."""

    pages = password = encoding = delimiter = ""
    layout = loose = decimal_comma = False

    def __init__(self, path: Path) -> None:
        self.output = path.with_suffix(".md")


def _words(text: str) -> list[str]:
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)", " ", text)
    return [word.casefold() for word in re.findall(r"[^\W_]+", text)]
