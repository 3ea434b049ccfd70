"""The operations of a robot on the platform, one method each; files are uploaded in chunks.

All methods raise only ChannelError. Foreign errors are translated in connection.py (websockets) and media.py (aiohttp).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import mimetypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from channels.adapter import open_regular
from channels.errors import OutcomeUnknown, Rejected, Temporary
from channels.wecom import frames

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from channels.message import Address
    from channels.wecom.link import Link
    from channels.wecom.outbound import Card, WecomFile, WecomPart

    Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

MediaType = Literal["image", "voice", "video", "file"]
CHUNK = 256 * 1024
"""Half the allowed size, so that pings between chunks are on time on a slow line; the largest file takes 80 of 100."""
MEGABYTE = 1024 * 1024
SMALLEST = 6
LARGEST = 20 * MEGABYTE
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8")
_LARGEST_PICTURE = 2 * MEGABYTE
_LARGEST_VIDEO = 10 * MEGABYTE
_LARGEST_VOICE = 2 * MEGABYTE
_SINGLE, _GROUP = 1, 2
"""The chat_type codes."""


@dataclass(frozen=True, slots=True)
class Content:
    """A file to upload: read as a whole, because it must not change during the upload."""

    type: MediaType
    name: str
    data: bytes


def content_of(file: WecomFile) -> Content:
    """Read a file from this machine; blocking. Raises Rejected for what WeCom would refuse."""
    data = file.content if file.path is None else _read(file.path)
    if not SMALLEST <= len(data) <= LARGEST:
        raise Rejected(f"WeCom accepts files of {SMALLEST} bytes to {LARGEST // MEGABYTE} MB, not {len(data)} bytes")
    return Content(_media_type(file, data), _named(file), data)


async def upload(content: Content, ask: Ask) -> str:
    """Upload and return the media_id. Raises Temporary, RateLimited, Rejected; nothing is visible to people yet."""
    pieces = [content.data[at : at + CHUNK] for at in range(0, len(content.data), CHUNK)]
    begin = {
        "type": content.type,
        "filename": content.name,
        "total_size": len(content.data),
        "total_chunks": len(pieces),
        "md5": hashlib.md5(content.data, usedforsecurity=False).hexdigest(),
    }
    try:
        upload_id = _field(await ask(frames.UPLOAD_BEGIN, begin), "upload_id")
        for index, piece in enumerate(pieces):
            chunk = {"upload_id": upload_id, "chunk_index": index, "base64_data": base64.b64encode(piece).decode()}
            await ask(frames.UPLOAD_CHUNK, chunk)
        return _field(await ask(frames.UPLOAD_FINISH, {"upload_id": upload_id}), "media_id")
    except OutcomeUnknown as error:
        raise Temporary(str(error)) from error


def _read(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise Rejected(f"the file to send cannot be read: {error.strerror}") from error


def _media_type(file: WecomFile, data: bytes) -> MediaType:
    """The media type that WeCom shows it as; what it would refuse as such is sent as a plain file."""
    if file.kind == "image" and data.startswith(_PICTURES) and len(data) <= _LARGEST_PICTURE:
        return "image"
    if file.kind == "video" and data[4:8] == b"ftyp" and len(data) <= _LARGEST_VIDEO:
        return "video"
    if file.kind == "voice" and data.startswith(b"#!AMR") and len(data) <= _LARGEST_VOICE:
        return "voice"
    return "file"


def _named(file: WecomFile) -> str:
    """The file's name, with an extension: WeCom shows a file according to it."""
    if "." in file.name:
        return file.name
    return file.name + (mimetypes.guess_extension(file.mime_type) or "")


def _field(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str) or not value:
        raise Temporary(f"the response to an upload has no {name}")
    return value


class WecomApi:
    """Calls of one robot."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def stream(self, req_id: str, stream_id: str, content: str, *, finish: bool) -> None:
        """Send a snapshot of a streamed answer, the whole text so far. Also raises StaleRequest and StreamOver."""
        body = {"msgtype": "stream", "stream": {"id": stream_id, "finish": finish, "content": content}}
        await self._link.ask(frames.RESPOND, body, req_id)

    async def push(self, address: Address, part: WecomPart, message_id: str) -> None:
        """Send a separate message; message_id: a card's task_id. Raises OutcomeUnknown when it may have been sent."""
        body: dict[str, Any] = {
            "chatid": frames.native_user(address.chat) if address.kind == "dm" else address.chat,
            "chat_type": _SINGLE if address.kind == "dm" else _GROUP,
        }
        # The message's id is part of the frame's id, so that a frame in a log can be matched to its message.
        req_id = frames.new_req_id(f"{frames.PUSH}_{message_id}")
        await self._link.ask(frames.PUSH, body | await self._content(part, message_id), req_id)

    async def _content(self, part: WecomPart, task_id: str) -> dict[str, Any]:
        if part.card is not None:
            return {"msgtype": "template_card", "template_card": part.card.to_json(task_id)}
        if part.file is not None:
            content = await asyncio.to_thread(content_of, part.file)
            media_id = await upload(content, self._link.ask)
            return {"msgtype": content.type, content.type: {"media_id": media_id}}
        return {"msgtype": "markdown", "markdown": {"content": part.text}}

    async def welcome(self, req_id: str, welcome: str | Card, task_id: str = "") -> None:
        """Greet a person who opened the chat; must be sent within five seconds. task_id: of a card."""
        if isinstance(welcome, str):
            body: dict[str, Any] = {"msgtype": "text", "text": {"content": welcome}}
        else:
            body = {"msgtype": "template_card", "template_card": welcome.to_json(task_id)}
        await self._link.ask(frames.WELCOME, body, req_id)

    async def update_card(self, req_id: str, card: dict[str, Any], user: str) -> None:
        """Show one person another card in place of the pressed one; must be sent within five seconds."""
        body = {"response_type": "update_template_card", "userids": [user], "template_card": card}
        await self._link.ask(frames.UPDATE_CARD, body, req_id)
