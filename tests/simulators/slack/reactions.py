"""reactions.*: emoji under messages, by bots and by people."""

from typing import Any

from tests.simulators.slack import events
from tests.simulators.slack.calls import Call
from tests.simulators.slack.errors import SlackError
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.world import World

MAX_NAME = 100


def _target(world: World, install: Installation, call: Call) -> tuple[Channel, StoredMessage]:
    channel = world.channel(install, call.required("channel"))
    message = channel.visible(call.required("timestamp"))
    if message is None:
        raise SlackError("message_not_found")
    return channel, message


def _name(call: Call) -> str:
    name = call.required("name").strip(":")
    if not name.replace("_", "").replace("-", "").replace("+", "").isalnum() or len(name) > MAX_NAME:
        raise SlackError("invalid_name")
    return name


def add(world: World, install: Installation, call: Call) -> Any:
    """reactions.add"""
    channel, message = _target(world, install, call)
    if install.bot_user_id not in channel.members:
        raise SlackError("not_in_channel")
    if not put(channel, message, install.bot_user_id, _name(call)):
        raise SlackError("already_reacted")
    tell(world, channel, message, "reaction_added", install.bot_user_id, _name(call))
    return {}


def remove(world: World, install: Installation, call: Call) -> Any:
    """reactions.remove"""
    channel, message = _target(world, install, call)
    if not take(channel, message, install.bot_user_id, _name(call)):
        raise SlackError("no_reaction")
    tell(world, channel, message, "reaction_removed", install.bot_user_id, _name(call))
    return {}


def get(world: World, install: Installation, call: Call) -> Any:
    """reactions.get"""
    channel, message = _target(world, install, call)
    return {"type": "message", "channel": channel.id, "message": message.data}


def put(channel: Channel, message: StoredMessage, user: str, name: str) -> bool:
    """Add a reaction; False if this user's already exists."""
    reactions: list[Json] = message.data.setdefault("reactions", [])
    for reaction in reactions:
        if reaction["name"] == name:
            if user in reaction["users"]:
                return False
            reaction["users"].append(user)
            reaction["count"] += 1
            channel.touch()
            return True
    reactions.append({"name": name, "users": [user], "count": 1})
    channel.touch()
    return True


def take(channel: Channel, message: StoredMessage, user: str, name: str) -> bool:
    """Remove a reaction; False if this user has none."""
    for reaction in message.data.get("reactions", []):
        if reaction["name"] == name and user in reaction["users"]:
            reaction["users"].remove(user)
            reaction["count"] -= 1
            left = [each for each in message.data["reactions"] if each["count"] > 0]
            message.data["reactions"] = left
            if not left:
                del message.data["reactions"]
            channel.touch()
            return True
    return False


def tell(world: World, channel: Channel, message: StoredMessage, kind: str, user: str, name: str) -> None:
    """Send the event of a reaction to all apps in the channel."""
    event = {
        "type": kind,
        "user": user,
        "reaction": name,
        "item": {"type": "message", "channel": channel.id, "ts": message.ts},
        "item_user": message.data.get("user"),
        "event_ts": world.clock.next_ts(),
    }
    events.publish(world, world.bots_in(channel), event, channel)


METHODS = {"reactions.add": add, "reactions.get": get, "reactions.remove": remove}
