"""chat.*: post, update, delete, ephemeral messages and permalinks."""

from typing import Any

from tests.simulators.slack import streams
from tests.simulators.slack.calls import Call
from tests.simulators.slack.content import message_content
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.posting import change, own_message, post, remove, thread_root, writable
from tests.simulators.slack.state import Installation, Json, StoredMessage
from tests.simulators.slack.world import World


def post_message(world: World, install: Installation, call: Call) -> Any:
    """chat.postMessage: into a channel, a DM or a thread, optionally broadcast from the thread."""
    channel = writable(world, install, call.required("channel"))
    content = message_content(call)
    thread = thread_root(channel, call.text("thread_ts")) if call.given("thread_ts") else None
    if thread is not None and call.flag("reply_broadcast"):
        content = {**content, "subtype": "thread_broadcast"}
    message = post(world, install, channel, content, thread_ts=thread)
    return {"channel": channel.id, "ts": message.ts, "message": message.data}


def update(world: World, install: Installation, call: Call) -> Any:
    """chat.update: text without blocks removes the blocks, blocks without text keep the text."""
    channel = world.channel(install, call.required("channel"))
    message = own_message(install, channel, call.required("ts"), "cant_update_message")
    if channel.archived:
        raise SlackError("is_inactive")
    streams.expire(world, message)
    if message.stream is not None and message.stream.state == "streaming":
        raise SlackError("streaming_state_conflict")
    fields = message_content(call, update=True)
    if "text" in fields:
        fields.setdefault("blocks", None)
    if fields.get("blocks") is None:
        fields["edited"] = {"user": install.bot_user_id, "ts": world.clock.next_ts()}
    change(world, channel, message, fields)
    return {"channel": channel.id, "ts": message.ts, "text": message.data.get("text", ""), "message": message.data}


def delete(world: World, install: Installation, call: Call) -> Any:
    """chat.delete: only the app's own messages."""
    channel = world.channel(install, call.required("channel"))
    message = own_message(install, channel, call.required("ts"), "cant_delete_message")
    remove(world, channel, message)
    return {"channel": channel.id, "ts": message.ts}


def post_ephemeral(world: World, install: Installation, call: Call) -> Any:
    """chat.postEphemeral: only one member sees it, and it is not part of the history."""
    channel = writable(world, install, call.required("channel"))
    user = call.required("user")
    if user not in channel.members:
        raise SlackError("user_not_in_channel")
    content = message_content(call)
    if call.given("thread_ts"):
        content["thread_ts"] = thread_root(channel, call.text("thread_ts"))
    return {"message_ts": ephemeral(world, install, channel.id, user, content).ts}


def ephemeral(world: World, install: Installation, channel_id: str, user: str, content: Json) -> StoredMessage:
    """Show a message to one person."""
    channel = install.workspace.channels[channel_id]
    data = {"type": "message", "user": install.bot_user_id, "bot_id": install.bot_id, **content}
    message = StoredMessage({**data, "ts": world.clock.next_ts()}, install.app.app_id, ephemeral_to=user)
    channel.messages[message.ts] = message
    channel.touch()
    return message


def get_permalink(world: World, install: Installation, call: Call) -> Any:
    """chat.getPermalink"""
    channel = world.channel(install, call.required("channel"))
    message = channel.visible(call.required("message_ts"))
    if message is None:
        raise SlackError("message_not_found")
    domain = install.workspace.domain
    link = f"https://{domain}.slack.com/archives/{channel.id}/p{message.ts.replace('.', '')}"
    return {"channel": channel.id, "permalink": link}


METHODS = {
    "chat.delete": delete,
    "chat.getPermalink": get_permalink,
    "chat.postEphemeral": post_ephemeral,
    "chat.postMessage": post_message,
    "chat.update": update,
}
