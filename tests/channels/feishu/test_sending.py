"""Answers on the wire: cards that grow, what they fall back to, threads, files, and what the platform refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from channels.base import Newest
from channels.errors import ChatGone, Fatal, MessageGone, NotAllowed, Rejected
from channels.message import Address, OutboundMessage
from tests.channels.feishu.support import Bench, bench_for
from tests.simulators.feishu import faults
from tests.simulators.feishu.seen import ALICE, TEAM, TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulators.feishu.client import FeishuSimulator

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"


def team(topic: str | None = None) -> Address:
    return Address(account="feishu", chat=TEAM.id, topic=topic, kind="group")


class TestLesserForms:
    async def test_without_the_card_scope_answers_are_patched(self, bench: Bench, caplog: Any) -> None:
        await bench.feishu.fail("cardkit.*", faults.missing_scope("cardkit:card:write"), times=9)
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello", final=False, status="Working"))
        assert (await bench.feishu.bot_messages(ALICE))[0].text == "Hello\nWorking"
        await bench.channel.edit(bench.dm, message_id, bench.part("Hello, world"))
        await bench.channel.send(bench.dm, bench.part("More", final=False), "k2")
        assert len(await bench.feishu.records("cardkit.card.create")) == 1
        assert caplog.text.count("cardkit:card:write") >= 1
        assert caplog.text.count("answers are shown as plain cards") == 1

    async def test_a_card_that_is_refused_becomes_a_post_and_then_text(self, bench: Bench) -> None:
        await bench.feishu.fail("im.message.create", faults.too_long())
        message_id = await bench.channel.send(bench.dm, bench.part("**Hello**"), "k1")
        (post,) = await bench.feishu.bot_messages(ALICE)
        assert (post.msg_type, message_id) == ("post", f"{post.message_id}/post")
        await bench.channel.edit(bench.dm, message_id, bench.part("**Bye**"))
        assert "Bye" in (await bench.feishu.bot_messages(ALICE))[0].text
        await bench.feishu.fail("im.message.create", faults.audit_failed(), times=2)
        await bench.channel.send(bench.dm, bench.part("5 < 6 &"), "k2")
        assert (await bench.feishu.bot_messages(ALICE))[1].text == "5 < 6 &"
        await bench.channel.send(bench.dm, bench.part("a card again"), "k3")
        assert (await bench.feishu.bot_messages(ALICE))[2].msg_type == "interactive"

    async def test_a_draft_as_a_post_waits_for_its_end(self, bench: Bench) -> None:
        await bench.feishu.fail("cardkit.card.create", faults.error(300303))
        await bench.feishu.fail("im.message.create", faults.error(300303))
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        for end in range(30):
            await bench.channel.edit(bench.dm, message_id, bench.part(f"Hello {end}", final=False))
        await bench.channel.edit(bench.dm, message_id, bench.part("The end"))
        (post,) = await bench.feishu.bot_messages(ALICE)
        assert (post.msg_type, post.text, post.edits) == ("post", "The end", 1)

    async def test_drafts_that_cannot_be_edited_are_not_shown(self, bench: Bench) -> None:
        await bench.feishu.fail("cardkit.card.create", faults.missing_scope("cardkit:card:write"))
        await bench.feishu.fail("im.message.patch", faults.missing_scope("im:message:update"))
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k1")
        with pytest.raises(NotAllowed):
            await bench.channel.edit(bench.dm, message_id, bench.part("Hello"))
        with pytest.raises(Rejected):
            await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k2")
        await bench.channel.send(bench.dm, bench.part("Hello"), "k2")
        assert [message.text for message in await bench.feishu.bot_messages(ALICE)] == ["Hel", "Hello"]

    async def test_nothing_is_left_when_text_is_refused_too(self, bench: Bench) -> None:
        await bench.feishu.fail("im.message.create", faults.audit_failed(), times=3)
        with pytest.raises(Rejected):
            await bench.channel.send(bench.dm, bench.part("Hello"), "k1")

    async def test_too_many_tables_become_code(self, bench: Bench) -> None:
        await bench.feishu.fail("im.message.create", faults.too_many_tables())
        await bench.channel.send(bench.dm, bench.part(f"See\n\n{TABLE}"), "k1")
        assert (await bench.feishu.bot_messages(ALICE))[0].text.count("```") == 2
        message_id = await bench.channel.send(bench.dm, bench.part("Hel", final=False), "k2")
        await bench.feishu.fail("cardkit.card.update", faults.too_many_tables())
        await bench.channel.edit(bench.dm, message_id, bench.part(f"See\n\n{TABLE}"))
        assert (await bench.feishu.bot_messages(ALICE))[1].text.count("```") == 2

    async def test_many_tables_are_paged_so_that_the_platform_takes_them(self, bench: Bench) -> None:
        parts = bench.channel.layout(OutboundMessage(text="\n\n".join([f"T\n\n{TABLE}"] * 12), final=True))
        for part in parts:
            await bench.channel.send(bench.dm, part, f"k{part.index}")
        assert all(record.code == 0 for record in await bench.feishu.records("im.message.create"))


class TestPlaces:
    async def test_an_answer_in_a_group_quotes_and_one_in_a_thread_stays_there(self, bench: Bench) -> None:
        said = await bench.feishu.group_says("@antler hello", silent=True)
        await bench.channel.send(team(), bench.part("Hello"), "k1", said.message_id)
        topic = await bench.feishu.group_says("@antler a topic", chat=TOPICS, silent=True)
        place = Address(account="feishu", chat=TOPICS.id, topic=topic.thread_id, kind="group")
        await bench.channel.send(place, bench.part("In the topic"), "k2", topic.message_id)
        await bench.channel.send(place, bench.part("Second part"), "k3")
        (answer,) = await bench.feishu.bot_messages(TEAM)
        assert (answer.parent_id, answer.thread_id) == (said.message_id, "")
        assert [m.text for m in await bench.feishu.bot_messages(TOPICS, thread=topic.thread_id)] == [
            "In the topic",
            "Second part",
        ]

    async def test_after_a_restart_the_thread_is_known_from_what_was_stored(self, bench: Bench) -> None:
        topic = await bench.feishu.group_says("@antler a topic", chat=TOPICS, silent=True)
        newest = Newest(
            chat=TOPICS.id,
            topic=topic.thread_id,
            kind="group",
            message_id=topic.message_id,
            sent_at=bench.gateway.clock.now(),
        )
        bench.gateway.stored.append(newest)
        async with bench.running():
            place = Address(account="feishu", chat=TOPICS.id, topic=topic.thread_id, kind="group")
            await bench.channel.send(place, bench.part("Later"), "k1")
        assert len(await bench.feishu.bot_messages(TOPICS, thread=topic.thread_id)) == 1

    async def test_an_answered_message_that_is_gone_is_told(self, bench: Bench) -> None:
        said = await bench.feishu.user_says("hello", silent=True)
        await bench.feishu.recalls(said.message_id)
        with pytest.raises(MessageGone):
            await bench.channel.send(bench.dm, bench.part("Hello"), "k1", said.message_id)

    async def test_a_chat_without_the_bot_is_gone(self, bench: Bench) -> None:
        await bench.feishu.bot_leaves(TEAM)
        with pytest.raises(ChatGone):
            await bench.channel.send(team(), bench.part("Hello"), "k1")

    async def test_a_bot_that_was_switched_off_is_fatal(self, bench: Bench) -> None:
        await bench.feishu.configure(bot_active=False)
        with pytest.raises(Fatal) as caught:
            await bench.channel.send(bench.dm, bench.part("Hello"), "k1")
        assert "add the bot capability" in caught.value.hint

    async def test_a_missing_right_to_send_is_named(self, bench: Bench) -> None:
        await bench.feishu.fail("im.message.create", faults.missing_scope("im:message, im:message:send_as_bot"))
        with pytest.raises(Fatal) as caught:
            await bench.channel.send(bench.dm, bench.part("Hello"), "k1")
        assert "im:message, im:message:send_as_bot" in caught.value.hint


async def test_an_expired_token_is_renewed_unseen(bench: Bench) -> None:
    await bench.channel.send(bench.dm, bench.part("one"), "k1")
    await bench.feishu.expire_tokens()
    await bench.channel.send(bench.dm, bench.part("two"), "k2")
    assert len(await bench.feishu.records("auth.token")) == 2
    assert len(await bench.feishu.bot_messages(ALICE)) == 2


async def test_many_calls_at_once_ask_for_one_token(bench: Bench) -> None:
    await bench.feishu.fail("auth.token", faults.slow(0.2))
    await asyncio.gather(*(bench.channel.send(bench.dm, bench.part(f"n{n}"), f"k{n}") for n in range(4)))
    assert len(await bench.feishu.records("auth.token")) == 1


async def test_two_apps_in_one_process_share_nothing(feishu: FeishuSimulator) -> None:
    first, second = bench_for(feishu), bench_for(await feishu.another_app("second"))
    async with first.running(), second.running():
        await first.feishu.user_says("to the first")
        await second.feishu.user_says("to the second")
        assert (await first.gateway.event()).text == "to the first"  # type: ignore[union-attr]
        assert (await second.gateway.event()).text == "to the second"  # type: ignore[union-attr]
        await second.channel.send(second.dm, second.part("from the second"), "k1")
        await first.feishu.close_connections(None)
        await second.feishu.user_says("still there?")
        assert (await second.gateway.event(1)).text == "still there?"  # type: ignore[union-attr]
        assert len(first.gateway.events) == 1
    for bench in (first, second):
        await bench.channel.close()


async def test_a_receipt_is_shown_until_the_answer_is_there(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(receipt="OnIt")
    assert bench.channel.capabilities.typing
    async with bench.running():
        said = await bench.feishu.user_says("hello")
        await bench.gateway.event()
        await bench.channel.typing(bench.dm)
        await bench.channel.typing(bench.dm)
        seen = {message.message_id: message.reactions for message in await bench.feishu.messages(ALICE)}
        assert seen[said.message_id] == [[bench.feishu.app_id, "OnIt"]]
        await bench.channel.send(bench.dm, bench.part("Hello"), "k1")
        seen = {message.message_id: message.reactions for message in await bench.feishu.messages(ALICE)}
        assert seen[said.message_id] == []


async def test_a_receipt_stands_while_there_is_only_a_status(make_bench: Callable[..., Bench]) -> None:
    """It does not need a typing action: the first status comes before that."""
    bench = make_bench(receipt="OnIt")
    async with bench.running():
        said = await bench.feishu.user_says("hello")
        await bench.gateway.event()
        sent = await bench.channel.send(bench.dm, bench.part("", status="Working…", final=False), "k1")
        assert await _reactions(bench, said.message_id) == [[bench.feishu.app_id, "OnIt"]]
        await bench.channel.edit(bench.dm, sent, bench.part("", status="reading", final=False))
        assert await _reactions(bench, said.message_id) == [[bench.feishu.app_id, "OnIt"]]
        await bench.channel.edit(bench.dm, sent, bench.part("Hel", final=False))
        assert await _reactions(bench, said.message_id) == []


async def test_a_receipt_that_an_earlier_process_left_is_removed(make_bench: Callable[..., Bench]) -> None:
    """A run goes on before the account is connected."""
    first, second = make_bench(receipt="OnIt"), make_bench(receipt="OnIt")
    said = await first.feishu.user_says("hello")
    async with first.running():
        await first.gateway.event()
        await first.channel.typing(first.dm)
    now, chat = second.gateway.clock.now(), second.dm.chat
    second.gateway.stored.append(Newest(chat=chat, topic=None, kind="dm", message_id=said.message_id, sent_at=now))
    await second.channel.typing(second.dm)
    await second.channel.send(second.dm, second.part("Hello"), "k1")
    assert await _reactions(second, said.message_id) == []


async def test_a_receipt_without_its_scope_is_told_once(make_bench: Callable[..., Bench], caplog: Any) -> None:
    bench = make_bench(receipt="OnIt")
    await bench.feishu.fail("im.reaction.create", faults.missing_scope("im:message.reactions:write_only"), times=9)
    async with bench.running():
        for number in range(2):
            await bench.feishu.user_says("hello")
            await bench.gateway.event(number)
            await bench.channel.send(bench.dm, bench.part("", status="Working…", final=False), f"k{number}")
    assert len(await bench.feishu.records("im.reaction.create")) == 1
    assert caplog.text.count("im:message.reactions:write_only") >= 1
    assert caplog.text.count("the `receipt` reaction is not shown") == 1


async def test_without_the_right_to_answer_messages_that_is_told_once(bench: Bench, caplog: Any) -> None:
    await bench.feishu.fail("im.message.reply", faults.missing_scope("im:message"), times=9)
    async with bench.running():
        for number in range(3):
            said = await bench.feishu.user_says("hello")
            await bench.channel.send(bench.dm, bench.part(f"Hello {number}"), f"k{number}", said.message_id)
    assert [message.text for message in await bench.feishu.bot_messages(ALICE)] == [f"Hello {n}" for n in range(3)]
    assert len(await bench.feishu.records("im.message.reply")) == 1
    assert caplog.text.count("answers are sent to the chat without quoting a message") == 1


async def _reactions(bench: Bench, message_id: str) -> list[Any]:
    return next(each.reactions for each in await bench.feishu.messages(ALICE) if each.message_id == message_id)
