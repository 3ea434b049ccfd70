"""Where threads are kept: strict types, private files, pruning that breaks nothing, clocks that jump, old files."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ormsgpack
import psycopg.conninfo
import psycopg_pool
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.serde import jsonplus
from psycopg_pool.base import AttemptWithBackoff

from bot.store.sql import POSTGRES_OPTIONS, libpq_url
from harness.context import HistoryEntry, Removal
from harness.errors import SetupError, UnfitChange
from harness.graph.state import thread_config
from harness.threads import postgres_saver
from harness.threads.checkpoints import Checkpoints, open_checkpoints
from harness.threads.postgres_saver import RetryingPostgresSaver
from tests.harness.support import Bench, Script, collect, context, said

if TYPE_CHECKING:
    from harness.run.runner import HarnessRunner
    from tests.simulators.postgres import PostgresServer

FIXTURES = Path(__file__).parent / "fixtures"
OLD_FILE = FIXTURES / "checkpoints-0.1.0.sqlite"


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (jsonplus.EXT_CONSTRUCTOR_SINGLE_ARG, ("os", "system", "touch {mark}")),
        (jsonplus.EXT_CONSTRUCTOR_POS_ARGS, ("subprocess", "run", (["touch", "{mark}"],))),
        (jsonplus.EXT_CONSTRUCTOR_KW_ARGS, ("subprocess", "run", {"args": ["touch", "{mark}"]})),
        (jsonplus.EXT_METHOD_SINGLE_ARG, ("os", "path", "{mark}", "exists")),
        (jsonplus.EXT_PYDANTIC_V2, ("subprocess", "run", {"args": ["touch", "{mark}"]}, "model_construct")),
    ],
)
async def test_a_forged_checkpoint_runs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, payload: tuple[Any, ...]
) -> None:
    mark = tmp_path / "pwned"
    inner = ormsgpack.packb(_filled(payload, str(mark)))
    blob = ormsgpack.packb(ormsgpack.Ext(code, inner))
    checkpoints = await open_checkpoints(str(tmp_path / "c.sqlite"))
    try:
        loaded = checkpoints.saver.serde.loads_typed(("msgpack", blob))
    finally:
        await checkpoints.close()
    assert not mark.exists()
    assert isinstance(loaded, str | list | dict)  # the raw data, not what it names
    caplog.clear()


def _filled(value: Any, mark: str) -> Any:
    if isinstance(value, str):
        return value.replace("{mark}", mark)
    if isinstance(value, dict):
        return {key: _filled(item, mark) for key, item in value.items()}
    return [_filled(item, mark) for item in value]


def test_langgraph_first_is_refused() -> None:
    environment = "import os; os.environ.pop('LANGGRAPH_STRICT_MSGPACK', None)"
    code = f"{environment}\nimport langgraph.graph, harness.threads.checkpoints"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "langgraph was imported before harness" in done.stderr


def test_the_border_types_load_nothing_heavy() -> None:
    code = (
        "import sys, harness.events, harness.context, harness.ports, harness.config, harness.errors\n"
        "print([m for m in sys.modules if m.partition('.')[0] in ('langgraph', 'langchain_core', 'openai', 'PIL')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


async def test_the_file_is_private(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("hello"))
        for file in bench.file.parent.glob("checkpoints.sqlite*"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_pruning_keeps_the_thread_and_the_way_back(bench: Bench, script: Script, database: str) -> None:
    async with bench.open() as harness:
        for number in range(24):
            await collect(harness, context(f"r{number}"), said(f"text {number}"))
        await collect(harness, context("other", thread="thread-2"), said("untouched"))
        before = await harness.history("thread-1")
        base = (await harness.head("thread-1")).id
        assert base is not None
        await collect(harness, context("last"), said("the last"))
    checkpoints = await open_checkpoints(database)
    count = "SELECT count(*) FROM checkpoints WHERE thread_id = ?"
    ((many,),) = await checkpoints.run(count, ("thread-1",))
    await checkpoints.prune("thread-1", keep=(base,))
    ((few,),) = await checkpoints.run(count, ("thread-1",))
    await checkpoints.close()
    assert few < many
    async with bench.open() as harness:
        assert [e.text for e in await harness.history("thread-1")][-2:] == ["the last", "answer 26"]
        await harness.rewind("thread-1", base)
        assert await harness.history("thread-1") == before
        await collect(harness, context("after"), said("go on"))
        assert len(await harness.history("thread-1")) == len(before) + 2
        assert len(await harness.history("thread-2")) == 2


async def test_a_long_life_keeps_few_checkpoints(bench: Bench, script: Script) -> None:
    async with bench.open() as harness:
        for number in range(70):
            await collect(harness, context(f"r{number}"), said(f"text {number}"))
    with sqlite3.connect(bench.file) as file:
        ((count,),) = file.execute("SELECT count(*) FROM checkpoints")
    file.close()
    assert count < 150


async def test_a_thread_is_changed_between_turns(bench: Bench, script: Script, database: str) -> None:
    async def texts(harness: HarnessRunner) -> list[str]:
        return [entry.text for entry in await harness.history("thread-1")]

    note = HistoryEntry(message_id="note", role="user", text="a note")
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        base = (await harness.head("thread-1")).id
        await collect(harness, context("r2"), said("two"))
        first, answer, *_ = await harness.history("thread-1")
        changed = HistoryEntry(message_id=answer.message_id, role="assistant", text="another")
        await harness.change("thread-1", [Removal(first.message_id), note, changed])
        assert await texts(harness) == ["another", "two", "answer 2", "a note"]
    async with bench.open() as harness:
        await collect(harness, context("r3"), said("three"))
        assert await texts(harness) == ["another", "two", "answer 2", "a note", "three", "answer 3"]
        assert [str(message.content).partition("\n")[0] for message in script.requests[-1][-2:]] == ["a note", "three"]
        gone = Removal("note")
        for unfit in ((note, Removal("nobody's")), (gone, gone)):
            with pytest.raises(UnfitChange):
                await harness.change("thread-1", unfit)
        with pytest.raises(LookupError):
            await harness.change("thread-1", [note], at="1f000000-0000-6000-8000-000000000000")
        assert (await texts(harness))[-1] == "answer 3"
        await harness.change("thread-1", [note], at=base)
        assert await texts(harness) == ["one", "answer 1", "a note"]
        await harness.change("thread-1", [Removal(None), note])
        assert await texts(harness) == ["a note"]
        assert [view.open for view in await harness.views("thread-1")] == [False]
        await harness.fork("thread-1", "copied")
        await collect(harness, context("r4", thread="copied"), said("four"))
        assert [entry.text for entry in await harness.history("copied")] == ["a note", "four", "answer 4"]
        assert await texts(harness) == ["a note"]
        await harness.change("new", [note])
        assert [entry.text for entry in await harness.history("new")] == ["a note"]


async def test_a_turn_works_the_same_on_both_databases(bench: Bench, script: Script, database: str) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
    async with bench.open() as harness:
        await collect(harness, context("r2"), said("two"))
        assert [e.text for e in await harness.history("thread-1")] == ["one", "answer 1", "two", "answer 2"]
        await harness.forget("thread-1")
        await harness.scrub()
        assert (await harness.head("thread-1")).id is None


async def test_a_clock_set_back_over_a_restart_loses_no_turn(bench: Bench, script: Script) -> None:
    ids: Any = checkpoint_ids
    async with bench.open() as harness:
        # The turn is made ten days ahead of the clock that the next start will have.
        ids.uuid6()  # sets the time of the last id
        ids._last_v6_timestamp += 10 * 24 * 3600 * 10_000_000
        await collect(harness, context("r1"), said("one"))
    ids._last_v6_timestamp = None
    async with bench.open() as harness:
        await collect(harness, context("r2"), said("two"))
        assert [e.text for e in await harness.history("thread-1")] == ["one", "answer 1", "two", "answer 2"]


async def test_no_statement_of_a_turn_reads_through_all_threads(bench: Bench, script: Script) -> None:
    seen: list[str] = []
    async with bench.open() as harness:
        saver: Any = harness.checkpoints.saver
        saver.conn.set_trace_callback(seen.append)
        for number in range(25):  # old checkpoints are dropped on the way
            await collect(harness, context(f"r{number}"), said("more"))
        saver.conn.set_trace_callback(None)
        asked = [each for each in seen if each.lstrip().startswith(("SELECT", "DELETE", "WITH"))]
        assert any("DELETE" in each for each in asked)
        plans = {step[3] for each in asked for step in saver.conn.execute(f"EXPLAIN QUERY PLAN {each}")}
        # A recursive query reads through what it has found itself.
        read = {step.split()[1] for step in plans if step.startswith("SCAN")}
        assert read <= {"CONSTANT", "ancestors", "a"}


async def test_a_file_of_an_older_release_still_loads(bench: Bench, script: Script) -> None:
    """Made by make_fixture.py with that release: a thread with a snapshot, and one stopped inside a round of tools."""
    shutil.copy(OLD_FILE, bench.file)
    async with bench.open() as harness:
        assert [e.text for e in await harness.history("finished")][-2:] == ["text 24", "answer 25"]
        await collect(harness, context("new", thread="finished"), said("still there?"))
        assert len(await harness.history("finished")) == 52
        events = await collect(
            harness, context("stopped-run", thread="stopped"), said("go", "stopped-input"), attempt=2
        )
        assert events[-1].type == "finished"
    assert [m.type for m in script.requests[-1]] == ["system", "human", "ai", "tool", "tool"]


@pytest.mark.postgres
async def test_a_server_that_restarts_in_mid_turn_costs_no_run(
    bench: Bench, script: Script, postgres: PostgresServer
) -> None:
    bench.database = postgres.database()
    told = asyncio.Event()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    log = logging.getLogger("harness.threads.postgres_saver")
    log.addHandler(handler := Told())
    async with bench.open() as harness:
        await collect(harness, context("r1"), said("one"))
        postgres.stop()  # idle connections are cut
        turn = asyncio.create_task(collect(harness, context("r2"), said("two")))
        async with asyncio.timeout(30):
            await told.wait()
        assert not turn.done()
        postgres.start()
        events = await turn
        assert [type(event).__name__ for event in events][-1] == "Finished"
        assert [e.text for e in await harness.history("thread-1")] == ["one", "answer 1", "two", "answer 2"]
    log.removeHandler(handler)


@pytest.mark.postgres
async def test_cut_connections_are_replaced_at_once_even_after_a_long_outage(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_saver, "RECONNECT_SECONDS", 0.5)
    monkeypatch.setattr(postgres_saver, "POOL_SECONDS", 2.0)
    saver = await RetryingPostgresSaver.open(url := libpq_url(postgres.database()), lambda _: None)
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 60.0)  # its pause, as after minutes
    with postgres.connect(str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    async with asyncio.timeout(5):
        assert await saver.run("SELECT 1 AS one", ()) == [(1,)]
    postgres.stop()
    waiting = asyncio.create_task(saver.run("SELECT 1 AS one", ()))
    await asyncio.sleep(1.5)
    assert not waiting.done()
    postgres.start()
    async with asyncio.timeout(30):
        assert await waiting == [(1,)]
    await saver.close()


@pytest.mark.postgres
async def test_a_role_without_rights_is_told_what_to_grant_and_needs_no_more(postgres: PostgresServer) -> None:
    """As a worker's may be: the gateway has made the tables."""
    url = libpq_url(postgres.database())
    own = url.replace("antler@", "helper@")
    with postgres.connect(str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])) as connection:
        connection.execute("CREATE ROLE helper LOGIN")
        with pytest.raises(SetupError, match="permission denied for schema public"):
            await open_checkpoints(own)
        await (await open_checkpoints(url)).close()
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO helper")
        with pytest.raises(SetupError, match="may not use the threads' tables: GRANT ") as told:
            await open_checkpoints(own)
        connection.execute(str(told.value).partition("tables: ")[2].encode())
        await (await open_checkpoints(own)).close()


