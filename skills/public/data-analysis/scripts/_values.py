"""What a cell holds: missing, a number, a date, a truth value or text; and its value, read as its column is written.

Used by _tables.py, _columns.py and query.py. Needs nothing but Python itself.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from functools import lru_cache

_MISSING = """na n/a n.a. nan null none nil - -- – — ? . k.a. 无 缺失
#n/a #na #null! #div/0! #value! #ref! #name? #num!"""
_TRUE = "true yes ja oui si sí 是 wahr vrai"
_FALSE = "false no nein non 否 falsch faux"
MISSING_WORDS, TRUE_WORDS, FALSE_WORDS = (frozenset(words.split()) for words in (_MISSING, _TRUE, _FALSE))
LONGEST_MISSING = max(map(len, MISSING_WORDS))

MONEY = r"(?:[$€£¥₹₩₽฿]|USD|EUR|GBP|CHF|CNY|RMB|JPY|INR|元)"
AROUND_NUMBER = re.compile(
    rf"^(\()?\s*([-+−])?\s*{MONEY}?\s*([-+−])?\s*([0-9][0-9.,'’\s  ]*|[.,][0-9]+)"
    rf"([eE][-+]?[0-9]+)?\s*(%|[万亿]?{MONEY}|[万亿])?\s*(\))?$"
)
SCALES = {"%": 0.01, "万": 1e4, "亿": 1e8}
PLAIN_NUMBER = re.compile(r"^[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$")
LEADING_ZERO = re.compile(r"^[-+]?0[0-9]")
COMMA_GROUPS = re.compile(r"^[0-9]{1,3}(?:,[0-9]{3})+$")
DOT_GROUPS = re.compile(r"^[0-9]{1,3}(?:\.[0-9]{3})+$")
DIGITS_KEPT = 15
"""Longer whole numbers are identifiers (cards, accounts): a float would change their last digits."""

ISO_DATE = re.compile(
    r"^([0-9]{4})([-/.年])([0-9]{1,2})(?:[-/.月]([0-9]{1,2})日?)?"
    r"(?:[T ]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?\s*(?:Z|[-+][0-9]{2}:?[0-9]{2})?)?$"
)
PARTS_DATE = re.compile(
    r"^([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})"
    r"(?:[T ,]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?\s*([aApP][mM])?)?$"
)
WORD_DATE = re.compile(
    r"^(?:([0-9]{1,2})[. -]+)?([A-Za-zäéû]{3,9})\.?[ -]+(?:([0-9]{1,2})(?:st|nd|rd|th)?,? +)?([0-9]{4})$"
)
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar janvier", "feb february februar février", "mar march märz mär mars", "apr april avril",
            "may mai", "jun june juni juin", "jul july juli juillet", "aug august août", "sep sept september septembre",
            "oct october okt oktober octobre", "nov november novembre", "dec december dez dezember décembre",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip


def cleaned(value: object) -> object:
    """The cell without spaces around it; None when nothing is there."""
    if isinstance(value, str):
        value = value.strip()
        return None if not value or (len(value) <= LONGEST_MISSING and value.lower() in MISSING_WORDS) else value
    if isinstance(value, float) and value != value:
        return None
    return value


def form_of(value: object) -> str:
    """How a cell is written: missing, bool, date-*, text, or a number: int, dot (12.5), comma (12,5), comma? (1,234: a
    thousand or 1.234), dot? (1.234), code (digits that are a name: 007)."""
    if value is None:
        return "missing"
    if isinstance(value, str):
        return _form_of_text(value)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "int" if value.is_integer() else "dot"
    return "date-iso" if isinstance(value, date | datetime) else "text"


@lru_cache(maxsize=100_000)
def _form_of_text(text: str) -> str:
    text = text.strip()
    lower = text.lower()
    if not text or lower in MISSING_WORDS:
        return "missing"
    if text[0].isalpha() and (lower in TRUE_WORDS or lower in FALSE_WORDS):
        return "bool"
    return _form_of_number(text) or _form_of_date(text) or "text"


