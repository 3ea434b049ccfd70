"""Conversations over HTTP: those of the page for sessions, those of the API for tokens."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import HttpProblem, not_found
from bot.http.resources.live import Live, Turn, TurnState
from bot.http.resources.requests import Approval, Requests
from bot.http.sse import EventStream
from bot.http.talk import MOST_LISTED
from bot.store import conversations as conversation_rows
from bot.store import personal, programs, shown
from channels.message import Address
from channels.text.sanitize import seen_line

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.http.parts import HttpParts
    from bot.http.talk import Talk
    from bot.store.forgetting import DeletionRow
    from bot.store.rows import ConversationRow
    from channels.message import Attachment

SHOWN_INLINE = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "audio/ogg", "audio/mpeg", "video/mp4"})
"""Types of agents' files that a browser may display; all others are only saved: they could be pages with scripts."""


FILE: dict[str, Any] = {
    "response_class": FileResponse,
    "responses": {200: {"description": "The file", "content": {"*/*": {"schema": {"type": "string"}}}}},
}
"""OpenAPI's description of a route whose answer is a file."""
SENT_FILE = {"requestBody": {"content": {"application/octet-stream": {"schema": {"format": "binary"}}}}}
"""OpenAPI's description of a route whose request's body is a file, of any type."""
LONGEST_TITLE = 100
MOST_FILES = 20
"""Files of one message."""


class Body(BaseModel):
    """The body of a request: nothing unknown is accepted, so that a misspelled key is reported."""

    model_config = ConfigDict(extra="forbid")


class NewMessage(Body):
    """A message. client_id: your own id for it; the same id again is the same message. attachments: ids of uploads."""

    text: str = ""
    client_id: str
    attachments: Annotated[list[str], Field(max_length=MOST_FILES)] = []
    reply_to: str | None = None


class NewTitle(Body):
    title: str = Field(max_length=LONGEST_TITLE)


class Conversation(BaseModel):
    """One conversation as it is now. state: `idle`, or that of its first turn. turns: those that run and those that
    wait, in that order. approvals: tool calls that wait for a decision."""

    chat: str
    thread_id: str
    title: str
    state: Literal["idle", TurnState]
    turns: tuple[Turn, ...]
    approvals: tuple[Approval, ...]


class Upload(BaseModel):
    """An uploaded file. id: for `attachments` of a message. size: in bytes."""

    id: str
    name: str
    kind: str
    size: int
    type: str


class Press(Body):
    """A press of a button. data: the button's. client_id: your own id for this press."""

    message_id: str
    data: str
    client_id: str


def file_of_answer(path: Path, name: str, mime_type: str) -> FileResponse:
    """A file that the agent made, if it is still kept. Raises HttpProblem."""
    if not path.is_file():
        raise not_found("the file is no longer kept")
    return file_response(path, name, mime_type, inline=mime_type in SHOWN_INLINE)


