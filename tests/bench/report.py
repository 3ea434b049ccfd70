"""Converts the bench's JSON to the table for the terminal and to the Markdown tables of the docs. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Document = dict[str, Any]
CHATS = ("chats-1", "chats-50", "chats-200", "chats-1000", "chats-1-long", "chats-50-long")
SINGLE = (
    "commits",
    "chats-50-default-rate",
    "first-words",
    "platforms-4x25",
    "subagents-50x3",
    "fairness",
    "start",
    "thread-300",
    "page",
    "first-paint",
    "memory",
    "chain",
    "floor",
    "to-floor",
    "split",
    "soak",
)
SIDE_BY_SIDE = ("sandboxes", "workers", "postgres")
"""Scenarios whose figures are named COLUMN/WHAT."""

_MARKERS = "<!-- bench:{name} -->\n{body}\n<!-- end of bench:{name} -->"
_BLOCK = re.compile(r"<!-- bench:(?P<name>[\w-]+) -->\n.*?<!-- end of bench:(?P=name) -->", re.DOTALL)


def merged(documents: Iterable[Document]) -> Document:
    """Combine the scenarios of all documents; later ones replace earlier ones."""
    result: Document = {"machine": {}, "quick": False, "scenarios": {}}
    for document in documents:
        result["machine"] = result["machine"] or document["machine"]
        result["quick"] = result["quick"] or document["quick"]
        result["scenarios"] |= document["scenarios"]
    return result


def summary(document: Document) -> str:
    """All figures as a table for people, followed by the problems."""
    rows = [("scenario", "figure", "value", "target", "")]
    for scenario, found in document["scenarios"].items():
        for name, figure in found["figures"].items():
            rows.append((scenario, name, _value(figure), figure.get("target", ""), _verdict(figure)))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]
    problems = [
        f"PROBLEM {scenario}: {problem}"
        for scenario, found in document["scenarios"].items()
        for problem in found["problems"]
    ]
    return "\n".join(line.rstrip() for line in [*lines, *problems])


def sections(document: Document) -> dict[str, str]:
    """The Markdown of each part of the docs for which the document has figures, by marker name."""
    scenarios = document["scenarios"]
    found = {"machine": _machine(document), "targets": _targets(scenarios)}
    columns = [name for name in CHATS if name in scenarios]
    if columns:
        found["chats"] = _side_by_side({name: scenarios[name]["figures"] for name in columns})
    for name in (name for name in SIDE_BY_SIDE if name in scenarios):
        found[name] = _side_by_side(_columns(scenarios[name]["figures"]))
    found |= {name: _one_by_one(scenarios[name]["figures"]) for name in SINGLE if name in scenarios}
    return found


def markdown(document: Document) -> str:
    """All sections in order, between their markers."""
    return "\n\n".join(_MARKERS.format(name=name, body=body) for name, body in sections(document).items())


def rewritten(page: str, document: Document) -> str:
    """The page with the text between markers replaced; sections without figures stay as they are."""
    found = sections(document)

    def replace(block: re.Match[str]) -> str:
        name = block["name"]
        return _MARKERS.format(name=name, body=found[name]) if name in found else block[0]

    return _BLOCK.sub(replace, page)


def _machine(document: Document) -> str:
    facts = document["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items() if version)
    quick = " This was a quick run: few rounds, so take the figures as rough." if document["quick"] else ""
    return (
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_mb'] / 1024:.0f} GB, {facts['system']}, "
        f"Python {facts['python']}; load average before the run {facts['load_before'][0]:g}; {packages}; "
        f"commit {facts['commit']}.{quick}"
    )


def _targets(scenarios: Mapping[str, Any]) -> str:
    rows = [
        (scenario, _words(name), _value(figure), figure["target"], _verdict(figure))
        for scenario, found in scenarios.items()
        for name, figure in found["figures"].items()
        if "target" in figure
    ]
    return _table(("scenario", "figure", "measured", "target", "met"), rows, names=2)


def _side_by_side(columns: Mapping[str, Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    rows = [
        (_words(name), *(_value(figures[name]) if name in figures else "" for figures in columns.values()))
        for name in names
    ]
    return _table(("", *columns), rows)


def _columns(figures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Figures named COLUMN/WHAT, for `_side_by_side`."""
    columns: dict[str, dict[str, Any]] = {}
    for name, figure in figures.items():
        column, _, what = name.partition("/")
        columns.setdefault(column, {})[what] = figure
    return columns


def _one_by_one(figures: Mapping[str, Any]) -> str:
    return _table(("", "measured"), [(_words(name), _value(figure)) for name, figure in figures.items()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1) -> str:
    """A Markdown table. The first `names` columns are text; the others are numbers, aligned right."""
    lines = [head, ["---" if column < names else "---:" for column in range(len(head))], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(figure: Mapping[str, Any]) -> str:
    value, unit = figure["value"], figure["unit"]
    if value is None:
        return f"not measured: {figure['reason']}" if figure.get("reason") else "not measured"
    digits = 0 if abs(value) >= 100 or float(value).is_integer() else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}".strip()


def _verdict(figure: Mapping[str, Any]) -> str:
    return {True: "yes", False: "**no**", None: ""}[figure.get("met")]