@pytest.mark.postgres
async def test_who_does_not_lead_reads_a_thread_and_leaves_it_as_it_is(postgres: PostgresServer) -> None:
    url = libpq_url(postgres.database())
    leads = True
    saver = await RetryingPostgresSaver.open(url, lambda _: None, leads=lambda: leads)
    config = thread_config("thread-1")
    config["configurable"]["checkpoint_ns"] = ""
    mine, late = empty_checkpoint(), empty_checkpoint()
    written = await saver.aput(config, mine, {}, {})
    leads = False
    for write in (
        saver.aput(written, late, {}, {}),
        saver.aput_writes(written, [("messages", "late")], "task"),
        saver.adelete_thread("thread-1"),
        saver.run("DELETE FROM checkpoints", ()),
    ):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write, 0.3)
    kept = await saver.aget_tuple(config)
    assert kept is not None
    assert (kept.checkpoint["id"], kept.pending_writes) == (mine["id"], [])
    waiting = asyncio.create_task(saver.aput(written, late, {}, {}))
    await asyncio.sleep(0.1)
    leads = True
    async with asyncio.timeout(10):
        await waiting
        assert (kept := await saver.aget_tuple(config)) is not None
    assert kept.checkpoint["id"] == late["id"]
    await saver.close()


@pytest.mark.postgres
async def test_processes_that_start_at_once_make_the_tables_once(postgres: PostgresServer) -> None:
    url = libpq_url(postgres.database())
    opened = await asyncio.gather(*(open_checkpoints(url) for _ in range(4)), return_exceptions=True)
    for each in opened:
        assert isinstance(each, Checkpoints)
        await each.close()


