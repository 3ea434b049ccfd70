"""Effects, prompts and usage."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from bot.store import Store, prompts, runs, usage
from bot.store.retrying import RetryingStore
from bot.store.run_events import StoreEffectLog, StoreRunLedger
from bot.store.usage import Totals, UsageRow
from harness.ports import Effect, EffectKey
from tests.bot.store.samples import LATER, NOW, OWNER, prompt_row, run_row


async def test_a_tool_call_is_begun_once(store: Store) -> None:
    log = StoreEffectLog(RetryingStore(store, store.clock))
    key = EffectKey(thread_id="t", run_id="r", call_id="c")

    begun = await asyncio.gather(*(log.begin(key, "send_mail") for _ in range(5)))
    assert begun.count(None) == 1
    assert begun.count(Effect(state="started")) == 4
    await log.done(key, '"sent\\u0000"')
    assert await log.begin(key, "send_mail") == Effect(state="done", result='"sent\\u0000"')
    with pytest.raises(LookupError):
        await log.done(replace(key, call_id="other"), "{}")


async def test_model_calls_are_counted_with_the_run(store: Store) -> None:
    run = run_row()
    await store.write(lambda tx: runs.open(tx, run))
    ledger = StoreRunLedger(RetryingStore(store, store.clock))

    counts = await asyncio.gather(*(ledger.model_called(run.run_id) for _ in range(3)))
    assert sorted(counts) == [1, 2, 3]


async def test_a_prompt_is_answered_once_in_time_by_whom_it_asks(store: Store) -> None:
    await store.write(lambda tx: prompts.create(tx, prompt_row()))

    assert await store.write(lambda tx: prompts.answer(tx, "p1", "telegram:8", "0", NOW)) is None
    assert await store.write(lambda tx: prompts.answer(tx, "p1", OWNER, "0", LATER)) is None
    answered, second = await asyncio.gather(
        store.write(lambda tx: prompts.answer(tx, "p1", OWNER, "0", NOW)),
        store.write(lambda tx: prompts.answer(tx, "p1", OWNER, "1", NOW)),
    )
    assert answered == replace(prompt_row(), answer="0", answered_by=OWNER)
    assert second is None
    assert await store.read(lambda tx: prompts.load(tx, "p1")) == answered
    assert await store.write(lambda tx: prompts.answer(tx, "unknown", OWNER, "0", NOW)) is None


async def test_an_unanswered_prompt_is_forgotten_once_its_time_is_over(store: Store) -> None:
    await store.write(lambda tx: prompts.create(tx, prompt_row(who=None)))

    assert await store.write(lambda tx: prompts.prune(tx, NOW)) == 0
    assert await store.write(lambda tx: prompts.prune(tx, LATER + timedelta(seconds=1))) == 1


def call_of(thread: str, tokens: int, **changes: Any) -> UsageRow:
    values: dict[str, Any] = {
        "call": uuid4().hex,
        "run_id": "r",
        "thread_id": thread,
        "conversation": "telegram:7",
        "speaker": "telegram:7",
        "model": "demo",
        "input_tokens": tokens,
        "output_tokens": 2,
        "cached_tokens": 1,
        "cost": None,
        "currency": None,
        "at": NOW,
    }
    return UsageRow(**(values | changes))


async def test_usage_adds_up_by_thread(store: Store) -> None:
    for row in (call_of("t", 2**40), call_of("t", 5), call_of("other", 7)):
        await store.write(partial(usage.add, rows=[row]))
    totals = await store.read(lambda tx: usage.thread_totals(tx, "t"))
    assert totals == Totals(input=2**40 + 5, output=4, cached=2, calls=2)
    assert await store.read(lambda tx: usage.thread_totals(tx, "none")) == Totals(0, 0, 0, 0)


async def test_usage_adds_up_by_whatever_is_asked_and_a_call_counts_once(store: Store) -> None:
    rows = [
        call_of("t", 10, cost=3, currency="USD"),
        call_of("t", 20, cost=4, currency="USD", speaker="telegram:8", run_id="r2"),
        call_of("t", 40, cost=5, currency="EUR", at=LATER),
        call_of("t", 80),
        call_of("u", 160, conversation="telegram:9", speaker="telegram:9", at=LATER),
    ]
    for _ in range(2):
        await store.write(lambda tx: usage.add(tx, rows))

    async def spent(**wanted: Any) -> tuple[int, dict[str, int]]:
        found = await store.read(lambda tx: usage.spent(tx, **wanted))
        return found.totals.input, dict(found.costs)

    assert await spent() == (310, {"USD": 7, "EUR": 5})
    assert await spent(conversation="telegram:7") == (150, {"USD": 7, "EUR": 5})
    assert await spent(speaker="telegram:8") == (20, {"USD": 4})
    assert await spent(thread_id="t", run_id="r2") == (20, {"USD": 4})
    assert await spent(since=LATER) == (200, {"EUR": 5})
    assert await spent(conversation="telegram:7", until=LATER) == (110, {"USD": 7})
    assert await spent(conversation="none") == (0, {})
