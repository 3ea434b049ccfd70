"""Who may write: one row that holds the epoch of the current process and, on PostgreSQL, its lease."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from bot.store.errors import Fenced, StoreBusy
from bot.store.sql import insert
from bot.store.tables import instance

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

LEASE_SECONDS = 30
RENEW_SECONDS = 10
SERVER_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
"""PostgreSQL's clock in microseconds: hosts disagree about the time, the one server does not."""
LOCK_NOT_AVAILABLE = "55P03"
"""SQLSTATE of `NOWAIT` on a locked row (PostgreSQL, Appendix A)."""
HOLDER = f"SELECT owner, lease_until > {SERVER_NOW} AS leased FROM instance WHERE id = 1"
LEASE = f"{SERVER_NOW} + {LEASE_SECONDS * 1_000_000}"
# Literal SQL: it runs in every batch, where SQLAlchemy's share would be most of its cost.
CHECK_SQLITE = "SELECT epoch FROM instance WHERE id = 1"
# The lock holds off a take-over until this batch is committed, so that nothing is written after one.
CHECK_POSTGRES = "SELECT epoch FROM instance WHERE id = 1 FOR SHARE"


def process_name() -> str:
    """`host:pid namespace`: the first word is for people, the second tells who can see that pid (see `_is_gone`)."""
    return f"{socket.gethostname()}:{os.getpid()} {_pid_namespace()}"


def _pid_namespace() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"


def _is_gone(owner: str) -> bool:
    """Whether the holder certainly does not run any more: it was started where this process would see it."""
    name, _, namespace = owner.partition(" ")
    return namespace == _pid_namespace() and not Path("/proc", name.rpartition(":")[2]).exists()


def refuse_while_leased(tx: Connection) -> None:
    """Raise StoreBusy when another process holds the lease, or is in mid-write. Locks the row until the transaction
    ends (PostgreSQL).

    A process of this machine that was killed holds nothing: its successor need not wait for the lease to run out.
    """
    holder = tx.execute(text(HOLDER)).first()
    try:
        if holder is not None and not _holds(holder):
            holder = tx.execute(text(f"{HOLDER} FOR UPDATE NOWAIT")).first()
    except OperationalError as error:
        # A process that froze between its check and its commit: the server ends that transaction after a while.
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise StoreBusy(_name(holder)) from error
        raise
    if holder is not None and _holds(holder):
        raise StoreBusy(_name(holder))


def _holds(holder: Row[Any]) -> bool:
    return bool(holder.leased) and not _is_gone(holder.owner)


def _name(holder: Row[Any] | None) -> str:
    return "" if holder is None else str(holder.owner).partition(" ")[0]


def take_over(tx: Connection, owner: str) -> int:
    """Become the writing process; returns the new epoch. On SQLite a file lock elsewhere keeps others away."""
    tx.execute(insert(tx, instance).on_conflict_do_nothing(), {"id": 1, "epoch": 0, "owner": "", "lease_until": None})
    lease = "NULL" if tx.dialect.name == "sqlite" else LEASE
    query = f"UPDATE instance SET epoch = epoch + 1, owner = :owner, lease_until = {lease} WHERE id = 1 RETURNING epoch"
    return int(tx.execute(text(query), {"owner": owner}).scalar_one())


def check(tx: Connection, epoch: int) -> None:
    """Raise Fenced unless `epoch` is the current one. First statement of every batch."""
    statement = CHECK_SQLITE if tx.dialect.name == "sqlite" else CHECK_POSTGRES
    if tx.exec_driver_sql(statement).scalar() != epoch:
        raise Fenced


def renew(tx: Connection) -> None:
    """Lengthen the lease (PostgreSQL)."""
    tx.execute(text(f"UPDATE instance SET lease_until = {LEASE} WHERE id = 1"))


def release(tx: Connection) -> None:
    """Let the next process take over at once."""
    tx.execute(text("UPDATE instance SET owner = '', lease_until = NULL WHERE id = 1"))
