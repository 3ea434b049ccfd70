"""The program that converts a PDF with ruled tables to Markdown; run in a sandbox by harness/files/documents.py.

`python3 THIS DOCUMENT TEXT SECONDS`. It exits with 3 if it would take longer, and with 4 if it finds no table: then
markitdown does better.
"""

from __future__ import annotations

import sys
import time
from typing import Any

SAMPLE = 3
"""Pages after which the total time is estimated."""
TOO_SLOW, NO_TABLE = 3, 4


def main(document: str, result: str, seconds: float) -> int:
    """Write the text, page by page; returns the exit code."""
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
