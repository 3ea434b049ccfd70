"""What asks a model beside runs, by the harness of this process and by workers: the results are the same. And what only
workers can meet with: deaths on either side, versions beside one another, threads that something else needs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from bot.store import worker_runs
from bot.store.worker_runs import QUEUE, OrderState
from bot.workers import calls, queue
from bot.workers.calls import ANSWER, ASKED, METHODS, TITLE, Asked, CallFailed, answered
from bot.workers.harness import WorkersHarness
from harness.context import Titled
from harness.errors import ModelFailure
from harness.events import FailureKind, Finished, Usage
from harness.memory.model import (
    Changes,
    Correction,
    Exchange,
    Fact,
    Heard,
    Memory,
    Proposed,
    Said,
    Summary,
    Updated,
    User,
)
from tests.bot.scripted_harness import ScriptedHarness
from tests.bot.workers.sides import CLOCK, SAID, Gateway, all_of, until, working

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.ports import Harness
    from tests.bot.workers.sides import WorkerSide

pytestmark = pytest.mark.postgres

AT = datetime(2026, 11, 23, 8, 30, tzinfo=UTC)
THREAD = "thread of telegram:7"
TITLED = Titled(text="Grüße 🦌\x00", input_tokens=3, output_tokens=1)
USAGE = Usage(run_id="", seq=0, model="sim", input_tokens=100, output_tokens=20, cached_tokens=5)
MEMORY = Memory(
    last_updated=AT,
    user=User(work_context=Summary(summary="Keeps deer.", updated_at=AT)),
    facts=(
        Fact(id="fact1", content="Likes moss", category="preference", confidence=0.5, created_at=AT),
        Fact(
            id="fact2",
            content="Sells antlers",
            category="correction",
            confidence=1,
            created_at=AT,
            source="run",
            said_by="telegram:7",
            source_error="Sells deer",
            confirmed_at=AT,
            valid_until=date(2027, 1, 1),
        ),
    ),
)
EXCHANGE = Exchange(
    owner="person",
    thread_id=THREAD,
    run_id="run",
    speaker="telegram:7",
    is_group=False,
    locale="de",
    tainted=True,
    outcome="success",
    at=AT,
    said=(Said(role="person", text="I like 🦌", name="Bo"), Said(role="agent", text='{"so": "do I"}')),
    timezone="Europe/Berlin",
    model="main",
)
LEARNT = Proposed(content="Likes lichen", category="goal", confidence=0.9, at=AT, tainted=True, valid_until=date.max)
UPDATED = Updated(
    memory=MEMORY,
    changes=Changes(
        summaries={"user.topOfMind": "winter"},
        added=(LEARNT,),
        corrected=(Correction("fact1", replace(LEARNT, said_by="telegram:7")),),
        confirmed=(Heard("fact2", AT),),
        removed=("fact3",),
    ),
    model="main",
    input_tokens=9,
    output_tokens=4,
    trouble="none of it",
)


def port(gateway: Gateway) -> WorkersHarness:
    return WorkersHarness(gateway.local, gateway.dispatch)


async def left(gateway: Gateway) -> int:
    """Rows of calls, and of their jobs."""
    rows = text(
        "SELECT (SELECT count(*) FROM worker_events) + (SELECT count(*) FROM worker_runs)"
        " + (SELECT count(*) FROM procrastinate_jobs)"
    )
    return int(await gateway.store.read(lambda tx: tx.scalar(rows)) or 0)


async def the_call(gateway: Gateway) -> str:
    """The only one's id, once it is ordered."""

    async def ordered() -> bool:
        return len(await gateway.store.read(worker_runs.calls)) == 1

    await until(ordered)
    (call_id,) = await gateway.store.read(worker_runs.calls)
    return call_id


def held(agent: ScriptedHarness, method: str) -> asyncio.Event:
    """The method goes on once this is set."""
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    agent.meanwhile[method] = wait
    return gate


def breaks(agent: ScriptedHarness, method: str, error: Exception) -> None:
    async def broken() -> None:
        raise error

    agent.meanwhile[method] = broken


