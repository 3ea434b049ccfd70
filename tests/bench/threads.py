"""Scenario `thread-300`: one long conversation, in which a turn must cost the same at the end as at the beginning."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from tests.bench.chats import warm_up
from tests.bench.figures import Figure, Outcome, Target, slope
from tests.bench.gauge import cpu_seconds
from tests.bench.stage import LIFTED, SHORT, stage
from tests.bench.timeline import label

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.bench.stage import Stage

TURN_SECONDS = 30.0
WINDOW = 40
EARLY = 20
DATABASES = ("antler.db", "checkpoints.db")
LINEAR = 1.3
"""Largest ratio of a turn's cost at the end of the thread to that at the beginning."""


async def long_thread(turns: int) -> Outcome:
    """Measure CPU and disk of a turn: the mean over WINDOW turns from turn EARLY, and over the last WINDOW turns."""
    cpu: list[float] = []
    disk: dict[str, list[float]] = {name: [] for name in DATABASES}
    outcome = Outcome()
    async with stage(1, LIFTED) as scene, scene.world:
        await warm_up(scene)
        for turn in range(turns + 1):
            cpu.append(cpu_seconds(scene.pid) * 1000)
            for name, sizes in disk.items():
                sizes.append(logical_size(scene.world.data_dir / name))
            if turn < turns and not await _turn(scene, turn + 1):
                outcome.problems.append(f"turn {turn + 1} was not answered within {TURN_SECONDS:g} s")
                return outcome
        files = {path.name: path.stat().st_size for path in sorted(scene.world.data_dir.glob("*.db*"))}
    kilobytes = [sum(sizes) / 1024 for sizes in zip(*disk.values(), strict=True)]
    outcome.figures = [*_windows("cpu_per_turn", cpu, "ms"), *_windows("disk_per_turn", kilobytes, "KB")]
    outcome.details = {
        "turns": turns,
        "windows": [[EARLY, EARLY + WINDOW], [turns - WINDOW, turns]],
        "file_bytes_at_the_end": files,
        "bytes_per_turn": {name: round((sizes[-1] - sizes[EARLY]) / (turns - EARLY)) for name, sizes in disk.items()},
        "cpu_ms_per_20_turns": [round((b - a) / 20, 2) for a, b in zip(cpu[::20], cpu[20::20], strict=False)],
    }
    return outcome


async def _turn(scene: Stage, number: int) -> bool:
    person = scene.people[0]
    await scene.say_at_once([person], lambda _: f"{SHORT.text} {label(person.id, number)}")
    answered = await scene.until_shown(SHORT.answer, number + 1, TURN_SECONDS)  # counts the warm-up's answer too
    await scene.until_quiet(0.05)
    return answered


def _windows(name: str, totals: Sequence[float], unit: str) -> list[Figure]:
    """Growth per turn in the early and in the late window, and their ratio."""
    early = slope(enumerate(totals[EARLY : EARLY + WINDOW + 1]))
    late = slope(enumerate(totals[-WINDOW - 1 :]))
    return [
        Figure(f"{name}_early", early, unit),
        Figure(f"{name}_late", late, unit),
        Figure(f"{name}_ratio", late / early if early else None, "x", Target(LINEAR)),
    ]


def logical_size(database: Path) -> float:
    """Bytes of a SQLite database as a reader sees it: including the write-ahead log's content, without its slack."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    return float(pages * size)
