"""The manager: admits, tells once, overhears, migrates; strangers cost nothing but a row."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.access.admission import FloodGate, Verdict
from bot.store import inbox
from channels.message import Attachment, ChatMigrated, MembershipChanged, Quote, Unparsed
from tests.bot.core import ANN, BOB, EVE, RULES, core

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_stranger_is_told_their_id_once_a_day_and_nothing_is_fetched(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for text in ("hello", "/status", "/new@memory"):
            await c.say(text, EVE, attachments=(Attachment(ref="x", kind="file"),) if text == "hello" else ())
        await c.answered()
        assert c.texts(EVE) == [
            f"I only answer people on my list. Your id is `memory:{EVE}`; "
            f"an administrator can let you in with `antler access allow memory:{EVE}`."
        ]
        await c.clock.advance(86_401)
        await c.say("again", EVE)
        await c.answered()
        assert len(c.texts(EVE)) == 2
        assert c.harness.asked == []
        assert await c.reasons() == ["unknown person"] * 4


@pytest.mark.parametrize("kind", ["bot", "channel"])
async def test_bots_and_channels_get_silence(tmp_path: Path, kind: str) -> None:
    async with core(tmp_path) as c:
        for chat in (None, "g", "elsewhere"):
            await c.say("hello", EVE, chat, kind=kind)
        await c.answered()
        assert not c.channel.calls
        assert c.harness.asked == []


async def test_what_is_said_to_others_is_remembered_and_never_stored(tmp_path: Path) -> None:
    async with core(tmp_path, replace(RULES, members="listed")) as c:
        await c.say("lunch at noon?", BOB, "g", mention=False, name="Bob")
        await c.say("buy my coins", EVE, "g", mention=False)
        await c.say("what did Bob ask?", ANN, "g")
        await c.say("and now?", ANN, "g")
        await c.answered()
        assert [start.run_input.background for start in c.harness.starts] == [("Bob: lunch at noon?",), ()]
        stored = await c.store.read(lambda tx: inbox.load(tx, range(100)))
        assert "lunch" not in str(stored)
        assert "coins" not in str(stored)
        assert len(stored) == 2


async def test_without_group_context_nothing_is_remembered(tmp_path: Path) -> None:
    async with core(tmp_path, group_context=False) as c:
        await c.say("lunch at noon?", BOB, "g", mention=False)
        await c.say("what did Bob ask?", ANN, "g")
        await c.answered()
        assert c.harness.starts[0].run_input.background == ()


async def test_too_fast_is_told_once_a_minute(tmp_path: Path) -> None:
    async with core(tmp_path, queue_limit=1000) as c:
        await c.receive(*(c.message(f"m{number}") for number in range(FloodGate.BURST + 10)))
        await c.answered()
        assert len(c.harness.asked) == FloodGate.BURST
        assert sum("too fast" in text for text in c.texts()) == 1
        await c.say("hello", BOB)
        await c.answered()
        assert c.texts(BOB) == ["echo: hello"]


async def test_groups_by_chat_or_by_speaker(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for scope, threads in (("chat", 1), ("speaker", 2)):
            c.harness.starts.clear()
            c.policy = replace(c.policy, group_scope=scope)  # type: ignore[arg-type]
            await c.say("from Ann", ANN, "g")
            await c.say("from Bob", BOB, "g")
            await c.answered()
            assert len({start.ctx.thread_id for start in c.harness.starts}) == threads
            assert {start.ctx.owner for start in c.harness.starts}.isdisjoint({"memory:1", "memory:2"})


async def test_two_accounts_with_the_same_number_are_two_persons(tmp_path: Path) -> None:
    rules = replace(RULES, allow=frozenset({"memory:7", "other:7"}))
    async with core(tmp_path, rules, accounts=("memory", "other")) as c:
        await c.say("secret", "7", account="memory")
        await c.say("hello", "7", account="other")
        await c.answered()
        one, two = (start.ctx for start in c.harness.starts)
        assert (one.owner, two.owner) == ("memory:7", "other:7")
        assert one.thread_id != two.thread_id
        assert c.channels["other"].texts("7") == ["echo: hello"]


async def test_what_a_message_replies_to_is_handed_over_apart_if_it_is_ours(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for ours in (False, True):
            await c.say("why?", reply_to=Quote(message_id="1", text="the claim", author="Bob", from_bot=ours))
        await c.answered()
        inputs = [start.run_input for start in c.harness.starts]
        assert [(said.quote, said.recalled) for said in inputs] == [("the claim", ""), ("", "the claim")]


async def test_a_thread_that_begins_below_our_own_words_gets_them_whole(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("why?", topic="1", reply_to=Quote(message_id="1", text="the claim", author="", from_bot=True))
        await c.answered()
        assert [(start.run_input.quote, start.run_input.recalled) for start in c.harness.starts] == [("the claim", "")]


async def test_events_of_other_kinds_are_settled(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = c.message("x")
        common = {"account": "memory", "sent_at": said.sent_at, "received_at": said.received_at}
        await c.receive(
            MembershipChanged(dedupe_keys=("k1",), address=said.address, sender=said.sender, present=False, **common),  # type: ignore[arg-type]
            Unparsed(dedupe_keys=("k2",), raw="{}", error="what is this", **common),  # type: ignore[arg-type]
        )
        rows = await c.store.read(lambda tx: inbox.load(tx, range(10)))
        assert [row.state for row in rows] == ["done", "dead"]


async def test_a_chat_that_moved_keeps_its_thread(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("hello", ANN, "g")
        await c.answered()
        c.policy = replace(c.policy, access=replace(RULES, groups=frozenset({"memory:g", "memory:G2"})))
        await c.receive(
            ChatMigrated(
                account="memory",
                dedupe_keys=("k",),
                sent_at=said.sent_at,
                received_at=said.received_at,
                old_chat="g",
                new_chat="G2",
            )
        )
        await c.say("still me?", ANN, "G2")
        await c.answered()
        assert c.harness.starts[0].ctx.thread_id == c.harness.starts[1].ctx.thread_id


async def test_a_chat_that_moves_while_its_run_works_goes_on_with_one_run_at_a_time(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("first")
        said = await c.say("first", ANN, "g")
        await c.say("second", ANN, "g")
        c.policy = replace(c.policy, access=replace(RULES, groups=frozenset({"memory:g", "memory:G2"})))
        await c.receive(
            ChatMigrated(
                account="memory",
                dedupe_keys=("k",),
                sent_at=said.sent_at,
                received_at=said.received_at,
                old_chat="g",
                new_chat="G2",
            )
        )
        await c.say("third", ANN, "G2")
        assert c.harness.asked == ["first"]
        gate.set()
        await c.answered()
        assert c.harness.asked == ["first", "second", "third"]
        assert c.harness.most_at_work == 1
        assert len({start.ctx.thread_id for start in c.harness.starts}) == 1
        assert c.manager.idle


async def test_a_platform_that_is_slow_to_take_a_buttons_answer_holds_up_nobody(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        c.channel.presses = asyncio.Event()
        await c.press("1", "unknown:0")
        await c.say("hello", BOB)
        assert c.texts(BOB) == ["echo: hello"]
        c.channel.presses.set()
        await c.answered()
        assert len(c.channel.acknowledged) == 1


async def test_nobody_is_given_anothers_thread(tmp_path: Path) -> None:
    """A person whose id looks like a group's topic."""
    rules = replace(RULES, allow=frozenset({"memory:g/1"}))
    async with core(tmp_path, rules) as c:
        group = c.message("group secret", ANN, "g")
        await c.receive(replace(group, address=replace(group.address, topic="1")))
        await c.answered()
        await c.say("show me", "g/1")
        await c.answered()
        of_group, of_person = (start.ctx for start in c.harness.starts)
        assert (of_group.conversation, of_person.conversation) == ("memory:g/1", "memory:g%2F1")
        assert of_group.thread_id != of_person.thread_id


@pytest.mark.parametrize(
    "text", ["", "\x00", "\ud800", "\u202e\u200b\u200d", "x" * 100_000, "```", "{}{0}{person}%s%n", "‏مرحبا"]
)
async def test_hostile_text_is_just_text(tmp_path: Path, text: str) -> None:
    async with core(tmp_path) as c:
        await c.say(text)
        await c.say("still there?")
        await c.answered()
        assert c.texts()[-1] == "echo: still there?"
        assert len(c.harness.asked) == 2


async def test_what_was_decided_before_the_commit_holds_until_access_changes(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        message, gate = c.message("/status now", ANN), c.manager.gate
        known = gate.before_inbox(message)
        assert known is not None
        assert (known.verdict, known.command and known.command.name) == (Verdict.ADMIT, "status")
        assert gate.after_inbox(message, known) is known
        assert gate.after_inbox(message, None) == known
        c.policy = replace(c.policy, access=replace(RULES, allow=frozenset(), admins=frozenset()))
        assert gate.after_inbox(message, known).verdict is Verdict.GREET