@pytest.mark.postgres
async def test_what_no_waiting_changes_on_postgresql_is_raised(postgres: PostgresServer) -> None:
    read: list[str] = []
    saver = await RetryingPostgresSaver.open(libpq_url(postgres.database()), read.append)
    async with asyncio.timeout(30):
        await saver.run("CREATE TABLE long (text text PRIMARY KEY)", ())
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            await saver.run("INSERT INTO long SELECT string_agg(md5(n::text), '') FROM generate_series(1, 500) n", ())
        await saver.close()
        with pytest.raises(psycopg_pool.PoolClosed):
            await saver.run("SELECT 1", ())


def test_the_checkpoints_of_postgresql_have_the_options_of_the_store() -> None:
    url = libpq_url("postgresql://me:p%40ss@db.example:5433/antler?connect_timeout=9&sslmode=require")
    options = psycopg.conninfo.conninfo_to_dict(url)
    assert options["password"] == "p@ss"
    assert options["tcp_user_timeout"] == str(POSTGRES_OPTIONS["tcp_user_timeout"])
    assert options["keepalives_idle"] == str(POSTGRES_OPTIONS["keepalives_idle"])
    assert options["connect_timeout"] == "9", "what the URL says wins"
    assert libpq_url("/var/lib/antler/checkpoints.db") == "/var/lib/antler/checkpoints.db"
