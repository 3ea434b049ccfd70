"""The status that workers report with their heartbeats, and the requests made to them. PostgreSQL only.

A worker's row is written by the statement of its heartbeat, so that it needs no separate commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, Integer, Table, delete, text, update

from bot.store.sql import SafeText
from bot.store.tables import metadata
from bot.store.worker_runs import NOTIFY, notify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

CHANNEL = "antler_workers"
"""The NOTIFY channel for requests to workers."""
ANSWERS = "workers"
"""The payload on the gateway's channel when a worker has answered."""

workers = Table(
    "workers",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False, doc="its registration in procrastinate_workers"),
    Column("name", SafeText, nullable=False, doc="value of its --name"),
    Column("process", SafeText, nullable=False, doc="host:pid"),
    Column("version", SafeText, nullable=False, doc="version of Antler it runs"),
    Column("facts", SafeText, nullable=False, doc="its status, bot.operations.workers.Facts as JSON"),
    Column("asked", Integer, nullable=False, doc="number of requests to reload its config"),
    Column("heard", Integer, nullable=False, doc="newest of these requests that it has answered"),
    Column("answer", SafeText, nullable=False, doc="result of that request as JSON; empty before"),
)

SIGN = """
    WITH sign AS (UPDATE procrastinate_workers SET last_heartbeat = NOW() WHERE id = %(worker_id)s RETURNING id)
    INSERT INTO workers (id, name, process, version, facts, asked, heard, answer)
    SELECT id, %(name)s, %(process)s, %(version)s, %(facts)s, 0, 0, '' FROM sign
    ON CONFLICT (id) DO UPDATE SET facts = excluded.facts
    RETURNING asked, (SELECT version_num FROM alembic_version) AS revision
"""
"""A heartbeat. Returns no row if the worker was declared dead."""
LEAVE = """
    WITH gone AS (DELETE FROM workers WHERE id = %(worker_id)s)
    SELECT procrastinate_unregister_worker_v1(%(worker_id)s)
"""
PRESENT = text("""
    SELECT w.id, w.name, w.process, w.version, w.facts, w.heard, w.answer,
        CAST(extract(epoch FROM clock_timestamp() - p.last_heartbeat) AS double precision) AS silence
    FROM workers w LEFT JOIN procrastinate_workers p ON p.id = w.id ORDER BY w.name, w.id
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One row of workers. silence: seconds since its last heartbeat; None: it is no longer registered."""

    id: int
    name: str
    process: str
    version: str
    facts: str
    heard: int
    answer: str
    silence: float | None


def present(tx: Connection) -> list[WorkerRow]:
    """All workers, sorted by name."""
    return [WorkerRow(**row._mapping) for row in tx.execute(PRESENT)]


def forget(tx: Connection, ids: Sequence[int]) -> None:
    """Delete workers that are no longer registered."""
    tx.execute(delete(workers).where(workers.c.id.in_(ids)))


def ask(tx: Connection) -> dict[int, int]:
    """Ask all workers to reload their config; return the number of the request that each must answer, by id."""
    asked = tx.execute(update(workers).values(asked=workers.c.asked + 1).returning(workers.c.id, workers.c.asked))
    numbers = {row.id: row.asked for row in asked}
    tx.execute(NOTIFY, {"channel": CHANNEL, "payload": ""})
    return numbers


def answer(tx: Connection, worker: int, asked: int, said: str) -> None:
    """Answer this request and the earlier ones."""
    tx.execute(update(workers).where(workers.c.id == worker).values(heard=asked, answer=said))
    notify(tx, ANSWERS)
