"""Pages for everyone: threads, files, usage, agents, memory, schedules, skills. Operators also see figures of
others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter, Request, Response

from bot.http.auth import SignedIn, requires
from bot.http.errors import HttpProblem
from bot.http.page.artifacts import told_size
from bot.http.page.markup import pieces
from bot.http.page.messages import icon_of
from bot.http.page.view import is_piece
from bot.http.panel.charts import bars
from bot.http.panel.room import Room, fields
from bot.http.resources.accounting import MOST_DAYS, Accounting
from bot.http.resources.agents import Agents, models_of
from bot.http.resources.belongings import Memories, Schedules
from bot.http.resources.capabilities import Skills
from bot.http.resources.files import MOST_FILES, Files
from bot.http.resources.transcripts import SHOWN_THREADS, Transcripts
from bot.store import overview
from bot.texts import texts_for

if TYPE_CHECKING:
    from bot.http.auth import Caller
    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts
    from bot.store.overview import By

WAYS = ("model", "chat", "person")
PERIODS = (7, 30, MOST_DAYS)
SHOWN_INSTALLS = 3
LONGEST_SEARCH = 100


def threads_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Threads, and why each message was answered as it was."""
    router, room, transcripts = APIRouter(include_in_schema=False), Room(pages), Transcripts(parts)

    @router.get("/threads", dependencies=[room.opens()])
    async def threads(request: Request, caller: SignedIn, all: str = "", skip: int = 0, q: str = "") -> Response:
        everybody, skip, q = bool(all) and caller.may("operate"), max(0, min(skip, 100_000)), q[:LONGEST_SEARCH].strip()
        if q:
            found = await transcripts.search(caller, q, everybody=everybody)
        else:
            found = await transcripts.list(caller, everybody=everybody, skip=skip)
        shown = {"found": found, "everybody": everybody, "skip": skip, "step": SHOWN_THREADS, "q": q}
        # While someone is typing, only the list is requested.
        return room.show(request, "threads_list" if is_piece(request) else "threads", caller, "threads", **shown)

    @router.get("/threads/{thread_id}", dependencies=[room.opens()])
    async def thread(request: Request, caller: SignedIn, thread_id: str) -> Response:
        try:
            found = await transcripts.read(caller, thread_id)
        except HttpProblem as problem:
            return pages.problem(request, caller, problem.status)
        t = room.words(request)
        return room.show(request, "thread", caller, "threads", found=found, markdown=lambda text: pieces(text, t))

    @router.get("/why/{subject}", dependencies=[room.opens()])
    async def why(request: Request, caller: SignedIn, subject: str) -> Response:
        if not caller.may("operate"):
            owner = await parts.store.read(lambda tx: overview.owner_of_run(tx, subject[:200]))
            if owner != caller.person:  # the same for another person's as for a missing one
                return pages.problem(request, caller, 404)
        texts = texts_for(room.language(request))
        told = await parts.why.of(subject[:200], texts, to_admins=caller.may("operate"))
        return room.show(request, "why", caller, "threads", told=pieces(told, room.words(request)))

    return router


