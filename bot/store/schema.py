"""Bring a database to this program's schema when the store opens, or refuse it untouched."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, inspect, select, text, update

from bot.store import knowledge_tables, memory_tables, migrations, worker_runs, workers
from bot.store.errors import StoreNewer, StoreTooOld, StoreUnavailable
from bot.store.sql import END_FROZEN
from bot.store.tables import instance, metadata
from bot.store.writer import refuse_while_leased

if TYPE_CHECKING:
    from sqlalchemy import Connection

OPEN_LOCK = 7_043_105_115
"""PostgreSQL: a lock with which processes that start concurrently prepare the database one after the other."""

alembic_version = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Alembic's own table, so that reading the revision does not need Alembic."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The migrations. revisions: oldest first. scripts: Alembic's script location. expanding: see
    migrations.EXPANDING."""

    revisions: tuple[str, ...]
    scripts: Path
    expanding: frozenset[str] = frozenset()


TABLES = (knowledge_tables.knowledge_documents, memory_tables.memories, worker_runs.worker_runs, workers.workers)
"""Named here to ensure that their modules are loaded; the other tables are in tables.py."""
STEPS = Steps(migrations.REVISIONS, Path(migrations.__file__).parent, migrations.EXPANDING)
WORKS_WITH = text("SELECT works_with FROM instance")
HOLD_WORKERS = text("SELECT id FROM procrastinate_workers FOR UPDATE")
PATIENCE = text("SET LOCAL lock_timeout = '25s'")
"""Longer than the 20 s after which the server ends the transaction of a frozen worker."""


def prepare(tx: Connection, steps: Steps = STEPS, *, leads: bool = False) -> None:
    """Create or upgrade within the transaction `tx`; foreign keys must be off on SQLite.

    leads: this process has the lead, so no other process's lease matters.

    Raises StoreNewer, StoreTooOld, StoreBusy (before anything is changed), StoreUnavailable when the tables are not
    ours.
    """
    if tx.dialect.name == "postgresql":
        tx.execute(text(f"SELECT pg_advisory_xact_lock({OPEN_LOCK})"))
    tables = set(inspect(tx).get_table_names())
    if "instance" in tables and tx.dialect.name == "postgresql" and not leads:
        refuse_while_leased(tx)
    revision = known_revision(tx, steps)
    if revision is None:
        _create(tx, tables, steps)
    elif revision != steps.revisions[-1]:
        missing = steps.revisions[steps.revisions.index(revision) + 1 :]
        expands = steps.expanding.issuperset(missing)
        works_with = (_works_with(tx) or revision) if expands else None
        if "procrastinate_workers" in tables:
            # No unfinished work of theirs interferes, and none writes to tables that it does not know.
            tx.execute(PATIENCE)
            tx.exec_driver_sql(END_FROZEN)
            tx.execute(HOLD_WORKERS if expands else worker_runs.END_WORKERS)
        _upgrade(tx, steps)
        tx.execute(update(instance).values(works_with=works_with))
        if not expands and "procrastinate_workers" in tables:
            worker_runs.recover(tx)


def known_revision(tx: Connection, steps: Steps = STEPS, *, beside: bool = False) -> str | None:
    """Return the database's revision, None if it has none of our tables. Changes nothing.

    beside: the caller works alongside a process of that revision, and may be older if the steps in between only added
    to the tables. Raises StoreNewer, StoreTooOld.
    """
    if alembic_version.name not in inspect(tx).get_table_names():
        return None
    revision = tx.scalar(select(alembic_version.c.version_num))
    if revision in migrations.DEVELOPMENT:
        raise StoreTooOld(tx.engine.url, revision)
    if revision is None or revision in steps.revisions or (beside and _works_with(tx) in steps.revisions):
        return revision
    raise StoreNewer(revision)


def _works_with(tx: Connection) -> str | None:
    """The oldest revision whose programs may use these tables alongside the newest; None: no other revision."""
    has_it = any(column["name"] == "works_with" for column in inspect(tx).get_columns(instance.name))
    return tx.scalar(WORKS_WITH) if has_it else None


def run_steps(tx: Connection, steps: Steps, to: str = "head") -> None:
    """Run the missing migrations in `tx`, up to the revision `to`."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(steps.scripts).replace("%", "%%"))
    config.attributes["connection"] = tx
    command.upgrade(config, to)


def _create(tx: Connection, tables: set[str], steps: Steps) -> None:
    """Create all tables at once; a test proves that this equals running every migration."""
    foreign = sorted(tables & set(metadata.tables))
    if foreign:
        raise StoreUnavailable(f"the database has tables {', '.join(foreign)} but no revision: it is not Antler's")
    metadata.create_all(tx, checkfirst=False)
    alembic_version.create(tx, checkfirst=True)
    tx.execute(alembic_version.insert(), {"version_num": steps.revisions[-1]})


def _upgrade(tx: Connection, steps: Steps) -> None:
    if tx.dialect.name != "sqlite":
        run_steps(tx, steps)
        return
    _back_up(Path(tx.engine.url.database or ""), steps.revisions[-1])
    run_steps(tx, steps)
    broken = tx.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise StoreUnavailable(
            f"the upgrade to {steps.revisions[-1]} would break rows of {broken[0]}: nothing was changed"
        )


def _back_up(file: Path, revision: str) -> None:
    """Copy `file` before the upgrade to `revision`. The open transaction keeps all writers out during the copy."""
    copy = file.with_name(f"{file.name}.before-{revision}.bak")
    part = copy.with_name(f"{copy.name}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        source, target = sqlite3.connect(file), sqlite3.connect(part)
        try:
            source.backup(target)
        finally:
            target.close()
            source.close()
        part.replace(copy)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StoreUnavailable(f"the backup copy {copy} could not be made, so nothing was upgraded: {error}") from error
