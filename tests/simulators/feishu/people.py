"""Actions of people: write, forward, react, recall, add the bot. The platform has no event for edits."""

import base64
import re
from typing import Any

from tests.simulators.control import ControlError
from tests.simulators.feishu import events, ids
from tests.simulators.feishu.state import App, Chat, Json, Message, StoredFile
from tests.simulators.feishu.world import World

FILE_FIELDS = {"image": "image_key", "file": "file_key", "audio": "file_key", "media": "file_key"}


def place(world: World, app: App, spec: Json | str) -> Chat:
    """A chat by its id, by {"person": ...} for a direct chat, or by {id, mode, name} of a group."""
    if isinstance(spec, str):
        chat = app.tenant.chats.get(spec)
        if chat is None:
            raise ControlError(f"unknown chat {spec}")
        return chat
    if "person" in spec:
        return world.direct_chat(app, world.person(app.tenant, spec["person"]))
    chat = world.group(app.tenant, spec["id"], spec["mode"], spec.get("name") or "")
    if app.app_id not in chat.known_to:  # a group that a test uses for the first time has this bot in it
        chat.known_to.add(app.app_id)
        chat.bots.add(app.app_id)
        chat.external = chat.external or bool(spec.get("external"))
    return chat


def say(world: World, app: App, spec: Json) -> Json:
    """A message of a person: {message_id, chat_id, thread_id, event_ids of this app}."""
    chat = place(world, app, spec["chat"])
    sender, sender_type = _sender(world, app, spec)
    chat.members.add(sender)
    at = int(spec["at"] * 1000) if spec.get("at") else world.clock.milliseconds()
    message = Message(ids.numbered("om_"), chat, sender, sender_type, spec["type"], {}, at, at)
    _fill(world, app, message, spec)
    _join(app, message, spec)
    app.tenant.messages[message.message_id] = message
    chat.messages.append(message)
    message.show(world.clock.now())
    sent = [] if spec.get("silent") else tell(world, app, message)
    return {
        "message_id": message.message_id,
        "chat_id": chat.chat_id,
        "thread_id": message.thread_id,
        "keys": list(message.resources),
        "event_ids": [event.event_id for event in sent],
    }


def _sender(world: World, app: App, spec: Json) -> tuple[str, Any]:
    if spec.get("bot"):
        return str(spec["bot"]), "app"
    return world.person(app.tenant, spec["user"]), "user"


def tell(world: World, app: App, message: Message) -> list[Any]:
    """Deliver a message to all bots of its chat that may receive it; returns the events of `app`."""
    mine = []
    for bot in world.bots_in(message.chat, app.tenant):
        spoken_to = bot.app_id in message.mentions
        if message.chat.mode != "p2p" and bot.group_messages == "mentions" and not spoken_to:
            continue
        event = events.message_received(world, bot, message)
        if bot is app and event is not None:
            mine.append(event)
    return mine


def _fill(world: World, app: App, message: Message, spec: Json) -> None:
    """Set the content, by type."""
    if spec.get("content") is not None:
        message.content = spec["content"]
        message.mentions = [_mentioned(app, who) for who in spec.get("mentions") or ()]
    elif message.msg_type == "text":
        text, message.mentions = compose(app, spec["text"])
        message.content = {"text": text}
    elif message.msg_type == "merge_forward":
        message.children = [_child(app, message, message_id) for message_id in spec["forwarded"]]
    for file in spec.get("files") or ():
        _attach(message, file)


def compose(app: App, text: str) -> tuple[str, list[str]]:
    """Turn @name into the wire's @_user_N keys, and @all into @_all; also returns the mentioned ids."""
    names = {bot.name: bot.app_id for bot in app.tenant.apps.values()}
    names |= {str(known["name"]): person for person, known in app.tenant.people.items()}
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    mentions: list[str] = []

    def key(found: re.Match[str]) -> str:
        who = names[found[1]]
        if who not in mentions:
            mentions.append(who)
        return f"@_user_{mentions.index(who) + 1}"

    return re.sub(f"@({pattern})", key, re.sub(r"@all\b", "@_all", text)), mentions


def _mentioned(app: App, who: str) -> str:
    return app.app_id if who == "bot" else who


