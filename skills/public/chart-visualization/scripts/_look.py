"""How charts look: fonts that can write the labels, colours that everybody can tell apart, sizes for chats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")
from _data import stop
from matplotlib import dates, font_manager, pyplot, ticker
from matplotlib.ft2font import FT2Font

if TYPE_CHECKING:
    from collections.abc import Iterable

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#7A5C00", "#4D4D4D")
"""Okabe and Ito's, which stay distinct for colour-blind readers; its yellow, too pale on white, is replaced."""
MUTED, INK, FAINT = "#B8BEC5", "#222222", "#6B7280"
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "--", "++")
SIZES = {"chat": (6.4, 4.8), "wide": (8.0, 4.5), "tall": (6.0, 7.5)}
"""Inches; at 250 dots an inch a phone shows 12-point letters well."""
DOTS = 250
FALLBACKS = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
)


def prepare(texts: Iterable[str]) -> str:
    """Sets fonts for these texts; returns which. Ends the script when no font here can write them."""
    letters = {letter for text in texts for letter in text if letter.isprintable() and not letter.isspace()}
    chosen = ["DejaVu Sans"]
    left = letters - _written_by("DejaVu Sans")
    known = {font.name for font in font_manager.fontManager.ttflist}
    for name in FALLBACKS:
        if left and name in known and (able := left & _written_by(name)):
            chosen.append(name)
            left -= able
    if left:
        stop(
            f"no font here can write {''.join(sorted(left))[:20]}",
            "write titles and names in Latin letters (and tell the person why); an operator can install fonts-noto-cjk",
        )
    pyplot.rcParams.update({
        "font.family": chosen, "font.size": 11, "axes.titlesize": 13,
        "axes.spines.top": False, "axes.spines.right": False,
        "axes.edgecolor": FAINT, "axes.labelcolor": INK, "text.color": INK, "xtick.color": FAINT, "ytick.color": FAINT,
        "axes.grid": False, "grid.color": "#E5E7EB", "legend.frameon": False, "figure.dpi": 100, "savefig.dpi": DOTS,
        "axes.axisbelow": True, "text.parse_math": False, "axes.unicode_minus": True,
    })  # fmt: skip
    return ", ".join(chosen)


def _written_by(name: str) -> set[str]:
    return {chr(code) for code in FT2Font(font_manager.findfont(name)).get_charmap()}


def colors(names: list[str], highlight: list[str]) -> dict[str, str]:
    """One for each series; with highlights the others step back into grey."""
    if highlight:
        marked = [name for name in names if name in highlight]
        return {name: PALETTE[marked.index(name) % len(PALETTE)] if name in marked else MUTED for name in names}
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def short(value: float, comma: bool = False, unit: str = "") -> str:
    """A number as a chart shows it: 950, 1.2k, 34M; comma: the decimal sign."""
    for size, sign in ((1e9, "bn"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            step = 1e3 if sign == "k" else size
            text = f"{value / step:.3g}{sign}" if abs(value / step) < 1000 else f"{value / step:,.0f}{sign}"
            break
    else:
        text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if comma:
        text = text.translate(str.maketrans(",.", ".,"))
    return (f"{text}{unit}" if unit == "%" else f"{text} {unit}") if unit else text


def value_axis(axis: Any, spec: dict[str, Any]) -> None:
    """Short numbers, few of them, with their unit at the axis's name."""
    comma = bool(spec.get("decimal_comma"))
    unit = "%" if spec.get("unit") == "%" else ""
    if spec.get("log"):
        return
    axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value, comma, unit)))


def time_axis(axis: Any) -> None:
    """Dates as short as they can be without doubt."""
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator))


def headings(figure: Any, spec: dict[str, Any]) -> None:
    """Title and subtitle above, source below, all from the left edge."""
    import textwrap

    width, height = figure.get_size_inches()
    title = textwrap.fill(str(spec.get("title", "")), int(width * 8.2))
    subtitle = textwrap.fill(str(spec.get("subtitle", "")), int(width * 11)) if spec.get("subtitle") else ""
    source = textwrap.fill(f"Source: {spec['source']}" if spec.get("source") else "", int(width * 14))
    above = (
        0.12 + (0.25 * (title.count("\n") + 1) if title else 0) + (0.2 * (subtitle.count("\n") + 1) if subtitle else 0)
    )
    below = 0.08 + (0.16 * (source.count("\n") + 1) if source else 0)
    if title:
        figure.text(0.02, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", va="top", linespacing=1.15)
    if subtitle:
        top = 0.13 + 0.25 * (title.count("\n") + 1) if title else 0.1
        figure.text(0.02, 1 - top / height, subtitle, fontsize=10.5, color=FAINT, va="top")
    if source:
        figure.text(0.02, 0.05 / height, source, fontsize=8, color=FAINT, va="bottom")
    figure.set_layout_engine("tight", rect=(0.005, below / height, 0.995, 1 - above / height))
