"""/undo takes the last exchange back, /compact shortens the thread; both only while nothing runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.settings.busy_policies import Busy, TurnRules
from bot.texts.en import EN
from harness.context import HistoryEntry
from tests.bot.core import ANN, BOB, RULES, Core, core
from tests.delivery_world import Tripwire

if TYPE_CHECKING:
    from pathlib import Path


async def said(c: Core, text: str, person: str = BOB, chat: str | None = None) -> str:
    """What is answered."""
    before = len(c.texts(chat or person))
    await c.say(text, person, chat)
    await c.answered()
    return "\n".join(c.texts(chat or person)[before:])


def undone(text: str) -> str:
    return EN.undo["done"].format(text=text)


async def test_it_goes_back_one_exchange_at_a_time(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for text in ("one", "two", "three"):
            await said(c, text)
        assert await said(c, "/undo") == undone("three")
        assert c.harness.rewinds == ["2"]
        assert await said(c, "/undo") == undone("two")
        assert c.harness.rewinds == ["2", "1"]
        await said(c, "other")
        assert await said(c, "/undo") == undone("other")
        assert await said(c, "/undo") == undone("one")
        assert c.harness.rewinds == ["2", "1", "1", None]
        assert await said(c, "/undo") == EN.undo["nothing"]


async def test_only_in_the_current_thread(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        assert await said(c, "/undo") == EN.undo["nothing"]
        await said(c, "one")
        await said(c, "/new")
        assert await said(c, "/undo") == EN.undo["nothing"]
        assert c.harness.rewinds == []


async def test_answers_to_the_same_message_go_together(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        await said(c, "two")
        await said(c, "/retry")
        assert await said(c, "/undo") == undone("two")
        assert await said(c, "/undo") == undone("one")


async def test_retry_then_answers_what_was_before(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        await said(c, "two")
        await said(c, "/undo")
        await said(c, "/retry")
        assert c.harness.asked == ["one", "two", "one"]


async def test_what_a_rollback_took_back_already_is_skipped(tmp_path: Path) -> None:
    async with core(tmp_path, turns=TurnRules(busy=Busy.ROLLBACK)) as c:
        await said(c, "one")
        c.harness.hold("two")
        await c.say("two", BOB)
        await said(c, "three")
        assert await said(c, "/undo") == undone("three")
        assert await said(c, "/undo") == undone("one")


async def test_not_while_something_runs(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        gate = c.harness.hold("two")
        await c.say("two", BOB)
        for command in ("/undo", "/compact"):
            await c.say(command, BOB)
            await c.clock.advance(2)
            assert c.texts(BOB)[-1] == EN.undo["busy"]
        gate.set()
        await c.answered()
        assert c.harness.rewinds == []


async def test_in_a_group_it_is_the_askers_or_an_administrators(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one", ANN, "g")
        assert await said(c, "/undo", BOB, "g") == EN.undo["not_yours"]
        await said(c, "two", BOB, "g")
        assert await said(c, "/undo", ANN, "g") == undone("two")
        assert await said(c, "/undo", ANN, "g") == undone("one")


async def test_what_is_not_kept_any_more_is_told(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        c.harness.lost = True
        assert await said(c, "/undo") == EN.undo["lost"]


@pytest.mark.parametrize("step", range(1, 7))
async def test_it_survives_a_crash_at_any_step(tmp_path: Path, step: int) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        await said(c, "two")
        c.tripwire.at = c.tripwire.passed + step
        message = c.message("/undo", BOB)
        receiving = asyncio.ensure_future(c.channel.receive(message))
        await c.clock.advance(3)
        receiving.cancel()
        await c.crash()
        c.tripwire = Tripwire()
        await c.start()
        await c.receive(message)
        await c.answered()
        assert c.texts(BOB)[2:] == [undone("two")]
        assert set(c.harness.rewinds) == {"1"}
        assert await said(c, "/undo") == undone("one")


# /compact.


async def test_compact_tells_how_much_is_a_summary_now(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await said(c, "one")
        (thread_id,) = c.harness.heads
        c.harness.said[thread_id] = [HistoryEntry(message_id=str(n), role="user", text="x") for n in range(5)]
        assert await said(c, "/compact") == EN.compact["done"].format(count=4)
        assert await said(c, "/compact") == EN.compact["nothing"]
        assert c.harness.compacted == [(thread_id, "main")] * 2


@pytest.mark.parametrize("control", ["admins", "members"])
async def test_in_a_group_compact_is_as_new(tmp_path: Path, control: Any) -> None:
    async with core(tmp_path, replace(RULES, group_control=control)) as c:
        await said(c, "one", BOB, "g")
        refused = await said(c, "/compact", BOB, "g") == EN.not_allowed
        assert refused is (control == "admins")