async def silent(gateway: Gateway, dead: WorkerSide) -> None:
    """It is taken for dead."""
    shown = text("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '31 s' WHERE id = :id")
    await gateway.store.write(lambda tx: tx.execute(shown, {"id": dead.queue.registration()}))
    assert await gateway.store.write(worker_runs.recover) == 1


# The contract: in this process, and by workers.

ASKS: dict[str, Callable[[Harness], Awaitable[object]]] = {
    "title": lambda harness: harness.title("main", "hello\x00 🦌", "and hello"),
    "remember": lambda harness: harness.remember(MEMORY, [EXCHANGE, replace(EXCHANGE, run_id="next")]),
    "compact": lambda harness: harness.compact(THREAD, "main"),
}


def gives(agent: ScriptedHarness) -> None:
    agent.titles, agent.updates, agent.summary = [TITLED], [UPDATED], USAGE


def was_asked(agent: ScriptedHarness) -> list[Any]:
    return [*agent.titled, *agent.remembered, *agent.compacted]


@pytest.mark.parametrize("method", ASKS)
async def test_what_is_asked_and_answered_is_the_same_by_a_worker(gateway: Gateway, method: str) -> None:
    async with working(gateway.url) as worker:
        here, there = gateway.local, worker.agent
        for agent in (here, there):
            gives(agent)
        expected = await ASKS[method](here)
        asked = was_asked(here)
        assert expected is not None
        assert await ASKS[method](port(gateway)) == expected
        assert was_asked(there) == asked
        # The second time nothing comes of it.
        there.titles, there.updates, there.summary = [], [], None
        assert await ASKS[method](port(gateway)) is None
        assert was_asked(here) == asked, "the gateway did none of it"
    assert await left(gateway) == 0


@pytest.mark.parametrize("retry_after", [None, 2.5])
async def test_a_model_s_failure_is_the_same_by_a_worker(gateway: Gateway, retry_after: float | None) -> None:
    async with working(gateway.url) as worker:
        for agent in (gateway.local, worker.agent):
            failure = ModelFailure(FailureKind.RATE_LIMITED, model="main", detail="busy", retry_after=retry_after)
            breaks(agent, "compact", failure)
        told = []
        for harness in (gateway.local, port(gateway)):
            with pytest.raises(ModelFailure) as raised:
                await harness.compact(THREAD, "main")
            told.append((str(raised.value), vars(raised.value)))
        assert told[0] == told[1]
        assert told[0][1]["retry_after"] == retry_after
    assert await left(gateway) == 0


def test_every_method_that_asks_a_model_is_in_the_table() -> None:
    assert set(METHODS) == set(ASKS)


# What only workers can meet with.


