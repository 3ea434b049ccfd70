"""Actions of people: write, edit, delete, react, add the bot, open its DM."""

import copy
from dataclasses import dataclass, field

from tests.simulators.control import ControlError
from tests.simulators.slack import events, reactions, streams
from tests.simulators.slack.composer import compose
from tests.simulators.slack.envelopes import Envelope
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.posting import change, remove
from tests.simulators.slack.state import Channel, Installation, Json, StoredMessage
from tests.simulators.slack.world import World


@dataclass
class Said:
    """An injected event: the message and the ids of the events with which this app receives it, if any."""

    channel: str
    ts: str
    message: Json
    event_ids: list[str] = field(default_factory=list)


def place(world: World, install: Installation, spec: Json | str) -> Channel:
    """The channel of a control request, created on first use: an id, or {kind, id, name, user, other_teams}."""
    channels = install.workspace.channels
    if isinstance(spec, str):
        if spec not in channels:
            raise ControlError(f"unknown channel {spec}")
        return channels[spec]
    if spec["kind"] == "im":
        return world.dm(install, spec["user"])
    channel = channels.get(spec["id"])
    if channel is None:
        channel = Channel(spec["id"], install.workspace.team_id, spec["kind"], spec.get("name") or spec["id"].lower())
        channel.members.add(install.bot_user_id)
        channels[channel.id] = channel
    channel.other_teams |= set(spec.get("other_teams") or ())
    return channel


def say(world: World, install: Installation, spec: Json) -> Said:
    """A person writes: user, text (typed) or wire_text and blocks, thread, broadcast, files, at, extra.

    `silent`: the message exists, perhaps in the past, without an event.
    """
    user = world.add_user(install.workspace, spec["user"])
    channel = place(world, install, with_user(spec["channel"], user))
    channel.members.add(user["id"])
    text, blocks = _text(install, channel, spec)
    data: Json = {"type": "message", "user": user["id"], "text": text, "team": user["team_id"]}
    data.update(client_msg_id=numbered("client-"), blocks=blocks)
    if not blocks:
        del data["blocks"]
    if channel.other_teams:
        data.update(user_team=user["team_id"], source_team=user["team_id"])
    data.update(_files(world, install, user["id"], spec))
    data["ts"] = world.clock.next_ts(spec.get("at"))
    for file in data.get("files", ()):
        world.files.files[file["id"]].shares.setdefault(channel.id, []).append(data["ts"])
    _enter_thread(channel, data, spec)
    data.update(spec.get("extra") or {})
    message = StoredMessage(data, None)
    channel.messages[message.ts] = message
    channel.touch()
    if spec.get("silent"):
        return Said(channel.id, message.ts, data)
    sent = events.publish_message(
        world, channel, events.message_event(channel, message), mention_first=bool(spec.get("mention_first"))
    )
    return Said(channel.id, message.ts, data, ids_for(install, sent))


def ids_for(install: Installation, sent: list[tuple[Installation, Envelope]]) -> list[str]:
    """The event ids that one installation gets."""
    return [envelope.event_id for receiver, envelope in sent if receiver is install]


def with_user(spec: Json | str, user: Json) -> Json | str:
    """A channel spec whose DM, unless it names a person, is the DM of this one."""
    if isinstance(spec, str):
        return spec
    return {"user": user["id"], **{name: value for name, value in spec.items() if value is not None}}


def _text(install: Installation, channel: Channel, spec: Json) -> tuple[str, list[Json]]:
    if spec.get("wire_text") is not None:
        return str(spec["wire_text"]), spec.get("blocks") or []
    users = {str(user["name"]).lower(): user["id"] for user in install.workspace.users.values()}
    rooms = {room.name: room.id for room in install.workspace.channels.values() if room.name}
    return compose(str(spec.get("text") or ""), users, rooms)


def _files(world: World, install: Installation, user: str, spec: Json) -> Json:
    if not spec.get("files"):
        return {}
    stored = [world.files.add_spec(install.workspace.team_id, user, file) for file in spec["files"]]
    return {
        "subtype": "file_share",
        "upload": False,
        "files": [file.in_message(world.origin) for file in stored],
    }


def _enter_thread(channel: Channel, data: Json, spec: Json) -> None:
    root = spec.get("thread")
    if root is None:
        return
    if root not in channel.messages:
        raise ControlError(f"no message {root} to reply to")
    data["thread_ts"] = root
    channel.messages[root].data.setdefault("thread_ts", root)
    if spec.get("broadcast"):
        data["subtype"] = "thread_broadcast"
        data["root"] = dict(channel.messages[root].data)


