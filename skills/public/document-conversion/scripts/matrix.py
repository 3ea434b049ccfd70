"""What becomes what here, honestly. For convert.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
TEXTS = (".md", ".docx", ".html", ".pdf", ".txt")
TABLES = (".xlsx", ".csv", ".json", ".md")
FROM: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {
    (".md",): ((*TEXTS, ".xlsx", ".csv", ".json"), "headings, lists, tables, links, pictures beside the file"),
    (".txt",): (TEXTS, "paragraphs"),
    (".docx",): ((*TEXTS, ".xlsx", ".csv", ".json"), "text, headings, lists, tables, pictures; not the layout"),
    (".html", ".htm"): (
        (*TEXTS, ".xlsx", ".csv", ".json"),
        "text, headings, lists, tables, links; no scripts, no style",
    ),
    (".epub",): (TEXTS, "the chapters' text; no pictures"),
    (".pptx",): ((".md", ".txt", ".docx", ".html", ".pdf"), "texts, tables, pictures, notes; not the slides' looks"),
    (".xlsx", ".xls", ".csv", ".json"): (
        (*TABLES, ".html", ".docx", ".pdf", ".txt"),
        "values of all sheets; no formulas",
    ),
    (".pdf",): ((".txt", ".md", ".docx", ".html", ".xlsx", ".csv", ".json"), "its text as paragraphs, or its tables"),
    PICTURES: ((*PICTURES, ".pdf"), "format and size"),
}
NEVER = {
    ".doc": "save it as .docx in Word",
    ".ppt": "save it as .pptx in PowerPoint",
    ".odt": "save it as .docx in LibreOffice",
    ".ods": "save it as .xlsx in LibreOffice",
    ".odp": "save it as .pptx in LibreOffice",
    ".rtf": "save it as .docx in Word",
    ".pages": "export it as .docx in Pages",
    ".numbers": "export it as .xlsx in Numbers",
    ".key": "export it as .pptx in Keynote",
    ".heic": "save or send it as JPEG",
    ".svg": "open it in a browser and save it as PNG",
    ".mobi": "there is no reader for it here",
}


def targets(path: Path) -> tuple[str, ...]:
    kind = path.suffix.lower()
    return next((found for kinds, (found, _) in FROM.items() if kind in kinds), ())


def matrix() -> str:
    lines = ["from -> to: what is kept"]
    lines += [f"{' '.join(kinds)} -> {' '.join(found)}: {kept}" for kinds, (found, kept) in FROM.items()]
    lines.append("PDF besides: split, merge, rotate, pages as pictures, pictures in it; pictures -> one PDF.")
    lines.append("Not here: " + "; ".join(f"{kind} ({advice})" for kind, advice in NEVER.items()) + ";")
    lines.append(
        "text in scans and photos (no OCR); .pptx, .docx or .xlsx to PDF with their own layout (no Office here)."
    )
    return "\n".join(lines)
