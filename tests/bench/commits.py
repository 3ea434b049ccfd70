"""Scenario `commits`: writing transactions per plain message, as counted by the databases themselves."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.bench.chats import play_round, warm_up
from tests.bench.figures import Figure, Outcome, Target, percentile
from tests.bench.stage import LIFTED, SHORT, Question, stage
from tests.flow.cluster import Cluster
from tests.simulators.postgres import PostgresMissing, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.bench.stage import Stage

MOST, MOST_OF_ALL = Target(6), Target(8)
"""Targets for one process, and for a gateway and a worker together."""
QUESTIONS = {"": SHORT, "_at_once": Question("!tokens 2 0", "one two")}
"""An answer that is shown as a draft first, and one that is complete before anything is shown."""
SQLITE, POSTGRESQL, WORKER = "sqlite", "postgresql", "worker"
FILES = {"store": "antler.db", "checkpoints": "checkpoints.db"}
LOG_HEADER, FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
WRITTEN = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""Only a transaction that writes, or locks a row, is given a number (PostgreSQL docs, Transactions and Identifiers)."""


def commits_of(database: str) -> Callable[[], int]:
    """A function that counts the writing transactions so far, of a SQLite file or the server of a libpq URL."""
    return partial(_numbered, database) if "://" in database else partial(_logged, Path(database))


def _numbered(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(WRITTEN).fetchone()
        assert row is not None
        return int(row[0])


def _logged(database: Path) -> int:
    """Frames of the write-ahead log that end a transaction (SQLite docs, WAL-mode File Format, 4.1). The count
    restarts with the log."""
    log = database.with_name(f"{database.name}-wal")
    data = log.read_bytes() if log.exists() else b""
    if len(data) < LOG_HEADER.size:
        return 0
    _, _, page_size, _, *salts, _, _ = LOG_HEADER.unpack_from(data)
    commits = 0
    for start in range(LOG_HEADER.size, len(data) - FRAME_HEADER.size + 1, FRAME_HEADER.size + page_size):
        _, pages, *own, _, _ = FRAME_HEADER.unpack_from(data, start)
        if own != salts:
            break  # from an earlier log in this file
        commits += pages != 0
    return commits


async def commits(messages: int) -> Outcome:
    """Send messages of one chat, one after the other; also with PostgreSQL if its server is installed."""
    outcome = Outcome()
    await measure(outcome, SQLITE, messages)
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        outcome.figures.append(Figure(POSTGRESQL, None, "commits", MOST, str(error)))
        return outcome
    with server:
        await measure(outcome, POSTGRESQL, messages, server.database().replace("+psycopg", ""))
        await measure_workers(outcome, messages, server)
    return outcome


async def measure(outcome: Outcome, name: str, messages: int, url: str = "") -> None:
    """Add the figures of one database, with the commits of each message as details. url: of PostgreSQL; "": SQLite."""
    settings: dict[str, Any] = LIFTED | ({"database": {"url": url}} if url else {})
    async with stage(1, settings) as scene, scene.world:
        databases = {"": url} if url else {part: str(scene.world.data_dir / file) for part, file in FILES.items()}
        counts = {part: commits_of(database) for part, database in databases.items()}
        await _count(scene, outcome, name, messages, counts, MOST)


async def measure_workers(outcome: Outcome, messages: int, server: PostgresServer) -> None:
    """Add the figures of a gateway and a worker together, including the drafts of an answer shown while it grows."""
    async with stage(1, LIFTED) as scene:
        cluster = Cluster(scene.world, server, 1)
        async with cluster:
            counts = {"": commits_of(cluster.database.replace("+psycopg", ""))}
            await _count(scene, outcome, WORKER, messages, counts, MOST_OF_ALL)


async def _count(
    scene: Stage, outcome: Outcome, name: str, messages: int, counts: dict[str, Callable[[], int]], most: Target
) -> None:
    await warm_up(scene)
    for kind, question in QUESTIONS.items():
        found: dict[str, list[int]] = {part: [] for part in counts}
        for number in range(messages):
            before = {part: count() for part, count in counts.items()}
            await play_round(scene, scene.people, number + 1, question)
            for part, count in counts.items():
                found[part].append(count() - before[part])
        outcome.details[name + kind] = found
        # Occasional writes, by upkeep or for a lease, do not affect the medians.
        total = sum(percentile(each, 50) for each in found.values())
        outcome.figures.append(Figure(f"{name}{kind}", total, "commits", most))
