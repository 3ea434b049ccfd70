"""What several kinds of chart share: names of axes, legends, values as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from _look import short

if TYPE_CHECKING:
    from _data import Picture

Spec = dict[str, Any]
SIGNS = ("%", "€", "$", "£", "¥")
"""Units short enough to stand at every value."""


def axis_names(axes: Any, spec: Spec, *, flat: bool = False, bare: bool = False) -> None:
    """bare: the values stand at the bars, and there is no scale whose name could tell the unit: the subtitle does."""
    unit, value = str(spec.get("unit", "")), str(spec.get("y_label") or "")
    if not value:
        value = f"in {unit}" if unit not in ("", *(SIGNS if bare else "%")) else ""
    elif unit not in value:
        value = f"{value} ({unit})"
    names = str(spec.get("x_label") or "")
    if bare and value:
        spec["subtitle"] = f"{spec['subtitle']} ({value})" if spec.get("subtitle") else value
        value = ""
    axes.set_xlabel(value if flat else names)
    axes.set_ylabel(names if flat else value)


def legend(axes: Any, count: int) -> None:
    """Above the chart, in its reading order."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=min(count, 4),
        fontsize=10,
        handlelength=1.2,
        columnspacing=1.2,
        borderaxespad=0.2,
    )


def names_of(picture: Picture) -> list[str]:
    """The categories as text."""
    if picture.scale == "time":
        whole = all(x.day == 1 for x in picture.x)
        return [f"{x:%Y-%m}" if whole else f"{x:%Y-%m-%d}" for x in picture.x]
    return [f"{x:g}" if isinstance(x, float) else str(x) for x in picture.x]


def short_value(value: float, spec: Spec) -> str:
    """A value as it stands at a bar or in a cell."""
    unit = spec.get("unit", "")
    return short(value, bool(spec.get("decimal_comma")), unit if unit in SIGNS else "")
