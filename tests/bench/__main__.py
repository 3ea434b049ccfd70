"""`python -m tests.bench [SCENARIO ...]`: measure, print JSON; `--write-docs` fills in the docs."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from tests.bench import report
from tests.bench.facts import machine
from tests.bench.figures import Outcome
from tests.bench.scenarios import SCENARIOS
from tests.bench.soak import soak
from tests.bench.year import Size, year
from tests.simulators.process import REPO_ROOT, SimulatorStartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

PAGE = REPO_ROOT / "docs" / "performance.md"
SOAK, YEAR = "soak", "year"
FAILURES = (AssertionError, RuntimeError, OSError, SimulatorStartError, httpx.HTTPError, psutil.Error, ExceptionGroup)
"""Errors of a scenario that could not be measured: the others still are, and the run fails at the end."""


def main() -> int:
    """Return 1 if an answer was missing or wrong, else 0; a missed target is reported but is no failure."""
    options = _options()
    if options.write_docs:
        document = report.merged(json.loads(path.read_text()) for path in options.write_docs)
        PAGE.write_text(report.rewritten(PAGE.read_text(), document))
        return 0
    document = asyncio.run(_measured(options))
    text = json.dumps(document, indent=1, ensure_ascii=False)
    if options.json:
        options.json.write_text(text + "\n")
    if options.markdown or not options.json:
        print(report.markdown(document) if options.markdown else text)
    if options.plot and document["scenarios"].get(SOAK, {}).get("details"):
        # Imported here because only the figure of a soak needs matplotlib.
        from tests.bench.plot import draw

        draw(document["scenarios"][SOAK], options.plot)
    print(report.summary(document), file=sys.stderr)
    return int(any(found["problems"] for found in document["scenarios"].values()))


async def _measured(options: argparse.Namespace) -> dict[str, Any]:
    document: dict[str, Any] = {"machine": machine(), "quick": options.quick, "scenarios": {}}
    for name in options.scenarios or SCENARIOS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        found = (await _outcome(_run(name, options))).to_json()
        document["scenarios"][name] = {"seconds": round(time.monotonic() - began, 1), **found}
    return document


def _run(name: str, options: argparse.Namespace) -> Callable[[], Awaitable[Outcome]]:
    if name == SOAK:
        return lambda: soak(options.minutes, options.rate, with_faults=options.faults)
    if name == YEAR:
        return lambda: year(Size.of(options.messages, quick=options.quick))
    return lambda: SCENARIOS[name](options.quick)


async def _outcome(run: Callable[[], Awaitable[Outcome]]) -> Outcome:
    try:
        return await run()
    except FAILURES as error:
        return Outcome(problems=[f"not measured: {type(error).__name__}: {error}"])


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench", description=__doc__)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, SOAK, YEAR, []], metavar="SCENARIO", help=_names())
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--markdown", action="store_true", help="print the tables of the docs instead of JSON")
    parser.add_argument("--quick", action="store_true", help="few rounds, two minutes in all")
    parser.add_argument("--minutes", type=float, default=30.0, help="soak: how long the traffic lasts")
    parser.add_argument("--rate", type=float, default=5.0, help="soak: messages a second")
    parser.add_argument("--messages", type=int, default=10_000, help="year: messages of a day")
    parser.add_argument("--faults", action="store_true", help="soak: waves of failures of platform and model")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="soak: draw the figure there (.svg or .png)")
    parser.add_argument("--write-docs", type=Path, nargs="+", metavar="JSON", help=f"fill in {PAGE.name} and end")
    return parser.parse_args(arguments)


def _names() -> str:
    return f"{', '.join(SCENARIOS)}; {SOAK} and {YEAR} run only when they are named"


if __name__ == "__main__":
    sys.exit(main())
