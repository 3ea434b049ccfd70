"""Text methods of the Bot API: send, edit, delete, draft, reaction, callback answers."""

import time
from typing import Any

from tests.simulators.telegram.calls import Call
from tests.simulators.telegram.entities import clean, is_blank, utf16_length
from tests.simulators.telegram.errors import bad_request
from tests.simulators.telegram.keyboards import inline_keyboard
from tests.simulators.telegram.state import Bot, Chat, Json, StoredMessage, World

MAX_TEXT = 4096
MAX_CAPTION = 1024
MAX_RICH = 32768
MAX_CALLBACK_ANSWER = 200
QUERY_TOO_OLD = "query is too old and response timeout expired or query ID is invalid"
CHAT_ACTIONS = frozenset(
    {"typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document"}
    | {"choose_sticker", "find_location", "record_video_note", "upload_video_note"}
)


def target_chat(world: World, bot: Bot, call: Call) -> Chat:
    """The chat that a call writes to; raises the errors of the real server."""
    if not call.has("chat_id"):
        raise bad_request("chat_id is empty")
    if call.chat_id is None:
        raise bad_request("chat not found")
    return world.writable_chat(bot, call.chat_id)


def formatted(call: Call, text_name: str, entities_name: str, limit: int) -> tuple[str, list[Json]]:
    """A text parameter with its entities, cleaned and checked against a limit in UTF-16 units."""
    if call.has("parse_mode"):
        raise bad_request("can't parse entities: the simulator takes entities only, never a parse mode")
    text, entities = clean(call.text(text_name), call.objects(entities_name))
    if utf16_length(text) > limit:
        raise bad_request("message caption is too long" if limit == MAX_CAPTION else "message is too long")
    return text, entities


def post(world: World, bot: Bot, chat: Chat, call: Call, content: Json) -> StoredMessage:
    """Put a message of the bot into a chat; the part common to all send methods."""
    data: Json = {"message_id": 0, "from": bot.user, "chat": chat.data, "date": int(time.time())}
    if chat.data["type"] == "channel":
        del data["from"]
        data["sender_chat"] = chat.data
    thread = call.optional_integer("message_thread_id")
    if thread:
        if thread not in chat.threads:
            raise bad_request("message thread not found")
        data["message_thread_id"] = thread
        data["is_topic_message"] = True
    data.update(_reply(chat, call))
    data.update(content)
    markup = call.object("reply_markup")
    asks_reply = markup if (markup or {}).get("force_reply") else None
    if asks_reply is None and (shown := inline_keyboard(markup)):
        data["reply_markup"] = shown
    data["message_id"] = chat.ids.take()
    message = StoredMessage(
        data,
        bot.id,
        link_preview_options=call.object("link_preview_options"),
        silent=call.flag("disable_notification"),
        asks_reply=asks_reply,
    )
    chat.messages[message.message_id] = message
    chat.draft = None
    chat.touch()
    return message


def _reply(chat: Chat, call: Call) -> Json:
    parameters = call.object("reply_parameters") or {}
    wanted = parameters.get("message_id", call.optional_integer("reply_to_message_id"))
    if wanted is None:
        return {}
    original = chat.visible(int(wanted))
    if original is None:
        if parameters.get("allow_sending_without_reply") or call.flag("allow_sending_without_reply"):
            return {}
        raise bad_request("message to be replied not found")
    reply: Json = {"reply_to_message": {k: v for k, v in original.data.items() if k != "reply_to_message"}}
    if quote := parameters.get("quote"):
        if quote not in str(original.data.get("text", original.data.get("caption", ""))):
            raise bad_request("QUOTE_TEXT_INVALID")
        reply["quote"] = {"text": quote, "position": 0, "is_manual": True}
    return reply


def send_message(world: World, bot: Bot, call: Call) -> Any:
    """sendMessage: 1..4096 UTF-16 units after cleaning."""
    chat = target_chat(world, bot, call)
    text, entities = formatted(call, "text", "entities", MAX_TEXT)
    if is_blank(text):
        raise bad_request("message text is empty")
    return post(world, bot, chat, call, _content(text, entities)).data


def _content(text: str, entities: list[Json]) -> Json:
    return {"text": text, "entities": entities} if entities else {"text": text}


def send_rich_message(world: World, bot: Bot, call: Call) -> Any:
    """sendRichMessage: exactly one of html, markdown, blocks; stored unchanged."""
    chat = target_chat(world, bot, call)
    rich = call.object("rich_message") or {}
    if sum(name in rich for name in ("html", "markdown", "blocks")) != 1:
        raise bad_request("rich_message must have exactly one of html, markdown, blocks")
    if len(str(rich.get("html") or rich.get("markdown") or "")) > MAX_RICH:
        raise bad_request("rich message is too long")
    return post(world, bot, chat, call, {"rich_message": rich}).data


def _editable(chat: Chat, bot: Bot, call: Call) -> StoredMessage:
    message = chat.visible(call.integer("message_id"))
    if message is None:
        raise bad_request("message to edit not found")
    if message.author_bot != bot.id or message.asks_reply:  # only messages without markup or with an inline keyboard
        raise bad_request("message can't be edited")
    return message