def files_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Files of the caller's chats on the page."""
    router, room, files = APIRouter(include_in_schema=False), Room(pages), Files(parts)

    @router.get("/files", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "files", caller, "files", **await _shown(caller))

    @router.get("/files/list", dependencies=[requires("read")])
    async def piece(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "files_list", caller, **await _shown(caller))

    async def _shown(caller: Caller) -> dict[str, Any]:
        found = await files.list(caller)
        return {"files": found, "most": MOST_FILES, "icon_of": icon_of, "told_size": told_size}

    @router.post("/files/delete", dependencies=[requires("threads")])
    async def delete(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        await files.delete(caller, given.get("kind", ""), given.get("chat", ""), given.get("id", ""))
        return room.done(request, "file_deleted", "/files")

    return router


def usage_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Tokens and money over time."""
    router, room, accounting = APIRouter(include_in_schema=False), Room(pages), Accounting(parts)

    @router.get("/usage", dependencies=[room.opens()])
    async def usage(request: Request, caller: SignedIn, by: str = "model", days: int = 30, all: str = "") -> Response:
        everybody = caller.may("operate") and all != "no"
        way = cast("By", by if by in WAYS else "model")
        days = days if days in PERIODS else 30
        found = await accounting.usage(caller, way, days, everybody=everybody)
        t = room.words(request)
        labels = {each.name: each.label or t("panel.usage_others") for each in found.series}
        return room.show(
            request,
            "usage",
            caller,
            "usage",
            found=found,
            chart=bars(found, labels, t("panel.usage_chart")),
            labels=labels,
            ways=WAYS,
            periods=PERIODS,
            days=days,
            models=models_of(parts),
        )

    return router


def agents_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Agents: what each has and may do."""
    router, room, agents = APIRouter(include_in_schema=False), Room(pages), Agents(parts)

    @router.get("/agents", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn) -> Response:
        found = await agents.list(caller)
        subagents = {each.name: each for agent in found for each in agent.subagents}
        currency = parts.spending.budgets.currency or ""
        return room.show(
            request, "agents", caller, "agents", found=found, subagents=list(subagents.values()), currency=currency
        )

    return router


def own_router(parts: HttpParts, pages: Pages) -> APIRouter:
    router, room = APIRouter(include_in_schema=False), Room(pages)
    memories, schedules = Memories(parts), Schedules(parts)

    @router.get("/memory", dependencies=[room.opens()])
    async def memory(request: Request, caller: SignedIn, agent: str = "") -> Response:
        others = await memories.figures() if caller.may("operate") else None
        own = await memories.own(caller, room.language(request), agent)
        if agent and agent not in own.agents:
            return pages.problem(request, caller, 404)
        return room.show(request, "memory", caller, "memory", own=own, others=others)

    @router.get("/memory/list", dependencies=[requires("read")])
    async def remembered(request: Request, caller: SignedIn, agent: str = "") -> Response:
        own = await memories.own(caller, room.language(request), agent)
        return room.show(request, "memory_list", caller, own=own)

    @router.post("/memory/{action}", dependencies=[requires("threads")])
    async def change(request: Request, caller: SignedIn, action: str) -> Response:
        given = await fields(request)
        item, text, agent = given.get("item", ""), given.get("text", ""), given.get("agent", "")
        match action:
            case "add":
                await memories.add(caller, text, agent)
            case "edit":
                await memories.edit(caller, item, text, agent)
            case "forget":
                await memories.forget(caller, item, agent)
            case "forget-all":
                await memories.forget_all(caller, agent)
            case "on" | "off":
                await memories.switch(caller, on=action == "on")
            case _:
                raise HttpProblem(404, "not_found", "there is no such action")
        is_there = agent in (await memories.own(caller, agent=agent)).agents
        to = f"/memory?agent={agent}" if is_there else "/memory"
        return room.done(request, f"memory_done_{action.replace('-', '_')}", to)

    @router.get("/schedules", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn, all: str = "") -> Response:
        everybody = caller.may("operate") and bool(all)
        found = await schedules.list(caller, everybody=everybody)
        return room.show(request, "schedules", caller, "schedules", found=found, everybody=everybody)

    @router.post("/schedules/{schedule_id}/cancel", dependencies=[requires("threads")])
    async def cancel(request: Request, caller: SignedIn, schedule_id: str) -> Response:
        await schedules.cancel(caller, schedule_id)
        return room.done(request, "schedule_cancelled", "/schedules", anew=True)

    return router


def skills_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Skills: those that exist, and those that wait for an administrator."""
    router, room, skills = APIRouter(include_in_schema=False), Room(pages), Skills(parts)

    @router.get("/skills", dependencies=[room.opens()])
    async def listed(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "skills", caller, "skills", **await _shown(caller))

    @router.get("/skills/list", dependencies=[requires("read")])
    async def piece(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "skills_list", caller, **await _shown(caller))

    async def _shown(caller: Caller) -> dict[str, Any]:
        installs = skills.installations() if caller.may("admin") else ()
        return {"found": await skills.list(caller), "installs": installs[:SHOWN_INSTALLS]}

    @router.post("/skills/install", dependencies=[requires("admin")])
    async def install(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        done = await skills.fetch(caller, given.get("address", ""), replace=given.get("replace") == "true")
        return room.done(request, "skill_waits" if done.pending else "skill_installed", "/skills", name=done.name)

    @router.post("/skills/{name}/switch", dependencies=[requires("admin")])
    async def switch(request: Request, caller: SignedIn, name: str) -> Response:
        on = (await fields(request)).get("on") == "yes"
        await skills.switch(caller, name, on=on)
        return room.done(request, "skill_on" if on else "skill_off", "/skills", name=name)

    @router.post("/skills/{name}/on", dependencies=[requires("admin")])
    async def agree(request: Request, caller: SignedIn, name: str) -> Response:
        await skills.agree(caller, name, (await fields(request)).get("digest", ""))
        return room.done(request, "skill_on", "/skills", name=name)

    @router.post("/skills/{name}/remove", dependencies=[requires("admin")])
    async def remove(request: Request, caller: SignedIn, name: str) -> Response:
        await skills.remove(caller, name)
        return room.done(request, "skill_removed", "/skills", name=name)

    return router
