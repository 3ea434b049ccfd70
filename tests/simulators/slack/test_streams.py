"""Streamed messages against the real SDK: growth, tasks, modes, the five-minute end and every refusal."""

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.messages.chunk import MarkdownTextChunk, PlanUpdateChunk, TaskUpdateChunk
from slack_sdk.web.async_client import AsyncWebClient

from tests.simulators.slack.client import SlackSimulator
from tests.simulators.slack.seen import ALICE, TEAM, Said, SeenMessage

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def said(slack: SlackSimulator) -> Said:
    return await slack.user_says("stream it")


async def the_answer(slack: SlackSimulator) -> SeenMessage:
    (seen,) = await slack.bot_messages(ALICE)
    return seen


async def test_the_sdks_chat_stream_streams_by_chunks(slack: SlackSimulator, web: AsyncWebClient, said: Said) -> None:
    stream = await web.chat_stream(channel=said.channel, thread_ts=said.ts, buffer_size=4)
    for piece in ("**one", " two** ", "three"):
        await stream.append(markdown_text=piece)
    await stream.stop(metadata={"event_type": "reply", "event_payload": {"key": "k"}})
    seen = await the_answer(slack)
    assert (seen.shown, seen.thread) == ("**one two** three", said.ts)
    assert seen.stream == {"state": "stopped", "mode": "chunks", "appends": 2}
    assert [version.shown for version in seen.history][:2] == ["**one", "**one two** "]
    assert seen.metadata is not None
    assert await slack.records("chat.startStream") != []


async def test_tasks_stay_where_they_came_first(slack: SlackSimulator, web: AsyncWebClient, said: Said) -> None:
    task = TaskUpdateChunk(id="t1", title="Search", status="in_progress")
    started = await web.chat_startStream(channel=said.channel, thread_ts=said.ts, chunks=[task])
    target: dict[str, Any] = {"channel": said.channel, "ts": str(started["ts"])}
    await web.chat_appendStream(chunks=[MarkdownTextChunk(text="found it")], **target)
    done = TaskUpdateChunk(id="t1", title="Search", status="complete", output="3 hits")
    await web.chat_stopStream(chunks=[done], blocks=[{"type": "divider"}], **target)
    seen = await the_answer(slack)
    assert [block["type"] for block in seen.blocks] == ["task_card", "markdown", "divider"]
    assert (seen.blocks[0]["status"], seen.blocks[0]["output"]) == ("complete", "3 hits")
    assert seen.shown == "[complete] Search\nfound it"


async def test_a_plan_shows_all_tasks_together(slack: SlackSimulator, web: AsyncWebClient, said: Said) -> None:
    started = await web.chat_startStream(
        channel=said.channel,
        thread_ts=said.ts,
        task_display_mode="plan",
        chunks=[PlanUpdateChunk(title="My plan"), TaskUpdateChunk(id="a", title="A", status="pending")],
    )
    error = TaskUpdateChunk(id="b", title="B", status="error")
    await web.chat_appendStream(channel=said.channel, ts=str(started["ts"]), chunks=[error])
    assert (await the_answer(slack)).shown == "My plan\n[pending] A\n[error] B"


async def test_a_stream_ends_after_five_minutes(slack: SlackSimulator, web: AsyncWebClient, said: Said) -> None:
    started = await web.chat_startStream(channel=said.channel, thread_ts=said.ts, markdown_text="so far")
    target: dict[str, Any] = {"channel": said.channel, "ts": str(started["ts"])}
    await slack.advance(299)
    await web.chat_appendStream(markdown_text=" and further", **target)
    with pytest.raises(SlackApiError, match="streaming_state_conflict"):
        await web.chat_update(text="edited", **target)
    await slack.advance(2)
    for call in (web.chat_appendStream, web.chat_stopStream):
        with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
            await call(markdown_text="too late", **target)
    await web.chat_update(text="edited", **target)
    seen = await the_answer(slack)
    assert seen.stream is not None
    assert (seen.shown, seen.stream["state"]) == ("edited", "expired")


