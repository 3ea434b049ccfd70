"""The console channel and its links, without a terminal: the test sits at the terminal's end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.base import ConnectionState
from channels.capabilities import TextUnit
from channels.console.channel import MAX_UNIT
from channels.console.frames import End, Frame, Line, Removed, Shown, Typing
from channels.console.link import MAX_FRAMES, MAX_LINE, SocketConsoleLink, SocketTerminalLink, TerminalLink, link_pair
from channels.errors import MessageGone, Rejected
from channels.message import Address, Message, OutboundFile, OutboundMessage
from tests.channels.console.support import HOME, SmallGateway, hello, make_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

AT = datetime(2026, 1, 2, tzinfo=UTC)


def line(number: int, text: str) -> Line:
    return Line(number=number, text=text, at=AT)


async def until_final(terminal: TerminalLink) -> Shown:
    async with asyncio.timeout(5):
        while True:
            frame = await terminal.receive()
            if isinstance(frame, Shown) and frame.final:
                return frame
            assert frame is not None


async def rest(terminal: TerminalLink) -> list[Frame]:
    async with asyncio.timeout(5):
        frames = []
        while (frame := await terminal.receive()) is not None:
            frames.append(frame)
        return frames


async def test_a_line_becomes_a_message_of_the_local_person(tmp_path: Path) -> None:
    gateway = SmallGateway(tmp_path)
    near, terminal = link_pair("s1")
    gateway.channel.attach(near, owner=True)
    running = asyncio.create_task(gateway.channel.run(hello))
    await terminal.send(line(1, "hello\r\nyou"))
    (event,) = await gateway.wait_for(1)
    assert isinstance(event, Message)
    assert (event.address, event.sender.id, event.text, event.mention) == (HOME, "local", "hello\nyou", True)
    assert (event.dedupe_keys, event.sent_at) == (("l:s1:1",), AT)
    assert (await until_final(terminal)).text == "You said: **hello\nyou**"
    assert gateway.channel.health.state is ConnectionState.CONNECTED
    assert gateway.channel.health.last_sign is not None
    await terminal.send(End())
    await asyncio.wait_for(running, 5)


async def test_run_returns_at_the_owners_end_and_close_lets_the_last_frames_through(tmp_path: Path) -> None:
    gateway = SmallGateway(tmp_path)
    near, terminal = link_pair()
    gateway.channel.attach(near, owner=True)
    other, _ = link_pair()
    gateway.channel.attach(other)
    for number in (1, 2, 3):
        await terminal.send(line(number, f"m{number}"))
    await terminal.send(End())
    await asyncio.wait_for(gateway.channel.run(hello), 5)
    assert len(gateway.events) == 3
    await gateway.drain()
    await gateway.channel.close()
    finals = [frame.text for frame in await rest(terminal) if isinstance(frame, Shown) and frame.final]
    assert finals == ["You said: **m1**", "You said: **m2**", "You said: **m3**"]


async def ignore(events: Sequence[object]) -> None:
    """A gateway that takes everything and answers nothing."""


async def test_a_repeated_send_is_the_same_message_in_another_process_too(tmp_path: Path) -> None:
    (part,) = make_channel(tmp_path, ignore).layout(OutboundMessage(text="once", final=True))
    channel = make_channel(tmp_path, ignore)
    near, terminal = link_pair()
    channel.attach(near, owner=True)
    ids = {await channel.send(HOME, part, "key"), await channel.send(HOME, part, "key")}
    ids.add(await make_channel(tmp_path, ignore).send(HOME, part, "key"))
    await channel.close()
    assert len(ids) == 1
    assert len(await rest(terminal)) == 1


async def test_edits_overtake_each_other_but_not_the_order_of_messages(tmp_path: Path) -> None:
    channel = make_channel(tmp_path, ignore)
    near, terminal = link_pair()
    channel.attach(near, owner=True)
    first, second, third = (channel.layout(OutboundMessage(text=text))[0] for text in ("a", "ab", "abc"))
    message_id = await channel.send(HOME, first, "k1")
    await channel.typing(HOME)
    other = await channel.send(HOME, first, "k2")
    await channel.edit(HOME, message_id, second)
    await channel.edit(HOME, message_id, third)
    await channel.delete(HOME, other)
    await channel.close()
    assert await rest(terminal) == [
        Shown(message_id=message_id, text="abc"),
        Typing(),
        Removed(message_id=other),
    ]
    with pytest.raises(MessageGone):
        await channel.edit(HOME, other, third)


async def test_what_came_without_a_terminal_is_told_to_the_next_one(tmp_path: Path) -> None:
    channel = make_channel(tmp_path, ignore)
    (part,) = channel.layout(OutboundMessage(text="missed", final=True))
    await channel.send(HOME, part, "key")
    near, terminal = link_pair()
    channel.attach(near, owner=True)
    assert (await until_final(terminal)).text == "missed"
    await channel.close()
    assert await rest(terminal) == []


async def test_terminals_have_their_own_chats_and_come_back_to_them(tmp_path: Path) -> None:
    gateway = SmallGateway(tmp_path)
    running = asyncio.create_task(gateway.channel.run(hello))
    links = [link_pair() for _ in range(2)]
    first, second = (gateway.channel.attach(near) for near, _ in links)
    assert (first.chat, second.chat) == ("terminal-1", "terminal-2")
    await links[1][1].send(line(1, "two"))
    assert (await until_final(links[1][1])).text == "You said: **two**"
    assert [event.address.chat for event in await gateway.wait_for(1)] == ["terminal-2"]
    links[0][1].close()
    assert await rest(links[0][1]) == []
    await asyncio.wait_for(first.ended.wait(), 5)
    assert gateway.channel.attach(link_pair()[0]).chat == "terminal-1"
    gateway.channel.attach(link_pair()[0], owner=True)
    with pytest.raises(ValueError, match="owns"):
        gateway.channel.attach(link_pair()[0], owner=True)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_an_unpublished_line_is_published_by_the_next_run(tmp_path: Path) -> None:
    taken: list[object] = []

    async def publish(events: Sequence[object]) -> None:
        if not taken:
            taken.append("refused")
            raise RuntimeError("the store is closed")
        taken.extend(events)

    channel = make_channel(tmp_path, publish)
    near, terminal = link_pair("s")
    channel.attach(near, owner=True)
    await terminal.send(line(1, "hello"))
    await terminal.send(End())
    with pytest.raises(RuntimeError):
        await channel.run(hello)
    await channel.run(hello)
    assert [event.dedupe_keys for event in taken if isinstance(event, Message)] == [("l:s:1",)]


async def test_a_terminal_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    near, terminal = link_pair()
    assert all(near.show(Shown(message_id=str(n))) for n in range(MAX_FRAMES))
    assert not near.show(Shown(message_id="one too many"))
    near.close()
    assert len(await rest(terminal)) == MAX_FRAMES


async def test_files_are_copied_under_a_safe_name(tmp_path: Path) -> None:
    channel = make_channel(tmp_path, ignore)
    near, terminal = link_pair()
    channel.attach(near, owner=True)
    source = tmp_path / "source"
    source.write_text("content")
    file = OutboundFile(path=source, name="../../\x1b[31mevil.txt")
    (part,) = channel.layout(OutboundMessage(files=(file,), final=True))
    await channel.send(HOME, part, "key")
    shown = await until_final(terminal)
    assert shown.file is not None
    copy = Path(shown.file)
    assert copy.is_relative_to(tmp_path / "exports")
    assert copy.name == "_.._evil.txt"
    assert await asyncio.to_thread(copy.read_text) == "content"
    source.unlink()
    with pytest.raises(Rejected):
        await channel.send(HOME, part, "another key")


def test_everything_shown_is_safe_to_print(tmp_path: Path) -> None:
    nasty = "a\x1b]0;title\x07b\x9b31mc\x00\ud83dd\u202ee"
    (part,) = make_channel(tmp_path, ignore).layout(OutboundMessage(text=nasty, status=nasty))
    shown = f"{part.text}{part.status}"  # type: ignore[attr-defined]
    assert not any(char < " " or "\x7f" <= char <= "\x9f" or char == "\u202e" for char in shown)
    shown.encode()


def test_a_reply_is_one_text_part_and_a_part_for_each_file(tmp_path: Path) -> None:
    channel = make_channel(tmp_path, ignore)
    file = OutboundFile(path=tmp_path / "x", name="x")
    assert channel.layout(OutboundMessage(final=True)) == ()
    assert [part.index for part in channel.layout(OutboundMessage(text="a" * 100_000, files=(file, file)))] == [0, 1, 2]
    assert len(channel.layout(OutboundMessage(text="a" * (MAX_UNIT + 1)))) == 2
    assert channel.capabilities.text_unit is TextUnit.CHARACTERS


async def test_a_socket_carries_a_terminal(tmp_path: Path) -> None:
    gateway = SmallGateway(tmp_path)
    running = asyncio.create_task(gateway.channel.run(hello))

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = gateway.channel.attach(SocketConsoleLink("over-there", reader, writer))
        await session.ended.wait()
        await gateway.drain()
        session.close()

    path = str(tmp_path / "sock")
    async with await asyncio.start_unix_server(accept, path, limit=MAX_LINE):
        terminal = SocketTerminalLink(*await asyncio.open_unix_connection(path, limit=MAX_LINE))
        await terminal.send(line(1, "über " + "x" * 200_000))
        await terminal.send(End())
        finals = [frame for frame in await rest(terminal) if isinstance(frame, Shown) and frame.final]
        assert [len(final.text) for final in finals] == [len("You said: **über **") + 200_000]
        terminal.close()
    (event,) = gateway.events
    assert isinstance(event, Message)
    assert (event.dedupe_keys, event.address) == (("l:over-there:1",), Address(account="console", chat="terminal-1"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