def file_response(path: Path, name: str, mime_type: str | None, *, inline: bool) -> FileResponse:
    """A file for one person, in which nothing runs. inline: it is displayed or played, otherwise only saved."""
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
    """The routes below /api/conversations and /api/uploads."""
    router = APIRouter(prefix="/api", tags=["conversations"])
    live, requests = Live(parts), Requests(parts)

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
        """Get the id of a new conversation; it begins with its first message."""
        return {"chat": talk(caller).new_chat(caller)}

    async def record(caller: Caller, chat: str) -> ConversationRow:
        """The conversation, if it is the caller's and has a message. Raises HttpProblem."""
        mine, now = talk(caller), parts.clock.now()
        key = mine.key(mine.require(caller, chat))

        def begun(tx: Connection) -> ConversationRow | None:
            """Create the row of a conversation whose first message is committed already."""
            is_said = bool(shown.said(tx, mine.account, chat, 1, None))
            return conversation_rows.ensure(tx, key, mine.account, caller.person, now) if is_said else None

        row = await parts.store.read(lambda tx: conversation_rows.load(tx, key))
        leaving = row is not None and await mine.conversation(caller, chat) is None
        row = row or await parts.store.write(begun)
        if row is None or leaving:
            raise not_found("there is no such conversation")
        return row

    @router.get("/conversations/{chat}", dependencies=[requires("read")])
    async def one(caller: SignedIn, chat: str) -> Conversation:
        """Show what happens in a conversation: whether the agent works there, on what, and what it waits for."""
        row = await record(caller, chat)
        # Read first: a message that has arrived by then is among the turns, or answered.
        arrives = await parts.store.read(lambda tx: programs.arrives(tx, row.account, chat))
        found, _ = await live.turns(caller, everybody=False)
        turns = tuple(each for each in found if each.conversation == row.key)
        asked = tuple(each for each in await requests.approvals(caller) if each.conversation == row.key)
        state = turns[0].state if turns else "queued" if arrives else "idle"
        return Conversation(
            chat=chat, thread_id=row.thread_id, title=row.title, state=state, turns=turns, approvals=asked
        )

    @router.patch("/conversations/{chat}", dependencies=[requires("threads")], status_code=204)
    async def rename(caller: SignedIn, chat: str, body: NewTitle) -> None:
        """Change the title."""
        title, row = seen_line(body.title), await record(caller, chat)
        if not title:
            raise HttpProblem(422, "empty", "the title is empty")
        await parts.store.write(lambda tx: conversation_rows.rename_thread(tx, row.thread_id, title))

    @router.delete("/conversations/{chat}", dependencies=[requires("threads")], status_code=202)
    async def delete(caller: SignedIn, chat: str) -> dict[str, Any]:
        """Delete the conversation with its history and files: a running answer is stopped, waiting ones are dropped,
        and the rest is deleted shortly afterwards, even after a crash."""
        await record(caller, chat)
        await delete_chat(parts, talk(caller), caller, chat)
        return {}

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

    @router.get("/conversations/{chat}/files/{message_id}", dependencies=[requires("read")], **FILE)
    async def file(caller: SignedIn, chat: str, message_id: str) -> FileResponse:
        found = await talk(caller).file(caller, chat, message_id)
        return file_of_answer(found.path, found.name, found.mime_type)

    @router.get("/uploads", dependencies=[requires("read")])
    async def uploads(caller: SignedIn) -> dict[str, list[Upload]]:
        """List the caller's uploads, newest first, whether or not a message contains them; at most 200."""
        return {"uploads": [_upload(each) for each, _ in await talk(caller).uploads(caller, MOST_LISTED)]}

    @router.get("/uploads/{upload_id}", dependencies=[requires("read")], **FILE)
    async def uploaded(caller: SignedIn, upload_id: str) -> FileResponse:
        path, kept = await talk(caller).uploaded(caller, upload_id)
        return file_of_answer(path, kept.name or "file", kept.mime_type or "")

    @router.delete("/uploads/{upload_id}", dependencies=[requires("threads")], status_code=204)
    async def discard(caller: SignedIn, upload_id: str) -> None:
        """Delete an upload. Messages that contain it stay, without the file; what the agent made of it stays too."""
        await talk(caller).remove_upload(caller, upload_id)

    @router.post("/uploads", dependencies=[requires("threads")], status_code=201, openapi_extra=SENT_FILE)
    async def upload(
        caller: SignedIn,
        request: Request,
        name: Annotated[str, Query(min_length=1, max_length=255)],
        voice: bool = False,
    ) -> dict[str, Any]:
        """Upload a file: the body is its content, the Content-Type its type. The returned id goes into `attachments` of
        a message. voice: it is a voice message, of a type such as audio/webm: its words are answered as if typed."""
        mime_type = request.headers.get("content-type", "").partition(";")[0].strip()[:100]
        kept = await talk(caller).upload(caller, name, mime_type, request.stream(), voice=voice)
        return {"id": kept.ref.rpartition("/")[2], "name": kept.name, "kind": kept.kind, "size": kept.size}

    return router


def _upload(kept: Attachment) -> Upload:
    upload_id = kept.ref.rpartition("/")[2]
    return Upload(id=upload_id, name=kept.name or "", kind=kept.kind, size=kept.size or 0, type=kept.mime_type or "")


async def delete_chat(parts: HttpParts, talk: Talk, caller: Caller, chat: str) -> bool:
    """Begin to delete one of the caller's conversations with its history, and with the files that they brought into no
    other one. False where the conversation has not begun. Raises HttpProblem."""
    address, now = Address(account=talk.account, chat=talk.require(caller, chat)), parts.clock.now()

    def unit(tx: Connection) -> list[DeletionRow]:
        programs.drop(tx, talk.key(chat))
        return personal.ask_deletion_of_chat(tx, address, caller.person, now)

    asked = await parts.store.write(unit)
    for row in asked:
        await parts.forgetting.begin(row)
    return bool(asked)
