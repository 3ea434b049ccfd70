"""The numbers of a review's flow (PRISMA 2020), and a picture of them; called by review.py."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Review = dict[str, Any]


def numbers(review: Review) -> dict[str, Any]:
    """Found, duplicates, screened, excluded, read in full, excluded with reasons, included, open."""
    records = review["records"].values()
    title = Counter(record["title_screen"]["decision"] for record in records if record.get("title_screen"))
    passed = [record for record in records if decision(record, "title") in ("include", "unsure")]
    full = Counter(record["full_screen"]["decision"] for record in passed if record.get("full_screen"))
    reasons = Counter(r["full_screen"]["reason"] for r in passed if decision(r, "full") == "exclude")
    return {
        "found": dict(Counter(source for record in records for source in record["from"])),
        "identified": sum(len(record["from"]) for record in records),
        "duplicates": sum(len(record["from"]) - 1 for record in records),
        "screened": sum(title.values()),
        "to_screen": len(records) - sum(title.values()),
        "excluded_by_title": title["exclude"],
        "sought": len(passed),
        "not_retrieved": full["not-retrieved"],
        "assessed": full["include"] + full["exclude"],
        "to_assess": len(passed) - sum(full.values()) + full["unsure"],
        "excluded_in_full": dict(reasons),
        "included": full["include"],
    }


def decision(record: dict[str, Any], stage: str) -> str:
    """Of a stage; "" while there is none."""
    screen = record.get(f"{stage}_screen") or {}
    return str(screen.get("decision", ""))


def in_words(flow: dict[str, Any]) -> str:
    """One line for each step."""
    found = ", ".join(f"{source} {count}" for source, count in flow["found"].items())
    reasons = "; ".join(f"{reason} {count}" for reason, count in flow["excluded_in_full"].items())
    lines = [
        f"identified: {flow['identified']} ({found})",
        f"duplicates removed: {flow['duplicates']}",
        f"screened by title and abstract: {flow['screened']}, excluded {flow['excluded_by_title']}",
        f"sought in full: {flow['sought']}, not retrieved {flow['not_retrieved']}",
        f"assessed in full: {flow['assessed']}, excluded {sum(flow['excluded_in_full'].values())}"
        + (f" ({reasons})" if reasons else ""),
        f"included: {flow['included']}",
    ]
    left = [f"{flow['to_screen']} to screen"] if flow["to_screen"] else []
    left += [f"{flow['to_assess']} to assess in full"] if flow["to_assess"] else []
    return "\n".join([*lines, f"OPEN: {', '.join(left)}" if left else "nothing is open"])


def draw(flow: dict[str, Any], output: Path) -> None:
    """The flow diagram as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    found = "\n".join(f"{source}: {count}" for source, count in flow["found"].items())
    reasons = "\n".join(f"{reason}: {count}" for reason, count in flow["excluded_in_full"].items())
    rows = [
        (f"Records identified: {flow['identified']}\n{found}", f"Duplicates removed: {flow['duplicates']}"),
        (f"Records screened: {flow['screened']}", f"Excluded: {flow['excluded_by_title']}"),
        (f"Reports sought: {flow['sought']}", f"Not retrieved: {flow['not_retrieved']}"),
        (f"Reports assessed: {flow['assessed']}", f"Excluded: {sum(flow['excluded_in_full'].values())}\n{reasons}"),
        (f"Studies included: {flow['included']}", ""),
    ]
    figure, axes = pyplot.subplots(figsize=(6.4, 7.2))
    axes.set_axis_off()
    box = {"boxstyle": "round,pad=0.5", "facecolor": "#EAF2F8", "edgecolor": "#1F4E79"}
    arrow = {"arrowstyle": "-|>", "color": "#5A6672", "linewidth": 1.2}
    for number, (main, side) in enumerate(rows):
        y = 0.93 - number * 0.215
        axes.text(0.27, y, main.strip(), ha="center", va="center", fontsize=9.5, bbox=box, zorder=3)
        if side:
            axes.text(
                0.8,
                y,
                side.strip(),
                ha="center",
                va="center",
                fontsize=9,
                bbox=box | {"facecolor": "#F5F7F9"},
                zorder=3,
            )
            axes.annotate("", (0.62, y), (0.27, y), arrowprops=arrow, zorder=1)
        if number < len(rows) - 1:
            axes.annotate("", (0.27, y - 0.17), (0.27, y), arrowprops=arrow, zorder=1)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=220, bbox_inches="tight")
