"""What the gateway relies on in every channel (channels/base.py). A platform earns these tests by its bench."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from channels.base import Command, ConnectionState, Part, Probe
from channels.errors import AttachmentFailed, MessageGone, OutcomeUnknown, Rejected
from channels.message import Attachment, Button, ButtonPressed, OutboundFile, OutboundMessage, Sender
from tests.contracts.bench import Bench, Simulators
from tests.contracts.channel_benches import BENCHES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

PARAGRAPH = "The quick brown fox jumps over the lazy dog. " * 6
LONG = "\n\n".join(f"{number}. {PARAGRAPH}" for number in range(60))
BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators() as running:
        yield running


@pytest.fixture(params=BENCHES)
async def bench(request: pytest.FixtureRequest, tmp_path: Path, simulators: Simulators) -> AsyncIterator[Bench]:
    async with BENCHES[request.param](tmp_path, simulators) as made:
        yield made


def only(bench: Bench, text: str, **more: object) -> Part:
    """The single part of a final with that text."""
    (part,) = bench.channel.layout(replace(OutboundMessage(text=text, final=True), **more))  # type: ignore[arg-type]
    return part


@dataclass
class Bytes:
    """A Sink."""

    content: bytes = b""

    async def write(self, chunk: bytes) -> None:
        self.content += chunk


# Layout


def test_an_empty_message_has_no_part_and_any_other_has_one(bench: Bench, tmp_path: Path) -> None:
    layout = bench.channel.layout
    file = OutboundFile(path=tmp_path / "a.txt", name="a.txt")
    assert layout(OutboundMessage()) == ()
    assert layout(OutboundMessage(final=True)) == ()
    for message in (
        OutboundMessage(text="Hello"),
        OutboundMessage(status="working"),
        OutboundMessage(text="May I?", buttons=BUTTONS),
        OutboundMessage(files=(file,), final=True),
    ):
        assert len(layout(message)) == 1


def test_layout_is_pure_and_numbers_its_parts(bench: Bench) -> None:
    message = OutboundMessage(text=LONG, status="working", buttons=BUTTONS)
    parts = bench.channel.layout(message)
    assert parts == bench.channel.layout(message)
    assert [part.index for part in parts] == list(range(len(parts)))


def test_while_text_grows_all_parts_but_the_last_two_stay(bench: Bench) -> None:
    before: tuple[Part, ...] = ()
    for end in range(200, len(LONG), 997):
        parts = bench.channel.layout(OutboundMessage(text=LONG[:end], status="writing"))
        assert parts[: max(0, len(before) - 2)] == before[: max(0, len(before) - 2)]
        before = parts


def test_what_it_says_of_itself_is_sound(bench: Bench) -> None:
    caps, rate = bench.channel.capabilities, bench.channel.rate
    assert caps.max_unit > 100
    assert min(rate.per_second, rate.per_chat_per_second, rate.per_group_per_minute) > 0
    assert min(caps.edit_interval_dm, caps.edit_interval_group, caps.preview_ttl) > 0
    assert caps.stream_ttl is None or math.isfinite(caps.stream_ttl)
    assert bench.channel.account == bench.dm.account


# Sending


async def test_a_sent_part_is_there_once_under_its_id(bench: Bench) -> None:
    message_id = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    (seen,) = await bench.seen()
    assert (seen.message_id, seen.text) == (message_id, "Hello")


async def test_every_part_of_a_long_reply_is_taken_in_order(bench: Bench) -> None:
    parts = bench.channel.layout(OutboundMessage(text=LONG, final=True))
    assert len(parts) > 1 or bench.channel.capabilities.max_unit > len(LONG)
    texts = [part for part in parts if part.index < 5]
    ids = [await bench.channel.send(bench.dm, part, f"k{part.index}") for part in texts]
    assert len(set(ids)) == len(ids)
    assert [seen.message_id for seen in await bench.seen()] == ids


async def test_buttons_and_files_arrive(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text("figures")
    file = OutboundFile(path=path, name="report.txt", mime_type="text/plain")
    buttons = BUTTONS if bench.channel.capabilities.buttons else ()
    message = OutboundMessage(text="Here", buttons=buttons, files=(file,), final=True)
    for part in bench.channel.layout(message):
        await bench.channel.send(bench.dm, part, f"k{part.index}")
    seen = await bench.seen()
    assert [label for item in seen for label in item.labels] == ["Yes", "No"] * bool(buttons)
    assert any(item.file for item in seen)


async def test_a_repeated_send_is_the_same_message_where_that_is_promised(bench: Bench) -> None:
    if not bench.channel.capabilities.idempotent_send:
        pytest.skip("not promised")
    part = only(bench, "Hello")
    first = await bench.channel.send(bench.dm, part, "k1")
    assert await bench.channel.send(bench.dm, part, "k1") == first
    assert await bench.channel.send(bench.dm, part, "k2") != first
    assert len(await bench.seen()) == 2


async def test_a_lost_send_is_found_where_that_is_promised(bench: Bench) -> None:
    if not bench.channel.capabilities.findable_after_crash:
        pytest.skip("not promised")
    older = await bench.channel.send(bench.dm, only(bench, "Older"), "k0")
    unrecorded = await bench.channel.send(bench.dm, only(bench, "Hel"), "k1")
    await bench.restart()
    bench.channel.recall([(bench.dm.chat, older)])
    found = await bench.channel.find(bench.dm, only(bench, "Hello"), Probe(idem_key="k1", after=older))
    assert found == unrecorded
    if bench.channel.capabilities.edits:
        assert [seen.text for seen in await bench.seen()] == ["Older", "Hello"]


async def test_what_was_never_sent_is_not_found(bench: Bench) -> None:
    known = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    with suppress(OutcomeUnknown):
        assert await bench.channel.find(bench.dm, only(bench, "Other"), Probe(idem_key="k2", after=known)) is None
    assert [seen.text for seen in await bench.seen()] == ["Hello"]


async def test_a_part_of_another_channel_is_refused(bench: Bench) -> None:
    with pytest.raises(Rejected):
        await bench.channel.send(bench.dm, Part(0), "k1")


# Changing


async def test_an_edit_shows_the_new_part_and_an_equal_one_is_success(bench: Bench) -> None:
    if not bench.channel.capabilities.edits:
        pytest.skip("messages cannot be changed")
    message_id = await bench.channel.send(bench.dm, only(bench, "May I?", buttons=BUTTONS), "k1")
    await bench.channel.edit(bench.dm, message_id, only(bench, "Done."))
    await bench.channel.edit(bench.dm, message_id, only(bench, "Done."))
    (seen,) = await bench.seen()
    assert (seen.text, seen.labels) == ("Done.", ())


async def test_the_edit_of_a_missing_message_says_so(bench: Bench) -> None:
    if not bench.channel.capabilities.edits:
        pytest.skip("messages cannot be changed")
    message_id = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    await bench.channel.delete(bench.dm, message_id)
    assert await bench.seen() == []
    with pytest.raises(MessageGone):
        await bench.channel.edit(bench.dm, message_id, only(bench, "Hello again"))


async def test_deleting_what_is_gone_is_success(bench: Bench) -> None:
    message_id = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    await bench.channel.delete(bench.dm, message_id)
    await bench.channel.delete(bench.dm, message_id)


async def test_a_stream_grows_and_ends_as_the_message(bench: Bench) -> None:
    if not bench.channel.capabilities.append_only_stream:
        pytest.skip("no streams")
    question = getattr(bench, "question", None)  # where nothing else can be answered
    stream = await bench.channel.open_stream(bench.dm, "k1", question)
    for end in (3, 8, 12):
        await stream.show(OutboundMessage(text="Hello, world"[:end]))
        (seen,) = await bench.seen()
        assert (seen.message_id, seen.text) == (stream.message_id, "Hello, world"[:end])
    await stream.finish(OutboundMessage(text="Hello, world!", final=True))
    (seen,) = await bench.seen()
    assert seen.text == "Hello, world!"


async def test_a_preview_is_no_message(bench: Bench) -> None:
    if not bench.channel.capabilities.preview_dm:
        with pytest.raises(Rejected):
            await bench.channel.preview(replace(bench.dm, kind="group"), Part(0), "k1")
        return
    await bench.channel.preview(bench.dm, only(bench, "Hel"), "k1")
    assert await bench.seen() == []


# The rest


async def test_signs_of_work_never_fail(bench: Bench) -> None:
    now = datetime.now(UTC)
    press = ButtonPressed(
        account=bench.dm.account,
        dedupe_keys=("u:1",),
        sent_at=now,
        received_at=now,
        address=bench.dm,
        platform_message_id="1",
        sender=Sender(id="1", display_name="Alice"),
        data="p:0",
        callback_id="unknown",
    )
    await bench.channel.typing(bench.dm)
    await bench.channel.acknowledge(press, "noted")
    await bench.channel.publish_commands([Command(name="help", description="What I can do")], None)


async def test_a_file_that_is_not_there_fails_as_such(bench: Bench) -> None:
    with pytest.raises(AttachmentFailed):
        await bench.channel.fetch(Attachment(ref="no-such-file", kind="file"), Bytes())


async def test_it_says_hello_publishes_what_people_write_stops_when_cancelled_and_runs_again(bench: Bench) -> None:
    running = asyncio.create_task(bench.channel.run(bench.listener.hello))
    await bench.listener.until(lambda: bool(bench.listener.greeted))
    assert bench.channel.identity == bench.listener.greeted[0]
    await bench.says("Hello there")
    await bench.listener.until(lambda: any(event.text == "Hello there" for event in bench.listener.messages))
    event = next(event for event in bench.listener.messages if event.text == "Hello there")
    assert event.account == bench.channel.account
    assert event.address == bench.dm
    assert event.mention
    assert event.dedupe_keys
    assert bench.channel.health.state is ConnectionState.CONNECTED
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await bench.channel.send(bench.dm, only(bench, "Still here"), "k1")
    assert (await bench.seen())[-1].text == "Still here"
    await bench.channel.let_go()
    await bench.channel.let_go()

    again = asyncio.create_task(bench.channel.run(bench.listener.hello))
    await bench.listener.until(lambda: len(bench.listener.greeted) == 2)
    await bench.says("Here again")
    await bench.listener.until(lambda: any(event.text == "Here again" for event in bench.listener.messages))
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_closing_twice_is_fine(bench: Bench) -> None:
    await bench.channel.close()
    await bench.channel.close()
