"""Sending over the wire: what arrives in the chat, and what each refusal becomes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from channels.base import Command, Part
from channels.errors import (
    ChannelError,
    ChatGone,
    ChatMoved,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)
from channels.message import Address, Button, OutboundFile, OutboundMessage
from tests.channels.telegram.support import new_group
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.channels.telegram.support import Bench

DM = Address(account="telegram", chat=str(ALICE.id))


def part_of(bench: Bench, text: str, *, buttons: tuple[tuple[Button, ...], ...] = ()) -> Part:
    (part,) = bench.channel.layout(OutboundMessage(text=text, buttons=buttons, final=True))
    return part


def file_part(bench: Bench, path: Path, *, mime: str = "text/plain", kind: str = "file") -> Part:
    file = OutboundFile(path=path, name="report.txt", mime_type=mime, kind=kind)  # type: ignore[arg-type]
    return bench.channel.layout(OutboundMessage(files=(file,), final=True))[-1]


async def test_a_message_arrives_formatted_answered_and_without_preview(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    part = part_of(bench, "**bold** https://evil.example/?q=1", buttons=((Button(label="Go", data="g:1"),),))
    sent = await bench.channel.send(DM, part, "k", reply_to=str(said.message_id))
    (seen,) = await bench.telegram.bot_messages(ALICE)
    assert str(seen.message_id) == sent
    assert seen.text.startswith("bold https://evil.example")
    assert {"type": "bold", "offset": 0, "length": 4} in seen.entities
    assert seen.reply_to == said.message_id
    assert seen.link_preview_options == {"is_disabled": True}
    assert [button["callback_data"] for button in seen.buttons] == ["g:1"]
    assert "parse_mode" not in (await bench.sent_params("sendMessage"))[0]


async def test_an_edit_has_no_preview_either_and_decides_about_the_keyboard(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    buttons = ((Button(label="Stop", data="s"),),)
    sent = await bench.channel.send(DM, part_of(bench, "working", buttons=buttons), "k")
    await bench.channel.edit(DM, sent, part_of(bench, "working on", buttons=buttons))
    assert (await bench.telegram.bot_messages(ALICE))[0].buttons != []
    await bench.channel.edit(DM, sent, part_of(bench, "done https://evil.example/"))
    (seen,) = await bench.telegram.bot_messages(ALICE)
    assert (seen.text, seen.buttons) == ("done https://evil.example/", [])
    assert seen.link_preview_options == {"is_disabled": True}


async def test_an_edit_that_changes_nothing_is_success(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    part = part_of(bench, "same")
    sent = await bench.channel.send(DM, part, "k")
    await bench.channel.edit(DM, sent, part)
    assert (await bench.telegram.records("editMessageText"))[0].status == 400


async def test_a_reply_to_a_deleted_message_is_still_sent(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    await bench.channel.send(DM, part_of(bench, "answer"), "k", reply_to="999")
    assert [seen.text for seen in await bench.telegram.bot_messages(ALICE)] == ["answer"]


async def test_the_answer_stays_in_its_topic(bench: Bench) -> None:
    forum = new_group(is_forum=True)
    await bench.telegram.group_says("hi", chat=forum, thread=7)
    topic = Address(account="telegram", chat=str(forum.id), topic="7", kind="group")
    await bench.channel.send(topic, part_of(bench, "here"), "k")
    await bench.channel.typing(topic)
    (seen,) = await bench.telegram.bot_messages(forum)
    assert seen.thread == 7
    general = Address(account="telegram", chat=str(forum.id), kind="group")
    await bench.channel.send(general, part_of(bench, "in General"), "k2")
    assert [params.get("message_thread_id") for params in await bench.sent_params("sendMessage")] == ["7", None]
    assert (await bench.sent_params("sendChatAction"))[0]["message_thread_id"] == "7"


async def test_edits_and_deletes_of_a_message_that_is_gone(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    sent = await bench.channel.send(DM, part_of(bench, "soon gone"), "k")
    await bench.channel.delete(DM, sent)
    assert await bench.telegram.bot_messages(ALICE) == []
    await bench.channel.delete(DM, sent)
    with pytest.raises(MessageGone):
        await bench.channel.edit(DM, sent, part_of(bench, "x"))


REFUSALS: list[tuple[faults.Fault, type[ChannelError]]] = [
    (faults.flood(17), RateLimited),
    (faults.error(429, "Too Many Requests: retry after 17"), RateLimited),
    (faults.blocked(), ChatGone),
    (faults.bad_request("chat not found"), ChatGone),
    (faults.bad_request("CHAT_WRITE_FORBIDDEN"), TopicClosed),
    (faults.bad_request("message thread not found"), TopicClosed),
    (faults.bad_request("TOPIC_CLOSED"), TopicClosed),
    (faults.bad_request("not enough rights to send text messages to the chat"), TopicClosed),
    (faults.bad_request("not enough rights to send documents to the chat"), Rejected),
    (faults.bad_request("VOICE_MESSAGES_FORBIDDEN"), Rejected),
    (faults.error(403, "Forbidden: CHAT_SEND_DOCS_FORBIDDEN"), Rejected),
    (faults.error(403, "Forbidden: bot was kicked from the supergroup chat"), ChatGone),
    (faults.error(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-1007), ChatMoved),
    (faults.bad_request("message text is empty"), Rejected),
    (faults.not_found(), Rejected),
    (faults.error(413, "Request Entity Too Large"), Rejected),
]


@pytest.mark.parametrize(("fault", "error"), REFUSALS)
async def test_each_refusal_of_a_send_becomes_ours(
    bench: Bench, fault: faults.Fault, error: type[ChannelError]
) -> None:
    await bench.telegram.user_says("hi")
    await bench.telegram.fail("sendMessage", fault)
    with pytest.raises(error) as caught:
        await bench.channel.send(DM, part_of(bench, "x"), "k")
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after == 17
    if isinstance(caught.value, ChatMoved):
        assert caught.value.new_chat == "-1007"


@pytest.mark.parametrize("fault", [faults.bad_gateway(), faults.reset(), faults.garbage()], ids=lambda f: f.name)
async def test_an_unreadable_answer_to_a_send_leaves_the_outcome_unknown_but_an_edit_may_be_repeated(
    bench: Bench, fault: faults.Fault
) -> None:
    await bench.telegram.user_says("hi")
    sent = await bench.channel.send(DM, part_of(bench, "first"), "k")
    await bench.telegram.fail("sendMessage", fault)
    with pytest.raises(OutcomeUnknown):
        await bench.channel.send(DM, part_of(bench, "second"), "k2")
    await bench.telegram.fail("editMessageText", fault)
    with pytest.raises(Temporary):
        await bench.channel.edit(DM, sent, part_of(bench, "first, edited"))


async def test_a_connection_that_was_never_made_changed_nothing(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(base_url="http://127.0.0.1:9")
    with pytest.raises(Temporary):
        await bench.channel.send(DM, part_of(bench, "x"), "k")


async def test_a_document_is_sent_with_its_shown_name(bench: Bench, tmp_path: Path) -> None:
    await bench.telegram.user_says("hi")
    path = tmp_path / "internal-name.bin"
    path.write_bytes(b"one two three")
    await bench.channel.send(DM, file_part(bench, path), "k")
    (seen,) = await bench.telegram.bot_messages(ALICE)
    assert [(file["name"], file["size"]) for file in seen.files] == [("report.txt", 13)]
    assert "internal-name" not in str(await bench.telegram.records())


async def test_a_picture_goes_as_a_photo_and_as_a_document_when_telegram_refuses_it(
    bench: Bench, tmp_path: Path
) -> None:
    await bench.telegram.user_says("hi")
    path = tmp_path / "p.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    part = file_part(bench, path, mime="image/png", kind="image")
    await bench.channel.send(DM, part, "k")
    await bench.telegram.fail("sendPhoto", faults.bad_request("PHOTO_INVALID_DIMENSIONS"))
    await bench.channel.send(DM, part, "k2")
    methods = [record.method for record in await bench.telegram.records() if record.method.startswith("send")]
    assert methods == ["sendPhoto", "sendPhoto", "sendDocument"]


async def test_files_that_cannot_be_sent_are_rejected_before_anything_is_sent(bench: Bench, tmp_path: Path) -> None:
    huge, link, pipe, empty = (tmp_path / name for name in ("huge", "link", "pipe", "empty"))
    with huge.open("wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)
    (tmp_path / "secret").write_text("s")
    link.symlink_to(tmp_path / "secret")
    os.mkfifo(pipe)
    empty.touch()
    for path in (huge, link, pipe, empty, tmp_path / "missing", tmp_path):
        with pytest.raises(Rejected) as refusal:
            await bench.channel.send(DM, file_part(bench, path), "k")
        assert str(tmp_path) not in str(refusal.value)
    assert await bench.telegram.records("sendDocument") == []


async def test_the_command_menu_per_language(bench: Bench) -> None:
    await bench.channel.publish_commands([Command(name="new", description="Start anew")], None)
    await bench.channel.publish_commands([Command(name="new", description="重新开始")], "zh-CN")
    lists = await bench.telegram.commands()
    assert {entry["language"]: entry["commands"] for entry in lists} == {
        "": [{"command": "new", "description": "Start anew"}],
        "zh": [{"command": "new", "description": "重新开始"}],
    }


async def test_a_silent_message_notifies_nobody(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    await bench.telegram.user_says("hi")
    for silent in (False, True):
        await bench.channel.send(DM, part_of(bench, "Hello"), "k", silent=silent)
        await bench.channel.send(DM, file_part(bench, tmp_path / "f"), "f", silent=silent)
    seen = await bench.telegram.bot_messages(ALICE)
    assert [message.silent for message in seen] == [False, False, True, True]


async def test_how_long_an_answer_may_grow_unnoticed_is_the_accounts(make_bench: Callable[..., Bench]) -> None:
    caps = [make_bench(notify_after=value).channel.capabilities for value in (30, "off")]
    assert [(each.notifies, each.notify_after) for each in caps] == [(True, 30.0), (True, None)]


async def test_typing_never_raises(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    await bench.telegram.fail("sendChatAction", faults.blocked())
    await bench.channel.typing(DM)
    await bench.channel.typing(DM)
    assert [record.status for record in await bench.telegram.records("sendChatAction")] == [403, 200]


async def test_a_draft_grows_and_gives_way_to_the_message(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(streaming="draft")
    assert bench.channel.capabilities.preview_dm
    await bench.telegram.user_says("hi")
    for text in ("one", "one two", "one two"):
        await bench.channel.preview(DM, part_of(bench, text), "k")
    view = await bench.telegram.chat_view(ALICE)
    assert view["draft"]["text"] == "one two"
    assert len({params["draft_id"] for params in await bench.sent_params("sendMessageDraft")}) == 1
    await bench.channel.send(DM, part_of(bench, "one two three"), "k")
    assert (await bench.telegram.chat_view(ALICE))["draft"] is None


async def test_a_chat_that_refused_a_draft_is_not_asked_again(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(streaming="draft")
    await bench.telegram.user_says("hi")
    await bench.telegram.fail("sendMessageDraft", faults.not_found())
    for _ in range(2):
        with pytest.raises(Rejected):
            await bench.channel.preview(DM, part_of(bench, "x"), "k")
    assert len(await bench.telegram.records("sendMessageDraft")) == 1


async def test_a_migrated_group_tells_its_new_id(bench: Bench) -> None:
    team = new_group()
    await bench.telegram.group_says("hi", chat=team)
    await bench.telegram.migrate(team, -100900)
    group = Address(account="telegram", chat=str(team.id), kind="group")
    with pytest.raises(ChatMoved) as moved:
        await bench.channel.send(group, part_of(bench, "x"), "k")
    assert moved.value.new_chat == "-100900"


async def test_a_part_of_another_platform_is_refused(bench: Bench) -> None:
    with pytest.raises(Rejected):
        await bench.channel.send(DM, Part(0), "k")
    with pytest.raises(Rejected):
        await bench.channel.open_stream(DM, "k", None)
