"""The port of the whole agent, by the harness of this process and by workers: what runs tell is the same. And what only
workers can meet with: deaths on either side, fences, words that are lost."""

from __future__ import annotations

import asyncio
import re
import sys
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import AsyncConnection
from psycopg_pool.base import AttemptWithBackoff
from sqlalchemy import text

import bot.workers
from bot.operations.health import Problem
from bot.operations.workers import FACTS, Facts, Workers
from bot.runs.endings import Ending
from bot.settings import Settings
from bot.store import Fenced, Store, StoreUnavailable, run_events, runs, usage, worker_runs, workers
from bot.store.errors import TakenAway
from bot.store.rows import RunState
from bot.store.run_events import StoreEffectLog
from bot.store.sql import libpq_url
from bot.store.worker_runs import OrderState
from bot.usage.meter import EventRecord
from bot.workers import queue
from bot.workers.dispatch import Staff, continued, prepare
from bot.workers.harness import WorkersHarness
from bot.workers.jobs import LONGEST_DRAFT, collected_for
from channels.message import OutboundMessage
from harness.config import ModelSettings
from harness.errors import SetupError
from harness.events import (
    Failed,
    FailureKind,
    Finished,
    Resumed,
    TextDelta,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    Usage,
)
from harness.graph.state import thread_config
from harness.mcp.pool import ServerFacts
from harness.models.health import ModelHealth, ModelState
from harness.ports import EffectKey
from harness.threads.checkpoints import open_checkpoints
from harness.threads.postgres_saver import Superseded
from tests.bot.scripted_harness import ScriptedHarness
from tests.bot.store.samples import run_row
from tests.bot.workers.sides import CLOCK, SAID, Gateway, Life, all_of, checked, until, working
from tests.clock import VirtualClock
from tests.parts import missing
from tests.simulators.postgres import PostgresMissing, PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from sqlalchemy import Connection

    from bot.store.rows import RunRow
    from harness.events import AnyRunEvent, RunEvent
    from harness.ports import Harness
    from tests.bot.scripted_harness import Teller

pytestmark = pytest.mark.postgres

# The contract: in this process, and by workers.


@pytest.fixture(params=["here", "workers"])
async def harness(request: pytest.FixtureRequest, gateway: Gateway) -> AsyncIterator[tuple[Harness, ScriptedHarness]]:
    """A harness, and the agent that works behind it."""
    if request.param == "here":
        yield gateway.local, gateway.local
        return
    async with working(gateway.url) as worker:
        yield WorkersHarness(gateway.local, gateway.dispatch), worker.agent


Both = tuple["Harness", ScriptedHarness]


async def test_a_run_tells_its_words_what_it_used_and_its_end(harness: Both, gateway: Gateway) -> None:
    row = await gateway.opened()
    events = await all_of(harness[0], row)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == f"echo: {SAID}"
    assert [type(event) for event in events][-2:] == [Usage, Finished]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.run_id for event in events} == {row.run_id}


async def test_leaving_the_iteration_stops_the_work(harness: Both, gateway: Gateway) -> None:
    port, agent = harness
    row, _ = await gateway.opened(), agent.hold(SAID)
    async with asyncio.timeout(20), aclosing(port.run(row.context, row.input)) as events:
        async for event in events:
            assert isinstance(event, TextDelta)
            break
    assert (agent.working, agent.closed) == (0, 1)


async def test_a_cancelled_run_has_let_go_before_its_thread_is_settled(harness: Both, gateway: Gateway) -> None:
    port, agent = harness
    row, _ = await gateway.opened(), agent.hold(SAID)
    task = asyncio.create_task(all_of(port, row))
    await until(lambda: agent.working > 0)
    task.cancel()
    await asyncio.wait({task}, timeout=20)
    await port.settle(row.thread_id)
    assert agent.working == 0


async def test_condensing_leaves_a_worker_at_work_until_steps_are_to_go(gateway: Gateway) -> None:
    """Copies may be made at any time; what is dropped is dropped once no worker is at the thread any more."""
    at_work: list[tuple[bool, int]] = []

    class Condensing(ScriptedHarness):
        async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
            at_work.append((drop, worker.agent.working))

    async with working(gateway.url) as worker:
        port = WorkersHarness(Condensing(), gateway.dispatch)
        released, answer = worker.agent.hold(SAID), []
        for chat in ("telegram:7", "telegram:8"):
            row = await gateway.opened(chat)
            answer.append(asyncio.create_task(all_of(port, row)))
        await until(lambda: worker.agent.working == 2)
        await port.condense(row.thread_id, (), drop=False)
        await port.condense(row.thread_id, (), drop=True)
        assert at_work == [(False, 2), (True, 1)]
        assert not isinstance((await answer[1])[-1], Finished)
        released.set()
        assert isinstance((await answer[0])[-1], Finished)


