"""From the wire to the gateway: order, what cannot be stored at once, greetings, files."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from channels.base import About
from channels.errors import AttachmentFailed, Temporary
from channels.message import Attachment, Message, OutboundMessage
from tests.channels.wecom.support import Bytes, address, only
from tests.simulators.wecom import faults
from tests.simulators.wecom.seen import ALICE, BOB, TEAM, FileSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.channels.wecom.support import Bench

CONTENT = bytes(range(256)) * 5000


async def message(bench: Bench, number: int = 0) -> Message:
    event = await bench.gateway.event(number)
    assert isinstance(event, Message)
    return event


async def test_what_comes_at_once_keeps_its_order(bench: Bench) -> None:
    async with bench.running():
        for number in range(30):
            await bench.wecom.says(f"{number}")
        await bench.gateway.event(29)
        texts = [event.text for event in bench.gateway.events if isinstance(event, Message)]
        assert texts == [str(number) for number in range(30)]


async def test_what_could_not_be_stored_is_stored_later_in_its_order(bench: Bench) -> None:
    bench.gateway.refuse = 8
    async with bench.running():
        await bench.wecom.says("First")
        await bench.wecom.says("Second")
        assert [(await message(bench, 0)).text, (await message(bench, 1)).text] == ["First", "Second"]
        assert bench.gateway.refuse == 0
        assert len(bench.gateway.clock.slept) == 8
        assert max(bench.gateway.clock.slept) <= 0.5, "after a long outage, too, it waits no longer than that"


async def test_acks_are_read_while_the_gateway_is_slow(bench: Bench) -> None:
    async with bench.running():
        bench.gateway.gate.clear()
        await bench.wecom.says("Held")
        (part,) = bench.channel.layout(OutboundMessage(text="Sent meanwhile", final=True))
        await bench.channel.send(address(), part, "k1")
        assert await bench.wecom.texts(ALICE) == ["Sent meanwhile"]
        bench.gateway.gate.set()
        await message(bench)


async def test_what_was_read_before_the_end_is_handed_over(bench: Bench) -> None:
    async with bench.running() as task:
        bench.gateway.gate.clear()
        await bench.wecom.says("Just in time")
        await bench.wecom.says("And this")
        frames_read = asyncio.create_task(bench.gateway.event(1))
        task.cancel()
        bench.gateway.gate.set()
        await frames_read


async def test_what_is_said_while_the_process_stops_is_handed_over(bench: Bench) -> None:
    async with bench.running() as task:
        task.cancel()
        await asyncio.wait([task])
        await bench.wecom.says("Before the last words")
        await bench.channel.send(address(), only(bench, "Last words"), "k1")
        assert (await message(bench)).text == "Before the last words"


async def test_what_reaches_the_process_while_it_closes_its_connection_is_handed_over(bench: Bench) -> None:
    async with bench.running():
        saying = [asyncio.create_task(bench.wecom.says(f"{number}")) for number in range(30)]
        await bench.gateway.event(2)
        await bench.channel.close()
        said = await asyncio.gather(*saying)
        reached = {str(number) for number, one in enumerate(said) if one.delivered}
        assert {event.text for event in bench.gateway.events if isinstance(event, Message)} == reached


async def test_what_was_read_is_handed_over_behind_the_end_of_the_connection(bench: Bench) -> None:
    async with bench.running() as task:
        bench.gateway.gate.clear()
        said = [await bench.wecom.says(f"{number}") for number in range(3)]
        assert all(one.delivered for one in said)
        task.cancel()
        await asyncio.wait([task])
        closing = asyncio.create_task(bench.channel.close())
        await bench.wecom.wait_disconnected()
        bench.gateway.gate.set()
        await closing
        texts = [event.text for event in bench.gateway.events if isinstance(event, Message)]
        assert texts == ["0", "1", "2"]


async def test_two_robots_in_one_process_do_not_meet(make_bench: Callable[..., Bench]) -> None:
    first = make_bench()
    other = await first.wecom.fresh_bot("Other")
    second = make_bench(bot_id=other.bot_id, secret=other.secret)
    async with first.running():
        task = asyncio.create_task(second.channel.run(second.gateway.hello))
        await other.wait_connected()
        await other.says("To the other")
        await first.wecom.says("To the first")
        assert [(await message(bench)).text for bench in (first, second)] == ["To the first", "To the other"]
        task.cancel()
        await asyncio.wait([task])


async def test_a_group_and_a_dm_of_one_person_are_two_conversations(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.says("In private", ALICE)
        await bench.wecom.says("In the team", ALICE, TEAM)
        private, public = await message(bench), await message(bench, 1)
        assert (private.address.chat, private.address.kind) == ("alice", "dm")
        assert (public.address.chat, public.address.kind) == (TEAM.id, "group")
        assert public.text == "In the team"
        assert private.sender == public.sender


async def test_who_opens_the_chat_is_welcomed_if_the_operator_wants_that(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(welcome="Hello, ask me anything.")
    async with bench.running():
        await bench.wecom.enters(BOB)
        assert (await bench.wecom.wait_for_text(BOB, "ask me anything")).kind == "text"
        assert not bench.gateway.events


@pytest.mark.parametrize(
    ("about", "settings", "told"),
    [
        ({None: "Hello there", "zh": "你好呀"}, {}, ["你好呀"]),
        ({None: "Hello there"}, {}, ["Hello there"]),
        ({None: "Hello there"}, {"welcome": ""}, []),
    ],
    ids=["both languages", "one language", "the operator wants none"],
)
async def test_else_what_the_bot_is_welcomes(
    make_bench: Callable[..., Bench], about: dict[str | None, str], settings: dict[str, str], told: list[str]
) -> None:
    bench = make_bench(**settings)
    await bench.channel.describe({key: About(description=text, summary="") for key, text in about.items()})
    async with bench.running():
        await bench.wecom.enters(BOB)
        await bench.wecom.says("Hello", BOB)
        await message(bench)
        if told:
            await bench.wecom.wait_for_text(BOB, told[0])
        assert await bench.wecom.texts(BOB) == told


ABOUT = About(
    description="Hello. I answer questions.",
    summary="",
    greeting="Hello",
    offer="I answer questions.",
    buttons=(("What can you do?", "/start"), ("Commands", "/help")),
)


async def test_a_card_welcomes_and_its_buttons_say_commands(bench: Bench) -> None:
    await bench.channel.describe({None: ABOUT})
    async with bench.running():
        await bench.wecom.enters(BOB)
        card = await bench.wecom.wait_for_text(BOB, "I answer questions.")
        assert (card.kind, card.text) == ("card", "Hello\nI answer questions.")
        await bench.wecom.presses("Commands", BOB)
        said = await message(bench)
        assert (said.text, said.sender.id, said.address.chat, said.address.kind) == ("/help", "bob", "bob", "dm")
        answer = await bench.channel.send(said.address, only(bench, "All commands"), "key", said.platform_message_id)
        assert answer == "key"
        assert (await bench.wecom.wait_for_text(BOB, "All commands")).kind == "stream"


async def test_a_refused_card_becomes_a_text(bench: Bench) -> None:
    await bench.channel.describe({None: ABOUT})
    async with bench.running():
        await bench.wecom.fail("aibot_respond_welcome_msg", faults.error(40008))
        await bench.wecom.enters(BOB)
        assert (await bench.wecom.wait_for_text(BOB, "I answer questions.")).kind == "text"


async def test_without_a_welcome_nothing_is_said_and_opinions_are_only_logged(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.enters(BOB)
        await bench.wecom.judges(2, BOB)
        await bench.wecom.says("Hello", BOB)
        assert (await message(bench)).text == "Hello"
        assert await bench.wecom.texts(BOB) == []


# Files


async def fetched(bench: Bench, attachment: Attachment) -> bytes:
    sink = Bytes()
    await bench.channel.fetch(attachment, sink)
    return sink.content


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 33, 64, 700_000])
async def test_a_file_comes_out_as_it_went_in(bench: Bench, size: int) -> None:
    async with bench.running():
        await bench.wecom.sends("file", FileSpec(CONTENT[:size], "data.bin"))
        (attachment,) = (await message(bench)).attachments
        assert attachment.kind == "file"
        assert await fetched(bench, attachment) == CONTENT[:size]


async def test_only_the_download_tells_a_files_name(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.sends("file", FileSpec(b"figures", "报告 1.pdf"))
        (attachment,) = (await message(bench)).attachments
        assert attachment.name is None
        sink = Bytes()
        await bench.channel.fetch(attachment, sink)
        assert (sink.name, sink.content) == ("报告 1.pdf", b"figures")


async def test_pictures_in_a_mixed_message_and_in_a_quote_are_attachments(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.mixes([f"@{bench.wecom.name} look:", FileSpec(b"one"), "and", FileSpec(b"two")], BOB, TEAM)
        await bench.wecom.says("What is that?", BOB, TEAM, quote=FileSpec(b"three"))
        mixed, quoting = await message(bench), await message(bench, 1)
        assert mixed.text == "look:\nand"
        assert [await fetched(bench, found) for found in mixed.attachments] == [b"one", b"two"]
        assert [await fetched(bench, found) for found in quoting.attachments] == [b"three"]
        assert quoting.reply_to is not None


@pytest.mark.parametrize("broken", ["padding", "truncated"])
async def test_a_file_that_cannot_be_decrypted_fails_as_such(bench: Bench, broken: str) -> None:
    async with bench.running():
        await bench.wecom.sends("image", FileSpec(b"x" * 100, broken=broken))
        (attachment,) = (await message(bench)).attachments
        with pytest.raises(AttachmentFailed) as caught:
            await fetched(bench, attachment)
        assert caught.value.reason == "gone"


async def test_a_file_is_gone_after_five_minutes(bench: Bench) -> None:
    async with bench.running():
        await bench.wecom.sends("image", FileSpec(b"x"))
        (attachment,) = (await message(bench)).attachments
        await bench.wecom.advance(301)
        with pytest.raises(AttachmentFailed, match="403"):
            await fetched(bench, attachment)


async def test_a_file_over_the_cap_is_not_taken(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(max_download_mb=0.5)
    async with bench.running():
        await bench.wecom.sends("file", FileSpec(CONTENT))
        (attachment,) = (await message(bench)).attachments
        with pytest.raises(AttachmentFailed) as caught:
            await fetched(bench, attachment)
        assert caught.value.reason == "too_large"


async def test_no_log_shows_the_secret_a_key_or_what_was_said(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with bench.running():
        await bench.wecom.says("canary, what was said")
        await bench.wecom.sends("file", FileSpec(b"canary of a file"))
        (attachment,) = (await message(bench, 1)).attachments
        await fetched(bench, attachment)
        await bench.wecom.close()
        await bench.wecom.wait_connected(times=2)
    assert caplog.text
    for shown in (bench.wecom.secret, "canary", json.loads(attachment.ref)["aeskey"]):
        assert shown not in caplog.text


async def test_no_error_of_a_download_shows_its_address_or_key(bench: Bench) -> None:
    key = "A" * 43
    for url in ("http://127.0.0.1:9/canary", "ftp://127.0.0.1/canary", "file:///canary"):
        with pytest.raises((AttachmentFailed, Temporary)) as caught:
            await fetched(bench, Attachment(ref=f'{{"url": "{url}", "aeskey": "{key}"}}', kind="file"))
        assert "canary" not in str(caught.value)
        assert key not in str(caught.value)
    with pytest.raises(AttachmentFailed):
        await fetched(bench, Attachment(ref="no-such-file", kind="file"))