async def test_what_breaks_at_a_worker_is_not_waited_for(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    async with working(gateway.url) as worker:
        for method in ASKS:
            breaks(worker.agent, method, RuntimeError("a defect"))
        assert await ASKS["title"](port(gateway)) is None
        assert await ASKS["remember"](port(gateway)) is None
        with pytest.raises(CallFailed):
            await ASKS["compact"](port(gateway))
        assert not worker.working.done()
    assert was_asked(gateway.local) == []
    assert caplog.text.count("RuntimeError: a defect") == 3
    assert await left(gateway) == 0


@pytest.mark.parametrize("method", ASKS)
async def test_a_worker_dies_at_it_and_another_answers(gateway: Gateway, method: str) -> None:
    async with working(gateway.url) as first, working(gateway.url) as second:
        gates = [held(side.agent, method) for side in (first, second)]
        for side in (first, second):
            gives(side.agent)
        asked = asyncio.ensure_future(ASKS[method](port(gateway)))
        await until(lambda: first.agent.working + second.agent.working == 1)
        dead, other = (first, second) if first.agent.working else (second, first)
        await silent(gateway, dead)
        await until(lambda: other.agent.working == 1)
        for gate in gates:
            gate.set()
        assert await asked is not None
        await asyncio.wait_for(dead.fenced.wait(), 10)
        assert len(was_asked(other.agent)) == 1
    assert await left(gateway) == 0


async def test_a_call_at_which_three_workers_died_is_given_up(gateway: Gateway) -> None:
    asked = asyncio.ensure_future(ASKS["compact"](port(gateway)))
    call_id = await the_call(gateway)
    died = text("UPDATE worker_runs SET worker = -1, deaths = 2")
    await gateway.store.write(lambda tx: tx.execute(died))
    async with working(gateway.url) as worker:
        with pytest.raises(CallFailed, match=call_id):
            await asked
    assert was_asked(worker.agent) == []
    assert await left(gateway) == 0


async def test_a_worker_that_stops_gives_its_calls_to_others(gateway: Gateway) -> None:
    async with working(gateway.url) as first:
        held(first.agent, "title")
        asked = asyncio.ensure_future(ASKS["title"](port(gateway)))
        await until(lambda: first.agent.working == 1)
        await first.stop()
    agent = ScriptedHarness()
    gives(agent)
    async with working(gateway.url, agent=agent):
        assert await asked == TITLED
    assert await left(gateway) == 0


@pytest.mark.parametrize("method", ASKS)
async def test_a_call_that_is_cancelled_ends_at_its_worker(gateway: Gateway, method: str) -> None:
    async with working(gateway.url) as worker:
        held(worker.agent, method)
        asked = asyncio.ensure_future(ASKS[method](port(gateway)))
        await until(lambda: worker.agent.working == 1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert worker.agent.working == 0
        assert await left(gateway) == 0
        assert not worker.working.done()


async def test_a_call_that_is_cancelled_twice_is_tidied_away(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        begun, held = asyncio.Event(), asyncio.Event()

        async def title(model: str, said: str, answered: str) -> Titled | None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await held.wait()
            return None

        worker.agent.title = title  # type: ignore[method-assign]  # one that takes a while to end
        asking = asyncio.create_task(gateway.dispatch.calls.ask(TITLE, ("m", "said", "answered"), gateway.local))
        await asyncio.wait_for(begun.wait(), 20)
        for _ in range(2):
            asking.cancel()
            await asyncio.sleep(0.2)
        held.set()
        tidying = asyncio.create_task(gateway.dispatch.tidy())

        async def gone() -> bool:
            return await gateway.store.read(worker_runs.calls) == []

        await until(gone)
        tidying.cancel()


async def test_a_call_whose_gateway_is_gone_is_ended_by_the_next_one(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        held(worker.agent, "remember")
        asked = asyncio.ensure_future(ASKS["remember"](port(gateway)))
        await until(lambda: worker.agent.working == 1)
        tidying = asyncio.create_task(gateway.dispatch.calls.tidy())
        await tidying
        assert await gateway.store.read(worker_runs.calls), "its own are waited for"
        gateway.leaves = True
        asked.cancel()
        await asyncio.wait({asked})
        assert worker.agent.working == 1

        following = gateway.another()

        async def forgotten() -> bool:
            await following.calls.tidy()
            return await left(gateway) == 0

        await until(forgotten)
        assert worker.agent.working == 0


async def test_a_call_is_no_run_that_has_ended(gateway: Gateway) -> None:
    """Who looks for orders of runs that are gone finds no calls."""
    await gateway.store.write(partial(worker_runs.call, call_id="call:a", thread_id="", asked="{}"))
    assert await gateway.store.read(worker_runs.unwanted) == ([], [])


async def test_what_no_worker_takes_the_gateway_does_itself(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of before there were calls goes on with its runs, and does not see them."""
    monkeypatch.setattr(calls, "NOBODY_SECONDS", 0.5)
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(queue, "QUEUES", (QUEUE,))
    gives(gateway.local)
    async with working(gateway.url) as old:
        for ask, result in zip(ASKS.values(), (TITLED, UPDATED, USAGE), strict=True):
            assert await ask(port(gateway)) == result
        assert isinstance((await all_of(port(gateway), await gateway.opened()))[-1], Finished)
        assert was_asked(old.agent) == []
    rows = await gateway.store.read(worker_runs.calls)
    assert rows == []


async def test_a_call_at_work_is_waited_for_however_long_it_takes(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after that as long again for another worker."""
    monkeypatch.setattr(calls, "NOBODY_SECONDS", 1.5)
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.05)
    gives(gateway.local)
    async with working(gateway.url) as worker:
        held(worker.agent, "title")
        asked = asyncio.ensure_future(ASKS["title"](port(gateway)))
        await until(lambda: worker.agent.working == 1)
        await asyncio.wait({asked}, timeout=2.0)
        assert not asked.done()
        stopped = CLOCK.monotonic()
        await worker.stop()
        assert await asked == TITLED
        assert CLOCK.monotonic() - stopped > 1.0
    assert len(was_asked(gateway.local)) == 1


async def test_what_a_worker_of_another_version_does_not_know_the_gateway_does_itself(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(METHODS, "title")
    gives(gateway.local)
    async with working(gateway.url):
        async with asyncio.timeout(calls.NOBODY_SECONDS / 2):
            assert await ASKS["title"](port(gateway)) == TITLED
    assert await left(gateway) == 0


@pytest.mark.parametrize(
    "asked",
    [
        "",
        '{"method": "title"}',
        ASKED.dump_json(Asked(method="title", arguments=["of", "two"])).decode(),
        ASKED.dump_json(Asked(method="remember", arguments=[{"version": 2}, []])).decode(),
    ],
)
async def test_what_cannot_be_read_is_declined(gateway: Gateway, asked: str) -> None:
    assert ANSWER.validate_json(await answered(gateway.local, asked)).declined
    assert was_asked(gateway.local) == []


@pytest.mark.parametrize("body", ["{", '{"failure": {"kind": "of later"}}', '{"result": {"text": 1}}'])
async def test_an_answer_that_cannot_be_read_is_none(gateway: Gateway, body: str) -> None:
    asked = asyncio.ensure_future(ASKS["title"](port(gateway)))
    call_id = await the_call(gateway)

    def tell(tx: Any) -> None:
        known = worker_runs.load(tx, call_id)
        assert known is not None
        worker_runs.answer_call(tx, call_id, known.job, body)

    await gateway.store.write(tell)
    assert await asked is None
    assert was_asked(gateway.local) == []


async def test_a_run_waits_for_the_summary_of_its_thread_and_for_no_title(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        row, agent = await gateway.opened(), worker.agent
        compacted, titled = held(agent, "compact"), held(agent, "title")
        asked = [asyncio.ensure_future(ASKS["compact"](port(gateway)))]
        await until(lambda: agent.working == 1)
        asked.append(asyncio.ensure_future(ASKS["title"](port(gateway))))
        await until(lambda: agent.working == 2)
        answer = asyncio.create_task(all_of(port(gateway), row))
        await until(partial(gateway.has_order, row))
        await asyncio.wait({answer}, timeout=1.0)
        assert agent.starts == []
        compacted.set()
        assert isinstance((await answer)[-1], Finished)
        assert agent.working == 1, "the title is still being made"
        titled.set()
        await asyncio.gather(*asked)


async def test_a_summary_ends_what_works_in_its_thread_and_what_is_next_ends_the_summary(gateway: Gateway) -> None:
    async with working(gateway.url) as worker:
        row, agent = await gateway.opened(), worker.agent
        agent.hold(SAID)
        held(agent, "compact")
        async with aclosing(port(gateway).run(row.context, row.input)) as events:
            async for _ in events:
                break
            gateway.leaves = True
        gateway.leaves = False
        assert agent.working == 1
        asked = asyncio.ensure_future(port(gateway).compact(row.thread_id, "main"))
        await gateway.until(row, OrderState.STOPPED)
        await until(lambda: agent.working == 1 and agent.compacted == [(row.thread_id, "main")])
        await port(gateway).rewind(row.thread_id, None)
        assert agent.working == 0
        with pytest.raises(CallFailed):
            await asked


async def test_an_answer_whose_word_is_lost_comes_some_seconds_later(gateway: Gateway) -> None:
    await gateway.tasks.cancel()  # nobody listens
    async with working(gateway.url) as worker:
        gives(worker.agent)
        assert await ASKS["title"](port(gateway)) == TITLED
