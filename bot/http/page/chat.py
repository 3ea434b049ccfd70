"""Chat in the browser: its page, the list of one's chats, and the events by which open pages stay up to date.

What is written and pressed goes through the API of conversations (`bot.http.chats`); here is what is shown of it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from fastapi import Form, Header, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import HttpProblem, not_found
from bot.http.page.messages import INLINE_PICTURES, Reader, Status, seen
from bot.http.page.view import language_of, page_router
from bot.http.sse import event, stream
from bot.store import conversations
from bot.texts.page import Words, words
from channels.text.sanitize import seen_line
from harness.models.tour_texts import texts_in

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from fastapi import APIRouter

    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts
    from bot.store.shown import Listed

SHOWN = 60
"""Messages of each side that a page begins with, and that are added when older ones are asked for."""
LISTED = 200
LONGEST_TITLE = 100


def chat_router(parts: HttpParts, pages: Pages) -> APIRouter:
    router = page_router(pages)
    talk = parts.web

    def working(chat: str) -> bool:
        key = talk.key(chat)
        return any(active.row.conversation == key for active in parts.runs.active.values())

    def days(found: Sequence[Listed]) -> list[tuple[str, list[Listed]]]:
        today = parts.clock.now().date()

        def heading(each: Listed) -> str:
            day = each.touched_at.date()
            return "today" if day >= today else "yesterday" if day == today - timedelta(days=1) else "earlier"

        return [(name, list(group)) for name, group in groupby(found, heading)]

    async def history(
        caller: Caller, chat: str, t: Words, before: datetime | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        """The messages to show, and the time before which there are more, "" where these are all."""
        entries = await talk.history(caller, chat, limit=SHOWN, before=before)
        return [seen(entry, t) for entry in entries], entries[0]["at"] if len(entries) >= SHOWN else ""

    async def shown(request: Request, caller: Caller, chat: str, *, fresh: bool) -> Response:
        t = words(language_of(request))
        # Read before the messages: what changes meanwhile is then told by the events once more.
        after = talk.cursor()
        messages, more = ([], "") if fresh else await history(caller, chat, t)
        mine = await talk.conversations(caller, limit=LISTED)
        return pages.html(
            request,
            "chat.html",
            caller,
            active="chat",
            chat=chat,
            title=next((each.title for each in mine if each.chat == chat), ""),
            fresh=not messages,
            tour=texts_in(t.language).steps if parts.settings().models[0].use == "demo" else (),
            days=days(mine),
            q="",
            messages=messages,
            more=more,
            after=after,
            working=working(chat),
        )

    @router.get("/")
    async def new(request: Request, caller: SignedIn) -> Response:
        return await shown(request, caller, talk.new_chat(caller), fresh=True)

    @router.get("/c/{chat}")
    async def one(request: Request, caller: SignedIn, chat: str) -> Response:
        return await shown(request, caller, talk.require(caller, chat), fresh=False)

    @router.get("/chats", dependencies=[requires("read")])
    async def listed(
        request: Request,
        caller: SignedIn,
        q: Annotated[str, Query(max_length=100)] = "",
        chat: Annotated[str, Query(max_length=100)] = "",
    ) -> HTMLResponse:
        wanted = q.casefold().split()
        mine = await talk.conversations(caller, limit=LISTED)
        found = [each for each in mine if all(word in each.title.casefold() for word in wanted)]
        return pages.html(request, "chats.html", caller, days=days(found), chat=chat, q=q)

    @router.get("/c/{chat}/earlier", dependencies=[requires("read")])
    async def earlier(request: Request, caller: SignedIn, chat: str, before: datetime) -> HTMLResponse:
        messages, more = await history(caller, talk.require(caller, chat), words(language_of(request)), before)
        return pages.html(request, "messages.html", caller, messages=messages, chat=chat, more=more)

    @router.post("/c/{chat}/title", dependencies=[requires("threads")])
    async def rename(
        request: Request, caller: SignedIn, chat: str, title: Annotated[str, Form(max_length=LONGEST_TITLE)]
    ) -> Response:
        line = seen_line(title)
        key = talk.key(talk.require(caller, chat))
        if not line:
            raise HttpProblem(422, "empty", "the title is empty")
        thread = next(
            (each.thread_id for each in await talk.conversations(caller, limit=LISTED) if each.key == key), None
        )
        if thread is None:
            raise not_found("this conversation has not begun")
        await parts.store.write(lambda tx: conversations.rename_thread(tx, thread, line))
        return pages.done(request)

    @router.get("/c/{chat}/events", dependencies=[requires("read")])
    async def events(
        request: Request,
        caller: SignedIn,
        chat: str,
        after: Annotated[str, Query(max_length=64)] = "",
        last_event_id: Annotated[str | None, Header(max_length=64)] = None,
    ) -> StreamingResponse:
        """Changes as HTML. after: where the page's own messages end; a browser that comes back says where it was."""
        talk.require(caller, chat)
        return stream(told(request, caller, chat, last_event_id or after or None))

    async def told(request: Request, caller: Caller, chat: str, since: str | None) -> AsyncGenerator[str, None]:
        t = words(language_of(request))

        def html(entry: Mapping[str, Any]) -> str:
            return pages.text(request, "message.html", caller, m=seen(entry, t), chat=chat)

        def status(of: Status) -> str:
            return pages.text(request, "status.html", caller, status=of)

        reader = Reader(t, lambda message_id: talk.now(caller, chat, message_id), html, status)
        async for number, change in talk.changes(caller, chat, since):
            if change.type == "snapshot":
                messages, more = await history(caller, chat, t)
                whole = pages.text(request, "messages.html", caller, messages=messages, chat=chat, more=more)
                yield event("state", {"html": whole, "working": working(chat)}, number)
                reader.sent.clear()
            elif (found := reader.event(change.type, change.data)) is not None:
                yield event(*found, number)

    @router.get("/uploads/{upload_id}", dependencies=[requires("read")])
    async def uploaded(caller: SignedIn, upload_id: str) -> FileResponse:
        """A file that the caller has attached: pictures are shown, anything else is only saved."""
        path, attachment = await talk.uploaded(caller, upload_id)
        picture = attachment.mime_type in INLINE_PICTURES
        return FileResponse(
            path,
            media_type=attachment.mime_type if picture else "application/octet-stream",
            headers={
                "Content-Disposition": f"{'inline' if picture else 'attachment'}; "
                f"filename*=UTF-8''{quote(attachment.name or 'file')}",
                "Content-Security-Policy": "default-src 'none'; sandbox",
                "Cache-Control": "private, max-age=3600",
            },
        )

    return router