async def test_a_stopped_stream_takes_no_more(slack: SlackSimulator, web: AsyncWebClient, said: Said) -> None:
    started = await web.chat_startStream(channel=said.channel, thread_ts=said.ts, markdown_text="so far")
    target: dict[str, Any] = {"channel": said.channel, "ts": str(started["ts"])}
    await slack.stops_stream(target["ts"])
    with pytest.raises(SlackApiError, match="stopped_by_user"):
        await web.chat_appendStream(markdown_text="more", **target)
    posted = await web.chat_postMessage(channel=said.channel, text="never streamed")
    with pytest.raises(SlackApiError, match="message_not_in_streaming_state"):
        await web.chat_appendStream(channel=said.channel, ts=str(posted["ts"]), markdown_text="x")
    with pytest.raises(SlackApiError, match="message_not_owned_by_app"):
        await web.chat_appendStream(channel=said.channel, ts=said.ts, markdown_text="x")


async def test_a_stream_keeps_its_mode(web: AsyncWebClient, said: Said) -> None:
    started = await web.chat_startStream(channel=said.channel, thread_ts=said.ts, markdown_text="text")
    target: dict[str, Any] = {"channel": said.channel, "ts": str(started["ts"])}
    with pytest.raises(SlackApiError, match="streaming_mode_mismatch"):
        await web.chat_appendStream(chunks=[MarkdownTextChunk(text="x")], **target)
    opened = await web.chat_startStream(channel=said.channel, thread_ts=said.ts)
    target["ts"] = str(opened["ts"])
    await web.chat_appendStream(chunks=[MarkdownTextChunk(text="x")], **target)
    with pytest.raises(SlackApiError, match="streaming_mode_mismatch"):
        await web.chat_appendStream(markdown_text="x", **target)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "markdown_text_or_chunks_required"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"markdown_text": "x", "chunks": [{"type": "markdown_text", "text": "x"}]}, "cannot_provide_both"),
        ({"chunks": [{"type": "markdown_text", "text": "x" * 6_001}] * 2}, "msg_too_long"),
        ({"chunks": [{"type": "task_update", "id": "t", "title": "T", "status": "done"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "task_update", "id": "t", "status": "error"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "weather"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "divider"}] * 51}]}, "msg_blocks_too_many"),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "section"}]}]}, "invalid_blocks"),
    ],
)
async def test_appended_content_is_checked(
    web: AsyncWebClient, said: Said, arguments: dict[str, Any], error: str
) -> None:
    started = await web.chat_startStream(channel=said.channel, thread_ts=said.ts)
    with pytest.raises(SlackApiError, match=error):
        await web.api_call("chat.appendStream", json={"channel": said.channel, "ts": started["ts"], **arguments})


async def test_a_channel_needs_the_recipient(slack: SlackSimulator, web: AsyncWebClient) -> None:
    asked = await slack.channel_says("@antler go")
    target: dict[str, Any] = {"channel": TEAM.id, "thread_ts": asked.ts}
    with pytest.raises(SlackApiError, match="missing_recipient_user_id"):
        await web.chat_startStream(**target)
    with pytest.raises(SlackApiError, match="missing_recipient_team_id"):
        await web.chat_startStream(recipient_user_id=ALICE.id, **target)
    with pytest.raises(SlackApiError, match="user_not_found"):
        await web.chat_startStream(recipient_user_id="U0NOBODY", recipient_team_id=slack.team_id, **target)
    assert (await web.chat_startStream(recipient_user_id=ALICE.id, recipient_team_id=slack.team_id, **target))["ok"]
    with pytest.raises(SlackApiError, match="missing required field: thread_ts"):
        await web.api_call("chat.startStream", json={"channel": TEAM.id})