def _form_of_number(text: str) -> str:
    if PLAIN_NUMBER.match(text):
        if LEADING_ZERO.match(text) or len(text.partition(".")[0].lstrip("+-")) > DIGITS_KEPT:
            return "code"
        if "." not in text:
            return "int"
        return "dot?" if DOT_GROUPS.match(text.lstrip("+-")) else "dot"
    found = AROUND_NUMBER.match(text)
    if found is None:
        return ""
    digits = re.sub(r"[\s'’  ]", "", found[4])
    if digits.isdigit():
        return "int"
    dots, commas = digits.count("."), digits.count(",")
    if dots and commas:
        return ("dot" if digits.rfind(".") > digits.rfind(",") else "comma") if min(dots, commas) == 1 else ""
    if commas:
        if not COMMA_GROUPS.match(digits):
            return "comma" if commas == 1 else ""
        return "dot" if commas > 1 else "comma?"
    if not DOT_GROUPS.match(digits):
        return "dot" if dots == 1 else ""
    return "comma" if dots > 1 else "dot?"


def _form_of_date(text: str) -> str:
    if ISO_DATE.match(text):
        return "date-iso" if moment(text) else ""
    if found := PARTS_DATE.match(text):
        first, second = int(found[1]), int(found[3])
        if max(first, second) > 31 or min(first, second) < 1 or min(first, second) > 12:
            return ""
        if found[2] == "." or first > 12:
            return "date-dmy"
        return "date-mdy" if second > 12 else "date-?"
    return "date-words" if WORD_DATE.match(text) and moment(text) else ""


def number(value: object, decimal: str = ".") -> float | None:
    """The number in a cell. decimal: the column's own sign, which decides what 1,234 is; percents are parts of one."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    return _number_in(value, decimal) if isinstance(value, str) else None


@lru_cache(maxsize=100_000)
def _number_in(text: str, decimal: str) -> float | None:
    text = text.strip()
    form = _form_of_number(text)
    found = AROUND_NUMBER.match(text)
    if form in ("", "code") or found is None:
        return None
    comma = form == "comma" or (form in ("comma?", "dot?") and decimal == ",")
    digits = re.sub(r"[\s'’  ]", "", found[4])
    digits = digits.replace(".", "").replace(",", ".") if comma else digits.replace(",", "")
    amount = float(digits + (found[5] or ""))
    amount *= SCALES.get((found[6] or " ")[0], 1.0)
    minus = bool(found[1] and found[7]) or "-" in (found[2], found[3]) or "−" in (found[2], found[3])
    return -amount if minus else amount


def moment(value: object, day_first: bool = True) -> datetime | None:
    """The date (and time, without its zone) in a cell. day_first: what 03/04/2026 is in this column."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime.combine(value, time())
    if not isinstance(value, str):
        return None
    try:
        return _moment_in(value.strip(), day_first)
    except ValueError:  # 31 February
        return None


def _moment_in(text: str, day_first: bool) -> datetime | None:
    if found := ISO_DATE.match(text):
        return datetime(
            int(found[1]), int(found[3]), int(found[4] or 1), int(found[5] or 0), int(found[6] or 0), int(found[7] or 0)
        )
    if found := PARTS_DATE.match(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        if year < 100:
            year += 2000 if year < 70 else 1900
        day, month = (
            (first, second) if second <= 12 and (first > 12 or day_first or found[2] == ".") else (second, first)
        )
        hour = int(found[5] or 0) % 12 + 12 * (found[8].lower() == "pm") if found[8] else int(found[5] or 0)
        return datetime(year, month, day, hour, int(found[6] or 0), int(found[7] or 0))
    if (found := WORD_DATE.match(text)) and (month_number := MONTHS.get(found[2].lower())):
        return datetime(int(found[4]), month_number, int(found[1] or found[3] or 1))
    return None


def truth(value: object) -> bool | None:
    """True and false, as a cell or in words."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None
