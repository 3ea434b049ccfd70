"""One column's figures, gathered value by value within bounds of memory; used by profile_data.py and query.py."""

from __future__ import annotations

import math
import random
from collections import Counter
from statistics import quantiles
from typing import TYPE_CHECKING

from _values import cleaned, form_of, moment, number

if TYPE_CHECKING:
    from datetime import datetime

MOST_DISTINCT = 50_000
MOST_KEPT = 50_000
MOSTLY = 0.95
"""The share of a column's values that makes its type; the others are told as exceptions."""
NUMBERS = ("int", "dot", "comma", "dot?", "comma?")
DATES = ("date-iso", "date-dmy", "date-mdy", "date-?", "date-words")


class Column:
    """Feed it every cell with add(); ask afterwards. Beyond 50 000 distinct values they are no longer counted, and
    medians and outliers come from a random sample of 50 000 numbers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.forms: Counter[str] = Counter()
        self.values: Counter[object] = Counter()
        self.examples: dict[str, list[str]] = {}
        self.padded = 0
        self.too_many = False

    def add(self, raw: object) -> None:
        """One cell."""
        value = cleaned(raw)
        form = form_of(value)
        self.forms[form] += 1
        if isinstance(raw, str) and raw != raw.strip() and raw.strip():
            self.padded += 1
        if value is None:
            return
        shown = self.examples.setdefault(form, [])
        if len(shown) < 5:
            shown.append(str(value)[:40])
        if not self.too_many:
            self.values[value] += 1
            self.too_many = len(self.values) > MOST_DISTINCT

    @property
    def count(self) -> int:
        """Cells that hold something."""
        return self.forms.total() - self.forms["missing"]

    def _of(self, family: tuple[str, ...]) -> int:
        return sum(self.forms[form] for form in family)

    @property
    def kind(self) -> str:
        """number, date, boolean, text or empty: what at least 95 % of its values are."""
        if not self.count:
            return "empty"
        for kind, family in (("number", NUMBERS), ("date", DATES), ("boolean", ("bool",))):
            if self._of(family) >= MOSTLY * self.count:
                return kind
        return "text"

    @property
    def misfits(self) -> list[str]:
        """Examples of values that are not of the column's kind."""
        family = {"number": NUMBERS, "date": DATES, "boolean": ("bool",)}.get(self.kind)
        if family is None:
            return []
        return [text for form, texts in self.examples.items() if form not in family for text in texts]

    @property
    def misfit_count(self) -> int:
        family = {"number": NUMBERS, "date": DATES, "boolean": ("bool",)}.get(self.kind)
        return self.count - self._of(family) if family else 0

    @property
    def decimal(self) -> str:
        """The sign before the decimals: a comma only where values prove it (12,5) and none proves a dot."""
        return "," if self.forms["comma"] and not self.forms["dot"] else "."

    @property
    def day_first(self) -> bool:
        """Whether 03/04 is the third of April: so unless a value proves that months come first."""
        return not (self.forms["date-mdy"] and not self.forms["date-dmy"])

    def doubts(self) -> list[str]:
        """What a person should confirm before figures from this column are believed."""
        found = []
        if self.kind == "number":
            if self.forms["comma"] and self.forms["dot"]:
                found.append("decimal commas and decimal dots are mixed: each value is read by its own signs")
            elif self.forms["comma?"] and not self.forms["dot"] and not self.forms["comma"]:
                found.append(f"is {self.examples['comma?'][0]} a thousand or a decimal comma? Read as a thousand")
            elif self.forms["dot?"] and not self.forms["dot"] and not self.forms["comma"]:
                found.append(f"is {self.examples['dot?'][0]} a decimal or a dot between thousands? Read as a decimal")
        if self.kind == "date":
            if self.forms["date-mdy"] and self.forms["date-dmy"]:
                found.append("some dates begin with the day and some with the month")
            elif self.forms["date-?"] and not self.forms["date-mdy"] and not self.forms["date-dmy"]:
                found.append(f"is {self.examples['date-?'][0]} day/month or month/day? Read as day/month")
        if self.forms["code"] and self.kind == "number":
            found.append("some values look like codes (leading zeros or many digits)")
        return found


class Numbers:
    """Figures of a stream of numbers: exact mean, deviation, extremes; quantiles exact up to 50 000 values."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0
        self.total = 0.0
        self.least, self.most = math.inf, -math.inf
        self.zeros = self.negative = 0
        self.kept: list[float] = []
        self._random = random.Random(0)

    def add(self, value: float) -> None:
        """One number (Welford's way, so that large values lose no digits)."""
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self.squares += step * (value - self.mean)
        self.total += value
        self.least, self.most = min(self.least, value), max(self.most, value)
        self.zeros += value == 0
        self.negative += value < 0
        if len(self.kept) < MOST_KEPT:
            self.kept.append(value)
        elif (place := int(self._random.random() * self.count)) < MOST_KEPT:
            self.kept[place] = value

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median, upper quartile."""
        if len(self.kept) < 2:
            return (self.mean, self.mean, self.mean)
        low, middle, high = quantiles(self.kept, n=4, method="inclusive")
        return low, middle, high

    def outliers(self) -> tuple[int, float, float]:
        """How many lie further than 3 interquartile ranges outside the quartiles (Tukey's outer fences), and these."""
        low, _, high = self.quartiles()
        below, above = low - 3 * (high - low), high + 3 * (high - low)
        share = self.count / len(self.kept) if self.kept else 1
        return round(share * sum(not below <= value <= above for value in self.kept)), below, above


class Moments:
    """The extremes of a stream of dates, and the months that are missing between them."""

    def __init__(self) -> None:
        self.least: datetime | None = None
        self.most: datetime | None = None
        self.months: set[tuple[int, int]] = set()

    def add(self, value: datetime) -> None:
        self.least = min(self.least or value, value)
        self.most = max(self.most or value, value)
        self.months.add((value.year, value.month))

    def missing_months(self) -> list[str]:
        """Months without a single date between the first and the last; empty where most are missing anyway."""
        if self.least is None or self.most is None:
            return []
        months = range(self.least.year * 12 + self.least.month - 1, self.most.year * 12 + self.most.month)
        gaps = [
            f"{month // 12}-{month % 12 + 1:02}" for month in months if (month // 12, month % 12 + 1) not in self.months
        ]
        return gaps if len(gaps) <= len(self.months) else []


class Measures:
    """Second reading of one column whose kind is known by then: its numbers, or its dates."""

    def __init__(self, column: Column) -> None:
        self.numbers, self.moments = Numbers(), Moments()
        self._kind, self._decimal, self._day_first = column.kind, column.decimal, column.day_first

    def add(self, raw: object) -> None:
        """One cell; what is not of the column's kind is passed over."""
        value = cleaned(raw)
        if self._kind == "number":
            if (amount := number(value, self._decimal)) is not None:
                self.numbers.add(amount)
        elif (at := moment(value, self._day_first)) is not None:
            self.moments.add(at)
