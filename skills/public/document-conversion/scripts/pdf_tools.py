"""PDF files: what is in them, their text, tables, pictures and pages; split, merged, turned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pdfplumber
from pypdf import PdfReader, PdfWriter
from pypdf.errors import PdfReadError
from report import CannotConvert, Report
from tables import Table

if TYPE_CHECKING:
    from pathlib import Path

MOST_PIXELS = 25_000_000
"""Of one drawn page."""


def opened(path: Path, password: str = "") -> PdfReader:
    """Raises CannotConvert."""
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(password):
            raise CannotConvert(f"{path.name} has a password: ask the person for it, and give it with --password")
        if not len(reader.pages):
            raise CannotConvert(f"{path.name} has no pages")
    except (PdfReadError, OSError, ValueError) as error:
        raise CannotConvert(f"{path.name} is no PDF that can be read: {error}") from None
    return reader


def wanted(text: str, count: int) -> list[int]:
    """Pages of "1-3,5,8-" from 0; all of "". Raises CannotConvert."""
    if not text:
        return list(range(count))
    pages: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(-?)\s*(\d*)\s*", part)
        first = int(found[1]) if found is not None else 0
        last = (int(found[3]) if found[3] else count if found[2] else first) if found is not None else 0
        if not 1 <= first <= last <= count:
            raise CannotConvert(f'pages "{part.strip()}": there are 1 to {count}; write them as 1-3,5,8-')
        pages += range(first - 1, last)
    return pages


def information(path: Path, password: str = "") -> list[str]:
    """Lines on the file: pages, their size, text or scans, pictures, forms, signatures, bookmarks."""
    reader = opened(path, password)
    sizes = {
        (round(float(p.mediabox.width) / 28.35, 1), round(float(p.mediabox.height) / 28.35, 1)) for p in reader.pages
    }
    scans = [number for number, page in enumerate(reader.pages, 1) if not (page.extract_text() or "").strip()]
    fields = reader.get_fields() or {}
    signed = sum(field.get("/FT") == "/Sig" for field in fields.values())
    encrypted = "yes" if reader.is_encrypted else "no"
    lines = [
        f"{path.name}: {len(reader.pages)} pages, {path.stat().st_size / 1000:.0f} KB, "
        + ", ".join(f"{wide} x {high} cm" for wide, high in sorted(sizes)[:4]),
        f"pictures: {sum(len(page.images) for page in reader.pages)}; form fields: {len(fields)}; signatures: {signed}",
        f"bookmarks: {len(reader.outline)}; encrypted: {encrypted}",
    ]
    if scans:
        lines.append(f"{len(scans)} pages have no text ({ranges(scans)}): scans or drawings. There is no OCR here.")
    return lines


def ranges(numbers: list[int]) -> str:
    """Such as "1-3, 7"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts[:20])


def tables_of(path: Path, report: Report, *, pages: str = "", password: str = "", loose: bool = False) -> list[Table]:
    """loose: columns by the places of words, for tables without lines; finds some where there is none."""
    count = len(opened(path, password).pages)
    settings = {"vertical_strategy": "text", "horizontal_strategy": "text"} if loose else {}
    found: list[Table] = []
    with pdfplumber.open(path, password=password) as pdf:
        for number in wanted(pages, count):
            for at, rows in enumerate(pdf.pages[number].extract_tables(settings), 1):
                clean = [[" ".join((cell or "").split()) for cell in row] for row in rows]
                kept = [row for row in clean if any(row)]
                if len(kept) > 1:
                    found.append(Table(f"page {number + 1}, {at}", kept))
    if not found:
        hint = "they may be pictures" if loose else "without lines around them, --loose may find them"
        raise CannotConvert(f"no tables were found in {path.name}: {hint}")
    report.notes.append("compare a few cells of each table with the page: columns of PDF files are guessed from places")
    return found


def pictures_of(path: Path, folder: Path, report: Report, password: str = "") -> None:
    """The pictures in the file, as they are."""
    reader = opened(path, password)
    folder.mkdir(parents=True, exist_ok=True)
    for number, page in enumerate(reader.pages, 1):
        for at, image in enumerate(page.images, 1):
            target = folder / f"page-{number}-{at}{'.' + image.name.rpartition('.')[2]}"
            target.write_bytes(image.data)
            report.written.append(target)
    if not report.written:
        raise CannotConvert(
            f"{path.name} has no pictures in it; drawings of lines are none: draw its pages with pdf-pages"
        )
    report.kept["pictures"] = len(report.written)


def drawn(path: Path, folder: Path, report: Report, *, pages: str, dpi: int, password: str = "") -> None:
    """Pages as PNG files."""
    import pypdfium2

    count = len(opened(path, password).pages)
    folder.mkdir(parents=True, exist_ok=True)
    document = pypdfium2.PdfDocument(path, password=password or None)
    for number in wanted(pages, count):
        page = document[number]
        scale = min(dpi / 72, (MOST_PIXELS / (page.get_width() * page.get_height())) ** 0.5)
        target = folder / f"{path.stem}-{number + 1}.png"
        page.render(scale=scale).to_pil().save(target)
        report.written.append(target)
    document.close()
    report.kept["pages"] = len(report.written)


def split(path: Path, output: Path, report: Report, *, pages: str, each: bool, password: str = "") -> None:
    """The pages as one file; each: as a file each, in the folder `output`."""
    reader = opened(path, password)
    numbers = wanted(pages, len(reader.pages))
    if each:
        output.mkdir(parents=True, exist_ok=True)
    for group in [[number] for number in numbers] if each else [numbers]:
        writer = PdfWriter()
        for number in group:
            writer.add_page(reader.pages[number])
        _save(writer, output / f"{path.stem}-{group[0] + 1}.pdf" if each else output, report)
    report.kept["pages"] = len(numbers)
    _lost(reader, report)


def merge(paths: list[Path], output: Path, report: Report) -> None:
    """In the given order, with a bookmark for each file."""
    writer = PdfWriter()
    for path in paths:
        reader = opened(path)
        writer.append(reader, outline_item=path.stem)
        _lost(reader, report)
    report.kept["pages"] = len(writer.pages)
    _save(writer, output, report)


def rotate(path: Path, output: Path, report: Report, *, pages: str, by: int, password: str = "") -> None:
    """Clockwise, by 90, 180 or 270 degrees."""
    reader = opened(path, password)
    turned = set(wanted(pages, len(reader.pages)))
    writer = PdfWriter(clone_from=reader)
    for number in turned:
        writer.pages[number].rotate(by)
    report.kept["pages"] = len(writer.pages)
    report.notes.append(f"{len(turned)} of {len(reader.pages)} pages were turned")
    _save(writer, output, report)
    _lost(reader, report)


def _lost(reader: Any, report: Report) -> None:
    signed = sum(field.get("/FT") == "/Sig" for field in (reader.get_fields() or {}).values())
    report.lost["valid signatures (a changed file is no longer signed)"] = signed


def _save(writer: PdfWriter, path: Path, report: Report) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer.write(path)
    pages = len(PdfReader(path).pages)
    if pages != len(writer.pages):
        raise CannotConvert(f"{path.name} has {pages} pages after writing, and should have {len(writer.pages)}")
    report.written.append(path)
