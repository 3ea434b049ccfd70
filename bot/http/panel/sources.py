"""Pages with sources: researches with their plans and reports, and the documents searched for knowledge."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast, get_args

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from bot.http.auth import SignedIn, requires
from bot.http.errors import HttpProblem
from bot.http.page.artifacts import told_size
from bot.http.page.markup import pieces
from bot.http.page.messages import icon_of
from bot.http.panel.room import Room, fields
from bot.http.resources.knowledge import LONGEST_QUESTION, Collections, Library
from bot.http.resources.research import LONGEST_CHANGE, SHOWN_THREADS, Deed, Researches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from bot.http.auth import Caller
    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts

LIVE_SECONDS, REST_SECONDS = 3, 20
"""Seconds after which a research is requested again: one that is working, and any other."""
SHOWN_DOCUMENTS = 300
"""Documents shown of the caller's own, and of those for everyone."""
_TAG = re.compile(r"(<[^<>]*>)")
_NUMBER = re.compile(r"\[(\d{1,4})\]")
_LITERAL = ("code", "pre", "a")
"""Elements in which a number in brackets is not a citation."""


def research_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Researches: a list, and one with its plan, its sources and its report."""
    router, room, researches = APIRouter(include_in_schema=False), Room(pages), Researches(parts)

    @router.get("/research", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn, all: str = "", skip: int = 0) -> Response:
        everybody, skip = bool(all) and caller.may("operate"), max(0, min(skip, 100_000))
        found = await researches.list(caller, everybody=everybody, skip=skip)
        readable = caller.may("operate") and parts.settings().http.admins_read_threads
        shown = {"found": found, "everybody": everybody, "readable": readable, "skip": skip, "step": SHOWN_THREADS}
        return room.show(request, "researches", caller, "research", **shown)

    @router.get("/research/{thread_id}", dependencies=[room.opens()])
    async def research(request: Request, caller: SignedIn, thread_id: str) -> Response:
        try:
            shown = await _shown(request, caller, thread_id)
        except HttpProblem as problem:
            return pages.problem(request, caller, problem.status)
        return room.show(request, "research", caller, "research", **shown)

    @router.get("/research/{thread_id}/live", dependencies=[requires("read")])
    async def piece(request: Request, caller: SignedIn, thread_id: str) -> Response:
        return room.show(request, "research_live", caller, **await _shown(request, caller, thread_id))

    async def _shown(request: Request, caller: Caller, thread_id: str) -> dict[str, Any]:
        found, t = await researches.read(caller, thread_id), room.words(request)
        numbers = {source.number for source in found.sources}
        return {
            "found": found,
            "every": LIVE_SECONDS if found.research.busy else REST_SECONDS,
            "markdown": lambda text: pieces(text, t),
            "report": lambda text: with_citations(pieces(text, t), numbers),
            "when": datetime.fromisoformat,
            "icon_of": icon_of,
            "told_size": told_size,
            "longest": LONGEST_CHANGE,
        }

    @router.post("/research/{thread_id}", dependencies=[requires("runs")])
    async def decide(request: Request, caller: SignedIn, thread_id: str) -> Response:
        given = await fields(request)
        deed, text = given.get("do", ""), given.get("text", "")
        if deed not in get_args(Deed) or len(text) > LONGEST_CHANGE:
            raise HttpProblem(422, "invalid", f"do must be one of {', '.join(get_args(Deed))}")
        done = await researches.decide(caller, thread_id, cast("Deed", deed), given.get("run_id", ""), text)
        return room.done(request, f"done_{done}", f"/research/{thread_id}", part="sources", anew=True)

    @router.get("/research/{thread_id}/files/{name}", dependencies=[requires("read")])
    async def file(caller: SignedIn, thread_id: str, name: str) -> Response:
        return await researches.file(caller, thread_id, name)

    return router


def with_citations(html: Iterable[str], numbers: Collection[int]) -> Markup:
    """The HTML of a report whose numbers in brackets link to the sources beside it. html: of `markup.pieces`, whose
    tags have no angle brackets in their attributes. numbers: of the sources."""
    written: list[str] = []
    literal = 0
    for part in _TAG.split("".join(html)):
        if part.startswith("<"):
            name = part.strip("</>").partition(" ")[0]
            literal += (-1 if part.startswith("</") else 1) if name in _LITERAL else 0
        elif not literal:
            part = _NUMBER.sub(lambda found: _citation(found, numbers), part)
        written.append(part)
    return Markup("".join(written))


def _citation(found: re.Match[str], numbers: Collection[int]) -> str:
    number = int(found[1])
    return f'<a class="citation" href="#source-{number}">[{number}]</a>' if number in numbers else found[0]


def knowledge_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Knowledge: the caller's own documents, those for everyone, and what is found in them."""
    router, room, collections = APIRouter(include_in_schema=False), Room(pages), Collections(parts)

    @router.get("/knowledge", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn, q: str = "") -> Response:
        library = await collections.list(caller, room.language(request))
        q = q[:LONGEST_QUESTION].strip()
        found = await collections.ask(caller, q) if q and library.enabled else None
        shown = {"found": found, "q": q, "longest": LONGEST_QUESTION, **_told(library)}
        return room.show(request, "knowledge", caller, "knowledge", **shown)

    @router.get("/knowledge/list", dependencies=[requires("read")])
    async def piece(request: Request, caller: SignedIn) -> Response:
        library = await collections.list(caller, room.language(request))
        return room.show(request, "knowledge_list", caller, **_told(library))

    def _told(library: Library) -> dict[str, Any]:
        return {"library": library, "most": SHOWN_DOCUMENTS, "told_size": told_size}

    @router.get("/knowledge/passages/{passage}", dependencies=[room.opens()])
    async def place(request: Request, caller: SignedIn, passage: str) -> Response:
        try:
            found = await collections.place(caller, passage)
        except HttpProblem as problem:
            return pages.problem(request, caller, problem.status)
        return room.show(request, "knowledge_place", caller, "knowledge", found=found)

    @router.post("/knowledge/add", dependencies=[requires("threads")])
    async def add(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        done = await collections.add_page(
            caller,
            given.get("address", ""),
            collection=given.get("collection", "").strip(),
            everybody=given.get("everybody") == "true",
            language=room.language(request),
        )
        name = done.title or done.name
        return room.done(request, "done_added", "/knowledge", part="sources", name=name, count=done.passages)

    @router.post("/knowledge/remove", dependencies=[requires("threads")])
    async def remove(request: Request, caller: SignedIn) -> Response:
        gone = await collections.remove(caller, (await fields(request)).get("id", ""))
        return room.done(request, "done_removed", "/knowledge", part="sources", name=gone.title or gone.name)

    return router