def find(world: World, install: Installation, spec: Json) -> tuple[Channel, StoredMessage]:
    """The message that a control request names by channel and ts; raises ControlError."""
    channel = place(world, install, spec["channel"])
    message = channel.messages.get(spec["ts"])
    if message is None or message.deleted_at is not None:
        raise ControlError(f"no message {spec['ts']} in {channel.id}")
    return channel, message


def edit(world: World, install: Installation, spec: Json) -> None:
    """A person edits a message; `unfurl` adds a link preview and leaves the text unchanged."""
    channel, message = find(world, install, spec)
    if spec.get("unfurl"):
        change(world, channel, message, {"attachments": [{"from_url": spec["unfurl"], "title": "A page"}]})
        return
    text, blocks = _text(install, channel, spec)
    edited = {"user": message.data.get("user"), "ts": world.clock.next_ts()}
    change(world, channel, message, {"text": text, "blocks": blocks or None, "edited": edited})


def delete(world: World, install: Installation, spec: Json) -> None:
    """A person deletes a message."""
    remove(world, *find(world, install, spec))


def react(world: World, install: Installation, spec: Json) -> None:
    """A person adds or (`remove`) removes a reaction."""
    channel, message = find(world, install, spec)
    user = world.add_user(install.workspace, spec["user"])["id"]
    act, kind = (reactions.take, "reaction_removed") if spec.get("remove") else (reactions.put, "reaction_added")
    if act(channel, message, user, spec["name"]):
        reactions.tell(world, channel, message, kind, user, spec["name"])


def membership(world: World, install: Installation, spec: Json) -> None:
    """A member (`member`, by default the bot) joins a channel or leaves it (`joined`: false), by the action of `by`."""
    channel = place(world, install, spec["channel"])
    member = spec.get("member") or install.bot_user_id
    if spec["joined"]:
        channel.members.add(member)
    audience = world.bots_in(channel)
    if not spec["joined"]:
        channel.members.discard(member)
    event = {
        "type": "member_joined_channel" if spec["joined"] else "member_left_channel",
        "user": member,
        "channel": channel.id,
        "channel_type": "C" if channel.kind == "channel" else "G",
        "team": install.workspace.team_id,
        "inviter": spec.get("by"),
        "event_ts": world.clock.next_ts(),
    }
    channel.touch()
    events.publish(world, audience, event, channel)


def open_assistant(world: World, install: Installation, spec: Json) -> Said:
    """A person opens a new thread with the app: its root message, and assistant_thread_started."""
    user = world.add_user(install.workspace, spec["user"])["id"]
    channel = world.dm(install, user)
    ts = world.clock.next_ts()
    root: Json = {"type": "message", "subtype": "assistant_app_thread", "user": install.bot_user_id, "ts": ts}
    root.update(text="New Assistant Thread", thread_ts=ts, assistant_app_thread={"title": "", "title_blocks": []})
    channel.messages[ts] = StoredMessage(root, install.app.app_id)
    channel.thread(ts)
    channel.touch()
    envelope = assistant_event(world, install, spec | {"ts": ts}, "assistant_thread_started")
    return Said(channel.id, ts, copy.deepcopy(root), [envelope.event_id] if envelope else [])


def assistant_event(world: World, install: Installation, spec: Json, kind: str) -> Envelope | None:
    """assistant_thread_started or assistant_thread_context_changed of a thread (`ts`), seen from `context`."""
    user = world.add_user(install.workspace, spec["user"])["id"]
    channel = world.dm(install, user)
    context = {"channel_id": spec.get("context"), "team_id": install.workspace.team_id, "enterprise_id": None}
    thread = {"user_id": user, "context": context, "channel_id": channel.id, "thread_ts": spec["ts"]}
    event = {"type": kind, "assistant_thread": thread, "event_ts": world.clock.next_ts()}
    return events.deliver(world, install, event, channel=channel)


def open_home(world: World, install: Installation, spec: Json) -> None:
    """A person opens the app's Home or Messages tab."""
    user = world.add_user(install.workspace, spec["user"])["id"]
    channel = world.dm(install, user)
    event = {"type": "app_home_opened", "user": user, "channel": channel.id, "tab": spec.get("tab", "messages")}
    events.deliver(world, install, {**event, "event_ts": world.clock.next_ts()}, channel=channel)


def stop_stream(world: World, install: Installation, spec: Json) -> None:
    """A person presses the stop button of a streaming message."""
    streams.stop_by_user(world, *find(world, install, spec))
