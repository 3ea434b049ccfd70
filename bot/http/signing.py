"""Signing in by a one-time link, signing out, and information on the signed-in caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.params import Path as PathParameter
from fastapi.responses import HTMLResponse, RedirectResponse

from bot.http.auth import COOKIE, SignedIn
from bot.http.errors import HttpProblem
from bot.http.page.view import is_visit

if TYPE_CHECKING:
    from bot.http.page.view import Pages
    from bot.http.parts import HttpParts

LONGEST_FORM = 1000
"""Bytes that are read of the form with a link's code; parsing a megabyte would take half a second."""


def signing_router(parts: HttpParts, pages: Pages) -> APIRouter:
    """A link shows a button, and only that signs in, so that programs that preview links in chats use none up."""
    router = APIRouter(tags=["sign-in"])
    gatekeeper, signins = parts.gatekeeper, parts.signins

    @router.get("/signin", include_in_schema=False)
    async def how(request: Request, note: str = "") -> Response:
        """Explain how to get a link. note: what happened before, by the name of its text."""
        return pages.html(request, "signin.html", note=note if note == "signed_out" else "")

    @router.get("/signin/{code}", response_class=HTMLResponse, include_in_schema=False)
    async def offer(
        request: Request, code: Annotated[str, PathParameter(max_length=64, pattern=r"^[\w-]+$")]
    ) -> Response:
        if not signins.is_open(code):
            return pages.html(request, "signin.html", note="sign_in_used", status=410)
        return pages.html(request, "confirm.html", code=code)

    @router.post("/signin", include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        gatekeeper.check_sign_in(request)
        given = parse_qs((await request.body())[:LONGEST_FORM].decode("utf-8", "replace"))
        code = given.get("code", [""])[0]
        cookie = await signins.redeem(code, request.headers.get("user-agent", ""))
        if cookie is None and is_visit(request):
            return pages.html(request, "signin.html", note="sign_in_used", status=410)
        if cookie is None:
            raise HttpProblem(410, "link_over", "this link was already used or has expired; request another one")
        root = request.scope.get("root_path", "")
        answer = RedirectResponse(f"{root}/", 303)
        answer.set_cookie(
            COOKIE,
            cookie,
            max_age=gatekeeper.settings.session_days * 24 * 3600,
            path=root or "/",
            secure=gatekeeper.settings.is_secure,
            httponly=True,
            samesite="lax",
        )
        return answer

    @router.post("/signout", status_code=204)
    async def sign_out(request: Request, caller: SignedIn, everywhere: bool = False) -> Response:
        """End this session; with `everywhere` all sessions and tokens of the person."""
        if caller.is_program:
            raise HttpProblem(403, "not_a_session", "revoke a token with antler token revoke")
        if everywhere:
            await signins.sign_out_everywhere(caller.person)
        else:
            await signins.sign_out(caller.key)
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path=request.scope.get("root_path", "") or "/")
        return answer

    @router.get("/api/me")
    async def me(caller: SignedIn) -> dict[str, Any]:
        """Describe the caller, and what this session or token may do."""
        return {
            "person": caller.person,
            "scopes": sorted(caller.scopes),
            "is_admin": caller.is_admin,
            "is_program": caller.is_program,
            "csrf": caller.csrf,
        }

    return router
