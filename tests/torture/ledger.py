"""The gateway's database, read from outside and never written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, func, select, text
from sqlalchemy.pool import NullPool

from bot.store.tables import inbox, outbox, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Connection, Row

SETTLED = ("done", "dead")
OPEN_RUNS = ("pending", "running", "waiting")


class Ledger:
    """Reads the database. url: the gateway's. A SQLite file is opened read-only: a writing connection would recover it.

    Use it only while the gateway runs or after its final end: the last reader of a crashed file always recovers it.
    """

    def __init__(self, url: str) -> None:
        path = url.partition("sqlite:///")[2]
        self._engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true" if path else url, poolclass=NullPool)

    @classmethod
    def of(cls, data_dir: Path) -> Ledger:
        """The SQLite database of a data folder."""
        return cls(f"sqlite:///{data_dir / 'antler.db'}")

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.connect() as tx:
            yield tx

    def open_work(self) -> dict[str, int]:
        """Number of unfinished items of each kind; empty if there are none."""
        unfinished = outbox.c.delivered_at.is_(None) & outbox.c.abandoned.is_(None)
        with self._reading() as tx:
            counts = {
                "inbox": tx.scalar(select(func.count()).select_from(inbox).where(inbox.c.state.not_in(SETTLED))),
                "runs": tx.scalar(select(func.count()).select_from(runs).where(runs.c.state.in_(OPEN_RUNS))),
                "outbox": tx.scalar(select(func.count()).select_from(outbox).where(unfinished)),
            }
        return {name: count for name, count in counts.items() if count}

    def rows(self, table: Any) -> list[Row[Any]]:
        """All rows of a table, oldest first."""
        with self._reading() as tx:
            return list(tx.execute(select(table).order_by(*list(table.c)[:2])))


def integrity(file: Path) -> str:
    """The result of SQLite's integrity check: "ok", or what is broken."""
    engine = create_engine(f"sqlite:///file:{file}?mode=ro&uri=true", poolclass=NullPool)
    with engine.connect() as tx:
        return "; ".join(str(line) for line in tx.scalars(text("PRAGMA integrity_check")))
