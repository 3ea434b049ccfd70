"""Pages for operators: Now, people, servers of tools, the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from fastapi import APIRouter, Request, Response

from bot.access.tool import kind_of
from bot.http.auth import SignedIn, requires
from bot.http.errors import HttpProblem
from bot.http.panel.room import Room, fields
from bot.http.resources.acting import Acting
from bot.http.resources.configuration import Checked, ConfigFile
from bot.http.resources.live import Live
from bot.http.resources.requests import Answer, Requests

if TYPE_CHECKING:
    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts

DECISIONS = ("once", "chat", "deny")


def now_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Now: shows at a glance whether all is well; pending decisions are made here."""
    router, room = APIRouter(include_in_schema=False), Room(pages)
    live, acting = Live(parts), Acting(parts)

    @router.get("/now", dependencies=[room.opens("operate")])
    async def now(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "now", caller, "now", now=await live.now(caller))

    @router.get("/now/live", dependencies=[requires("operate")])
    async def piece(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "now_live", caller, now=await live.now(caller))

    @router.post("/now/turns/{run_id}/{action}", dependencies=[requires("runs")])
    async def act(request: Request, caller: SignedIn, run_id: str, action: str) -> Response:
        do = {"stop": acting.stop, "run-now": acting.run_now, "drop": acting.drop}.get(action)
        if do is None:
            raise HttpProblem(404, "not_found", "there is no such action")
        return room.done(request, f"became_{await do(caller, run_id)}", "/now")

    @router.post("/now/approvals/{approval}", dependencies=[requires("runs")])
    async def decide(request: Request, caller: SignedIn, approval: str) -> Response:
        given = await fields(request)
        decision = given.get("decision", "")
        if decision not in DECISIONS:
            raise HttpProblem(422, "invalid", "a decision must be one of once, chat, deny")
        taken = await acting.decide(caller, approval, cast("Answer", decision), given.get("reason", ""))
        return room.done(request, f"decided_{taken}", "/now")

    @router.post("/now/pairings/{asked}", dependencies=[requires("admin")])
    async def answer(request: Request, caller: SignedIn, asked: str) -> Response:
        let_in = (await fields(request)).get("let_in") == "yes"
        entry = await acting.answer_request(caller, asked, let_in=let_in)
        return room.done(request, "let_in" if let_in else "kept_out", "/now", name=entry.name or entry.subject)

    return router


def people_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """People and groups: who may use the bot, and who asks for access."""
    router, room = APIRouter(include_in_schema=False), Room(pages)
    asking, acting = Requests(parts), Acting(parts)

    @router.get("/people", dependencies=[room.opens("operate")])
    async def people(request: Request, caller: SignedIn) -> Response:
        accounts = [name for name in parts.editor.book.accounts if name not in ("web", "api")]
        return room.show(
            request, "people", caller, "people", entries=acting.access(), pairings=asking.pairings(), accounts=accounts
        )

    @router.get("/people/list", dependencies=[requires("operate")])
    async def listed(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "people_list", caller, entries=acting.access(), pairings=asking.pairings())

    @router.post("/people/requests/{asked}", dependencies=[requires("admin")])
    async def answer(request: Request, caller: SignedIn, asked: str) -> Response:
        let_in = (await fields(request)).get("let_in") == "yes"
        entry = await acting.answer_request(caller, asked, let_in=let_in)
        return room.done(request, "let_in" if let_in else "kept_out", "/people", name=entry.name or entry.subject)

    @router.post("/people/allow", dependencies=[requires("admin")])
    async def allow(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        subject = given.get("subject", "").strip()
        if not subject:
            raise HttpProblem(422, "no_id", room.words(request)("panel.people_no_id"))
        admin, language = given.get("admin") == "yes", room.language(request)
        entry = await acting.allow(caller, subject, kind=kind_of(given), admin=admin, language=language)
        return room.done(request, "let_in", "/people", name=entry.name or entry.subject)

    @router.post("/people/revoke", dependencies=[requires("admin")])
    async def revoke(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        subject, language = given.get("subject", ""), room.language(request)
        entry = await acting.revoke(caller, subject, kind=kind_of(given), language=language)
        return room.done(request, "shut_out", "/people", name=entry.name or entry.subject)

    return router


def system_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """Servers of tools, and the configuration."""
    router, room = APIRouter(include_in_schema=False), Room(pages)
    live, file = Live(parts), ConfigFile(parts)

    @router.get("/mcp", dependencies=[room.opens("operate")])
    async def servers(request: Request, caller: SignedIn) -> Response:
        return room.show(request, "mcp", caller, "mcp", servers=live.servers())

    @router.get("/configuration", dependencies=[room.opens("admin")])
    async def configuration(request: Request, caller: SignedIn) -> Response:
        try:
            found, why = await file.read(caller), ""
        except HttpProblem as problem:
            found, why = None, str(problem)
        return room.show(request, "configuration", caller, "configuration", found=found, why=why)

    @router.post("/configuration/check", dependencies=[requires("admin")])
    async def check(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        checked = await file.check(given.get("text", ""), given.get("base", ""))
        return _checked(request, caller, checked)

    @router.post("/configuration/apply", dependencies=[requires("admin")])
    async def apply(request: Request, caller: SignedIn) -> Response:
        given = await fields(request)
        checked = await file.check(given.get("text", ""), given.get("base", ""))
        if not checked.valid:
            return _checked(request, caller, checked)
        applied = await file.apply(caller, given.get("text", ""), given.get("base", ""))
        if applied.kept:
            raise HttpProblem(409, "kept", applied.text)
        return room.done(request, "config_applied", "/configuration", anew=True, text=applied.text)

    def _checked(request: Request, caller: SignedIn, checked: Checked) -> Response:
        return room.show(request, "configuration_checked", caller, checked=checked)

    return router