def _edit(chat: Chat, message: StoredMessage, call: Call, fields: Json) -> Any:
    """Replace visible fields (None removes one); the keyboard is removed unless the call has one."""
    fields = {**fields, "reply_markup": inline_keyboard(call.object("reply_markup"))}
    if all(message.data.get(name) == value for name, value in fields.items()):
        raise bad_request(
            "message is not modified: specified new message content and reply markup are exactly the same "
            "as a current content and reply markup of the message"
        )
    # A new object: earlier answers and queued updates that show this message must not change with it.
    kept = {name: value for name, value in message.data.items() if name not in fields}
    added = {name: value for name, value in fields.items() if value is not None}
    message.data = {**kept, **added, "edit_date": int(time.time())}
    message.remember_version()
    chat.touch()
    return message.data


def edit_message_text(world: World, bot: Bot, call: Call) -> Any:
    """editMessageText of an own text message."""
    chat = target_chat(world, bot, call)
    message = _editable(chat, bot, call)
    if "text" not in message.data:
        raise bad_request("there is no text in the message to edit")
    text, entities = formatted(call, "text", "entities", MAX_TEXT)
    if is_blank(text):
        raise bad_request("message text is empty")
    result = _edit(chat, message, call, {"text": text, "entities": entities or None})
    message.link_preview_options = call.object("link_preview_options")
    return result


def edit_message_caption(world: World, bot: Bot, call: Call) -> Any:
    """editMessageCaption of an own media message."""
    chat = target_chat(world, bot, call)
    message = _editable(chat, bot, call)
    if not message.files:
        raise bad_request("there is no caption in the message to edit")
    caption, entities = formatted(call, "caption", "caption_entities", MAX_CAPTION)
    return _edit(chat, message, call, {"caption": caption or None, "caption_entities": entities or None})


def edit_message_reply_markup(world: World, bot: Bot, call: Call) -> Any:
    """editMessageReplyMarkup: omitting reply_markup removes the keyboard."""
    chat = target_chat(world, bot, call)
    return _edit(chat, _editable(chat, bot, call), call, {})


def delete_message(world: World, bot: Bot, call: Call) -> Any:
    """deleteMessage: own messages anywhere, others' in private chats or as an administrator."""
    chat = target_chat(world, bot, call)
    message = chat.visible(call.integer("message_id"))
    if message is None:
        raise bad_request("message to delete not found")
    rights = chat.members[bot.id]["status"]
    if message.author_bot != bot.id and not chat.is_private and rights not in ("administrator", "creator"):
        raise bad_request("message can't be deleted")
    message.deleted_at = time.monotonic()
    chat.touch()
    return True


def send_chat_action(world: World, bot: Bot, call: Call) -> Any:
    """sendChatAction: kept with its time."""
    chat = target_chat(world, bot, call)
    action = call.text("action")
    if action not in CHAT_ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat.actions.append(
        {"at": time.monotonic(), "action": action, "thread": call.optional_integer("message_thread_id")}
    )
    chat.touch()
    return True


def send_message_draft(world: World, bot: Bot, call: Call) -> Any:
    """sendMessageDraft: private chats only, draft_id not 0, text 0..4096."""
    chat = target_chat(world, bot, call)
    if not chat.is_private:
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    if call.integer("draft_id") == 0:
        raise bad_request("draft_id must be non-zero")
    text, entities = formatted(call, "text", "entities", MAX_TEXT)
    thread = call.optional_integer("message_thread_id")
    chat.draft = {"at": time.monotonic(), "draft_id": call.integer("draft_id"), "text": text}
    chat.draft.update({"entities": entities, "message_thread_id": thread})
    chat.drafts.append(chat.draft)
    chat.touch()
    return True


def set_message_reaction(world: World, bot: Bot, call: Call) -> Any:
    """setMessageReaction: at most one reaction per bot."""
    chat = target_chat(world, bot, call)
    message = chat.visible(call.integer("message_id"))
    if message is None:
        raise bad_request("message to react not found")
    reaction = call.objects("reaction")
    if len(reaction) > 1 or any(item.get("type") == "emoji" and not item.get("emoji") for item in reaction):
        raise bad_request("REACTION_INVALID")
    message.reactions[bot.id] = reaction
    chat.touch()
    return True


def answer_callback_query(world: World, bot: Bot, call: Call) -> Any:
    """answerCallbackQuery: 400 for an unknown or old id."""
    callback = world.callbacks.get(call.text("callback_query_id"))
    if callback is None or callback.bot_id != bot.id or callback.expired:
        raise bad_request(QUERY_TOO_OLD)
    if utf16_length(call.text("text")) > MAX_CALLBACK_ANSWER:
        raise bad_request("MESSAGE_TOO_LONG")
    callback.answer = {"text": call.text("text"), "show_alert": call.flag("show_alert")}
    callback.answered.fire()
    return True


def pin_chat_message(world: World, bot: Bot, call: Call) -> Any:
    """pinChatMessage: checked, then only recorded."""
    chat = target_chat(world, bot, call)
    if chat.visible(call.integer("message_id")) is None:
        raise bad_request("message to pin not found")
    return True


METHODS = {
    "sendMessage": send_message,
    "sendRichMessage": send_rich_message,
    "editMessageText": edit_message_text,
    "editMessageCaption": edit_message_caption,
    "editMessageReplyMarkup": edit_message_reply_markup,
    "deleteMessage": delete_message,
    "sendChatAction": send_chat_action,
    "sendMessageDraft": send_message_draft,
    "setMessageReaction": set_message_reaction,
    "answerCallbackQuery": answer_callback_query,
    "pinChatMessage": pin_chat_message,
}
