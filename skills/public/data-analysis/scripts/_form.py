"""How a table file is written: encoding, separator, where its header is; guessed for _tables.py."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections import Counter
from itertools import islice
from typing import NoReturn

from _values import cleaned, form_of

SAMPLE_ROWS = 200
SEPARATORS = ",;\t|"


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def guess_encoding(head: bytes) -> str:
    """By its byte order mark, as UTF-8 if it is valid, else by charset-normalizer where it is installed."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    likely = ["cp1252", "gb18030", "big5", "cp932", "cp949", "cp1251", "koi8_r"]
    found = from_bytes(head[:65536], cp_isolation=likely, threshold=0.4).best()
    return found.encoding if found else "cp1252"


def guess_separator(sample: str) -> str:
    """The one that parts most lines into equally many fields."""

    def score(separator: str) -> float:
        widths = [
            len(row)
            for row in islice(csv.reader(io.StringIO(sample, newline=""), delimiter=separator), SAMPLE_ROWS)
            if row
        ]
        width, lines = Counter(widths).most_common(1)[0] if widths else (1, 0)
        return 0.0 if width == 1 else lines / len(widths) + min(width, 50) / 1000

    best = max(SEPARATORS, key=score)
    return best if score(best) else ","


def header(sample: list[list[object]], wish: int | None) -> tuple[int, list[str], list[str]]:
    """How many lines stand before the data, the columns' names, and notes on what was assumed."""
    filled = [sum(cleaned(cell) is not None for cell in row) for row in sample]
    if not any(filled):
        return 0, [], []
    if wish == 0:
        return 0, _names([], max(map(len, sample))), []
    usual = Counter(count for count in filled if count).most_common(1)[0][0]
    at = wish - 1 if wish else next(i for i, count in enumerate(filled) if count >= max(1, usual * 0.7))
    if at >= len(sample):
        stop(
            f"the header cannot be in line {wish}",
            f"there are {len(sample)} lines to look at; give a smaller --header-row",
        )
    notes = []
    if at:
        said = next((text for row in sample[:at] if (text := line(row))), "empty")
        notes.append(f"the {at} line(s) before the header are left out: {said}")
    if wish is None and not _looks_like_names(sample[at]):
        width = max(len(row) for row in sample[at:])
        return (
            at,
            _names([], width),
            [*notes, "no header found, so columns are named column_1 and so on (--header-row N if there is one)"],
        )
    names = _names(sample[at], max(len(sample[at]), usual))
    return at + 1, names, notes


def line(row: list[object]) -> str:
    return " ".join(str(cell) for cell in row if cell not in (None, ""))[:80]


def _looks_like_names(row: list[object]) -> bool:
    """Years may be names of columns, other numbers and dates are not."""
    forms = [form_of(cleaned(cell)) for cell in row]
    years = [bool(re.fullmatch(r"(?:19|20)[0-9]{2}", str(cell).strip())) for cell in row]
    return "text" in forms and all(
        form in ("text", "missing", "bool") or year for form, year in zip(forms, years, strict=True)
    )


def _names(row: list[object], width: int) -> list[str]:
    """One distinct name for each column."""
    seen: Counter[str] = Counter()
    names = []
    for index in range(width):
        cell = row[index] if index < len(row) else None
        name = " ".join(str(cell).lstrip("\ufeff").split()) if cell not in (None, "") else f"column_{index + 1}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names
