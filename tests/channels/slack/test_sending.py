"""Sending, editing, finding and fetching over the simulator, with the faults that Slack has in store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.texts.markdown import plain
from channels.base import Part, Probe
from channels.errors import (
    AttachmentFailed,
    ChatGone,
    Fatal,
    MessageGone,
    NotAllowed,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)
from channels.message import Attachment, Button, OutboundFile, OutboundMessage
from tests.simulators.slack import faults
from tests.simulators.slack.seen import ALICE, TEAM, FileSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.channels.slack.support import Bench

BUTTONS = ((Button(label="Yes", data="p:0"), Button(label="No", data="p:1")),)


def only(bench: Bench, text: str = "", **more: Any) -> Part:
    (part,) = bench.channel.layout(replace(OutboundMessage(text=text, final=True), **more))
    return part


@dataclass
class Bytes:
    """A Sink."""

    content: bytes = b""

    async def write(self, chunk: bytes) -> None:
        self.content += chunk


async def test_a_message_has_blocks_a_fallback_its_key_and_no_previews(bench: Bench) -> None:
    await bench.channel.send(bench.dm, only(bench, "**Hi** <!channel> & co", buttons=BUTTONS), "k1")
    (params,) = await bench.sent_params("chat.postMessage")
    assert [block["type"] for block in params["blocks"]] == ["markdown", "actions"]
    assert "<!channel>" not in params["blocks"][0]["text"]
    assert "<" not in params["text"]
    assert "thread_ts" not in params
    assert (params["unfurl_links"], params["unfurl_media"]) == (False, False)
    assert params["metadata"] == {"event_type": "antler_reply", "event_payload": {"key": "k1"}}


async def test_in_a_thread_it_goes_to_the_thread(bench: Bench) -> None:
    said = await bench.slack.channel_says("@antler hi", silent=True)
    await bench.channel.send(bench.thread(said.ts), only(bench, "Hello"), "k1", said.ts)
    (message,) = await bench.slack.bot_messages(TEAM)
    assert message.thread == said.ts


async def test_refused_blocks_are_shown_as_plain_text(bench: Bench) -> None:
    await bench.slack.fail("chat.postMessage", faults.error("invalid_blocks", errors=["unsupported type: markdown"]))
    ts = await bench.channel.send(bench.dm, only(bench, "a < b", buttons=BUTTONS), "k1")
    (message,) = await bench.slack.bot_messages(ALICE)
    assert (message.ts, message.text) == (ts, "a &lt; b")
    assert [element["text"]["text"] for element in message.elements] == ["Yes", "No"]
    await bench.slack.fail("chat.update", faults.error("invalid_blocks"))
    await bench.channel.edit(bench.dm, ts, only(bench, "a < c"))
    (message,) = await bench.slack.bot_messages(ALICE)
    assert (message.shown, message.elements) == ("a &lt; c", [])


async def test_a_long_answer_whose_blocks_are_refused_arrives_whole_in_parts(bench: Bench) -> None:
    words = [f"word{number}." for number in range(1200)]
    (part,) = bench.channel.layout(OutboundMessage(text=" ".join(words), final=True))
    await bench.slack.fail("chat.postMessage", faults.error("invalid_blocks"))
    with pytest.raises(Rejected):
        await bench.channel.send(bench.dm, part, "k1")
    assert await bench.slack.bot_messages(ALICE) == [], "nothing is cut off to fit one message"
    parts = bench.channel.layout(OutboundMessage(text=plain(" ".join(words)), final=True, plain=True))
    for simpler in parts:
        await bench.channel.send(bench.dm, simpler, f"k{simpler.index + 2}")
    shown = [message.text for message in await bench.slack.bot_messages(ALICE)]
    assert len(shown) == len(parts) > 1
    assert " ".join(shown).split() == words


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.ratelimited(7), RateLimited),
        (faults.error("ratelimited"), RateLimited),
        (faults.error("channel_not_found"), ChatGone),
        (faults.error("is_archived"), ChatGone),
        (faults.error("msg_too_long"), Rejected),
        (faults.error("thread_not_found"), TopicClosed),
        (faults.error("restricted_action_thread_locked"), TopicClosed),
        (faults.missing_scope("chat:write"), Fatal),
        (faults.error("not_allowed_token_type"), Fatal),
        (faults.error("no_permission"), Fatal),
        (faults.invalid_auth(), Fatal),
        (faults.error("service_unavailable"), Temporary),
        (faults.error("internal_error"), OutcomeUnknown),
        (faults.server_error(503), OutcomeUnknown),
        (faults.reset(apply=True), OutcomeUnknown),
        (faults.garbage(apply=True), OutcomeUnknown),
    ],
    ids=lambda value: value.name if isinstance(value, faults.Fault) else "",
)
async def test_what_a_refused_send_means(bench: Bench, fault: faults.Fault, error: type[Exception]) -> None:
    await bench.slack.fail("chat.postMessage", fault)
    with pytest.raises(error) as raised:
        await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    assert "xoxb" not in str(raised.value)
    if fault.retry_after is not None:
        assert isinstance(raised.value, RateLimited)
        assert raised.value.retry_after == fault.retry_after


@pytest.mark.parametrize(
    "fault",
    [
        faults.missing_scope("x:write"),
        *map(faults.error, ("not_allowed_token_type", "team_access_not_granted", "no_permission", "unknown_method")),
    ],
    ids=lambda fault: fault.error,
)
async def test_a_call_that_the_app_may_not_make_says_nothing_about_the_others(
    make_bench: Callable[..., Bench], report: OutboundFile, fault: faults.Fault
) -> None:
    bench = make_bench(streaming="stream")
    said = await bench.slack.channel_says("hi", silent=True)
    ts = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    for method in ("chat.update", "files.getUploadURLExternal", "chat.startStream"):
        await bench.slack.fail(method, fault, times=9)
    with pytest.raises(NotAllowed):
        await bench.channel.edit(bench.dm, ts, only(bench, "Hello you"))
    with pytest.raises(NotAllowed):
        await bench.channel.send(bench.dm, only(bench, files=(report,)), "k2")
    for _ in range(2):
        with pytest.raises(Rejected):
            await bench.channel.open_stream(replace(bench.thread(said.ts), kind="dm"), "k3", None)
    assert len(await bench.slack.records("chat.startStream")) == 1, "not at each answer"


async def test_an_edit_may_be_repeated_so_its_loss_is_only_temporary(bench: Bench) -> None:
    ts = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    await bench.slack.fail("chat.update", faults.reset(apply=True))
    with pytest.raises(Temporary):
        await bench.channel.edit(bench.dm, ts, only(bench, "Hello again"))
    await bench.slack.fail("chat.update", faults.error("edit_window_closed"))
    with pytest.raises(MessageGone):
        await bench.channel.edit(bench.dm, ts, only(bench, "Hello again"))


async def test_a_refused_connection_has_changed_nothing(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(base_url="http://127.0.0.1:1/api/")
    with pytest.raises(Temporary):
        await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")


# Finding what was lost


async def test_a_lost_message_is_found_by_its_key_in_a_thread_too(bench: Bench) -> None:
    said = await bench.slack.channel_says("@antler hi", silent=True)
    thread = bench.thread(said.ts)
    await bench.slack.fail("chat.postMessage", faults.reset(apply=True))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.send(thread, only(bench, "Hel"), "k1")
    await bench.channel.send(thread, only(bench, "Other"), "k2")
    for after in (said.ts, None, "13.37.trigger"):
        found = await bench.channel.find(thread, only(bench, "Hello"), Probe(idem_key="k1", after=after))
        assert found is not None
    first, second = await bench.slack.bot_messages(TEAM)
    assert (first.ts, first.shown, second.shown) == (found, "Hello", "Other")


async def test_where_the_history_cannot_be_read_nothing_is_claimed(bench: Bench) -> None:
    await bench.slack.fail("conversations.history", faults.missing_scope("im:history"))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.find(bench.dm, only(bench, "Hello"), Probe(idem_key="k1", after=None))


async def test_the_newest_message_is_known_after_a_send(bench: Bench) -> None:
    assert bench.channel.newest(bench.dm) is None
    bench.channel.recall([(bench.dm.chat, "1700000000.000100"), (bench.dm.chat, "F1")])
    assert bench.channel.newest(bench.dm) == "1700000000.000100"
    ts = await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
    assert bench.channel.newest(bench.dm) == ts


# Files


@pytest.fixture
def report(tmp_path: Path) -> OutboundFile:
    path = tmp_path / "report.txt"
    path.write_bytes(b"figures")
    return OutboundFile(path=path, name="report.txt", mime_type="text/plain")


async def test_a_file_arrives_whole_and_can_be_removed(bench: Bench, report: OutboundFile) -> None:
    part = only(bench, files=(report,))
    file_id = await bench.channel.send(bench.dm, part, "k1")
    (message,) = await bench.slack.bot_messages(ALICE)
    assert [(file["id"], file["name"]) for file in message.files] == [(file_id, "report.txt")]
    assert (await bench.slack.file(file_id))["stream_size"] == 7
    await bench.channel.edit(bench.dm, file_id, part)
    with pytest.raises(MessageGone):
        await bench.channel.edit(bench.dm, file_id, only(bench, "a text"))
    await bench.channel.delete(bench.dm, file_id)
    await bench.channel.delete(bench.dm, file_id)
    assert await bench.slack.bot_messages(ALICE) == []


async def test_a_file_whose_sharing_was_not_answered_is_found(bench: Bench, report: OutboundFile) -> None:
    part = only(bench, files=(report,))
    probe = Probe(idem_key="k1", after=None)
    await bench.slack.fail("files.completeUploadExternal", faults.reset(apply=True))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.send(bench.dm, part, "k1")
    found = await bench.channel.find(bench.dm, part, probe)
    (message,) = await bench.slack.bot_messages(ALICE)
    assert message.files[0]["id"] == found


async def test_a_file_that_was_never_shared_is_not_found(bench: Bench, report: OutboundFile) -> None:
    part = only(bench, files=(report,))
    await bench.slack.fail("files.completeUploadExternal", faults.reset())
    with pytest.raises(OutcomeUnknown):
        await bench.channel.send(bench.dm, part, "k1")
    assert await bench.channel.find(bench.dm, part, Probe(idem_key="k1", after=None)) is None


async def test_a_file_of_an_earlier_process_is_found_by_its_name(
    make_bench: Callable[..., Bench], report: OutboundFile
) -> None:
    before, after = make_bench(), make_bench()
    part = only(before, files=(report,))
    recorded = await before.channel.send(before.dm, part, "k0")
    lost = await before.channel.send(before.dm, part, "k1")
    after.channel.recall([(before.dm.chat, recorded)])
    probe = Probe(idem_key="k1", after=None)
    assert await after.channel.find(after.dm, part, probe) == lost
    assert await after.channel.find(after.dm, part, replace(probe, idem_key="k2")) is None


@pytest.mark.parametrize("fault", [faults.server_error(), faults.reset()])
async def test_an_upload_that_breaks_off_may_be_repeated(
    bench: Bench, report: OutboundFile, fault: faults.Fault
) -> None:
    await bench.slack.fail(faults.FILE_UPLOAD, fault)
    with pytest.raises(Temporary):
        await bench.channel.send(bench.dm, only(bench, files=(report,)), "k1")


async def test_what_is_no_ordinary_file_is_refused(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "link").symlink_to("/etc/hostname")
    for name in ("empty", "link", "missing", "."):
        file = OutboundFile(path=tmp_path / name, name=name)
        with pytest.raises(Rejected):
            await bench.channel.send(bench.dm, only(bench, files=(file,)), "k1")
    assert await bench.slack.records("files.getUploadURLExternal") == []


async def received(bench: Bench, spec: FileSpec) -> Attachment:
    async with bench.running():
        await bench.slack.user_says("look", files=[spec])
        (attachment,) = (await bench.gateway.message()).attachments
    return attachment


@pytest.mark.parametrize("access", ["visible", "check_file_info"])
async def test_a_file_of_a_person_is_fetched(bench: Bench, access: Any) -> None:
    spec = FileSpec("notes.txt", "text/plain", b"the cat sat", access=access)
    attachment, sink = await received(bench, spec), Bytes()
    assert (attachment.name, attachment.mime_type, attachment.size) == ("notes.txt", "text/plain", 11)
    await bench.channel.fetch(attachment, sink)
    assert sink.content == b"the cat sat"
    assert "xoxb" not in attachment.ref


async def test_a_file_of_which_nothing_is_told_is_fetched_without_a_name(bench: Bench) -> None:
    await bench.slack.fail("files.info", faults.error("internal_error"))
    spec = FileSpec("notes.txt", "text/plain", b"the cat sat", access="check_file_info")
    attachment, sink = await received(bench, spec), Bytes()
    assert attachment.name is None
    await bench.channel.fetch(attachment, sink)
    assert sink.content == b"the cat sat"


async def test_a_picture_and_a_voice_clip_of_another_organisation_are_known_as_such(bench: Bench) -> None:
    async with bench.running():
        picture = FileSpec("a.png", "image/png", b"x", access="check_file_info")
        clip = FileSpec("v.m4a", "audio/mp4", b"x", access="check_file_info", subtype="slack_audio")
        await bench.slack.user_says("look", files=[picture, clip])
        files = (await bench.gateway.message()).attachments
    assert [(file.kind, file.name) for file in files] == [("image", "a.png"), ("voice", "v.m4a")]


async def test_the_login_page_is_not_taken_for_the_file(bench: Bench) -> None:
    attachment = await received(bench, FileSpec("notes.txt", "text/plain", b"the cat sat"))
    await bench.slack.fail(faults.FILE_DOWNLOAD, faults.login_page())
    with pytest.raises(AttachmentFailed) as gone:
        await bench.channel.fetch(attachment, Bytes())
    assert gone.value.reason == "gone", "the right is there"
    await bench.slack.configure(scopes=["chat:write", "im:history"])
    async with bench.running():
        with pytest.raises(NotAllowed, match="files:read"):
            await bench.channel.fetch(attachment, Bytes())


async def test_a_file_that_lies_about_its_size_is_cut_off(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(max_download_mb=1)
    liar = await received(bench, FileSpec("big.bin", declared_size=10, stream_size=50 * 1024 * 1024))
    sink = Bytes()
    with pytest.raises(AttachmentFailed) as raised:
        await bench.channel.fetch(liar, sink)
    assert raised.value.reason == "too_large"
    assert len(sink.content) <= 1024 * 1024


@pytest.mark.parametrize(
    "url", ["http://evil.example/x", "https://files.slack.com.evil.example/x", "file:///etc/passwd"]
)
async def test_the_token_goes_to_slack_only(bench: Bench, url: str) -> None:
    with pytest.raises(AttachmentFailed):
        await bench.channel.fetch(Attachment(ref=f'{{"id": "F1", "url": "{url}"}}', kind="file"), Bytes())


# Courtesies


async def test_a_status_is_shown_in_threads_and_a_receipt_where_it_is_wanted(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(receipt="eyes")
    async with bench.running():
        said = await bench.slack.channel_says("@antler hi")
        await bench.gateway.event()
    await bench.channel.typing(bench.thread(said.ts))
    await bench.channel.typing(bench.thread(said.ts))
    (message,) = [m for m in await bench.slack.messages(TEAM) if m.ts == said.ts]
    assert message.reactions == {"eyes": [bench.slack.bot_user_id]}
    assert (await bench.slack.thread(TEAM, said.ts))["status"] == "⏳"
    assert len(await bench.slack.records("reactions.add")) == 1


async def test_a_receipt_is_given_also_where_words_come_at_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(receipt="eyes")
    async with bench.running():
        said = await bench.slack.user_says("hi")
        await bench.gateway.event()
        await bench.channel.send(bench.dm, only(bench, "Hello"), "k1")
        await bench.channel.send(bench.dm, only(bench, "Hello again"), "k2")
    (message,) = [m for m in await bench.slack.messages(ALICE) if m.ts == said.ts]
    assert message.reactions == {"eyes": [bench.slack.bot_user_id]}
    assert len(await bench.slack.records("reactions.add")) == 1


async def test_a_thread_says_that_it_is_worked_on_until_there_are_words(bench: Bench) -> None:
    said = await bench.slack.channel_says("@antler hi", silent=True)
    thread = bench.thread(said.ts)

    async def status() -> str:
        return str((await bench.slack.thread(TEAM, said.ts))["status"])

    working, words = only(bench, status="Working…", final=False), only(bench, "Hello", final=False)
    ts = await bench.channel.send(thread, working, "k1")
    assert await status() == "⏳"
    await bench.channel.edit(thread, ts, only(bench, status="Thinking…", final=False))
    assert len(await bench.slack.records("assistant.threads.setStatus")) == 1
    await bench.channel.edit(thread, ts, words)
    assert await status() == ""
    await bench.channel.send(thread, only(bench, status="Queued", buttons=BUTTONS, final=False), "k2")
    assert await status() == "", "what waits is not worked on"


async def test_a_courtesy_that_is_not_allowed_is_told_once_and_tried_again_after_an_hour(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    said = await bench.slack.channel_says("hi", silent=True)
    await bench.slack.fail("assistant.threads.setStatus", faults.missing_scope("assistant:write"), times=2)
    for hour in range(3):
        bench.gateway.clock.ahead = 3601.0 * hour
        for _ in range(3):
            await bench.channel.typing(bench.thread(said.ts))
    assert len(await bench.slack.records("assistant.threads.setStatus")) == 5
    assert caplog.text.count("add the scope assistant:write") == 1
