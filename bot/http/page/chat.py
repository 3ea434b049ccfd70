"""Chat in the browser: its page, the list of one's chats, and the events by which open pages stay up to date.

What is written and pressed goes through the API of conversations (`bot.http.chats`); this module displays it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Form, Header, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse  # noqa: TC002  # as below
from pydantic import AwareDatetime  # noqa: TC002  # read by FastAPI

from bot.http.auth import Caller, SignedIn, requires
from bot.http.chats import MOST_FILES, delete_chat, file_response
from bot.http.errors import HttpProblem, not_found
from bot.http.guard import PERMISSIONS
from bot.http.page.artifacts import add_artifacts
from bot.http.page.branches import add_branches
from bot.http.page.markup import pieces
from bot.http.page.messages import INLINE_PICTURES, INLINE_SOUNDS, Reader, seen
from bot.http.page.view import language_of, page_router
from bot.http.sse import event
from bot.store import branches, conversations
from bot.texts import texts_for
from bot.texts.page import Words, words
from channels.text.sanitize import seen_line
from harness.models.tour_texts import texts_in

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from fastapi import APIRouter

    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts
    from bot.store.branches import Relations
    from bot.store.shown import Listed

SHOWN = 60
"""Messages of each side with which a page begins, and that are added when older ones are requested."""
LISTED = 200
LONGEST_TITLE = 100


def chat_router(parts: HttpParts, pages: Pages) -> APIRouter:
    chat = ChatPages(parts, pages)
    router = page_router(pages)
    read, threads = [requires("read")], [requires("threads")]
    router.add_api_route("/", chat.new, methods=["GET"], dependencies=read)
    router.add_api_route("/c/{chat}", chat.one, methods=["GET"], dependencies=read)
    router.add_api_route("/chats", chat.listed, methods=["GET"], dependencies=read)
    router.add_api_route("/c/{chat}/earlier", chat.earlier, methods=["GET"], dependencies=read)
    router.add_api_route("/c/{chat}/title", chat.rename, methods=["POST"], dependencies=threads)
    router.add_api_route("/c/{chat}/delete", chat.delete, methods=["POST"], dependencies=threads)
    router.add_api_route("/c/{chat}/why/{message_id}", chat.why, methods=["GET"], dependencies=read)
    router.add_api_route("/c/{chat}/events", chat.events, methods=["GET"], dependencies=read)
    router.add_api_route("/uploads/{upload_id}", chat.uploaded, methods=["GET"], dependencies=read)
    add_artifacts(router, parts, pages)
    add_branches(router, parts)
    return router


class ChatPages:
    """The handlers of the chat's paths."""

    def __init__(self, parts: HttpParts, pages: Pages) -> None:
        self._parts = parts
        self._pages = pages
        self._talk = parts.web

    async def new(self, request: Request, caller: SignedIn) -> Response:
        return await self._shown(request, caller, self._talk.new_chat(caller), fresh=True)

    async def one(self, request: Request, caller: SignedIn, chat: str) -> Response:
        return await self._shown(request, caller, self._talk.require(caller, chat), fresh=False)

    async def _shown(self, request: Request, caller: Caller, chat: str, *, fresh: bool) -> Response:
        t = words(language_of(request))
        # Read before the messages: changes in between are then sent again as events.
        after = self._talk.cursor()
        messages, more = ([], "") if fresh else await self._history(caller, chat, t)
        mine = await self._talk.conversations(caller, limit=LISTED)
        known = None if fresh else await self._talk.conversation(caller, chat)
        demo = self._parts.settings().models[0].use == "demo"
        transcription = self._parts.settings().transcription
        records = 0.0 if transcription is None else transcription.max_minutes
        return self._pages.html(
            request,
            "chat.html",
            caller,
            headers={"Permissions-Policy": f"{PERMISSIONS}, microphone=(self)"} if records else None,
            active="chat",
            chat=chat,
            title="" if known is None else known.title,
            fresh=not messages,
            tour=texts_in(t.language) if demo else None,
            days=self._days(mine),
            q="",
            excerpts={},
            messages=messages,
            more=more,
            after=after,
            working=self._works(chat),
            records=records,
            most_files=MOST_FILES,
            branch=await self._relations(chat),
        )

    async def _relations(self, chat: str) -> Relations:
        return await self._parts.store.read(lambda tx: branches.relations(tx, self._talk.key(chat)))

    def _works(self, chat: str) -> bool:
        """Whether the agent is working in a chat."""
        key = self._talk.key(chat)
        return any(active.row.conversation == key for active in self._parts.runs.active.values())

    def _days(self, found: Sequence[Listed]) -> list[tuple[str, list[Listed]]]:
        """Chats grouped under their headings."""
        zone = self._parts.settings().zone
        today = self._parts.clock.now().astimezone(zone).date()

        def heading(each: Listed) -> str:
            day = each.touched_at.astimezone(zone).date()
            return "today" if day >= today else "yesterday" if day == today - timedelta(days=1) else "earlier"

        return [(name, list(group)) for name, group in groupby(found, heading)]

    async def _history(
        self, caller: Caller, chat: str, t: Words, before: datetime | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        """The messages to show, and the time before which there are more, "" where these are all."""
        entries = await self._talk.history(caller, chat, limit=SHOWN, before=before)
        # In a thread, since code is highlighted here.
        messages = await asyncio.to_thread(lambda: [seen(entry, t) for entry in entries])
        return messages, entries[0]["at"] if len(entries) >= SHOWN else ""

    async def listed(
        self,
        request: Request,
        caller: SignedIn,
        q: Annotated[str, Query(max_length=100)] = "",
        chat: Annotated[str, Query(max_length=100)] = "",
    ) -> HTMLResponse:
        """The list of chats. q: words of their titles or of one message. chat: the open one."""
        excerpts: dict[str, str] = {}
        if q.strip():
            async with self._parts.gatekeeper.searching(caller):
                with_words = await self._talk.search(caller, q, limit=LISTED)
            found, excerpts = [each for each, _ in with_words], {each.chat: told for each, told in with_words}
        else:
            found = await self._talk.conversations(caller, limit=LISTED)
        days = self._days(found)
        return self._pages.html(request, "chats.html", caller, days=days, chat=chat, q=q, excerpts=excerpts)

    async def earlier(self, request: Request, caller: SignedIn, chat: str, before: AwareDatetime) -> HTMLResponse:
        t = words(language_of(request))
        messages, more = await self._history(caller, self._talk.require(caller, chat), t, before)
        branch = await self._relations(chat)
        return self._pages.html(
            request, "messages.html", caller, messages=messages, chat=chat, more=more, branch=branch
        )

    async def rename(
        self, request: Request, caller: SignedIn, chat: str, title: Annotated[str, Form(max_length=LONGEST_TITLE)]
    ) -> Response:
        line = seen_line(title)
        self._talk.require(caller, chat)
        if not line:
            raise HttpProblem(422, "empty", "the title is empty")
        known = await self._talk.conversation(caller, chat)
        if known is None:
            raise not_found("this conversation has not started")
        await self._parts.store.write(lambda tx: conversations.rename_thread(tx, known.thread_id, line))
        return self._pages.done(request)

    async def delete(self, request: Request, caller: SignedIn, chat: str) -> Response:
        """Delete a chat with its history and files; a running answer is stopped."""
        if not await delete_chat(self._parts, self._talk, caller, chat):
            raise not_found("this conversation has not started")
        return self._pages.done(request, toast=words(language_of(request))("chat.deleted"), to="/")

    async def why(self, request: Request, caller: SignedIn, chat: str, message_id: str) -> HTMLResponse:
        """Why a message was answered as it was."""
        t, language = words(language_of(request)), language_of(request)
        told = await self._parts.why.of_message(
            self._talk.account,
            self._talk.require(caller, chat),
            message_id,
            texts_for(language),
            to_admins=caller.may("operate"),
        )
        return self._pages.html(request, "why.html", caller, told=pieces(told, t))

    async def events(
        self,
        request: Request,
        caller: SignedIn,
        chat: str,
        after: Annotated[str, Query(max_length=64)] = "",
        last_event_id: Annotated[str | None, Header(max_length=64)] = None,
    ) -> StreamingResponse:
        """The changes as HTML. after: where the page's own messages end; reconnecting browsers send a position."""
        self._talk.require(caller, chat)
        told = self._told(request, caller, chat, last_event_id or after or None)
        return self._parts.gatekeeper.stream(caller, told)

    async def _told(self, request: Request, caller: Caller, chat: str, since: str | None) -> AsyncGenerator[str, None]:
        t, text = words(language_of(request)), self._pages.text
        reader = Reader(
            t,
            now=lambda message_id: self._talk.now(caller, chat, message_id),
            html=lambda entry: text(request, "message.html", caller, m=seen(entry, t), chat=chat),
            status=lambda status: text(request, "status.html", caller, status=status),
        )
        async for number, change in self._talk.changes(caller, chat, since):
            if change.type == "snapshot":
                messages, more = await self._history(caller, chat, t)
                more_of_it = {"chat": chat, "more": more, "branch": await self._relations(chat)}
                whole = text(request, "messages.html", caller, messages=messages, **more_of_it)
                yield event("state", {"html": whole, "working": self._works(chat)}, number)
                reader.sent.clear()
            elif (found := reader.event(change.type, change.data)) is not None:
                yield event(*found, number)

    async def uploaded(self, caller: SignedIn, upload_id: str) -> FileResponse:
        """A file attached by the caller: pictures are displayed, sounds played, anything else only saved."""
        path, attachment = await self._talk.uploaded(caller, upload_id)
        inline = attachment.mime_type in INLINE_PICTURES | INLINE_SOUNDS
        return file_response(path, attachment.name or "file", attachment.mime_type, inline=inline)
