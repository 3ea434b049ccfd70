"""The results of a campaign, as JSON and as tables, and the gate that they have to pass."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_DETAILS = 60
RECOVERY_P95 = 5.0
"""Seconds from the start of the process to its first visible call."""
ZERO = (
    *("lost", "duplicated_finals", "wrong_texts", "open_placeholders", "unaccounted_bubbles", "rerun_tools"),
    *("order_violations", "dead_letters", "failures", "ignored_stops", "lost_steps", "open_inbox", "unsettled"),
    *("unexpected_exits", "zombie_calls", "broken_files", "missed_windows", "broken_rules"),
    *("untold_tools", "left_running", "left_behind"),
)
"""The counts that must be zero."""
COUNTED = (
    "messages",
    "notices",
    "passed_on",
    "stale_bubbles",
    "unacked",
    "said_twice",
    "repeated_model_calls",
    "late_calls",
)
"""Other counts that add up over platforms."""


@dataclass
class Report:
    """The figures of one mode.

    kills: SIGKILLs, including crashes at a window; stops: planned ones; refused_starts: processes that ended by
    themselves because the disk was full. notices: messages that a person's own /stop or /new ended; passed_on: those
    that an active run included. stale_bubbles: messages without a record, each of a process that was killed at W5, or
    unfinished ones that cannot be changed; unaccounted_bubbles: any others. unacked: messages that a platform without
    acknowledgements passed to no process, or to one that died at once; said_twice: whole answers that were repeated
    because such a platform does not report what it accepted.
    broken_rules: what a platform never allows. untold_tools: commands that did not run without the model being
    informed; left_running: processes of commands that outlived the gateway's; left_behind: files no longer needed.
    repeated_model_calls: whole answers that were requested again; lost_steps: those whose checkpoint existed.
    late_calls: requests to the model that a process sent when it was resumed, having been frozen right before them.
    unsettled: times that work came to a standstill. recovery: seconds, one entry per process that found work.
    disturbances: of a cluster, by kind; takeovers: seconds from one of them until another process did the work of the
    disturbed one. adopted: `adopt_placeholders` was on.
    platforms: of a mode with several, the results of each; the counts here are then their sums.
    """

    mode: str
    seed: int
    adopted: bool = False
    seconds: float = 0.0
    messages: int = 0
    kills: int = 0
    stops: int = 0
    starts: int = 0
    refused_starts: int = 0
    windows: dict[str, int] = field(default_factory=dict)
    notices: int = 0
    passed_on: int = 0
    lost: int = 0
    duplicated_finals: int = 0
    wrong_texts: int = 0
    open_placeholders: int = 0
    stale_bubbles: int = 0
    unaccounted_bubbles: int = 0
    unacked: int = 0
    said_twice: int = 0
    rerun_tools: int = 0
    order_violations: int = 0
    dead_letters: int = 0
    failures: int = 0
    ignored_stops: int = 0
    repeated_model_calls: int = 0
    late_calls: int = 0
    lost_steps: int = 0
    open_inbox: int = 0
    unsettled: int = 0
    unexpected_exits: int = 0
    zombie_calls: int = 0
    broken_files: int = 0
    missed_windows: int = 0
    broken_rules: int = 0
    untold_tools: int = 0
    left_running: int = 0
    left_behind: int = 0
    integrity: str = ""
    skipped: str = ""
    recovery: list[float] = field(default_factory=list)
    disturbances: dict[str, int] = field(default_factory=dict)
    takeovers: dict[str, list[float]] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)
    folder: str = ""
    platforms: list[Report] = field(default_factory=list)

    def part(self, account: str) -> Report:
        """Create an empty report for one platform of this mode."""
        return Report(account, self.seed, adopted=self.adopted, kills=self.kills, integrity=self.integrity)

    def add(self, part: Report) -> None:
        """Add the results of one platform."""
        for count in (*ZERO, *COUNTED):
            setattr(self, count, getattr(self, count) + getattr(part, count))
        for line in part.details:
            self.note(f"{part.mode}: {line}")
        self.recovery += part.recovery
        self.platforms.append(part)

    def blame(self, count: str, why: str) -> None:
        """Count one more violation."""
        setattr(self, count, getattr(self, count) + 1)
        self.note(f"{count}: {why}")

    def note(self, text: str) -> None:
        if len(self.details) < MOST_DETAILS:
            self.details.append(text)

    def recovered(self, share: float) -> float:
        """This quantile of the recovery times in seconds; 0 if there are none."""
        return quantile(self.recovery, share)

    def problems(self, recovery_p95: float = RECOVERY_P95) -> list[str]:
        """Reasons for not passing the gate; empty if it is passed."""
        if self.skipped:
            return []
        found = [f"{name} = {value}" for name in ZERO if (value := getattr(self, name))]
        if self.adopted and self.stale_bubbles:
            found.append(f"stale_bubbles = {self.stale_bubbles} with adopt_placeholders")
        for report in self.platforms or [self]:
            if (late := report.recovered(0.95)) > recovery_p95:
                where = "" if report is self else f" on {report.mode}"
                found.append(f"recovery p95{where} = {late:.1f} s, more than {recovery_p95:g} s")
        return found

    def to_json(self) -> dict[str, Any]:
        quantiles = {"p50": self.recovered(0.5), "p95": self.recovered(0.95), "max": self.recovered(1.0)}
        late = {kind: round(quantile(seconds, 0.95), 2) for kind, seconds in self.takeovers.items()}
        return {**asdict(self), "recovery_seconds": quantiles, "takeover_p95": late, "problems": self.problems()}


def quantile(seconds: Sequence[float], share: float) -> float:
    """The quantile of some times; 0 if there are none."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