def _attach(message: Message, file: Json) -> None:
    """Store a file with the message. in_post: an image inside a post, whose content already has its key."""
    content = base64.b64decode(file["base64"]) if file.get("base64") is not None else None
    size = len(content) if content is not None else int(file.get("size") or 0)
    kind = str(file["kind"])
    key = str(file.get("key") or ids.numbered("img_v3_" if kind == "image" else "file_v3_"))
    stored = StoredFile(file["name"], file["mime"], kind, content, size, duration=file.get("duration"))
    message.resources[key] = stored
    if message.msg_type not in FILE_FIELDS:
        return
    name = "image_key" if kind == "image" else FILE_FIELDS[message.msg_type]
    message.content[name] = key
    if message.msg_type in ("file", "media") and kind != "image":
        message.content["file_name"] = stored.name
    if stored.duration is not None:
        message.content["duration"] = stored.duration


def _child(app: App, bundle: Message, message_id: str) -> Message:
    origin = app.tenant.messages.get(message_id)
    if origin is None:
        raise ControlError(f"unknown message {message_id}")
    child = Message(
        ids.numbered("om_"), bundle.chat, origin.sender, origin.sender_type, origin.msg_type, origin.content, 0, 0
    )
    child.created = child.updated = origin.created
    child.mentions, child.resources, child.upper_id = origin.mentions, origin.resources, bundle.message_id
    app.tenant.messages[child.message_id] = child
    return child


def _join(app: App, message: Message, spec: Json) -> None:
    """Link the message to the one that it answers; in topic groups everything is in a topic."""
    if spec.get("reply_to"):
        parent = app.tenant.messages.get(spec["reply_to"])
        if parent is None:
            raise ControlError(f"unknown message {spec['reply_to']}")
        message.parent_id, message.root_id = parent.message_id, parent.root_id or parent.message_id
        root = app.tenant.messages[message.root_id]
        if spec.get("in_thread") and not root.thread_id:
            root.thread_id = ids.numbered("omt_")
        message.thread_id = parent.thread_id or (root.thread_id if spec.get("in_thread") else "")
    elif message.chat.mode == "topic":
        message.thread_id = ids.numbered("omt_")


def _message(app: App, spec: Json) -> Message:
    message = app.tenant.messages.get(spec["message_id"])
    if message is None:
        raise ControlError(f"unknown message {spec['message_id']}")
    return message


def repeat(world: World, app: App, spec: Json) -> Json:
    """Send the same message again under another event id, as the platform sometimes does."""
    event = events.message_received(world, app, _message(app, spec))
    return {"event_id": event.event_id if event else None}


def recall(world: World, app: App, spec: Json) -> Json:
    """A person recalls a message."""
    message = _message(app, spec)
    message.deleted_at = world.clock.now()
    message.show(world.clock.now())
    for bot in world.bots_in(message.chat, app.tenant):
        events.recalled(world, bot, message)
    return {}


def react(world: World, app: App, spec: Json) -> Json:
    """A person adds or removes a reaction."""
    message, who = _message(app, spec), world.person(app.tenant, spec["user"])
    known = [i for i, r in message.reactions.items() if (r["who"], r["emoji"]) == (who, spec["emoji"])]
    for reaction_id in known if spec.get("remove") else ():
        del message.reactions[reaction_id]
    if not spec.get("remove"):
        message.reactions[ids.numbered("reaction-")] = {"emoji": spec["emoji"], "who": who}
    message.chat.touch()
    for bot in world.bots_in(message.chat, app.tenant):
        events.reaction(world, bot, message, spec["emoji"], who, added=not spec.get("remove"))
    return {}


def membership(world: World, app: App, spec: Json) -> Json:
    """The bot is added to or removed from a group."""
    chat, operator = place(world, app, spec["chat"]), world.person(app.tenant, spec["user"])
    if spec["joined"]:
        chat.bots.add(app.app_id)
    else:
        chat.bots.discard(app.app_id)
    chat.touch()
    event = events.bot_membership(world, app, chat, operator, joined=spec["joined"])
    return {"event_id": event.event_id if event else None}


def enter(world: World, app: App, spec: Json) -> Json:
    """A person opens the direct chat with the bot."""
    person = world.person(app.tenant, spec["user"])
    chat = world.direct_chat(app, person)
    event = {"chat_id": chat.chat_id, "operator_id": events.user_ids(app, person)}
    sent = events.deliver(world, app, "im.chat.access_event.bot_p2p_chat_entered_v1", event, chat=chat)
    return {"event_id": sent.event_id if sent else None}
