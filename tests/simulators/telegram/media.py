"""Media methods of the Bot API: uploads, albums, getFile."""

import itertools
from collections.abc import Callable
from typing import Any

from tests.simulators.telegram.calls import Call
from tests.simulators.telegram.errors import bad_request
from tests.simulators.telegram.files import MAX_DOWNLOAD_BYTES, StoredFile
from tests.simulators.telegram.methods import MAX_CAPTION, formatted, post, target_chat
from tests.simulators.telegram.state import Bot, Chat, Json, StoredMessage, World

MAX_PHOTO_BYTES = 10 * 1024 * 1024
ALBUM_SIZES = range(2, 11)
_albums = itertools.count(1)


def media_object(kind: str, stored: StoredFile) -> Any:
    """The part of a Message that shows this file as photo, document, voice, audio or video."""
    basic: Json = {
        "file_id": stored.file_id,
        "file_unique_id": f"U{stored.file_id}",
        "file_size": stored.declared_size,
    }
    if kind == "photo":
        small = {**basic, "file_id": stored.file_id + "-small", "file_unique_id": f"S{stored.file_id}"}
        return [{**small, "width": 90, "height": 60, "file_size": 1000}, {**basic, "width": 1280, "height": 853}]
    extra: Json = {"mime_type": stored.mime}
    if kind != "voice":
        extra["file_name"] = stored.name
    if kind in ("voice", "audio", "video"):
        extra["duration"] = 3
    if kind == "video":
        extra.update({"width": 640, "height": 480})
    return {**basic, **extra}


def _file_for(world: World, bot: Bot, call: Call, kind: str, value: Any) -> tuple[StoredFile, Json]:
    """The file that a parameter means (upload by field name, attach://, or a known file_id) and its summary."""
    field = str(value).removeprefix("attach://") if value else kind
    upload = call.uploads.get(field)
    if upload is not None:
        if upload.size == 0:
            raise bad_request("file must be non-empty")
        if kind == "photo" and upload.size > MAX_PHOTO_BYTES:
            raise bad_request("file is too big for a photo")
        return world.files.add_upload(bot.id, upload), upload.summary()
    stored = world.files.get(str(value)) if value else None
    if stored is None:
        raise bad_request("wrong file identifier/HTTP URL specified" if value else f"there is no {kind} in the request")
    return stored, {"field": kind, "name": stored.name, "size": stored.declared_size, "file_id": stored.file_id}


def _post_media(
    world: World, bot: Bot, chat: Chat, call: Call, kind: str, value: Any, extra: Json | None = None
) -> StoredMessage:
    caption, entities = formatted(call, "caption", "caption_entities", MAX_CAPTION)
    stored, summary = _file_for(world, bot, call, kind, value)
    content: Json = {kind: media_object(kind, stored), **(extra or {})}
    if caption:
        content["caption"] = caption
    if entities:
        content["caption_entities"] = entities
    message = post(world, bot, chat, call, content)
    message.files.append({**summary, "kind": kind, "file_id": stored.file_id})
    return message


def _sender(kind: str) -> Callable[[World, Bot, Call], Any]:
    def send(world: World, bot: Bot, call: Call) -> Any:
        chat = target_chat(world, bot, call)
        return _post_media(world, bot, chat, call, kind, call.params.get(kind)).data

    return send


def send_media_group(world: World, bot: Bot, call: Call) -> Any:
    """sendMediaGroup: 2..10 items, all checked before the first is posted."""
    chat = target_chat(world, bot, call)
    items = call.objects("media")
    if len(items) not in ALBUM_SIZES:
        raise bad_request("media group must contain 2-10 items")
    parts: list[tuple[str, Any, Call]] = []
    for item in items:
        kind = str(item.get("type"))
        if kind not in ("photo", "document", "audio", "video"):
            raise bad_request(f"can't parse InputMedia: unsupported type {kind!r}")
        _file_for(world, bot, call, kind, item.get("media"))
        shared = {name: value for name, value in call.params.items() if name != "reply_markup"}
        captions: Json = {name: item[name] for name in ("caption", "caption_entities", "parse_mode") if name in item}
        part = Call(call.method, {**shared, **captions}, call.uploads)
        formatted(part, "caption", "caption_entities", MAX_CAPTION)
        parts.append((kind, item.get("media"), part))
    album: Json = {"media_group_id": str(next(_albums))}
    return [_post_media(world, bot, chat, part, kind, value, album).data for kind, value, part in parts]


def get_file(world: World, bot: Bot, call: Call) -> Any:
    """getFile: a path to download from; 400 for unknown ids and for declared sizes over 20 MB."""
    file_id = call.text("file_id").removesuffix("-small")
    stored = world.files.get(file_id)
    if stored is None or stored.bot_id != bot.id:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if stored.declared_size > MAX_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    return {
        "file_id": call.text("file_id"),
        "file_unique_id": f"U{file_id}",
        "file_size": stored.declared_size,
        "file_path": stored.path,
    }


METHODS = {
    "sendPhoto": _sender("photo"),
    "sendDocument": _sender("document"),
    "sendVoice": _sender("voice"),
    "sendAudio": _sender("audio"),
    "sendVideo": _sender("video"),
    "sendMediaGroup": send_media_group,
    "getFile": get_file,
}