COLUMNS: tuple[tuple[str, str], ...] = (
    ("messages", "messages"),
    ("kills", "kills"),
    ("lost", "lost"),
    ("duplicated finals", "duplicated_finals"),
    ("wrong text", "wrong_texts"),
    ("left open", "open_placeholders"),
    ("stale bubbles", "stale_bubbles"),
    ("re-run tools", "rerun_tools"),
    ("out of order", "order_violations"),
    ("dead letters", "dead_letters"),
)


OF_PLATFORMS: tuple[tuple[str, str], ...] = (*COLUMNS, ("unacked", "unacked"), ("said twice", "said_twice"))
"""The columns for modes with several platforms."""


def markdown(reports: Sequence[Report]) -> str:
    """The tables of docs/reliability.md: one of all modes with Telegram only, and one per mode with several."""
    alone = [report for report in reports if not report.platforms]
    several = [_table([*report.platforms, report], OF_PLATFORMS) for report in reports if report.platforms]
    taken = [_takeovers(report) for report in reports if report.takeovers]
    return "\n\n".join([*([_table(alone, COLUMNS)] if alone else []), *several, *taken])


def _takeovers(report: Report) -> str:
    lines = ["| another process takes over after | times | p50 / p95 / max |", "|---|---:|---|"]
    for what, seconds in sorted(report.takeovers.items()):
        times = " / ".join(f"{quantile(seconds, share):.1f}" for share in (0.5, 0.95, 1.0))
        lines.append(f"| {what} | {len(seconds)} | {times} s |")
    return "\n".join(lines)


def _table(reports: Sequence[Report], columns: Sequence[tuple[str, str]]) -> str:
    heads = ["mode", *(head for head, _ in columns), "recovery p50 / p95 / max", "files"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 2)}---|"]
    for report in reports:
        name = report.mode + (" (adopting)" if report.adopted else "")
        if report.skipped:
            lines.append(f"| {name} | skipped: {report.skipped} |")
            continue
        cells = [str(getattr(report, column)) for _, column in columns]
        times = " / ".join(f"{report.recovered(share):.1f}" for share in (0.5, 0.95, 1.0)) + " s"
        lines.append(f"| {' | '.join([name, *cells, times if report.recovery else '-', report.integrity])} |")
    return "\n".join(lines)


def write(file: Path, reports: Sequence[Report]) -> None:
    """Write all figures as JSON."""
    file.write_text(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False) + "\n")


def read(file: Path) -> list[Report]:
    """Read a file of `write`."""
    return [_from_json(entry) for entry in json.loads(file.read_text())]


def _from_json(entry: dict[str, Any]) -> Report:
    names = set(Report.__dataclass_fields__)
    report = Report(**{name: value for name, value in entry.items() if name in names})
    report.platforms = [_from_json(part) for part in entry.get("platforms", ())]
    return report
