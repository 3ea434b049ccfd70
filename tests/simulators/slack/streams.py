"""chat.startStream, appendStream and stopStream: messages that grow by appending and end after five minutes."""

from typing import Any

from tests.simulators.slack import posting
from tests.simulators.slack.blocks import check_blocks
from tests.simulators.slack.calls import Call
from tests.simulators.slack.content import metadata, stream_content
from tests.simulators.slack.errors import SlackError, missing_required
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage, Stream, StreamMode
from tests.simulators.slack.world import World

STREAM_SECONDS = 300.0
DISPLAYS = ("timeline", "plan", "dense")
DEFAULT_PLAN = "Plan"


def start(world: World, install: Installation, call: Call) -> Any:
    """chat.startStream: a reply in a thread; outside DMs it needs its recipient."""
    channel = posting.writable(world, install, call.required("channel"))
    if not call.given("thread_ts"):
        raise missing_required("thread_ts")
    root = posting.thread_root(channel, call.text("thread_ts"))
    recipient = _recipient(install, channel, call)
    mode, chunks = stream_content(call, required=False)
    display = call.text("task_display_mode", "timeline")
    if display not in DISPLAYS:
        raise SlackError("invalid_arguments")
    stream = Stream(world.clock.now(), mode, display, recipient)
    _append(stream, chunks)
    message = posting.post(world, install, channel, _content(stream), thread_ts=root)
    message.stream = stream
    return {"channel": channel.id, "ts": message.ts}


def append(world: World, install: Installation, call: Call) -> Any:
    """chat.appendStream: must use the mode in which the stream was opened."""
    channel, message, stream = _open_stream(world, install, call)
    mode, chunks = stream_content(call, required=True)
    _check_mode(stream, mode)
    _append(stream, chunks)
    stream.appends += 1
    message.data.update(_content(stream))
    message.remember_version()
    channel.touch()
    return {"channel": channel.id, "ts": message.ts}


def stop(world: World, install: Installation, call: Call) -> Any:
    """chat.stopStream: last chunks, then blocks below them and metadata."""
    channel, message, stream = _open_stream(world, install, call)
    mode, chunks = stream_content(call, required=False)
    if mode is not None:
        _check_mode(stream, mode)
    final_blocks = check_blocks(call.params["blocks"]) if call.given("blocks") else []
    extra = metadata(call)
    _append(stream, chunks)
    stream.final_blocks = final_blocks
    stream.state = "stopped"
    posting.change(world, channel, message, {**_content(stream), **extra})
    return {"channel": channel.id, "ts": message.ts, "message": message.data}


def expire(world: World, message: StoredMessage) -> None:
    """End a stream that is too old; it keeps what it shows."""
    stream = message.stream
    if stream is not None and stream.state == "streaming" and world.clock.now() - stream.started > STREAM_SECONDS:
        stream.state = "expired"


def stop_by_user(world: World, channel: Channel, message: StoredMessage) -> None:
    """End a stream as a person does with the message's stop button."""
    if message.stream is not None:
        message.stream.state = "stopped_by_user"
        posting.change(world, channel, message, {})


def _recipient(install: Installation, channel: Channel, call: Call) -> str | None:
    if channel.kind == "im":
        return channel.user
    if not call.text("recipient_user_id"):
        raise SlackError("missing_recipient_user_id")
    if not call.text("recipient_team_id"):
        raise SlackError("missing_recipient_team_id")
    if call.text("recipient_user_id") not in install.workspace.users:
        raise SlackError("user_not_found")
    return call.text("recipient_user_id")


def _open_stream(world: World, install: Installation, call: Call) -> tuple[Channel, StoredMessage, Stream]:
    channel = world.channel(install, call.required("channel"))
    message = posting.own_message(install, channel, call.required("ts"), "message_not_owned_by_app")
    expire(world, message)
    if message.stream is not None and message.stream.state == "stopped_by_user":
        raise SlackError("stopped_by_user")
    if message.stream is None or message.stream.state != "streaming":
        raise SlackError("message_not_in_streaming_state")
    return channel, message, message.stream


def _check_mode(stream: Stream, mode: StreamMode | None) -> None:
    """Check the mode: a stream keeps the form of its first content, markdown_text or chunks of any kind."""
    if stream.mode is not None and stream.mode != mode:
        raise SlackError("streaming_mode_mismatch")
    stream.mode = mode


def _append(stream: Stream, chunks: list[Json]) -> None:
    for chunk in chunks:
        if chunk["type"] == "markdown_text":
            _append_text(stream, chunk["text"])
        elif chunk["type"] == "task_update":
            _update_task(stream, chunk)
        elif chunk["type"] == "plan_update":
            _plan(stream)["title"] = chunk["title"]
        else:
            stream.segments += chunk["blocks"]


def _append_text(stream: Stream, text: str) -> None:
    if not stream.segments or stream.segments[-1]["type"] != "markdown":
        stream.segments.append({"type": "markdown", "text": ""})
    stream.segments[-1]["text"] += text


def _update_task(stream: Stream, chunk: Json) -> None:
    tasks: list[Json] = _plan(stream)["tasks"] if stream.display == "plan" else stream.segments
    fields = {name: value for name, value in chunk.items() if name not in ("type", "id")}
    for task in tasks:
        if task.get("task_id") == chunk["id"]:
            task.update(fields)
            return
    tasks.append({"type": "task_card", "task_id": chunk["id"], **fields})


def _plan(stream: Stream) -> Json:
    for segment in stream.segments:
        if segment["type"] == "plan":
            return segment
    plan: Json = {"type": "plan", "title": DEFAULT_PLAN, "tasks": []}
    stream.segments.append(plan)
    return plan


def _content(stream: Stream) -> Json:
    """The message's current members; copies, because the segments keep changing."""
    text = "".join(segment["text"] for segment in stream.segments if segment["type"] == "markdown")
    blocks = [{"block_id": f"s{number}", **block} for number, block in enumerate(stream.segments)]
    return {
        "text": text,
        "blocks": [
            {**block, "tasks": [dict(task) for task in block["tasks"]]} if "tasks" in block else block
            for block in blocks
        ]
        + stream.final_blocks,
        "streaming_state": "completed" if stream.state != "streaming" else "in_progress",
    }


METHODS = {"chat.appendStream": append, "chat.startStream": start, "chat.stopStream": stop}
