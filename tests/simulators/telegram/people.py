"""Actions of people in the simulated chats: write, edit, press buttons, add and block the bot."""

import itertools
import time
from dataclasses import dataclass
from typing import Any

from tests.simulators.control import ControlError
from tests.simulators.telegram.entities import detected
from tests.simulators.telegram.keyboards import find_button
from tests.simulators.telegram.media import media_object
from tests.simulators.telegram.state import Bot, Callback, Chat, Json, StoredMessage, World

# Real accounts that represent hidden senders (Bot API, Message.sender_chat).
GROUP_ANONYMOUS_BOT = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}

_callbacks = itertools.count(4_000_000_000_000_001)


@dataclass(frozen=True)
class Said:
    """The result of an injected event; update_id None means that allowed_updates excluded it."""

    update_id: int | None
    message: Json


def say(world: World, bot: Bot, spec: Json) -> Said:
    """A person (or channel, or another bot) writes; spec: chat, user, kind, text, media, reply_to, thread, extra,
    update_id (a chosen one, for updates that arrive out of order)."""
    chat = world.ensure_chat(bot, spec["chat"])
    kind = str(spec.get("kind", "message"))
    data: Json = {"message_id": chat.ids.take(), "chat": chat.data, "date": int(time.time())}
    if user := spec.get("user"):
        data["from"] = user
        chat.members.setdefault(int(user["id"]), {"status": "member", "user": user})
    if spec.get("anonymous"):
        data.update({"from": GROUP_ANONYMOUS_BOT, "sender_chat": chat.data})
    if kind == "channel_post":
        data["sender_chat"] = chat.data
    if (thread := spec.get("thread")) is not None:
        chat.threads.add(int(thread))
        data.update({"message_thread_id": thread, "is_topic_message": True})
    if (reply_to := spec.get("reply_to")) is not None:
        original = _existing(chat, reply_to).data
        data["reply_to_message"] = {name: value for name, value in original.items() if name != "reply_to_message"}
    _add_text(world, bot, data, spec)
    data.update(spec.get("extra") or {})
    chat.messages[data["message_id"]] = StoredMessage(data, None)
    chat.touch()
    chosen = {} if spec.get("update_id") is None else {"update_id": int(spec["update_id"])}
    return Said(world.queue_update(bot, {**chosen, kind: data}, chat), data)


def _add_text(world: World, bot: Bot, data: Json, spec: Json) -> None:
    """Text of a plain message, or caption and file of a media message; entities are detected unless given."""
    media = spec.get("media")
    text_name, entities_name = ("caption", "caption_entities") if media else ("text", "entities")
    text = spec.get("text")
    if text is not None and (text or not media):
        data[text_name] = text
        given = spec.get("entities")
        entities = detected(text) if given is None else given
        if entities:
            data[entities_name] = entities
    if media:
        stored = world.files.add_spec(bot.id, media["kind"], media)
        data[media["kind"]] = media_object(media["kind"], stored)


def edit(world: World, bot: Bot, spec: Json) -> Said:
    """A person edits an earlier message: chat_id, message_id, text."""
    chat = _known_chat(world, bot, spec["chat_id"])
    message = _existing(chat, spec["message_id"])
    entities = detected(spec["text"])
    text_name, entities_name = ("text", "entities") if "text" in message.data else ("caption", "caption_entities")
    kept = {name: value for name, value in message.data.items() if name not in (text_name, entities_name)}
    message.data = {**kept, text_name: spec["text"], "edit_date": int(time.time())}
    if entities:
        message.data[entities_name] = entities
    message.remember_version()
    chat.touch()
    kind = "edited_channel_post" if chat.data["type"] == "channel" else "edited_message"
    return Said(world.queue_update(bot, {kind: message.data}, chat), message.data)


def press(world: World, bot: Bot, spec: Json) -> Json:
    """Press an existing callback button, by data or label: chat_id, message_id, user, button."""
    chat = _known_chat(world, bot, spec["chat_id"])
    message = _existing(chat, spec["message_id"])
    button = find_button(message.data.get("reply_markup"), spec["button"])
    if button is None:
        raise ControlError(f"message {message.message_id} has no button {spec['button']!r}")
    callback_id = str(next(_callbacks))
    world.callbacks[callback_id] = Callback(bot.id, expired=bool(spec.get("expired")))
    shown = message.data
    if spec.get("inaccessible"):
        shown = {"chat": chat.data, "message_id": message.message_id, "date": 0}
    query = {
        "id": callback_id,
        "from": spec["user"],
        "message": shown,
        "chat_instance": str(abs(chat.id)),
        "data": button["callback_data"],
    }
    update_id = world.queue_update(bot, {"callback_query": query}, chat)
    return {"update_id": update_id, "callback_id": callback_id}


def change_membership(world: World, bot: Bot, spec: Json) -> Said:
    """The bot is added, removed, promoted or blocked: chat, user (who did it), status."""
    chat = world.ensure_chat(bot, spec["chat"])
    old = chat.members[bot.id]
    new = {"user": bot.user, "status": spec["status"], **(spec.get("rights") or {})}
    if new["status"] == "kicked":
        new.setdefault("until_date", 0)
    chat.members[bot.id] = new
    event = {
        "chat": chat.data,
        "from": spec["user"],
        "date": int(time.time()),
        "old_chat_member": old,
        "new_chat_member": new,
    }
    chat.touch()
    return Said(world.queue_update(bot, {"my_chat_member": event}, chat), event)


def migrate(world: World, bot: Bot, spec: Json) -> list[Said]:
    """A group becomes a supergroup: chat_id, new_chat_id. Both service messages are sent; the old id answers 400."""
    old = _known_chat(world, bot, spec["chat_id"])
    new_id = int(spec["new_chat_id"])
    supergroup = {**old.data, "id": new_id, "type": "supergroup"}
    new = world.ensure_chat(bot, supergroup)
    new.members.update(old.members)
    user = spec["user"]
    leaving = say(world, bot, {"chat": old.data, "user": user, "extra": {"migrate_to_chat_id": new_id}})
    old.migrated_to = new_id
    arriving = say(world, bot, {"chat": supergroup, "user": user, "extra": {"migrate_from_chat_id": old.id}})
    return [leaving, arriving]


def inject(world: World, bot: Bot, updates: list[Json], *, filtered: bool) -> list[int | None]:
    """Queue raw updates unmodified; messages in them become part of their chats. Given update_ids are kept."""
    return [world.queue_update(bot, update, _register(world, bot, update), filtered=filtered) for update in updates]


def _register(world: World, bot: Bot, update: Json) -> Chat | None:
    for name in ("message", "channel_post"):
        message = update.get(name)
        data = message.get("chat") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(data, dict) and {"id", "type"} <= data.keys():
            chat = world.ensure_chat(bot, data)
            number = message.get("message_id")
            if isinstance(number, int) and number not in chat.messages:
                chat.messages[number] = StoredMessage(message, None)
                chat.ids.taken(number)
                chat.touch()
            return chat
    return None


def _known_chat(world: World, bot: Bot, chat_id: Any) -> Chat:
    chat = world.chat(bot, int(chat_id))
    if chat is None:
        raise ControlError(f"unknown chat {chat_id}")
    return chat


def _existing(chat: Chat, message_id: Any) -> StoredMessage:
    message = chat.visible(int(message_id))
    if message is None:
        raise ControlError(f"no message {message_id} in chat {chat.id}")
    return message
