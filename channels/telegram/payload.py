"""A rendered part and its place as Bot API parameters and methods. Pure but for `opened`; called by channel.py."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any

from channels.errors import Rejected
from channels.files import open_regular
from channels.telegram.api import Upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from channels.base import Command
    from channels.message import Address
    from channels.telegram.outbound import TelegramFile, TelegramPart
    from channels.telegram.packing import Entity

MAX_UPLOAD = 50 * 1024 * 1024
"""Bytes that a bot may send (cloud API)."""
MAX_PHOTO = 10 * 1024 * 1024
_PHOTO_TYPES = frozenset({"image/jpeg", "image/png"})
_SPECIAL_VIEWS = {
    "voice": frozenset({"audio/ogg"}),
    "audio": frozenset({"audio/mpeg", "audio/mp4"}),
    "video": frozenset({"video/mp4"}),
}
_NO_PREVIEW = {"is_disabled": True}
"""On every text: fetching a previewed link leaks to its owner without a click."""

Params = dict[str, Any]


def place(address: Address) -> Params:
    """Where to send: the chat, and the topic if it has one."""
    params: Params = {"chat_id": _id(address.chat)}
    if address.topic is not None:
        params["message_thread_id"] = int(address.topic)
    return params


def target(address: Address, message_id: str) -> Params:
    """One message in a chat."""
    return {"chat_id": _id(address.chat), "message_id": _id(message_id)}


def reply(message_id: str | None) -> Params:
    """What is answered; it may have been deleted meanwhile."""
    if message_id is None:
        return {}
    return {"reply_parameters": {"message_id": _id(message_id), "allow_sending_without_reply": True}}


def content(part: TelegramPart) -> Params:
    """What is shown. An edit without reply_markup removes the keyboard, so the part always decides about it."""
    params: Params = {}
    if part.file is None:
        params = {"text": part.text, "link_preview_options": _NO_PREVIEW}
        if part.entities:
            params["entities"] = [_entity(entity) for entity in part.entities]
    elif part.text:
        params["caption"] = part.text
        if part.entities:
            params["caption_entities"] = [_entity(entity) for entity in part.entities]
    if part.keyboard:
        rows = [[{"text": label, "callback_data": data} for label, data in row] for row in part.keyboard]
        params["reply_markup"] = {"inline_keyboard": rows}
    return params


def draft(part: TelegramPart, idem_key: str) -> Params:
    """For sendMessageDraft. draft_id: stable for the key, never 0; the same id changes the draft in place."""
    digest = hashlib.sha256(idem_key.encode()).digest()
    params: Params = {"draft_id": int.from_bytes(digest[:4], "big") % (2**31 - 1) + 1, "text": part.text}
    if part.entities:
        params["entities"] = [_entity(entity) for entity in part.entities]
    return params


def edit_method(part: TelegramPart) -> str:
    return "editMessageText" if part.file is None else "editMessageCaption"


def upload_method(upload: Upload) -> str:
    return f"send{upload.field.capitalize()}"


@contextlib.contextmanager
def opened(file: TelegramFile, *, as_document: bool = False) -> Iterator[Upload]:
    """The file ready to be sent. Raises Rejected when it is none, empty or too large, or not there."""
    with contextlib.ExitStack() as stack:
        handle: BinaryIO | bytes
        if file.path is not None:
            handle = stack.enter_context(open_regular(file.path))
            size = os.fstat(handle.fileno()).st_size
        else:
            handle, size = file.content, len(file.content)
        if size > MAX_UPLOAD:
            raise Rejected(f"the file has {size} bytes; Telegram takes at most {MAX_UPLOAD} from a bot")
        if size == 0:
            raise Rejected("the file is empty; Telegram takes no empty files")
        yield Upload("document" if as_document else _view(file, size), handle, file.name)


def callback_answer(callback_id: str, text: str) -> Params:
    """For answerCallbackQuery; the text is cut at the API's 200 characters."""
    return {"callback_query_id": callback_id, "text": text[:200]} if text else {"callback_query_id": callback_id}


def command_menu(commands: Sequence[Command], locale: str | None) -> Params:
    """For setMyCommands; the API knows two-letter languages only."""
    params: Params = {
        "commands": [{"command": command.name, "description": command.description[:256]} for command in commands]
    }
    if locale is not None:
        params["language_code"] = locale.replace("_", "-").partition("-")[0].lower()
    return params


def _entity(entity: Entity) -> Params:
    shown: Params = {"type": entity.type, "offset": entity.offset, "length": entity.length}
    if entity.url is not None:
        shown["url"] = entity.url
    if entity.language is not None:
        shown["language"] = entity.language
    return shown


def _view(file: TelegramFile, size: int) -> str:
    """The Bot API's word for how to show a file; what no special view takes goes as a document."""
    if file.kind == "image" and file.mime_type in _PHOTO_TYPES and size <= MAX_PHOTO:
        return "photo"
    return file.kind if file.mime_type in _SPECIAL_VIEWS.get(file.kind, ()) else "document"


def _id(value: str) -> int | str:
    """Numbers as numbers; a public chat may also be named "@channel"."""
    return int(value) if value.lstrip("-").isascii() and value.lstrip("-").isdigit() else value
