"""The schema: created, upgraded with a copy kept, refused when it is not ours to touch."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from bot.clock import SystemClock
from bot.store import Store, StoreNewer, StoreTooOld, StoreUnavailable, accounts, runs, schema, sql, usage
from bot.store.schema import STEPS, Steps
from bot.store.tables import metadata
from tests.bot.store.samples import NOW, OWNER, run_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

SECOND_STEP = f'''
"""A step as one of the future might be: SQLite has to copy the table for it."""
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = "{STEPS.revisions[-1]}"

def upgrade():
    with op.batch_alter_table("threads") as batch:
        batch.add_column(sa.Column("colour", sa.Text(), nullable=False, server_default="red"))
        batch.alter_column("title", nullable=True)
'''
FIRST_SCHEMA = Path(__file__).with_name("revision_1_first.sql")
"""A database as the first Antler of revision 1 left it: a chat, a message, a run that had not begun, a paid call."""
FROZEN = {
    "1": "ff60ed81296a5c11",
    "2": "ff60ed81296a5c11",
    "3": "2298e71a549c11c2",
    "4": "4db10a587461bb4c",
    "5": "9ab65f7a2466ae82",
    "6": "ecd3f7f6ddf70d25",
    "7": "604728f183d0eda3",
    "8": "d937f5641d32aea2",
    "9": "7ccc9949a67292f7",
    "10": "c0ee8b93686a81f9",
    "11": "e4726835c96dddef",
    "12": "dbccc9405a691ea7",
    "13": "668cefa6f337fc2b",
    "14": "571ad4a777c357df",
}
"""What each step leaves of the schema, on SQLite. One that is in use never changes: the next change is another step."""
INDEXES = ("knowledge_words", "ix_knowledge_passages_words")
"""What finds words: SQLite's tables of FTS5 and PostgreSQL's index, which SQLAlchemy cannot say alike for both."""
FAILING_STEP = SECOND_STEP + '    raise RuntimeError("half way")\n'


def in_transaction(url: str, work: Callable[[Connection], Any]) -> Any:
    engine = sql.writer_engine(sql.parse(url), foreign_keys=False)
    with engine.connect() as tx, tx.begin():
        result = work(tx)
    engine.dispose()
    return result


def with_step(folder: Path, source: str) -> Steps:
    """Our migrations and one more."""
    scripts = folder / "migrations"
    shutil.copytree(STEPS.scripts, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "r9999_more.py").write_text(source)
    return Steps((*STEPS.revisions, "9999"), scripts)


def described(tx: Connection) -> dict[str, Any]:
    """Everything that the database itself knows of the schema."""
    found = inspect(tx)
    return {
        table: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(table)],
            found.get_pk_constraint(table),
            sorted(map(str, found.get_foreign_keys(table))),
            sorted(
                (index["name"] or "", index["column_names"], index["unique"], _texts(index.get("dialect_options", {})))
                for index in found.get_indexes(table)
            ),
            sorted(map(str, found.get_unique_constraints(table))),
        )
        for table in sorted(found.get_table_names())
    }


def _texts(options: dict[str, Any]) -> list[str]:
    return sorted(f"{key}: {value}" for key, value in options.items())


def modes(folder: Path, pattern: str) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob(pattern)}


async def open_and_close(url: str, account: str = "") -> None:
    store = await Store.open(url, clock=SystemClock())
    if account:
        await store.write(lambda tx: accounts.bind(tx, account, "telegram", account, NOW))
    await store.close()


def test_the_list_of_steps_is_what_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(STEPS.scripts))
    found = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(found)) == STEPS.revisions


def test_creating_equals_migrating(url: str, tmp_path: Path) -> None:
    in_transaction(url, lambda tx: schema.run_steps(tx, STEPS))
    migrated = in_transaction(url, described)
    seen = {"include_name": lambda name, kind, _: not (name or "").startswith(INDEXES)}
    assert in_transaction(url, lambda tx: compare_metadata(MigrationContext.configure(tx, opts=seen), metadata)) == []
    assert migrated["alembic_version"]

    if url.startswith("sqlite"):
        created_url = f"sqlite:///{tmp_path}/created.db"
    else:
        created_url = url
        in_transaction(url, lambda tx: tx.execute(text("DROP SCHEMA public CASCADE; CREATE SCHEMA public")))
    in_transaction(created_url, schema.prepare)
    assert in_transaction(created_url, described) == migrated


def test_every_column_is_described() -> None:
    assert [str(column) for table in metadata.tables.values() for column in table.columns if not column.doc] == []


async def test_an_upgrade_keeps_the_rows_and_on_sqlite_a_copy(url: str, tmp_path: Path) -> None:
    await open_and_close(url, "kept")
    steps = with_step(tmp_path, SECOND_STEP)

    in_transaction(url, lambda tx: schema.prepare(tx, steps))

    columns = in_transaction(url, lambda tx: [column["name"] for column in inspect(tx).get_columns("threads")])
    assert "colour" in columns
    assert in_transaction(url, lambda tx: tx.scalar(text("SELECT name FROM accounts"))) == "kept"
    copies = modes(tmp_path, "*.bak*")
    if url.startswith("sqlite"):
        assert copies == {"antler.db.before-9999.bak": 0o600}
        copied = sqlite3.connect(tmp_path / "antler.db.before-9999.bak")
        assert copied.execute("SELECT version_num FROM alembic_version").fetchall() == [(STEPS.revisions[-1],)]
        assert copied.execute("SELECT name FROM accounts").fetchall() == [("kept",)]
        copied.close()
    else:
        assert copies == {}


def test_steps_that_are_in_use_do_not_change(tmp_path: Path) -> None:
    """Write the digest of a new step down; where an old one differs, make a step of the change instead."""
    found = {}
    for revision in STEPS.revisions:
        url = f"sqlite:///{tmp_path}/{revision}.db"
        in_transaction(url, partial(schema.run_steps, steps=STEPS, to=revision))
        found[revision] = hashlib.sha256(repr(in_transaction(url, described)).encode()).hexdigest()[:16]
    assert found == FROZEN


async def test_a_database_of_the_first_revision_becomes_one_of_today(tmp_path: Path) -> None:
    file = tmp_path / "antler.db"
    with sqlite3.connect(file) as old:
        old.executescript(FIRST_SCHEMA.read_text())
    old.close()
    url = f"sqlite:///{file}"
    store = await Store.open(url, clock=SystemClock())
    (known,) = await store.read(runs.unended)
    assert (known.conversation, known.rule, known.place) == (OWNER, "", None)
    assert (await store.read(lambda tx: usage.spent(tx, conversation=OWNER))).tokens == 5
    fresh = run_row(conversation="telegram:8")
    await store.write(lambda tx: runs.open(tx, fresh))
    assert len(await store.read(runs.unended)) == 2
    await store.close()

    assert modes(tmp_path, "*.bak*") == {f"antler.db.before-{STEPS.revisions[-1]}.bak": 0o600}
    today = f"sqlite:///{tmp_path}/today.db"
    in_transaction(today, schema.prepare)
    upgraded, made = in_transaction(url, described), in_transaction(today, described)
    assert {table: _sorted(of) for table, of in upgraded.items()} == {table: _sorted(of) for table, of in made.items()}
    with sqlite3.connect(file) as found:
        counters = dict(found.execute("SELECT name, seq FROM sqlite_sequence"))
        (made_by,) = found.execute("SELECT sql FROM sqlite_master WHERE name = 'usage'").fetchone()
    found.close()
    assert counters["runs"] == 2
    assert "AUTOINCREMENT" in made_by


async def test_rows_of_usage_that_say_nothing_of_who_paid_stay(tmp_path: Path) -> None:
    file = tmp_path / "antler.db"
    with sqlite3.connect(file) as old:
        old.executescript(FIRST_SCHEMA.read_text())
        old.execute("UPDATE usage SET call = NULL, conversation = NULL, speaker = NULL")
    old.close()
    await open_and_close(f"sqlite:///{file}")
    with sqlite3.connect(file) as found:
        assert found.execute("SELECT call, conversation, speaker, input_tokens FROM usage").fetchall() == [
            ("unknown:1", "", "", 3)
        ]
    found.close()


def _sorted(of: tuple[Any, ...]) -> tuple[Any, ...]:
    """Columns in an order of their own: what is added stands last."""
    columns, *rest = of
    return (sorted(columns), *rest)


async def test_a_failed_upgrade_changes_nothing(url: str, tmp_path: Path) -> None:
    await open_and_close(url)
    before = in_transaction(url, described)
    with pytest.raises(RuntimeError, match="half way"):
        in_transaction(url, lambda tx: schema.prepare(tx, with_step(tmp_path, FAILING_STEP)))
    assert in_transaction(url, described) == before
    await open_and_close(url, "still works")


async def test_a_newer_database_is_refused_untouched(url: str) -> None:
    await open_and_close(url)
    in_transaction(url, lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '9999'")))
    with pytest.raises(StoreNewer, match="9999") as refused:
        await Store.open(url, clock=SystemClock())
    assert refused.value.revision == "9999"
    assert in_transaction(url, lambda tx: tx.scalar(text("SELECT epoch FROM instance"))) == 1


@pytest.mark.parametrize("expands", [True, False])
async def test_an_older_worker_goes_on_where_a_step_only_added(url: str, tmp_path: Path, *, expands: bool) -> None:
    await open_and_close(url)
    steps = with_step(tmp_path, SECOND_STEP)
    newer = replace(steps, expanding=STEPS.expanding | {"9999"}) if expands else steps
    in_transaction(url, lambda tx: schema.prepare(tx, newer))
    with pytest.raises(StoreNewer):
        in_transaction(url, schema.known_revision)
    if expands:
        assert in_transaction(url, partial(schema.known_revision, beside=True)) == "9999"
    else:
        with pytest.raises(StoreNewer):
            in_transaction(url, partial(schema.known_revision, beside=True))
    assert in_transaction(url, partial(schema.known_revision, steps=newer)) == "9999"


async def test_a_database_of_before_the_first_release_is_refused_untouched(url: str) -> None:
    await open_and_close(url)
    in_transaction(url, lambda tx: tx.execute(text("UPDATE alembic_version SET version_num = '0012'")))
    with pytest.raises(StoreTooOld, match=r"development version of Antler \(revision 0012\).*start again") as refused:
        await Store.open(url, clock=SystemClock())
    parsed = sql.parse(url)
    name = parsed.database if url.startswith("sqlite") else parsed.render_as_string(hide_password=True)
    assert name is not None
    assert name in str(refused.value)
    assert in_transaction(url, lambda tx: tx.scalar(text("SELECT epoch FROM instance"))) == 1


async def test_tables_of_somebody_else_are_refused(url: str) -> None:
    in_transaction(url, lambda tx: tx.execute(text("CREATE TABLE runs (x integer)")))
    with pytest.raises(StoreUnavailable, match="is not Antler's"):
        await Store.open(url, clock=SystemClock())


async def test_tables_beside_ours_are_left_alone(url: str) -> None:
    in_transaction(url, lambda tx: tx.execute(text("CREATE TABLE checkpoints (x integer)")))
    await open_and_close(url)
    assert "checkpoints" in in_transaction(url, lambda tx: inspect(tx).get_table_names())


async def test_the_file_is_ours_alone(tmp_path: Path) -> None:
    file = tmp_path / "antler.db"
    file.touch(mode=0o644)
    store = await Store.open(f"sqlite:///{file}", clock=SystemClock())
    await store.write(lambda tx: accounts.bind(tx, "a", "telegram", "1", NOW))
    found = modes(tmp_path, "*")
    await store.close()
    assert found == {"antler.db": 0o600, "antler.db-wal": 0o600, "antler.db-shm": 0o600}
