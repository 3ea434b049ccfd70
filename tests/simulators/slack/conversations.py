"""conversations.* and users.conversations: the channels and messages that a bot can read."""

import base64
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.ids import derived
from tests.simulators.slack.scopes import READ_BY_KIND, require
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.view import message_json
from tests.simulators.slack.world import World

T = TypeVar("T")
DEFAULT_LIMIT = 100
MAX_LIMIT = 1000


def channel_json(install: Installation, channel: Channel) -> Json:
    """The channel object as this bot sees it."""
    shared: Json = {"id": channel.id, "created": 1_700_000_000, "is_archived": channel.archived}
    if channel.kind == "im":
        return {**shared, "is_im": True, "user": channel.user, "is_user_deleted": False}
    return {
        **shared,
        "name": channel.name,
        "is_channel": channel.kind == "channel",
        "is_group": channel.kind == "group",
        "is_mpim": channel.kind == "mpim",
        "is_im": False,
        "is_private": channel.kind != "channel",
        "is_member": install.bot_user_id in channel.members,
        "is_ext_shared": bool(channel.other_teams),
        "is_shared": bool(channel.other_teams),
        "shared_team_ids": [channel.team_id, *sorted(channel.other_teams)],
        "context_team_id": channel.team_id,
        "topic": {"value": ""},
        "purpose": {"value": ""},
    }


def info(world: World, install: Installation, call: Call) -> Any:
    """conversations.info"""
    return {"channel": channel_json(install, world.channel(install, call.required("channel")))}


def members(world: World, install: Installation, call: Call) -> Any:
    """conversations.members"""
    channel = world.channel(install, call.required("channel"))
    page, cursor = _page(call, sorted(channel.members))
    return {"members": page, "response_metadata": {"next_cursor": cursor}}


def open_conversation(world: World, install: Installation, call: Call) -> Any:
    """conversations.open: a DM with one person, by user id, or a group DM with several."""
    users = [user for user in call.text("users").split(",") if user]
    if call.given("channel"):
        return {"channel": channel_json(install, world.channel(install, call.text("channel")))}
    if not users:
        raise SlackError("users_list_not_supplied")
    if unknown := [user for user in users if user not in install.workspace.users]:
        raise SlackError("user_not_found", users=unknown)
    channel = world.dm(install, users[0]) if len(users) == 1 else _group_dm(install, users)
    return {"channel": channel_json(install, channel) if call.flag("return_im") else {"id": channel.id}}


def _group_dm(install: Installation, users: list[str]) -> Channel:
    require(install.scopes, "mpim:write")
    members = {*users, install.bot_user_id}
    channel_id = derived("G", *sorted(members))
    new = Channel(channel_id, install.workspace.team_id, "mpim", "mpdm", members=members)
    return install.workspace.channels.setdefault(channel_id, new)


def list_conversations(world: World, install: Installation, call: Call) -> Any:
    """conversations.list: the channels that the bot can see, by types."""
    return _listing(install, call, mine=False)


def users_conversations(world: World, install: Installation, call: Call) -> Any:
    """users.conversations: the channels of which the bot is a member, by types."""
    return _listing(install, call, mine=True)


def _listing(install: Installation, call: Call, *, mine: bool) -> Json:
    types = {name.strip() for name in call.text("types", "public_channel").split(",")}
    kinds = {"public_channel": "channel", "private_channel": "group", "im": "im", "mpim": "mpim"}
    if unknown := types - kinds.keys():
        raise SlackError("invalid_types", provided=",".join(sorted(unknown)))
    wanted = {kinds[name] for name in types}
    for kind in sorted(wanted):
        require(install.scopes, READ_BY_KIND[kind])
    found = [
        channel
        for channel in install.workspace.channels.values()
        if channel.kind in wanted
        and (install.bot_user_id in channel.members or (channel.kind == "channel" and not mine))
        and not (channel.archived and call.flag("exclude_archived"))
    ]
    page, cursor = _page(call, found)
    channels = [channel_json(install, channel) for channel in page]
    return {"channels": channels, "response_metadata": {"next_cursor": cursor}}


def history(world: World, install: Installation, call: Call) -> Any:
    """conversations.history: top-level messages, newest first."""
    channel = _readable(world, install, call)
    top = [m for m in channel.ordered() if not m.is_reply or m.data.get("subtype") == "thread_broadcast"]
    return _messages(channel, call, list(reversed(_between(call, top))))


def replies(world: World, install: Installation, call: Call) -> Any:
    """conversations.replies: the root first, then its replies, oldest first."""
    channel = _readable(world, install, call)
    named = channel.messages.get(call.required("ts"))
    if named is None or named.ephemeral_to is not None:
        raise SlackError("thread_not_found")
    if named.is_reply:
        return _messages(channel, call, _between(call, [named]))
    root = [named] if named.deleted_at is None else []
    return _messages(channel, call, root + _between(call, channel.replies(named.ts)))


def _readable(world: World, install: Installation, call: Call) -> Channel:
    channel = world.channel(install, call.required("channel"))
    if install.bot_user_id not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def _between(call: Call, messages: list[StoredMessage]) -> list[StoredMessage]:
    oldest, latest = call.text("oldest", "0"), call.text("latest")
    inclusive = call.flag("inclusive")
    after = [m for m in messages if m.ts > oldest or (inclusive and m.ts == oldest)]
    return [m for m in after if not latest or m.ts < latest or (inclusive and m.ts == latest)]


def _messages(channel: Channel, call: Call, messages: list[StoredMessage]) -> Json:
    page, cursor = _page(call, messages)
    with_metadata = call.flag("include_all_metadata")
    answer: Json = {
        "messages": [message_json(channel, message, metadata=with_metadata) for message in page],
        "has_more": bool(cursor),
        "pin_count": 0,
    }
    return {**answer, "response_metadata": {"next_cursor": cursor}} if cursor else answer


def _page(call: Call, items: Sequence[T]) -> tuple[Sequence[T], str]:
    """One page by cursor and limit, with the next cursor ("" at the end)."""
    limit = min(MAX_LIMIT, max(1, call.integer("limit", DEFAULT_LIMIT)))
    try:
        start = int(base64.b64decode(call.text("cursor")).decode().removeprefix("next:") or 0)
    except ValueError:
        raise SlackError("invalid_cursor") from None
    end = start + limit
    cursor = base64.b64encode(f"next:{end}".encode()).decode() if end < len(items) else ""
    return items[start:end], cursor


METHODS = {
    "conversations.history": history,
    "conversations.info": info,
    "conversations.list": list_conversations,
    "conversations.members": members,
    "conversations.open": open_conversation,
    "conversations.replies": replies,
    "users.conversations": users_conversations,
}
