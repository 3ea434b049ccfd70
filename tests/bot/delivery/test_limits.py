"""Limits that only some platforms have: of a minute and an hour in every chat, and of edits over all chats."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bot.delivery.budget import DRAFT_SHARE, HOUR, MINUTE, ChatBudget, Priority
from channels.capabilities import Rate
from channels.message import OutboundMessage
from tests.bot.delivery.test_budget import most_within
from tests.delivery_world import dm, world

if TYPE_CHECKING:
    from pathlib import Path

FAST = Rate(per_second=1000, per_chat_per_second=1000, per_group_per_minute=1000)
FEW_EDITS = replace(FAST, edits_per_minute=20)


async def test_a_chat_of_any_kind_keeps_to_its_minute_and_its_finals_have_room(tmp_path: Path) -> None:
    async with world(tmp_path, rate=replace(FAST, per_chat_per_minute=10)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(90):
            reply.show(OutboundMessage(text="x" * (number + 1)))
            await w.clock.advance(1)
        began = w.clock.monotonic()
        answer = await w.delivery.say("r2", dm(), None, OutboundMessage(text="answer", final=True))
        await w.clock.until(answer.delivered())
        assert w.clock.monotonic() - began < 2
        assert most_within(w.calls("send", "edit"), MINUTE) <= 10
        assert most_within(w.calls("edit"), MINUTE) <= 10 * DRAFT_SHARE


async def test_within_its_minute_an_answer_gets_slower_but_never_stands_still(tmp_path: Path) -> None:
    async with world(tmp_path, rate=replace(FAST, per_chat_per_minute=30)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        for number in range(600):
            reply.show(OutboundMessage(text="x" * (number + 1)))
            await w.clock.advance(0.5)
        calls = w.calls("send", "edit")
        assert most_within(calls, MINUTE) <= 30
        assert calls[5] - calls[0] < 6
        assert max(later - earlier for earlier, later in pairwise(calls)) < 8


def test_an_hour_is_kept_and_the_stricter_of_two_limits_counts() -> None:
    rate = replace(FAST, per_chat_per_hour=100, per_chat_per_minute=30, per_group_per_minute=12)
    for group, most in ((False, 30), (True, 12)):
        budget, now, calls = ChatBudget(rate, group, 0.0), 0.0, []
        while now < 2 * HOUR:
            now = max(now, budget.ready_at(now, Priority.FINAL))
            budget.take(now, Priority.FINAL)
            calls.append(now)
        assert most_within(calls, MINUTE) == most
        assert most_within(calls, HOUR) == 100
        assert budget.fresh_at(now) == now + HOUR


def test_typing_is_no_message() -> None:
    budget = ChatBudget(replace(FAST, per_chat_per_minute=1), False, 0.0)
    budget.take(0.0, Priority.TYPING)
    assert budget.ready_at(0.0, Priority.FINAL) == 0.0
    budget.take(0.0, Priority.FINAL)
    assert budget.ready_at(0.0, Priority.TYPING) == 0.0
    assert budget.ready_at(0.0, Priority.FINAL) == MINUTE


async def test_edits_share_their_own_limit_and_drafts_leave_room_for_answers(tmp_path: Path) -> None:
    async with world(tmp_path, rate=FEW_EDITS) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(8)]
        for second in range(120):
            for reply in replies:
                reply.show(OutboundMessage(text="x" * (second + 1)))
            await w.clock.advance(1)
        assert len(w.calls("send")) == 8
        assert most_within(w.calls("edit"), MINUTE) <= 20 * DRAFT_SHARE
        # All of them keep moving: the interval of each is wide enough for all.
        assert all(len(w.calls("edit", chat=str(n))) >= 2 for n in range(8))
        began = w.clock.monotonic()
        for number, reply in enumerate(replies[:5]):
            await w.say("done", key=f"r{number}", chat=str(number))
            await w.clock.until(reply.delivered())
        assert w.clock.monotonic() - began < 1
        assert most_within(w.calls("edit"), MINUTE) <= 20


async def test_finals_beyond_the_limit_of_edits_wait_and_none_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path, rate=FEW_EDITS) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(50)]
        for reply in replies:
            reply.show(OutboundMessage(text="thinking"))
        await w.clock.advance(1)
        for number in range(50):
            await w.say("done", key=f"r{number}", chat=str(number))
        await w.drained()
        assert [w.channel.texts(str(number)) for number in range(50)] == [["done"]] * 50
        assert most_within(w.calls("edit"), MINUTE) <= 20
        assert w.clock.monotonic() - w.calls("edit")[0] < 3 * MINUTE


async def test_sends_do_not_wait_for_edits(tmp_path: Path) -> None:
    async with world(tmp_path, rate=FEW_EDITS) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(30)]
        for reply in replies:
            reply.show(OutboundMessage(text="thinking"))
        await w.clock.advance(1)
        for number in range(30):
            await w.say("done", key=f"r{number}", chat=str(number))
        await w.clock.advance(5)
        assert len(w.calls("edit")) == 20
        began = w.clock.monotonic()
        for number in range(10):
            await w.say("new", key=f"n{number}", chat=f"n{number}")
        await w.clock.advance(1)
        assert [w.channel.texts(f"n{number}") for number in range(10)] == [["new"]] * 10
        assert w.clock.monotonic() - began == 1


async def test_the_further_messages_of_an_answer_are_no_edits(tmp_path: Path) -> None:
    long = "".join(f"line {number}\n" for number in range(2000))
    async with world(tmp_path, rate=replace(FAST, edits_per_minute=1)) as w:
        reply = await w.delivery.open("r1", dm(), None)
        reply.show(OutboundMessage(text="thinking"))
        await w.clock.advance(1)
        await w.say(long)
        await w.clock.advance(5)
        assert "".join(w.texts) == long
        assert len(w.texts) > 2


async def test_waiting_for_an_edit_costs_nothing(tmp_path: Path) -> None:
    async with world(tmp_path, rate=replace(FAST, edits_per_minute=2)) as w:
        replies = [await w.delivery.open(f"r{n}", dm(str(n)), None) for n in range(20)]
        for reply in replies:
            reply.waits_for_person = True  # no typing either
            reply.show(OutboundMessage(text="thinking"))
        await w.clock.advance(1)
        for reply in replies:
            reply.show(OutboundMessage(text="still thinking"))
        before = w.clock._count
        await w.clock.advance(300)
        assert w.clock._count - before < 50, "it sleeps until the next edit may be made"
