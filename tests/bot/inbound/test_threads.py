"""In a thread of a group a conversation goes on without naming the bot, once it was addressed there; nowhere else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.inbound.gate import Threads
from bot.store import inbox
from channels.message import ChatMigrated
from tests.bot.core import ANN, BOB, EVE, RULES, core

if TYPE_CHECKING:
    from pathlib import Path

    from bot.store.rows import ConversationRow
    from channels.message import Message
    from tests.bot.core import Core


async def follow(c: Core, text: str, person: str = ANN, topic: str = "t", chat: str = "g", **more: Any) -> Message:
    """Somebody writes in a thread without naming the bot."""
    return await c.say(text, person, chat, topic=topic, continues=True, mention=False, **more)


async def address(c: Core, text: str, person: str = ANN, topic: str = "t", chat: str = "g") -> Message:
    return await c.say(text, person, chat, topic=topic, continues=True)


def heard(c: Core) -> list[str]:
    return [start.run_input.text for start in c.harness.starts]


async def test_a_thread_goes_on_once_the_bot_was_addressed_in_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await follow(c, "nobody asked it yet")
        await address(c, "look at this")
        await follow(c, "and at that", BOB)
        await follow(c, "another thread", topic="u")
        await c.say("the group itself", ANN, "g", mention=False)
        await c.say("a thread that does not continue", ANN, "g", topic="t", mention=False)
        await c.answered()
        assert heard(c) == ["look at this", "and at that"]
        assert c.harness.starts[0].run_input.background == ("Ann: nobody asked it yet",)
        assert len(await c.store.read(lambda tx: inbox.load(tx, range(100)))) == 2


async def test_both_may_come_at_once(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        first = c.message("look", ANN, "g", topic="t", continues=True)
        second = c.message("quickly", BOB, "g", topic="t", continues=True, mention=False)
        await c.receive(first, second)
        await c.answered()
        assert heard(c) == ["look", "quickly"]


@pytest.mark.parametrize("known", [True, False])
async def test_after_a_restart_it_still_holds(tmp_path: Path, known: bool) -> None:
    async with core(tmp_path) as c:
        if known:
            await address(c, "look at this")
            await c.answered()
        await c.restart()
        await follow(c, "and at that")
        await c.answered()
        assert heard(c) == ["look at this", "and at that"] * known


async def test_what_was_let_in_before_a_crash_is_answered_after_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await address(c, "look at this")
        await c.answered()
        # Committed, and the process dies before the manager has seen it.
        await c.store.add(inbox.ADD_EVENTS, [c.message("and", ANN, "g", topic="t", continues=True, mention=False)])
        # As if it had been let in under other rules: no conversation has begun there.
        await c.store.add(inbox.ADD_EVENTS, [c.message("hm", ANN, "g", topic="u", continues=True, mention=False)])
        await c.restart()
        await c.answered()
        assert heard(c) == ["look at this", "and"]
        assert (await c.reasons())[-1] == "not addressed"


async def test_it_respects_who_may_speak_and_where_and_whether_it_answers(tmp_path: Path) -> None:
    async with core(tmp_path, replace(RULES, members="listed")) as c:
        await address(c, "look at this")
        await c.answered()
        await follow(c, "from a stranger", EVE)
        await follow(c, "from a bot", kind="bot")
        c.policy = replace(c.policy, access=replace(c.policy.access, answer="off"))
        await follow(c, "while answers are off")
        c.policy = replace(c.policy, access=replace(c.policy.access, answer="mention", groups=frozenset()))
        await follow(c, "in a closed group")
        await c.answered()
        assert heard(c) == ["look at this"]


async def test_a_command_begins_a_conversation_too(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await address(c, "/new Plans")
        await c.answered()
        await c.restart()
        await follow(c, "the first one")
        await c.answered()
        assert heard(c) == ["the first one"]
        await address(c, "/help", topic="u")
        await c.answered()
        await c.restart()
        await follow(c, "the second one", topic="u")
        await c.answered()
        assert heard(c) == ["the first one", "the second one"]


async def test_where_each_speaker_has_a_conversation_others_have_not_begun_theirs(tmp_path: Path) -> None:
    async with core(tmp_path, group_scope="speaker") as c:
        await address(c, "look at this")
        await follow(c, "I was not asked", BOB)
        await follow(c, "and at that")
        await c.answered()
        assert heard(c) == ["look at this", "and at that"]


async def test_a_thread_moves_with_its_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await address(c, "look at this")
        await c.answered()
        await follow(c, "before the move", chat="new")
        moved = c.message("", chat="g")
        await c.receive(
            ChatMigrated(
                account="memory",
                dedupe_keys=("m:1",),
                sent_at=moved.sent_at,
                received_at=moved.received_at,
                old_chat="g",
                new_chat="new",
            )
        )
        await c.answered()
        await follow(c, "after the move", chat="new")
        await c.answered()
        assert heard(c) == ["look at this", "after the move"]


async def test_a_store_that_is_away_refuses_the_message_so_that_it_comes_again(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await address(c, "look at this")
        await c.answered()
        await c.restart()
        c.store.down = True
        message = c.message("and at that", ANN, "g", topic="t", continues=True, mention=False)
        with pytest.raises(Exception, match="the disk is full"):
            await c.channel.receive(message)
        c.store.down = False
        await c.receive(message)
        await c.answered()
        assert heard(c) == ["look at this", "and at that"]


async def test_looking_up_one_thread_holds_up_no_other_chat(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.clock.settle()
        gate, read = asyncio.Event(), c.store.read

        async def slow_read(query: Any) -> Any:
            await gate.wait()
            return await read(query)

        c.manager.gate.threads._store = SlowStore(slow_read)  # type: ignore[assignment]  # a store that takes its time
        slow = asyncio.create_task(follow(c, "in the thread"))
        await c.clock.settle()
        await c.say("hello")
        await c.answered()
        assert heard(c) == ["hello"]
        gate.set()
        await slow


class SlowStore:
    def __init__(self, read: Any) -> None:
        self.read = read


async def test_memory_is_bounded_and_what_was_forgotten_is_looked_up(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await address(c, "look at this")
        await c.answered()
        for number in range(Threads.KEPT + 5):
            c.manager.gate.threads.begin(c.message("", ANN, "g", topic=f"n{number}"))
        assert len(c.manager.gate.threads._begun) == Threads.KEPT
        await follow(c, "and at that")
        await c.answered()
        assert heard(c) == ["look at this", "and at that"]
        row: ConversationRow | None = await c.manager._conversations.of("memory:g/t").stored()
        assert row is not None
