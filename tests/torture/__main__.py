"""`python -m tests.torture [MODE ...]`: torture the gateway, print what came of it; exit 1 when a gate stays shut."""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.telegram import client as telegram_client
from tests.torture.campaign import Scale
from tests.torture.modes import MODES, run_mode
from tests.torture.report import Report, markdown, read, write

QUICK_KILLS = 5
QUICK_FROZEN, QUICK_QUIET = 6.0, 4.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("modes", nargs="*", metavar="MODE", help=f"of {', '.join(MODES)}; default: all")
    parser.add_argument("--kills", type=int, help="per mode; default: 200 or more")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--adopt", action="store_true", help="with adopt_placeholders")
    parser.add_argument(
        "--frozen", type=float, default=60.0, metavar="SECONDS", help="of a SIGSTOP; default: %(default)g"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which `cluster` begins nothing more")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KILLS} kills per mode, short freezes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--markdown", type=Path, nargs="+", metavar="FILE", help="only print the table of such files")
    given = parser.parse_args()
    if unknown := set(given.modes) - MODES.keys():
        parser.error(f"no such mode: {', '.join(sorted(unknown))}")
    return given


def scale_of(mode: str, given: argparse.Namespace) -> Scale:
    """The scale of a mode, from the arguments."""
    kills = given.kills or (QUICK_KILLS if given.quick else MODES[mode].kills)
    if given.quick:
        return Scale(kills=kills, frozen=QUICK_FROZEN, lively=2.0, slow_faults=False, quiet=QUICK_QUIET)
    return Scale(kills=kills, frozen=given.frozen, seconds=given.minutes * 60)


async def torture(given: argparse.Namespace, folder: Path) -> list[Report]:
    """Run the modes one after another, each with its own simulators."""
    reports = []
    for mode in given.modes or list(MODES):
        own = folder / mode
        own.mkdir()
        with SimulatorProcess(telegram_client.MODULE) as platform, SimulatorProcess("tests.simulators.model") as llm:
            async with telegram_client.connect(platform) as telegram, ModelSimulator(llm.port) as model:
                scale = scale_of(mode, given)
                report = await run_mode(mode, telegram, model, own, seed=given.seed, scale=scale, adopt=given.adopt)
        reports.append(report)
        show(report, given)
        if given.json is not None:
            write(given.json, reports)
    return reports


def show(report: Report, given: argparse.Namespace) -> None:
    """Print the result of one mode, and how to reproduce it."""
    problems = report.problems()
    verdict = f"skipped: {report.skipped}" if report.skipped else "; ".join(problems) or "the gate is open"
    print(f"[{report.mode}] {report.seconds:.0f} s, {verdict}", file=sys.stderr)
    if problems:
        adopt = " --adopt" if report.adopted else ""
        kills = scale_of(report.mode, given).kills
        print("\n".join(f"    {line}" for line in report.details), file=sys.stderr)
        print(
            f"    again: python -m tests.torture {report.mode} --seed {report.seed} --kills {kills}{adopt}\n"
            f"    its folder: {report.folder}",
            file=sys.stderr,
        )


def main() -> int:
    given = arguments()
    if given.markdown:
        print(markdown([report for file in given.markdown for report in read(file)]))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="antler-torture-"))
    print(f"seed {given.seed}, folder {folder}", file=sys.stderr)
    reports = asyncio.run(torture(given, folder))
    print(markdown(reports))
    if any(report.problems() for report in reports):
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
