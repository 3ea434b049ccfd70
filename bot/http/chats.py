"""Conversations over HTTP: those of the page for sessions, those of the API for tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import not_found
from bot.http.sse import EventStream

if TYPE_CHECKING:
    from pathlib import Path

    from bot.http.parts import HttpParts
    from bot.http.talk import Talk

SHOWN_INLINE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "audio/ogg", "audio/mpeg", "video/mp4"})
"""What a browser may show of a file that the agent made; all else is only saved: it could be a page with scripts."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewMessage(_Body):
    """client_id: your own id of this message; sent again it is the same message. attachments: ids of uploads."""

    text: str = ""
    client_id: str
    attachments: Annotated[list[str], Field(max_length=20)] = []
    reply_to: str | None = None


class Press(_Body):
    """data: the button's. client_id: your own id of this press."""

    message_id: str
    data: str
    client_id: str


def file_of_answer(path: Path, name: str, mime_type: str) -> FileResponse:
    """A file that the agent made, as far as it is still kept. Raises HttpProblem."""
    if not path.is_file():
        raise not_found("the file is not kept any more")
    inline = mime_type in SHOWN_INLINE
    return FileResponse(
        path,
        media_type=mime_type if inline else "application/octet-stream",
        headers={
            "Content-Disposition": f"{'inline' if inline else 'attachment'}; filename*=UTF-8''{quote(name)}",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cache-Control": "private, max-age=3600",
        },
    )


def chats_router(parts: HttpParts) -> APIRouter:
    """Everything below /api/conversations and /api/uploads."""
    router = APIRouter(prefix="/api", tags=["conversations"])

    def talk(caller: Caller) -> Talk:
        return parts.api if caller.is_program else parts.web

    def locale(request: Request) -> str | None:
        return request.headers.get("accept-language", "").partition(",")[0].partition(";")[0].strip() or None

    @router.get("/conversations", dependencies=[requires("read")])
    async def conversations(
        caller: SignedIn, limit: Annotated[int, Query(ge=1, le=200)] = 50, before: AwareDatetime | None = None
    ) -> dict[str, Any]:
        found = await talk(caller).conversations(caller, limit=limit, before=before)
        return {"conversations": [asdict(each) for each in found]}

    @router.post("/conversations", dependencies=[requires("threads")], status_code=201)
    async def begin(caller: SignedIn) -> dict[str, str]:
        """The id of a new conversation; it begins with its first message."""
        return {"chat": talk(caller).new_chat(caller)}

    @router.get("/conversations/{chat}/messages", dependencies=[requires("read")])
    async def messages(
        caller: SignedIn,
        chat: str,
        limit: Annotated[int, Query(ge=1, le=200)] = 100,
        before: AwareDatetime | None = None,
    ) -> dict[str, Any]:
        return {"messages": await talk(caller).history(caller, chat, limit=limit, before=before)}

    @router.post("/conversations/{chat}/messages", dependencies=[requires("runs")], status_code=202)
    async def post(caller: SignedIn, request: Request, chat: str, message: NewMessage) -> dict[str, Any]:
        mine = talk(caller)
        attachments = [await mine.attachment(caller, upload) for upload in message.attachments]
        posted = await mine.post(
            caller,
            chat,
            message.text,
            client_id=message.client_id,
            attachments=attachments,
            reply_to=message.reply_to,
            locale=locale(request),
        )
        return {"message_id": posted.message_id, "repeated": posted.repeated}

    @router.post("/conversations/{chat}/presses", dependencies=[requires("runs")], status_code=202)
    async def press(caller: SignedIn, request: Request, chat: str, pressed: Press) -> dict[str, Any]:
        await talk(caller).press(
            caller, chat, pressed.message_id, pressed.data, client_id=pressed.client_id, locale=locale(request)
        )
        return {}

    @router.get("/conversations/{chat}/events", dependencies=[requires("read")], response_class=EventStream)
    async def events(
        caller: SignedIn, chat: str, last_event_id: Annotated[str | None, Header(max_length=64)] = None
    ) -> StreamingResponse:
        """Server-sent events: a snapshot, then each change."""
        mine = talk(caller)
        mine.require(caller, chat)
        return parts.gatekeeper.stream(caller, mine.follow(caller, chat, last_event_id))

    @router.get(
        "/conversations/{chat}/files/{message_id}",
        dependencies=[requires("read")],
        response_class=FileResponse,
        responses={200: {"description": "The file", "content": {"*/*": {"schema": {"type": "string"}}}}},
    )
    async def file(caller: SignedIn, chat: str, message_id: str) -> FileResponse:
        found = await talk(caller).file(caller, chat, message_id)
        return file_of_answer(found.path, found.name, found.mime_type)

    @router.post("/uploads", dependencies=[requires("threads")], status_code=201)
    async def upload(
        caller: SignedIn,
        request: Request,
        name: Annotated[str, Query(min_length=1, max_length=255)],
        voice: bool = False,
    ) -> dict[str, Any]:
        """The body is the file, its type the Content-Type. The answer's id goes into `attachments` of a message. voice:
        it is a voice message, of a type such as audio/webm: what it says is answered as if it had been typed."""
        mime_type = request.headers.get("content-type", "").partition(";")[0].strip()[:100]
        kept = await talk(caller).upload(caller, name, mime_type, request.stream(), voice=voice)
        return {"id": kept.ref.rpartition("/")[2], "name": kept.name, "kind": kept.kind, "size": kept.size}

    return router
