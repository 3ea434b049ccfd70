"""Figures with their targets, statistics, and the outcome of a scenario. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Target:
    """The value that a figure should have at most, or at least."""

    value: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.value if self.at_least else value <= self.value

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.value:g}"


@dataclass(frozen=True)
class Figure:
    """A measured number. value: None if it could not be measured; `reason` says why."""

    name: str
    value: float | None
    unit: str
    target: Target | None = None
    reason: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target or a value."""
        return None if self.target is None or self.value is None else self.target.met(self.value)

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"value": None if self.value is None else round(self.value, 4), "unit": self.unit}
        if self.target is not None:
            shown |= {"target": str(self.target), "met": self.met}
        if self.reason:
            shown["reason"] = self.reason
        return shown


@dataclass
class Outcome:
    """The result of a scenario. details: JSON that explains it. problems: missing or wrong answers; must be empty."""

    figures: list[Figure] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "figures": {figure.name: figure.to_json() for figure in self.figures},
            "details": self.details,
            "problems": self.problems,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values are, interpolated. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def mean(values: Sequence[float]) -> float:
    """Raises ValueError if there are no values."""
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)


def slope(points: Iterable[tuple[float, float]]) -> float:
    """Growth of y per unit of x, by least squares; 0 for fewer than two different x."""
    listed = list(points)
    if not listed:
        return 0.0
    mean_x, mean_y = mean([x for x, _ in listed]), mean([y for _, y in listed])
    spread = sum((x - mean_x) ** 2 for x, _ in listed)
    return sum((x - mean_x) * (y - mean_y) for x, y in listed) / spread if spread else 0.0


def busiest_window(moments: Sequence[float], seconds: float) -> int:
    """Most moments within any window of this length, which does not include its end."""
    ordered = sorted(moments)
    most = first = 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def spread(name: str, values: Sequence[float], unit: str, targets: dict[int, Target] | None = None) -> list[Figure]:
    """The median and the 95th percentile as two figures, NAME_p50 and NAME_p95; targets by percentile."""
    wanted = targets or {}
    if not values:
        return [Figure(f"{name}_p{p}", None, unit, wanted.get(p), reason="nothing was measured") for p in (50, 95)]
    return [Figure(f"{name}_p{p}", percentile(values, p), unit, wanted.get(p)) for p in (50, 95)]
