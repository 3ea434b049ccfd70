"""Budgets are never exceeded, finals come first, and a thousand replies at once are cheap."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from bot.delivery.budget import BURST, DRAFT_SHARE, LONGEST_FLIGHT, Bucket, ChatBudget, Flights, Priority, Window
from channels.capabilities import Rate
from channels.errors import RateLimited
from channels.message import OutboundMessage
from tests.delivery_world import RATE, dm, group, world
from tests.memory_channel import NO_IDEMPOTENCY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy import Connection

EPSILON = 1e-6


def most_within(stamps: Sequence[float], seconds: float) -> int:
    """The most calls in any window of that length."""
    return max((sum(start <= at < start + seconds - EPSILON for at in stamps) for start in stamps), default=0)


async def test_no_account_and_no_chat_gets_more_calls_than_it_may_have(tmp_path: Path) -> None:
    async with world(tmp_path, NO_IDEMPOTENCY) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n % 25)), None) for n in range(60)]
        for second in range(40):
            for reply in replies:
                reply.show(OutboundMessage(text="x" * (second + 1)))
            await w.clock.advance(0.5)
        for number in range(60):
            await w.say("done", key=f"r{number}", chat=str(number % 25))
        await w.drained()
        assert most_within(w.calls(), 1.0) <= RATE.per_second
        for chat in range(25):
            calls = w.calls(chat=str(chat))
            for seconds in (1.0, 5.0, 20.0):
                assert most_within(calls, seconds) <= BURST + RATE.per_chat_per_second * seconds
        assert [w.channel.texts(str(chat)) for chat in range(25)] == [
            ["done"] * len(range(chat, 60, 25)) for chat in range(25)
        ]


async def test_a_group_gets_no_more_than_its_calls_a_minute_and_its_finals_have_room(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        reply = await w.delivery.open("r1", group(), None)
        for number in range(200):
            reply.show(OutboundMessage(text="x" * (number + 1)))
            await w.clock.advance(1)
            if number == 100:
                began = w.clock.monotonic()
                other = await w.delivery.say("r2", group(), None, OutboundMessage(text="answer", final=True))
                await w.clock.until(other.delivered())
                assert w.clock.monotonic() - began < 2, "drafts never use up the whole minute"
        assert most_within(w.calls("send", "edit"), 60.0) <= RATE.per_group_per_minute
        assert most_within(w.calls("edit"), 60.0) <= RATE.per_group_per_minute * DRAFT_SHARE


async def test_when_calls_are_scarce_finals_go_first_and_drafts_give_way(tmp_path: Path) -> None:
    async with world(tmp_path, rate=Rate(per_second=5, per_chat_per_second=1, per_group_per_minute=20)) as w:
        drafts = [await w.delivery.open(f"d{n}", dm(f"d{n}"), None) for n in range(50)]
        for reply in drafts:
            reply.show(OutboundMessage(text="draft"))
        for number in range(20):
            await w.say("final", key=f"f{number}", chat=f"f{number}")
        await w.drained()
        sent = [call.chat[0] for call in w.channel.calls if call.method == "send"]
        last_final = max(index for index, kind in enumerate(sent) if kind == "f")
        # Before the first final was committed some drafts may have gone out, none in between.
        assert sent[:last_final].count("d") <= 5


async def test_within_a_class_the_oldest_goes_first(tmp_path: Path) -> None:
    async with world(tmp_path, rate=Rate(per_second=2, per_chat_per_second=1, per_group_per_minute=20)) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(6)]
        for reply in replies:
            reply.show(OutboundMessage(text="a"))
        await w.clock.advance(6)
        for reply in replies:
            reply.show(OutboundMessage(text="b"))
        for turn in range(60):
            for reply in replies:
                reply.show(OutboundMessage(text="b" * (turn + 2)))
            await w.clock.advance(0.5)
        edits = [len(w.calls("edit", chat=str(n))) for n in range(6)]
        assert max(edits) - min(edits) <= 1, edits


async def test_edits_are_spaced_by_how_many_replies_grow(tmp_path: Path) -> None:
    async with world(tmp_path, rate=Rate(per_second=10, per_chat_per_second=1, per_group_per_minute=20)) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(35)]
        for turn in range(300):
            for reply in replies:
                reply.show(OutboundMessage(text="x" * (turn + 1)))
            await w.clock.advance(0.1)
        # 35 replies share 7 calls a second.
        gaps = [b - a for a, b in pairwise(w.calls("edit", chat="0"))]
        assert min(gaps) > 4.5
        assert max(gaps) < 7


async def test_a_thousand_answers_at_once_are_cheap_and_go_out_at_full_pace(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        began, cpu = w.clock.monotonic(), time.process_time()
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(1000)]
        for reply in replies:
            reply.show(OutboundMessage(text="Hel"))
        await w.clock.advance(10)
        message = OutboundMessage(text="Hello", final=True)

        def end_runs(tx: Connection) -> None:
            for number in range(1000):
                w.delivery.finalize(tx, f"r{number}", dm(str(number)), None, message)

        await w.store.write(end_runs)
        for number in range(1000):
            w.delivery.finished(f"r{number}", dm(str(number)), None, message)
        await w.drained()
        assert [w.channel.texts(str(n)) for n in range(1000)] == [["Hello"]] * 1000
        assert w.clock.monotonic() - began < 10 + 1000 / RATE.per_second + 2
        assert time.process_time() - cpu < 20


async def test_an_idle_delivery_holds_nothing_and_sets_no_timer(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for number in range(50):
            await w.say("Hello", key=f"r{number}", chat=str(number))
        await w.drained()
        await w.clock.advance(300)
        assert w.clock.sleeping == 0
        (account,) = w.delivery.snapshot()
        assert account.open_replies == 0


async def test_a_chat_that_was_limited_is_forgotten_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.channel.fail("send", *[RateLimited("slow down", 5.0)] * 20)
        for number in range(20):
            await w.say("Hello", key=f"r{number}", chat=str(number))
        await w.drained()
        await w.clock.advance(300)
        assert w.clock.sleeping == 0


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5), st.sampled_from([1.0, 0.7, 0.3]))
def test_a_window_is_never_exceeded(waits: list[float], limit: int, share: float) -> None:
    window, now, taken = Window(limit, 2.0), 0.0, list[float]()
    for wait in waits:
        now = max(now + wait, window.ready_at(now + wait, share))
        window.take(now)
        taken.append(now)
    assert most_within(taken, 2.0) <= limit


@given(
    st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, LONGEST_FLIGHT - 0.1), st.floats(0, 1)), max_size=60),
    st.integers(1, 5),
)
def test_calls_never_arrive_too_close_however_long_each_is_under_way(
    calls: list[tuple[float, float, float]], limit: int
) -> None:
    """Each call: the wait before it, how long it takes, and at which share of that time it arrives."""
    flights, now, arrived, ends = Flights(limit, 1.0), 0.0, list[float](), list[float]()

    def advance(until: float) -> float:
        while ends and min(ends) <= until:
            flights.land(min(ends))
            ends.remove(min(ends))
        return until

    for wait, takes, share in calls:
        now = advance(now + wait)
        while (at := flights.ready_at(now, 1.0)) > now:
            now = advance(min([at, *ends]))
        flights.take(now)
        arrived.append(now + takes * share)
        ends.append(now + takes)
    assert most_within(sorted(arrived), 1.0) <= limit


def test_calls_that_hang_do_not_hold_up_the_others() -> None:
    flights = Flights(2, 1.0)
    flights.take(0.0)
    flights.take(0.0)
    assert flights.ready_at(0.5, 1.0) == LONGEST_FLIGHT
    assert flights.ready_at(LONGEST_FLIGHT, 1.0) == LONGEST_FLIGHT


@given(st.lists(st.floats(0, 3), max_size=60), st.floats(0.1, 5), st.integers(1, 4))
def test_a_bucket_is_never_exceeded(waits: list[float], rate: float, burst: int) -> None:
    bucket, now, taken = Bucket(rate, burst, 0.0), 0.0, list[float]()
    for wait in waits:
        now = max(now + wait, bucket.ready_at(now + wait))
        bucket.take(now)
        taken.append(now)
    for index, start in enumerate(taken):
        for count, at in enumerate(taken[index:], 1):
            assert count <= burst + rate * (at - start) + 1e-3


def test_a_refused_chat_is_blocked_for_everything() -> None:
    budget = ChatBudget(RATE, False, 0.0)
    budget.refuse(0.0, 12.0)
    assert {budget.ready_at(1.0, priority) for priority in Priority} == {12.0}
