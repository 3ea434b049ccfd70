"""Computes a business case from a small model: years, scenarios, what it depends on most, where it breaks even.

  scenarios.py model.json --output /mnt/user-data/outputs/case.csv --chart /mnt/user-data/outputs/tornado.png

{"unit": "k€", "years": [2027, 2028, 2029], "rate": 0.08,
 "inputs": {"price": {"base": 40, "low": 36, "high": 42, "source": "offer of 3 May"},
            "volume": {"base": 500, "low": 350, "high": 600}, "growth": 0.1, "team": 6},
 "lines": {"revenue": "price * volume * (1 + growth) ** year / 1000", "cost": "team",
           "cash": "revenue - cost - (20 if year < 1 else 0)"},
 "cash": "cash", "scenarios": {"slow start": {"volume": 350, "growth": 0.05}}}

year is 0 in the first year. Lines may use inputs and the lines above them. low and high are the edges of a range.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _formula import Formula, stop

KEYS = {"unit", "years", "rate", "inputs", "lines", "cash", "scenarios", "title"}
MOST_YEARS = 40


@dataclass(frozen=True)
class Outcome:
    """lines: by name, a value for each year. worth: all cash, discounted. paid: when it has paid for itself."""

    lines: dict[str, list[float]]
    worth: float
    total: float
    paid: str


class Model:
    """A checked specification."""

    def __init__(self, spec: dict[str, Any]) -> None:
        if unknown := set(spec) - KEYS:
            stop(f"unknown keys: {', '.join(sorted(unknown))}", f"there are: {', '.join(sorted(KEYS))}")
        if not spec.get("years") or len(spec["years"]) > MOST_YEARS or not spec.get("inputs") or not spec.get("lines"):
            stop("years, inputs or lines are missing", "--help shows a model")
        self.unit, self.years, self.rate = (
            str(spec.get("unit", "")),
            [str(y) for y in spec["years"]],
            float(spec.get("rate", 0)),
        )
        self.inputs: dict[str, dict[str, Any]] = {
            name: each if isinstance(each, dict) else {"base": each} for name, each in spec["inputs"].items()
        }
        for name, each in self.inputs.items():
            if not name.isidentifier() or name == "year" or not isinstance(each.get("base"), int | float):
                stop(f"input {name!r} is not usable", "give a name without spaces, and a number as base")
        self.lines = [Formula(name, text) for name, text in spec["lines"].items()]
        self.cash = spec.get("cash", self.lines[-1].name)
        if self.cash not in spec["lines"]:
            stop(f"cash is {self.cash!r}, which is no line", f"there are: {', '.join(spec['lines'])}")
        self.scenarios: dict[str, dict[str, float]] = spec.get("scenarios", {})
        for name, changes in self.scenarios.items():
            if lost := set(changes) - set(self.inputs):
                stop(f"scenario {name!r} changes {', '.join(lost)}", f"the inputs are: {', '.join(self.inputs)}")

    def outcome(self, changes: dict[str, float] | None = None) -> Outcome:
        """With the base values, or with some of them changed."""
        values = {name: float(each["base"]) for name, each in self.inputs.items()} | (changes or {})
        lines: dict[str, list[float]] = {formula.name: [] for formula in self.lines}
        for year in range(len(self.years)):
            names = values | {"year": float(year)}
            for formula in self.lines:
                names[formula.name] = formula.value(names)
                lines[formula.name].append(names[formula.name])
        cash = lines[self.cash]
        worth = sum(value / (1 + self.rate) ** year for year, value in enumerate(cash))
        sums = [sum(cash[: year + 1]) for year in range(len(cash))]
        paid = next(
            (self.years[at] for at in range(len(sums)) if all(value >= 0 for value in sums[at:])),
            "not within these years",
        )
        return Outcome(lines, worth, sum(cash), paid)

    def tornado(self) -> list[tuple[str, float, float]]:
        """Each uncertain input, with the worth at its low and its high value; what moves most first."""
        ranged = [(name, each) for name, each in self.inputs.items() if "low" in each and "high" in each]
        swings = [(n, self.outcome({n: e["low"]}).worth, self.outcome({n: e["high"]}).worth) for n, e in ranged]
        return sorted(swings, key=lambda swing: -abs(swing[2] - swing[1]))

    def break_even(self, name: str) -> float | None:
        """The value of an input, in its range or as far again outside of it, at which the worth is zero."""
        each = self.inputs[name]
        base = float(each["base"])
        edges = sorted((float(each.get("low", base)), float(each.get("high", base))))
        width = max(edges[1] - edges[0], abs(base) * 0.2)
        low, high = edges[0] - width, edges[1] + width
        if edges[0] > 0:  # an amount stays one: formulas may divide by it
            low = max(low, edges[0] / 10)
        left, right = self.outcome({name: low}).worth, self.outcome({name: high}).worth
        if left * right > 0:
            return None
        for _ in range(60):
            middle = (low + high) / 2
            if self.outcome({name: middle}).worth * left > 0:
                low = middle
            else:
                high = middle
        return (low + high) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="the model, JSON")
    parser.add_argument("--output", type=Path, help="a .csv with every line of every scenario")
    parser.add_argument("--chart", type=Path, help="a .png of what the result depends on")
    args = parser.parse_args()
    try:
        spec = json.loads(args.model.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(f"{args.model}: {error}", "write the model as JSON; --help shows one")
    model = Model(spec)
    cases = {"base": model.outcome()} | {name: model.outcome(changes) for name, changes in model.scenarios.items()}
    print("\n".join(_told(model, cases)))
    if args.output:
        _write(args.output, model, cases)
    if args.chart:
        _draw(args.chart, model, cases["base"])


def _told(model: Model, cases: dict[str, Outcome]) -> list[str]:
    base = cases["base"]
    lines = [f"| {model.unit} | {' | '.join(model.years)} |", "|---" * (len(model.years) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_figure(value) for value in values)} |" for name, values in base.lines.items()]
    lines += ["", f"Present value at {model.rate:.1%}, sum of cash, paid back:"]
    lines += [f"- {name}: {_figure(case.worth)}, {_figure(case.total)}, {case.paid}" for name, case in cases.items()]
    lines += ["", "What the present value depends on (low value to high value, break-even):"]
    for name, low, high in model.tornado():
        even = model.break_even(name)
        each = model.inputs[name]
        zero = "no sign change near its range" if even is None else f"zero at {even:.4g}"
        lines.append(f"- {name} ({each['low']} to {each['high']}): {_figure(low)} to {_figure(high)}; {zero}")
    unsourced = [name for name, each in model.inputs.items() if "source" not in each]
    unranged = [name for name, each in model.inputs.items() if "low" not in each or "high" not in each]
    lines += ["", f"Without a source: {', '.join(unsourced)}"] if unsourced else []
    lines += [f"Without a range, so taken as certain: {', '.join(unranged)}"] if unranged else []
    return lines


def _figure(value: float) -> str:
    return (
        f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"
    )


def _write(path: Path, model: Model, cases: dict[str, Outcome]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["scenario", "line", *model.years])
        for name, case in cases.items():
            writer.writerows(
                [name, line, *(round(value, 6) for value in values)] for line, values in case.lines.items()
            )
    print(f"\nEvery line is in {path}")


def _draw(path: Path, model: Model, base: Outcome) -> None:
    """Bars from the base to both sides, the longest on top."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    swings = model.tornado()[:10]
    if not swings:
        stop("no input has low and high", "give ranges to what is uncertain")
    figure, axes = pyplot.subplots(figsize=(6.4, 1.6 + 0.45 * len(swings)))
    for at, (_name, low, high) in enumerate(swings):
        axes.barh(
            at, low - base.worth, left=base.worth, color="#D55E00", height=0.6, label="low value" if at == 0 else None
        )
        axes.barh(
            at, high - base.worth, left=base.worth, color="#0072B2", height=0.6, label="high value" if at == 0 else None
        )
    axes.axvline(base.worth, color="#222222", linewidth=1)
    axes.axvline(0, color="#6B7280", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(swings)), [name.replace("_", " ") for name, _, _ in swings])
    axes.invert_yaxis()
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(f"Present value{f' ({model.unit})' if model.unit else ''}, base {_figure(base.worth)}")
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=250, bbox_inches="tight")
    print(f"The chart is {path}")


if __name__ == "__main__":
    main()
