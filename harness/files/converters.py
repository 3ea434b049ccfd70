"""The program that converts a PDF with ruled tables, a workbook or a mail to Markdown; run in a sandbox by
harness/files/documents.py.

`python3 THIS DOCUMENT TEXT SECONDS`. It exits with 3 if it would take longer, and with 4 if it finds no table: then
markitdown does better.
"""

from __future__ import annotations

import io
import sys
import time
from datetime import datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from email.message import EmailMessage, MIMEPart

SAMPLE = 3
"""Pages after which the total time is estimated."""
TOO_SLOW, NO_TABLE = 3, 4
HEADERS = ("From", "To", "Cc", "Date")


def main(document: str, result: str, seconds: float) -> int:
    """Write the text; returns the exit code."""
    if document.lower().endswith(".pdf"):
        return tables(document, result, seconds)
    if not document.lower().endswith(".eml"):
        return workbook(document, result, seconds)
    mail = message_from_bytes(Path(document).read_bytes(), policy=policy.default)
    Path(result).write_text(mail_text(mail), encoding="utf-8", errors="replace")
    return 0


def mail_text(mail: EmailMessage) -> str:
    """A mail's subject, people, date, text, and the names of its attachments."""
    title = f"# {mail['Subject']}" if mail["Subject"] else ""
    headers = "\n".join(f"{name}: {mail[name]}" for name in HEADERS if mail[name])
    body = mail.get_body(("plain", "html"))
    text = body_text(body).strip() if body is not None else ""
    names = ", ".join(part.get_filename() or part.get_content_type() for part in mail.iter_attachments())
    return "\n\n".join(filter(None, (title, headers, text, f"Attachments: {names}" if names else "")))


def body_text(body: MIMEPart) -> str:
    data = body.get_payload(decode=True)
    assert isinstance(data, bytes)
    try:
        text = data.decode(body.get_content_charset("utf-8"))
    except (LookupError, UnicodeDecodeError):
        from charset_normalizer import from_bytes

        text = str(from_bytes(data).best() or data.decode("utf-8", "replace"))
    if body.get_content_subtype() != "html":
        return text
    from markitdown import MarkItDown, StreamInfo  # type: ignore[import-not-found]  # the sandbox has it

    page = StreamInfo(extension=".html", charset="utf-8")
    return str(MarkItDown().convert_stream(io.BytesIO(text.encode("utf-8", "replace")), stream_info=page).markdown)


def workbook(document: str, result: str, seconds: float) -> int:
    """Write the cells of a workbook as they are: markitdown rounds long numbers, and writes NaN into empty cells."""
    from openpyxl import load_workbook  # type: ignore[import-untyped]

    begun, sheets = time.monotonic(), []
    for sheet in load_workbook(document, read_only=True, data_only=True).worksheets:
        sheet.reset_dimensions()  # some programs write wrong ones
        rows: list[list[str | None]] = []
        for row in sheet.iter_rows(values_only=True):
            cells: list[str | None] = [cell_text(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                rows.append(cells)
            if time.monotonic() - begun > seconds:
                return TOO_SLOW
        sheets.append("\n".join([f"## {sheet.title}", *([markdown(rows)] if rows else [])]))
    Path(result).write_text("\n\n".join(sheets), encoding="utf-8", errors="replace")
    return 0


def cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.15g}"  # what Excel keeps of it
    return str(value).removesuffix(" 00:00:00") if isinstance(value, datetime) else str(value)


def tables(document: str, result: str, seconds: float) -> int:
    """Write the text of a PDF page by page; returns the exit code."""
    import pdfplumber  # type: ignore[import-not-found]  # the sandbox has it

    begun, pages, tables = time.monotonic(), [], 0
    with pdfplumber.open(document) as pdf:
        total = len(pdf.pages)
        for number, page in enumerate(pdf.pages, 1):
            text, found = page_text(page)
            pages.append(text)
            tables += found
            page.close()
            spent = time.monotonic() - begun
            if spent > seconds or (number >= SAMPLE and spent / number * total > seconds):
                return TOO_SLOW
    if not tables:
        return NO_TABLE
    with open(result, "w", encoding="utf-8", errors="replace") as file:
        file.write("\f".join(pages))
    return 0


def page_text(page: Any) -> tuple[str, int]:
    """A page's lines with its tables in place, and the number of tables."""
    tables = [table for table in page.find_tables() if len(table.rows) > 1 and len(table.rows[0].cells) > 1]
    boxes = [table.bbox for table in tables]
    rest = page.filter(lambda thing: not any(is_inside(thing, box) for box in boxes))
    blocks = [(line["top"], line["text"]) for line in rest.extract_text_lines(return_chars=False)]
    blocks += [(table.bbox[1], f"\n{markdown(table.extract())}\n") for table in tables]
    return "\n".join(text for _, text in sorted(blocks, key=lambda block: block[0])), len(tables)


def is_inside(thing: dict[str, float], box: tuple[float, float, float, float]) -> bool:
    """Whether the center of an object lies in a box (left, top, right, bottom)."""
    across, down = (thing["x0"] + thing["x1"]) / 2, (thing["top"] + thing["bottom"]) / 2
    return box[0] <= across <= box[2] and box[1] <= down <= box[3]


def markdown(rows: list[list[str | None]]) -> str:
    """A Markdown table; the first row is its header."""
    cells = [[" ".join((cell or "").split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells))
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in cells]
    return "\n".join([lines[0], "|---" * width + "|", *lines[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
