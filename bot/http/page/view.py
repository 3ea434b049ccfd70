"""Pages from templates, and the files that they load, named by their content so that browsers cache them."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bot.http.errors import ANYTHING, HttpProblem, not_found
from bot.http.page.navigation import menu
from bot.texts import LANGUAGES
from bot.texts.page import accepted, words

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from bot.http.auth import Caller

HERE = Path(__file__).parent
LANGUAGE_COOKIE = "antler_language"
THEME_COOKIE = "antler_theme"
THEMES = ("light", "dark")
YEAR = 31_536_000
"""Seconds for which a browser keeps files that are named by their content."""
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_LOADED = re.compile(r"""(?<=url\()[\w-]+\.\w+(?=\))|(?<=from "\./)[\w-]+\.js(?=")""")
"""Names of other static files in style sheets and scripts."""


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as served. packed: gzip, None where that saves nothing."""

    name: str
    media_type: str
    content: bytes
    packed: bytes | None


class StaticFiles:
    """All static files, read on first use; their names contain a digest of their content."""

    @cached_property
    def _files(self) -> tuple[dict[str, str], dict[str, StaticFile]]:
        named: dict[str, str] = {}
        served: dict[str, StaticFile] = {}
        # Fonts before the style sheets that name them, imported scripts before their importers.
        paths = sorted(
            (HERE / "static").iterdir(), key=lambda path: (path.suffix in (".css", ".js"), path.name != "page.js")
        )
        for path in paths:
            content = path.read_bytes()
            if path.suffix in (".css", ".js"):
                content = _LOADED.sub(lambda found: named[found.group()], content.decode()).encode()
            name = f"{path.stem}.{hashlib.sha256(content).hexdigest()[:10]}{path.suffix}"
            packed = None if path.suffix == ".woff2" else gzip.compress(content, 9, mtime=0)
            named[path.name] = name
            served[name] = StaticFile(name, _MEDIA_TYPES[path.suffix], content, packed)
        return named, served

    def name(self, file: str) -> str:
        """The name under which a file is served."""
        return self._files[0][file]

    @property
    def served(self) -> Mapping[str, StaticFile]:
        return self._files[1]


class Pages:
    """Renders templates for a request. One per process: templates are compiled once."""

    def __init__(self) -> None:
        self.static = StaticFiles()
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals["icon"] = self._environment.get_template("icons.html").module.icon  # type: ignore[attr-defined]  # a macro
        self._environment.globals["ui"] = self._environment.get_template("ui.html").module

    def text(self, request: Request, template: str, viewer: Caller | None = None, /, **values: object) -> str:
        """The HTML of a template. Besides `values`, each gets: t (`Words`), viewer, menu, csrf, theme, url, static."""
        base = str(request.scope.get("root_path", ""))
        t = words(language_of(request))
        theme = request.cookies.get(THEME_COOKIE, "")
        context: dict[str, object] = {
            "t": t,
            "viewer": viewer,
            "name": (viewer.name or viewer.person) if viewer is not None else "",
            "menu": menu(viewer.scopes) if viewer is not None else [],
            "csrf": viewer.csrf if viewer is not None else "",
            "theme": theme if theme in THEMES else "",
            "active": "",
            "here": request.url.path.removeprefix(base) or "/",
            "url": lambda path: base + path,
            "static": lambda file: f"{base}/static/{self.static.name(file)}",
        }
        return self._environment.get_template(template).render(context | values)

    def html(
        self,
        request: Request,
        template: str,
        viewer: Caller | None = None,
        /,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: object,
    ) -> HTMLResponse:
        """A whole page, or a piece of one; never stored by a browser or a proxy, since it is for one person."""
        kept_out = {"Cache-Control": "no-store", "Vary": "Cookie, Accept-Language"}
        return HTMLResponse(self.text(request, template, viewer, **values), status, kept_out | dict(headers or {}))

    def sign_in(self, request: Request) -> Response:
        """Redirect a caller who is not signed in to the page that explains how."""
        return RedirectResponse(f"{request.scope.get('root_path', '')}/signin", 303)

    def done(self, request: Request, *, toast: str = "", to: str = "") -> Response:
        """The answer to a form with nothing to show: scripts display `toast` and go to the path `to`; without scripts
        the browser goes there."""
        base = str(request.scope.get("root_path", ""))
        if "x-antler-csrf" not in request.headers:
            return RedirectResponse(base + (to or "/"), 303)
        headers = {"X-Antler-Toast": quote(toast)} if toast else {}
        return Response(status_code=204, headers=headers | ({"X-Antler-Location": base + to} if to else {}))

    def problem(self, request: Request, viewer: Caller | None, status: int) -> HTMLResponse:
        """The page that explains why there is none."""
        kind = {403: "forbidden", 404: "not_found", 429: "too_many"}.get(status, "failed")
        return self.html(request, "problem.html", viewer, status=status, kind=kind)


def is_visit(request: Request) -> bool:
    """Whether a browser opens this as a separate page; scripts, also ours, accept other types first."""
    return request.headers.get("accept", "").startswith("text/html")


def is_piece(request: Request) -> bool:
    """Whether a script of a page requests a part of it."""
    return request.headers.get("accept", "").startswith("application/json")


def page_router(pages: Pages) -> APIRouter:
    """A router whose failures are pages for people who open them, and the usual JSON for scripts; callers who are not
    signed in are led to the page that explains how."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handled(request: Request) -> Response:
                try:
                    return await handle(request)
                except HttpProblem as problem:
                    if not is_visit(request):
                        raise
                    if problem.status == 401:
                        return pages.sign_in(request)
                    return pages.problem(request, None, problem.status)

            return handled

    return APIRouter(route_class=PageRoute, include_in_schema=False)


def language_of(request: Request) -> str:
    """The language chosen in this browser, else the first one it accepts."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    return chosen if chosen in LANGUAGES else accepted(request.headers.get("accept-language", ""))


def local_path(wanted: str) -> str:
    """A path of this site to go back to; "/" for anything that could lead elsewhere."""
    fine = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if fine else "/"


def frame_router(pages: Pages) -> APIRouter:
    """Static files, and the choice of language and appearance; open to everyone."""
    router = page_router(pages)

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    async def static(request: Request, name: str) -> Response:
        file = pages.static.served.get(name)
        if file is None:
            raise not_found()
        headers = {"Cache-Control": f"public, max-age={YEAR}, immutable", "Vary": "Accept-Encoding"}
        if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(file.packed, headers=headers, media_type=file.media_type)
        return Response(file.content, headers=headers, media_type=file.media_type)

    @router.post("/preferences")
    async def preferences(request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=10)
        base = str(request.scope.get("root_path", ""))
        answer = RedirectResponse(base + local_path(str(form.get("next", "/"))), 303)
        for cookie, wanted, known in (
            (LANGUAGE_COOKIE, form.get("language"), tuple(LANGUAGES)),
            (THEME_COOKIE, form.get("theme"), ("", *THEMES)),
        ):
            if isinstance(wanted, str) and wanted in known:
                answer.set_cookie(
                    cookie, wanted, max_age=YEAR, path=f"{base}/", samesite="lax", secure=request.url.scheme == "https"
                )
        return answer

    return router


def last_router(pages: Pages) -> APIRouter:
    """Any other path: a page for people. This router comes after all others."""
    router = page_router(pages)

    @router.get(ANYTHING)
    async def nothing(path: str) -> Response:
        raise not_found()

    return router
