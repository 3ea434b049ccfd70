"""What readers of a conversation get: every change once and in order, or a snapshot that says so."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from channels.errors import AttachmentFailed, NotCommitted, Rejected
from channels.http.board import KEPT_CHANGES, KEPT_MESSAGES
from channels.http.channel import MAX_BOARDS, HttpChannel, Posting
from channels.http.config import HttpConfig
from channels.message import Address, Attachment, OutboundFile, OutboundMessage, Sender
from tests.contracts.bench import Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from channels.http.board import Change

DM = Address(account="web", chat="a-1")


@pytest.fixture
def channel(tmp_path: Path) -> HttpChannel:
    return HttpChannel("web", HttpConfig(uploads=tmp_path), Listener().ports())


async def say(channel: HttpChannel, text: str, key: str = "k", *, final: bool = False, chat: str = DM.chat) -> str:
    (part,) = channel.layout(OutboundMessage(text=text, final=final))
    return await channel.send(replace(DM, chat=chat), part, key)


async def grow(channel: HttpChannel, message_id: str, text: str, *, final: bool = False) -> None:
    (part,) = channel.layout(OutboundMessage(text=text, final=final))
    await channel.edit(DM, message_id, part)


async def some(changes: AsyncIterator[tuple[str, Change]], count: int) -> list[tuple[str, Change]]:
    async with asyncio.timeout(10):
        return [await anext(changes) for _ in range(count)]


async def test_a_reader_sees_an_answer_grow_by_what_is_new(channel: HttpChannel) -> None:
    async with aclosing(channel.follow(DM.chat)) as changes:  # type: ignore[type-var]  # an async generator
        ((_, first),) = await some(changes, 1)
        assert (first.type, first.data) == ("snapshot", {"gap": False, "messages": []})
        message_id = await say(channel, "One")
        await grow(channel, message_id, "One, two")
        await grow(channel, message_id, "One, two")
        await grow(channel, message_id, "Otherwise", final=True)
        told = [change for _, change in await some(changes, 3)]
    assert [change.type for change in told] == ["message", "append", "message"]
    assert told[1].data == {"message_id": message_id, "at_length": 3, "text": ", two", "status": ""}
    assert (told[2].data["text"], told[2].data["final"]) == ("Otherwise", True)


async def test_who_comes_back_misses_nothing_or_is_told_so(channel: HttpChannel) -> None:
    message_id = await say(channel, "0")
    async with aclosing(channel.follow(DM.chat)) as changes:  # type: ignore[type-var]  # as above
        ((seen, first),) = await some(changes, 1)
        assert [shown["text"] for shown in first.data["messages"]] == ["0"]
    for number in range(1, 4):
        await grow(channel, message_id, str(number))
    async with aclosing(channel.follow(DM.chat, seen)) as changes:  # type: ignore[type-var]  # as above
        missed = await some(changes, 3)
    assert [change.data["text"] for _, change in missed] == ["1", "2", "3"]
    for number in range(KEPT_CHANGES + 1):
        await grow(channel, message_id, f"again {number}")
    for last in (seen, "00000000-1", f"{seen.partition('-')[0]}-999999", "nonsense"):
        async with aclosing(channel.follow(DM.chat, last)) as changes:  # type: ignore[type-var]  # as above
            ((_, snapshot),) = await some(changes, 1)
        assert (snapshot.type, snapshot.data["gap"]) == ("snapshot", True), last
        assert snapshot.data["messages"][-1]["text"] == f"again {KEPT_CHANGES}"


async def test_a_slow_reader_gets_a_snapshot_instead_of_what_was_dropped(channel: HttpChannel) -> None:
    async with aclosing(channel.follow(DM.chat)) as changes:  # type: ignore[type-var]  # as above
        await some(changes, 1)
        message_id = await say(channel, "0")
        await some(changes, 1)
        for number in range(KEPT_CHANGES * 2):
            await grow(channel, message_id, f"again {number}")
        ((_, change),) = await some(changes, 1)
        assert (change.type, change.data["gap"]) == ("snapshot", True)
        await grow(channel, message_id, "the end")
        ((_, change),) = await some(changes, 1)
        assert change.data["text"] == "the end"


async def test_what_is_kept_in_memory_is_bounded_and_what_is_read_or_written_stays(channel: HttpChannel) -> None:
    for number in range(KEPT_MESSAGES + 5):
        await say(channel, "x", f"k{number}", final=True)
    assert len(channel.board(DM.chat).messages) == KEPT_MESSAGES
    draft = await say(channel, "growing", chat="a-draft")
    async with aclosing(channel.follow("a-read")) as changes:  # type: ignore[type-var]  # as above
        await some(changes, 1)
        for number in range(MAX_BOARDS + 5):
            await say(channel, "x", chat=f"b-{number}", final=True)
        assert channel.board("a-draft").get(draft) is not None
        await say(channel, "hello", chat="a-read")
        assert (await some(changes, 1))[0][1].data["text"] == "hello"
    assert channel.board(DM.chat).messages == []


async def test_deleted_words_are_in_no_memory_and_readers_are_told_to_look_again(channel: HttpChannel) -> None:
    await say(channel, "secret", "k1", final=True)
    await say(channel, "at work", "k2")
    async with aclosing(channel.follow(DM.chat)) as changes:  # type: ignore[type-var]  # as above
        ((seen, _),) = await some(changes, 1)
        channel.clear()
        ((_, change),) = await some(changes, 1)
    assert (change.type, change.data["gap"]) == ("snapshot", True)
    assert [shown["text"] for shown in change.data["messages"]] == ["at work"]
    async with aclosing(channel.follow(DM.chat, seen)) as changes:  # type: ignore[type-var]  # as above
        assert "secret" not in str(await some(changes, 1))


async def test_what_is_not_stored_was_not_posted(tmp_path: Path) -> None:
    async def fails(events: object) -> None:
        raise OSError("the disk is full")

    ports = replace(Listener().ports(), publish=fails)
    channel = HttpChannel("web", HttpConfig(uploads=tmp_path), ports)
    with pytest.raises(NotCommitted):
        await channel.post(
            Posting(chat=DM.chat, sender=Sender(id="local", display_name=""), text="hello", client_id="1")
        )
    async with aclosing(channel.follow(DM.chat)) as changes:  # type: ignore[type-var]  # as above
        await some(changes, 1)
        channel.board(DM.chat).tell("typing", {})
        assert [change.type for _, change in await some(changes, 1)] == ["typing"]


async def test_the_same_message_again_has_the_same_id_in_every_process(tmp_path: Path) -> None:
    listener = Listener()
    posting = Posting(chat=DM.chat, sender=Sender(id="local", display_name=""), text="a\r\nb", client_id="1")
    ids = set()
    for _ in range(2):
        channel = HttpChannel("web", HttpConfig(uploads=tmp_path), listener.ports())
        ids.add(await channel.post(posting))
        ids.add(await say(channel, "answer", "key"))
    assert len(ids) == 2
    first, second = listener.messages
    assert first.dedupe_keys == second.dedupe_keys
    assert first.text == "a\nb"


async def test_a_file_that_is_a_link_or_gone_is_not_shown(channel: HttpChannel, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    (tmp_path / "link").symlink_to(secret)
    for name in ("link", "gone"):
        (part,) = channel.layout(OutboundMessage(files=(OutboundFile(path=tmp_path / name, name="a"),), final=True))
        with pytest.raises(Rejected):
            await channel.send(DM, part, name)
    with pytest.raises(AttachmentFailed):
        await channel.fetch(Attachment(ref="gone", kind="file"), None)  # type: ignore[arg-type]  # nothing is written
