"""What a campaign found, as JSON and as tables; and the gate that it has to pass."""

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
"""Seconds from the start of the process to the first thing that it shows."""
ZERO = (
    *("lost", "duplicated_finals", "wrong_texts", "open_placeholders", "unaccounted_bubbles", "rerun_tools"),
    *("order_violations", "dead_letters", "failures", "ignored_stops", "lost_steps", "open_inbox", "unsettled"),
    *("unexpected_exits", "zombie_calls", "broken_files", "missed_windows"),
)
"""The counts that must be zero."""


@dataclass
class Report:
    """The figures of one mode.

    kills: SIGKILLs, of them crashes at a window; stops: planned ones; refused_starts: ended by themselves because the
    disk was full. notices: messages that a person's own /stop or /new ended. stale_bubbles: messages that no record
    knows, each of a process that was killed at W5; unaccounted_bubbles: any other. repeated_model_calls: whole answers
    that were asked for again; lost_steps: those whose checkpoint existed. unsettled: times that work stood still.
    recovery: seconds, one entry per process that found work. adopted: `adopt_placeholders` was on.
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
    lost: int = 0
    duplicated_finals: int = 0
    wrong_texts: int = 0
    open_placeholders: int = 0
    stale_bubbles: int = 0
    unaccounted_bubbles: int = 0
    rerun_tools: int = 0
    order_violations: int = 0
    dead_letters: int = 0
    failures: int = 0
    ignored_stops: int = 0
    repeated_model_calls: int = 0
    lost_steps: int = 0
    open_inbox: int = 0
    unsettled: int = 0
    unexpected_exits: int = 0
    zombie_calls: int = 0
    broken_files: int = 0
    missed_windows: int = 0
    integrity: str = ""
    skipped: str = ""
    recovery: list[float] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    folder: str = ""

    def blame(self, count: str, why: str) -> None:
        """One more of something that must not be."""
        setattr(self, count, getattr(self, count) + 1)
        self.note(f"{count}: {why}")

    def note(self, text: str) -> None:
        if len(self.details) < MOST_DETAILS:
            self.details.append(text)

    def recovered(self, share: float) -> float:
        """That quantile of the recovery times in seconds; 0 without any."""
        ordered = sorted(self.recovery)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0

    def problems(self, recovery_p95: float = RECOVERY_P95) -> list[str]:
        """Why the gate stays shut; empty when it opens."""
        if self.skipped:
            return []
        found = [f"{name} = {value}" for name in ZERO if (value := getattr(self, name))]
        if self.adopted and self.stale_bubbles:
            found.append(f"stale_bubbles = {self.stale_bubbles} with adopt_placeholders")
        if self.recovered(0.95) > recovery_p95:
            found.append(f"recovery p95 = {self.recovered(0.95):.1f} s, more than {recovery_p95:g} s")
        return found

    def to_json(self) -> dict[str, Any]:
        quantiles = {"p50": self.recovered(0.5), "p95": self.recovered(0.95), "max": self.recovered(1.0)}
        return {**asdict(self), "recovery_seconds": quantiles, "problems": self.problems()}


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


def markdown(reports: Sequence[Report]) -> str:
    """The table of docs/reliability.md."""
    heads = ["mode", *(head for head, _ in COLUMNS), "recovery p50 / p95 / max", "files"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 2)}---|"]
    for report in reports:
        name = report.mode + (" (adopting)" if report.adopted else "")
        if report.skipped:
            lines.append(f"| {name} | skipped: {report.skipped} |")
            continue
        cells = [str(getattr(report, column)) for _, column in COLUMNS]
        times = " / ".join(f"{report.recovered(share):.1f}" for share in (0.5, 0.95, 1.0)) + " s"
        lines.append(f"| {' | '.join([name, *cells, times if report.recovery else '-', report.integrity])} |")
    return "\n".join(lines)


def write(file: Path, reports: Sequence[Report]) -> None:
    """All figures as JSON."""
    file.write_text(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False) + "\n")


def read(file: Path) -> list[Report]:
    """What `write` wrote."""
    names = set(Report.__dataclass_fields__)
    return [Report(**{k: v for k, v in entry.items() if k in names}) for entry in json.loads(file.read_text())]