async def test_an_agent_that_breaks_ends_with_a_failure_or_raises(harness: Both, gateway: Gateway) -> None:
    port, agent = harness

    async def breaks(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        yield tell(TextDelta, message_id="a", text="so far")
        raise RuntimeError("a defect")

    agent.scripts[SAID] = breaks
    row = await gateway.opened()
    if port is agent:
        with pytest.raises(RuntimeError):
            await all_of(port, row)
        return
    words, last = await all_of(port, row)
    assert isinstance(words, TextDelta)
    assert isinstance(last, Failed)
    assert last.detail_for_log == "RuntimeError"


async def test_what_is_said_meanwhile_is_heard(harness: Both, gateway: Gateway) -> None:
    port, agent = harness
    row = await gateway.opened()
    await gateway.store.write(partial(runs.open, row=run_row()))  # somebody waits for their turn
    gateway.steering.waiting.append(replace(row.input, text="and this"))
    gateway.local.steering = gateway.steering

    async def listens(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        assert agent.steering is not None
        heard = await agent.steering.said(tell.ctx)
        yield tell.answer(" ".join(each.text for each in heard))

    agent.scripts[SAID] = listens
    (last,) = await all_of(port, row)
    assert isinstance(last, Finished)
    assert last.text == "and this"


# What only workers can meet with.


async def test_nobody_is_asked_where_nothing_waits(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        row = await gateway.opened()
        assert worker.agent.steering is not None
        assert await worker.agent.steering.said(row.context) == ()
        assert gateway.steering.asked == 0


async def test_a_gateway_that_comes_back_follows_the_same_work(gateway: Gateway) -> None:
    """Texts are told once more from their beginning, calls that were written down are not."""
    called = replace_ids("call-1")
    async with working(gateway.url) as worker:
        gate = asyncio.Event()

        async def works(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(TextDelta, message_id="a", text="The first ")
            yield tell(ToolStarted, **called, summary="")
            yield tell(ToolEnded, **called, ok=True)
            yield tell(Usage, model="sim", input_tokens=1, output_tokens=1)
            yield tell(TextDelta, message_id="b", text="The second ")
            await gate.wait()
            yield tell(TextDelta, message_id="b", text="half")
            yield tell.answer("The second half")

        worker.agent.scripts[SAID] = works
        row, record = await gateway.opened(), EventRecord(elsewhere=True)
        async with aclosing(gateway.dispatch.run(row.context, 1, 1)) as events:
            async for event in events:
                record.add(event)
                if isinstance(event, TextDelta) and event.message_id == "b":
                    break
            record.flush()
            await gateway.store.write(partial(run_events.append, run_id=row.run_id, events=tuple(record.rows)))
            gateway.leaves = True
        assert worker.agent.working == 1, "the worker goes on"
        gate.set()
        gateway.leaves = False
        seq = 1 + record.rows[-1][0]
        again = await all_of(WorkersHarness(gateway.local, gateway.another()), row, seq)
    assert len(worker.agent.starts) == 1
    assert [type(event) for event in again] == [TextReset, TextDelta, TextReset, TextDelta, TextDelta, Finished]
    assert [event.seq for event in again] == list(range(seq, seq + 6))


def words(events: list[AnyRunEvent]) -> dict[str, str]:
    """The text of each message, as who follows has it in the end."""
    known: dict[str, str] = {}
    for event in events:
        if isinstance(event, TextReset):
            known[event.message_id] = ""
        elif isinstance(event, TextDelta):
            known[event.message_id] = known.get(event.message_id, "") + event.text
    return known


async def test_words_are_drafts_until_something_else_is_told(gateway: Gateway) -> None:
    """However long it grows, nothing is logged of an answer before its end."""
    called = replace_ids("call-1")
    async with working(gateway.url) as worker:
        gates = [asyncio.Event() for _ in range(3)]

        async def grows(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(TextDelta, message_id="a", text="One")
            await gates[0].wait()
            yield tell(TextDelta, message_id="a", text=" two")
            yield tell(ToolProgress, **called, seconds=1, line="half")
            await gates[1].wait()
            yield tell(ToolProgress, **called, seconds=2, line="all")
            yield tell(TextDelta, message_id="a", text=" three")
            await gates[2].wait()
            yield tell.answer("One two three")

        worker.agent.scripts[SAID] = grows
        row, seen = await gateway.opened(), []
        counts = text("SELECT (SELECT count(*) FROM worker_events), (SELECT part FROM worker_drafts)")
        async with asyncio.timeout(30), aclosing(gateway.dispatch.run(row.context, 1, 1)) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, Finished):
                    break
                assert await gateway.store.read(lambda tx: tuple(tx.execute(counts).one())) == (0, 1)
                said = words(seen)["a"]
                gates[["One", "One two", "One two three"].index(said)].set()
    assert words(seen) == {"a": "One two three"}
    assert {event.line for event in seen if isinstance(event, ToolProgress)} <= {"half", "all"}
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize(("since", "counts"), [(1, "1 2"), (5, "2 3")])
async def test_the_first_call_of_a_new_run_is_counted_with_its_start(gateway: Gateway, since: int, counts: str) -> None:
    """A run that goes on, as after a decision, has used its count before."""
    async with working(gateway.url) as worker:

        async def asks(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            found = [await worker.ledger.model_called(tell.ctx.run_id) for _ in range(2)]
            yield tell.answer(" ".join(map(str, found)))

        worker.agent.scripts[SAID] = asks
        row = await gateway.opened(calls=1)
        (last,) = await all_of(WorkersHarness(gateway.local, gateway.dispatch), row, since)
    assert isinstance(last, Finished)
    assert last.text == counts


async def test_a_long_draft_becomes_a_part(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        gate = asyncio.Event()

        async def grows(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield tell(TextDelta, message_id="a", text="x" * LONGEST_DRAFT)
            await gate.wait()
            yield tell.answer("done")

        worker.agent.scripts[SAID] = grows
        row = await gateway.opened()
        told = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))

        async def written() -> bool:
            _, parts = await gateway.store.read(partial(worker_runs.told, run_id=row.run_id, after=0))
            return [(part.number, part.whole) for part in parts] == [(1, True)]

        await until(written)
        gate.set()
        assert words(await told) == {"a": "x" * LONGEST_DRAFT}


A, B = partial(TextDelta, run_id="r", seq=0, message_id="a"), partial(TextDelta, run_id="r", seq=0, message_id="b")
RESET = TextReset(run_id="r", seq=0, message_id="a")


@pytest.mark.parametrize(
    ("begun", "events", "told"),
    [
        ([], [A(text="x")], [A(text="x")]),
        ([A(text="x")], [A(text="x")], []),
        ([A(text="x")], [A(text="xy"), B(text="z")], [A(text="y"), B(text="z")]),
        ([A(text="x"), B(text="z")], [A(text="x"), B(text="zz")], [B(text="z")]),
        ([A(text="x")], [A(text="other")], [RESET, A(text="other")]),
        ([A(text="x")], [B(text="x")], [RESET, B(text="x")]),
        ([A(text="x"), B(text="z")], [A(text="xy")], [RESET, replace(RESET, message_id="b"), A(text="xy")]),
        ([A(text="x")], [], [RESET]),
    ],
)
def test_what_goes_on_with_a_draft_is_told_and_what_does_not_takes_it_back(
    begun: list[RunEvent], events: list[RunEvent], told: list[RunEvent]
) -> None:
    assert list(continued(begun, events)) == told


def replace_ids(call: str) -> dict[str, Any]:
    return {"call_id": call, "tool": "bash"}


async def test_an_end_that_was_not_written_down_is_told_once_more_and_one_that_was_is_not(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        row = await gateway.opened()
        events = await all_of(WorkersHarness(gateway.local, gateway.dispatch), row)
        again = await all_of(WorkersHarness(gateway.local, gateway.another()), row)
        assert [type(event) for event in again] == [type(event) for event in events]
        assert len(worker.agent.starts) == 1
        record = EventRecord()
        for event in events:
            record.add(event)
        await gateway.store.write(partial(run_events.append, run_id=row.run_id, events=record.rows))
        await all_of(WorkersHarness(gateway.local, gateway.dispatch), row, 1 + len(events))
        assert len(worker.agent.starts) == 2, "a run that goes on after a question is ordered anew"


async def test_a_worker_that_was_taken_for_dead_writes_nothing_and_another_goes_on(gateway: Gateway) -> None:
    async with working(gateway.url) as first, working(gateway.url) as second:
        gates = {side.agent.hold(SAID): side for side in (first, second)}
        row = await gateway.opened()
        port = WorkersHarness(gateway.local, gateway.dispatch)
        told = asyncio.create_task(all_of(port, row))
        await until(lambda: first.agent.working + second.agent.working > 0)
        dead, other = (first, second) if first.agent.working else (second, first)
        silent = text("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '31 s' WHERE id = :id")
        await gateway.store.write(lambda tx: tx.execute(silent, {"id": dead.queue.registration()}))
        assert await gateway.store.write(worker_runs.recover) == 1
        await until(lambda: other.agent.working > 0)
        for gate in gates:
            gate.set()
        events = await told
        await asyncio.wait_for(dead.fenced.wait(), 10)
        with pytest.raises(Fenced):
            await dead.store.write(lambda tx: None)
        draft = partial(gateway.store.read, lambda tx: tx.execute(text("SELECT body FROM worker_drafts")).all())
        before = await draft()
        await dead.queue.draft(row.run_id, 9, "[]")
        assert await draft() == before
    assert [start.attempt for start in other.agent.starts] == [2]
    assert [type(event) for event in events].count(Finished) == 1
    assert any(isinstance(event, Resumed) for event in events)
    assert words(events) == {"a": "The first half"}, "the draft of who died is taken back"


async def test_a_run_at_which_workers_die_again_and_again_is_given_up(gateway: Gateway) -> None:
    row = await gateway.opened()
    events = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
    await until(partial(gateway.has_order, row))
    died = text("UPDATE worker_runs SET worker = 1000000, deaths = 2")
    await gateway.store.write(lambda tx: tx.execute(died))
    async with working(gateway.url) as worker:
        (last,) = await events
        assert worker.agent.starts == []
    assert isinstance(last, Failed)
    assert last.detail_for_log == "3 workers died while running it"


async def test_a_worker_that_stops_gives_its_runs_to_others(gateway: Gateway) -> None:
    row = await gateway.opened()
    async with working(gateway.url) as first:
        first.agent.hold(SAID)
        told = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
        await until(lambda: first.agent.working > 0)
        await first.stop()
    assert (await gateway.order(row)).worker is None
    async with working(gateway.url) as second:
        events = await told
    assert [start.attempt for start in second.agent.starts] == [1], "a planned stop is no death"
    assert isinstance(events[-1], Finished)


async def test_a_worker_stops_while_the_server_is_away(gateway: Gateway, postgres: PostgresServer) -> None:
    async with working(gateway.url) as worker:
        await asyncio.to_thread(postgres.stop)
        try:
            await worker.stop()
        finally:
            await asyncio.to_thread(postgres.start)


async def test_a_worker_that_is_stopped_while_it_starts_stops(gateway: Gateway) -> None:
    async def never(run_id: str, job: int, first: bool) -> None:
        raise AssertionError(run_id)

    starting = queue.Queue(libpq_url(gateway.url), 1, CLOCK)
    serving = asyncio.create_task(starting.work(never, Life()))
    starting.stop()
    async with asyncio.timeout(10):
        await serving


async def test_a_run_that_comes_while_a_worker_stops_is_not_begun(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.jobs.leave()
        row = await gateway.opened()
        order = partial(worker_runs.order, run_id=row.run_id, thread_id=row.thread_id, attempt=1, since=1)
        job = (await gateway.store.write(order)).job
        again = text("SELECT attempts FROM procrastinate_jobs WHERE id = :job")

        async def came_back() -> bool:
            return bool(await gateway.store.read(lambda tx: tx.scalar(again, {"job": job})))

        await until(came_back)
        assert worker.agent.starts == []


async def test_a_word_that_is_lost_costs_seconds_only(gateway: Gateway) -> None:
    await gateway.tasks.cancel()  # nobody listens
    async with working(gateway.url):
        row = await gateway.opened()
        events = await all_of(WorkersHarness(gateway.local, gateway.dispatch), row)
    assert isinstance(events[-1], Finished)


async def test_a_restart_of_the_server_ends_neither_the_worker_nor_its_run(
    gateway: Gateway, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(queue, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(queue, "RECONNECT_SECONDS", 0.2)
    async with working(gateway.url) as worker:
        gate = worker.agent.hold(SAID)
        first = await gateway.opened()
        told = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), first))
        await until(lambda: worker.agent.working > 0)
        await asyncio.to_thread(postgres.stop)
        gate.set()
        try:
            await until(lambda: "jobs to stop cannot be read now" in caplog.text)
        finally:
            await asyncio.to_thread(postgres.start)
        assert isinstance((await told)[-1], Finished)
        await gateway.end(first)
        assert not worker.working.done()
        second = await gateway.opened()
        assert isinstance((await all_of(WorkersHarness(gateway.local, gateway.dispatch), second))[-1], Finished)
    assert len(worker.agent.starts) == 2
    assert "Traceback" not in caplog.text


async def test_a_long_outage_keeps_no_worker_from_the_server_afterwards(
    gateway: Gateway, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 120)  # what the pool's pauses come to after minutes
    monkeypatch.setattr(queue, "LOOK_SECONDS", 0.2)
    async with working(gateway.url) as worker:
        await asyncio.to_thread(postgres.stop)
        try:
            await until(lambda: "error connecting in" in caplog.text)
        finally:
            await asyncio.to_thread(postgres.start)
        row = await gateway.opened()
        assert isinstance((await all_of(WorkersHarness(gateway.local, gateway.dispatch), row))[-1], Finished)
    assert len(worker.agent.starts) == 1


def test_a_long_answer_is_told_in_ever_larger_parts() -> None:
    told, parts = 0.0, 0
    moments = []
    while told < 30.0:
        told, parts = told + collected_for(parts), parts + 1
        moments.append(told)
    assert sum(moment <= 1.0 for moment in moments) >= 4
    assert max(later - before for before, later in pairwise(moments)) < 0.51
    assert parts <= 70


async def test_what_a_run_used_is_written_by_its_worker_once(gateway: Gateway) -> None:
    async with working(gateway.url):
        row = await gateway.opened()
        await all_of(WorkersHarness(gateway.local, gateway.dispatch), row)
    spent = await gateway.store.read(partial(usage.spent, run_id=row.run_id, thread_id=row.thread_id))
    assert spent.tokens == 12


async def test_nothing_that_was_told_is_kept_once_the_run_has_ended(gateway: Gateway) -> None:
    async with working(gateway.url):
        row = await gateway.opened()
        await all_of(WorkersHarness(gateway.local, gateway.dispatch), row)
    await gateway.end(row)
    tidying = asyncio.create_task(gateway.dispatch.tidy())
    await until(partial(gateway.has_order, row, wanted=False))
    tidying.cancel()
    left = text("SELECT (SELECT count(*) FROM worker_events) + (SELECT count(*) FROM procrastinate_jobs)")
    assert await gateway.store.read(lambda tx: tx.scalar(left)) == 0


async def test_work_on_a_run_that_ended_meanwhile_is_stopped(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.agent.hold(SAID)
        row = await gateway.opened()
        gateway.leaves = True
        async with aclosing(gateway.dispatch.run(row.context, 1, 1)) as events:
            async for _ in events:
                break
        await gateway.end(row)
        tidying = asyncio.create_task(gateway.dispatch.tidy())
        await gateway.until(row, OrderState.STOPPED)
        tidying.cancel()
        assert worker.agent.working == 0


async def test_with_a_run_ends_its_order_though_nobody_follows_that_yet(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.agent.hold(SAID)
        row = await gateway.opened()
        await gateway.store.write(lambda tx: Staff.order(tx, row, 1))
        await until(lambda: worker.agent.working == 1)
        after = Staff.after(row, Ending(RunState.INTERRUPTED, OutboundMessage(text="stopped", final=True)), "")
        await gateway.store.write(after.unit)
        await gateway.until(row, OrderState.STOPPED)
        assert (worker.agent.working, worker.agent.closed) == (0, 1)


async def test_what_a_frozen_worker_writes_late_is_tidied_away(gateway: Gateway) -> None:
    late = text("INSERT INTO worker_drafts VALUES ('a run that has ended', 1, '[]')")
    await gateway.store.write(lambda tx: tx.execute(late))
    tidying = asyncio.create_task(gateway.dispatch.tidy())

    async def gone() -> bool:
        left = text("SELECT count(*) FROM worker_drafts")
        return await gateway.store.read(lambda tx: int(tx.scalar(left) or 0)) == 0

    await until(gone)
    tidying.cancel()


async def test_a_frozen_worker_holds_no_lock_of_its_queue(gateway: Gateway) -> None:
    """It could freeze between a statement and its commit, and gateways would wait for what that has locked."""
    async with working(gateway.url) as worker, worker.queue._connector.pool.connection() as connection:
        assert connection.autocommit
        limits = await connection.execute("SHOW lock_timeout")
        assert await limits.fetchone() == ("10s",)


async def test_a_job_whose_answer_was_lost_is_no_death(gateway: Gateway) -> None:
    row = await gateway.opened()
    await gateway.store.write(lambda tx: Staff.order(tx, row, 1))
    register = text("SELECT * FROM procrastinate_register_worker_v1()")
    first, second = [await gateway.store.write(lambda tx: tx.scalar(register)) for _ in range(2)]
    async with await AsyncConnection.connect(libpq_url(gateway.url), autocommit=True) as connection:
        await connection.execute(queue.FETCH, {"queues": ["antler"], "worker_id": first})
        assert (await gateway.order(row)).worker == first
        await connection.execute(queue.PUT_BACK_LOST, {"worker_id": first, "working": []})
        await connection.execute(queue.FETCH, {"queues": ["antler"], "worker_id": second})
    order = await gateway.order(row)
    assert (order.worker, order.deaths) == (second, 0)


async def test_what_is_ordered_twice_is_one_order(gateway: Gateway) -> None:
    row = await gateway.opened()
    order = partial(Staff.order, row=row, seq=1)
    await gateway.store.write(order)
    first = await gateway.order(row)
    await gateway.store.write(order)
    assert await gateway.order(row) == first


def lost(tx: Connection, row: RunRow, worker: int | None) -> None:
    """Order it, and have the server give its job to a worker that is not told of it."""
    worker_runs.order(tx, row.run_id, row.thread_id, attempt=1, since=1)
    tx.execute(text("SELECT procrastinate_fetch_job_v2(ARRAY['antler'], :worker)"), {"worker": worker})


async def test_a_job_that_was_given_in_an_answer_that_was_lost_is_given_anew(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.agent.hold(SAID)
        busy = await gateway.opened()
        following = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), busy))
        await until(lambda: worker.agent.working == 1)
        row = await gateway.opened("telegram:8")
        await gateway.store.write(partial(lost, row=row, worker=worker.queue.registration()))
        other = asyncio.create_task(all_of(WorkersHarness(gateway.local, gateway.dispatch), row))
        await until(lambda: worker.agent.working == 2)
        for task in (following, other):
            task.cancel()
        await asyncio.gather(following, other, return_exceptions=True)
    assert len(worker.agent.starts) == 2, "what is worked on is not put back"


async def test_one_that_is_to_be_stopped_is_never_begun(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        row = await gateway.opened()

        def stopped(tx: Connection) -> None:
            lost(tx, row, worker.queue.registration())
            assert not worker_runs.stop(tx, row.run_id)

        await gateway.store.write(stopped)
        async with asyncio.timeout(20):
            await gateway.dispatch.quiet(row.thread_id)
        assert (await gateway.order(row)).state is OrderState.STOPPED
        assert worker.agent.starts == []


@pytest.mark.parametrize(
    "leave", [partial(worker_runs.end, state=OrderState.DONE), partial(worker_runs.put_back, worker=None)]
)
async def test_a_job_ends_whose_order_is_gone(gateway: Gateway, leave: Callable[..., None]) -> None:
    row = await gateway.opened()
    worker = await gateway.store.write(lambda tx: tx.scalar(text("SELECT * FROM procrastinate_register_worker_v1()")))
    await gateway.store.write(partial(lost, row=row, worker=worker))
    job = (await gateway.order(row)).job
    await gateway.store.write(partial(worker_runs.discard, run_ids=(row.run_id,)))
    await gateway.store.write(partial(leave, run_id=row.run_id, job=job))
    assert await gateway.store.read(lambda tx: tx.scalar(text("SELECT count(*) FROM procrastinate_jobs"))) == 0


async def test_before_it_is_registered_a_worker_writes_nothing(gateway: Gateway) -> None:
    jobs = queue.Queue(libpq_url(gateway.url), 1, CLOCK)
    store = await Store.join(gateway.url, clock=CLOCK, check=partial(checked, jobs))
    with pytest.raises(StoreUnavailable, match="not registered"):
        await store.write(lambda tx: None)
    await store.close()


SILENCE = text("SELECT extract(epoch FROM clock_timestamp() - last_heartbeat)::float FROM procrastinate_workers")
AGE = text("UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '29 s'")


async def test_a_worker_that_was_silent_for_long_gives_a_sign_of_life_before_it_acts(gateway: Gateway) -> None:
    clock = VirtualClock()
    async with working(gateway.url, clock) as worker:
        await gateway.store.write(lambda tx: tx.execute(AGE))
        await clock.advance(queue.CERTAIN_SECONDS - 1)
        await worker.store.may_act()
        assert await gateway.store.read(lambda tx: tx.scalar(SILENCE)) >= 29, "none is needed yet"
        await clock.advance(2)
        await worker.store.may_act()
        assert await gateway.store.read(lambda tx: tx.scalar(SILENCE)) < 29


async def test_a_worker_that_was_taken_for_dead_does_nothing_outside_and_is_given_no_job(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    async with working(gateway.url, clock) as worker:
        await gateway.store.write(lambda tx: tx.execute(text("DELETE FROM procrastinate_workers")))
        row = await gateway.opened()
        await gateway.store.write(partial(worker_runs.order, run_id=row.run_id, thread_id="t", attempt=1, since=1))
        await until(lambda: "jobs cannot be fetched now" in caplog.text)
        assert await gateway.store.read(lambda tx: tx.scalar(text("SELECT status FROM procrastinate_jobs"))) == "todo"
        await clock.advance(queue.CERTAIN_SECONDS + 1)
        with pytest.raises(Fenced):
            await worker.store.may_act()
        assert worker.agent.starts == []


async def test_a_database_that_no_gateway_prepared_is_refused(postgres: PostgresServer) -> None:
    with pytest.raises(StoreUnavailable, match="not prepared"):
        await Store.join(postgres.database(), clock=CLOCK, check=lambda tx: None)


async def test_a_standby_is_not_taken_for_the_database() -> None:
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        missing(str(error))
    with server:
        url = server.database()
        await (await Store.open(url, clock=CLOCK)).close()
        server.stop()
        server.stand_by()
        server.start()
        with pytest.raises(StoreUnavailable, match="read-only standby"):
            await Store.join(url, clock=CLOCK, check=lambda tx: None)


async def test_a_server_that_goes_while_a_gateway_starts_is_waited_for(
    gateway: Gateway, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.model_validate({"channels": {"console": {}}, "database": {"url": libpq_url(gateway.url)}})
    staff = Staff(
        settings,
        gateway.store,
        steering=lambda: gateway.steering,
        leaving=lambda: False,
        due=lambda: None,
        learn=lambda secret: None,
    )

    async def own() -> Any:
        return None

    await asyncio.to_thread(postgres.stop)
    try:
        loading = asyncio.ensure_future(staff.load(own)())
        await until(lambda: "runs cannot be assigned to workers now" in caplog.text)
        assert not loading.done()
    finally:
        await asyncio.to_thread(postgres.start)
    async with asyncio.timeout(20):
        await loading


async def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(bot.workers, "queue")
    monkeypatch.delitem(sys.modules, "bot.workers.queue")
    monkeypatch.setitem(sys.modules, "procrastinate", None)
    with pytest.raises(SetupError, match=re.escape("procrastinate is not installed; pip install 'antler[scale]'")):
        await prepare("postgresql:///never")


async def test_checkpoints_of_a_worker_that_was_taken_for_dead_are_refused(gateway: Gateway) -> None:
    worker = await gateway.store.write(lambda tx: tx.scalar(text("SELECT * FROM procrastinate_register_worker_v1()")))
    checkpoints = await open_checkpoints(libpq_url(gateway.url), lambda _: (worker_runs.CHECK_WORKER, (worker,)))
    config = thread_config("t", checkpoint_id="1")
    await checkpoints.saver.aput_writes(config, [("messages", "kept")], "task")
    await gateway.store.write(lambda tx: tx.execute(text("DELETE FROM procrastinate_workers")))
    with pytest.raises(Superseded):
        await checkpoints.saver.aput_writes(config, [("messages", "late")], "other task")
    with pytest.raises(Superseded):
        await checkpoints.forget("t")
    assert len(await checkpoints.run("SELECT task_id FROM checkpoint_writes", ())) == 1
    await checkpoints.close()


async def test_what_is_taken_from_a_worker_that_does_not_stop_it_is_not_written_any_more(gateway: Gateway) -> None:
    """Neither what the run tells, nor its calls, nor its thread; the thread is free at once, and the worker goes on."""
    async with working(gateway.url) as worker:
        checkpoints = await open_checkpoints(libpq_url(gateway.url), worker.queue.fence)
        effects, refused = StoreEffectLog(worker.store), 0
        begun, taken = asyncio.Event(), asyncio.Event()

        async def late(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            nonlocal refused
            key = EffectKey(run_id=tell.ctx.run_id, call_id="call-1", thread_id=tell.ctx.thread_id)
            await effects.begin(key, "bash")
            config = thread_config(tell.ctx.thread_id, checkpoint_id="1")
            await checkpoints.saver.aput_writes(config, [("messages", "kept")], "task")
            begun.set()
            while not taken.is_set():
                with suppress(asyncio.CancelledError):
                    await taken.wait()
            for write in (
                effects.done(key, "late"),
                effects.begin(replace(key, call_id="call-2"), "bash"),
                worker.ledger.model_called(tell.ctx.run_id),
                checkpoints.saver.aput_writes(config, [("messages", "late")], "other task"),
            ):
                with pytest.raises((TakenAway, Superseded)):
                    await write
                refused += 1
            yield tell.answer("too late")

        worker.agent.scripts[SAID] = late
        row = await gateway.opened()
        port = WorkersHarness(gateway.local, gateway.dispatch)
        answer = asyncio.create_task(all_of(port, row))
        await begun.wait()
        began = CLOCK.monotonic()
        answer.cancel()
        await asyncio.wait({answer})
        assert CLOCK.monotonic() - began < 10
        assert (await gateway.order(row)).state is OrderState.STOPPED
        await gateway.end(row)
        second = await gateway.opened()
        worker.agent.scripts.clear()
        next_one = asyncio.create_task(all_of(port, second))
        await until(partial(gateway.has_order, second))
        taken.set()
        assert isinstance((await next_one)[-1], Finished)
        assert refused == 4
        left = text("SELECT (SELECT count(*) FROM worker_events), (SELECT state FROM effects)")
        assert await gateway.store.read(lambda tx: tuple(tx.execute(left).one())) == (1, "started")
        assert len(await checkpoints.run("SELECT task_id FROM checkpoint_writes", ())) == 1
        assert not worker.fenced.is_set()
        await checkpoints.close()


async def test_a_worker_that_works_takes_as_many_as_it_is_told_to(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        worker.queue.slots.number = 1
        released = worker.agent.hold(SAID)
        rows = [await gateway.opened(f"telegram:{number}") for number in (7, 8)]
        port = WorkersHarness(gateway.local, gateway.dispatch)
        answers = [asyncio.create_task(all_of(port, row)) for row in rows]
        await until(lambda: worker.agent.working > 0)
        await until(partial(gateway.has_order, rows[1]))
        await asyncio.sleep(0.5)
        assert worker.agent.working == 1
        worker.queue.slots.number = 2
        await until(lambda: worker.agent.working == 2)
        released.set()
        assert all(isinstance(events[-1], Finished) for events in await asyncio.gather(*answers))


async def test_slots_become_more_at_once_and_fewer_as_they_are_given_back() -> None:
    slots = queue.Slots(2)

    async def taken(number: int) -> int:
        """So many try to take a slot; how many had one at once."""
        tries = [asyncio.create_task(slots.acquire()) for _ in range(number)]
        done, waiting = await asyncio.wait(tries, timeout=0.05)
        for each in waiting:
            each.cancel()
        return len(done)

    assert await taken(3) == 2
    slots.number = 3
    assert await taken(2) == 1
    slots.number = 1
    for _ in range(2):
        slots.release()
        assert await taken(1) == 0
    slots.release()
    assert await taken(2) == 1


async def test_of_several_workers_the_worst_is_told_and_of_gone_ones_nothing(gateway: Gateway) -> None:
    refused = ModelState("m", kind=FailureKind.AUTH, failures=1, asked=60.0, since=60.0)
    ready = ServerFacts(name="s", state="ready", tools=3, detail="", silence=1.0)
    away = ServerFacts(name="s", state="retrying", tools=0, detail="no answer", silence=None)
    told = {
        "a": FACTS.dump_json(Facts(models=(refused,), servers=(ready,))).decode(),
        "b": FACTS.dump_json(Facts(running=2, models=(ModelState("m", asked=1.0),), servers=(away,))).decode(),
        "of a later version": '{"running": "many"}',
    }

    def begin(tx: Connection) -> None:
        for name, facts in told.items():
            number = tx.scalar(text("SELECT * FROM procrastinate_register_worker_v1()"))
            sign = {"worker_id": number, "name": name, "process": "h:1", "version": "1", "facts": facts}
            assert tx.exec_driver_sql(workers.SIGN, sign).one().asked == 0

    await gateway.store.write(begin)
    seen = Workers(gateway.store, partial(gateway.listener.listening, workers.ANSWERS))
    await seen.look()
    assert [(each.name, each.facts.running, each.alive) for each in seen.seen] == [
        *(("a", 0, True), ("b", 2, True), ("of a later version", 0, True)),
    ]
    health = ModelHealth()
    health.configure([ModelSettings(name="m", use="demo")])
    health.elsewhere = seen.models
    assert [(state.kind, state.at) for state in health.states] == [(FailureKind.AUTH, "a")]
    assert [(each.state, each.tools, each.detail) for each in seen.servers()] == [("retrying", 3, "b: no answer")]
    assert [each.problem for each in seen.conditions(CLOCK.monotonic())] == [None]

    await gateway.store.write(lambda tx: tx.execute(text("DELETE FROM procrastinate_workers")))
    await seen.look()
    assert seen.seen == ()
    assert [each.problem for each in seen.conditions(CLOCK.monotonic())] == [Problem.NO_WORKER]
    assert await gateway.store.read(workers.present) == []


async def test_what_is_asked_comes_without_waiting_for_a_sign_of_life(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "HEARTBEAT_SECONDS", 3600.0)
    async with working(gateway.url) as worker:
        (row,) = await gateway.store.read(workers.present)
        assert (row.id, row.name) == (worker.queue.registration(), "w")

        async def heard() -> bool:  # asked again until it listens
            assert list(await gateway.store.write(workers.ask)) == [row.id]
            return worker.life.asked > 0

        await until(heard)
        await worker.stop()
        assert await gateway.store.read(workers.present) == []
