"""Puts messages of apps into channels, changes and removes them, with the resulting events."""

import copy
import time

from tests.simulators.slack import events
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.world import World


def writable(world: World, install: Installation, channel_id: str) -> Channel:
    """The channel of a call that writes; a person's id means their DM. Raises the SlackError of the real server."""
    find = world.dm if channel_id in install.workspace.users else world.channel
    channel = find(install, channel_id)
    if channel.archived:
        raise SlackError("is_archived")
    if channel.kind == "im" and not install.app.messages_tab:
        raise SlackError("messages_tab_disabled")
    if install.bot_user_id not in channel.members and "chat:write.public" not in install.scopes:
        raise SlackError("not_in_channel")
    return channel


def thread_root(channel: Channel, thread_ts: str) -> str:
    """The thread to reply in; raises SlackError for one that does not exist or is named by a reply."""
    root = channel.messages.get(thread_ts)
    if root is None or root.ephemeral_to is not None:
        raise SlackError("thread_not_found")
    if root.is_reply:
        raise SlackError("cannot_reply_to_message")
    return thread_ts


def post(
    world: World, install: Installation, channel: Channel, content: Json, *, thread_ts: str | None = None
) -> StoredMessage:
    """A new message of the app's bot; its thread's status is cleared, and every app in the channel gets an event."""
    message = StoredMessage({**_signed(install), **content}, install.app.app_id)
    if thread_ts is not None:
        message.data["thread_ts"] = thread_ts
        channel.messages[thread_ts].data.setdefault("thread_ts", thread_ts)
    message.data["ts"] = world.clock.next_ts()
    channel.messages[message.ts] = message
    if thread_ts is not None:
        channel.thread(thread_ts).status = ""
    channel.touch()
    events.publish_message(world, channel, events.message_event(channel, message))
    return message


def _signed(install: Installation) -> Json:
    bot = {"id": install.bot_id, "app_id": install.app.app_id, "name": install.app.name, "deleted": False}
    return {
        "type": "message",
        "user": install.bot_user_id,
        "bot_id": install.bot_id,
        "app_id": install.app.app_id,
        "team": install.workspace.team_id,
        "bot_profile": {**bot, "team_id": install.workspace.team_id},
    }


def change(world: World, channel: Channel, message: StoredMessage, fields: Json) -> None:
    """Replace members of a message (None removes one), keep the version, notify the apps."""
    previous = copy.deepcopy(message.data)
    for name, value in fields.items():
        if value is None:
            message.data.pop(name, None)
        else:
            message.data[name] = value
    message.remember_version()
    channel.touch()
    events.publish_message(world, channel, events.changed_event(world, channel, message, previous))


def remove(world: World, channel: Channel, message: StoredMessage) -> None:
    """Delete a message."""
    message.deleted_at = time.monotonic()
    channel.touch()
    events.publish_message(world, channel, events.deleted_event(world, channel, message))


def own_message(install: Installation, channel: Channel, ts: str, refusal: str) -> StoredMessage:
    """A message of this app; raises SlackError message_not_found, or `refusal` for another's message."""
    message = channel.visible(ts)
    if message is None:
        raise SlackError("message_not_found")
    if message.author_app != install.app.app_id:
        raise SlackError(refusal)
    return message
