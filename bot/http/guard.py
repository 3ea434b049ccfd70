"""Middleware for every request and answer: host names, sizes, the base path, security headers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.datastructures import Headers, MutableHeaders

from bot.files.uploads import MEGABYTE
from bot.http.auth import SAFE, caller_of, not_signed_in
from bot.http.errors import HttpProblem, answer_to, error_response
from bot.settings.http import is_loopback
from bot.store.errors import StoreError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bot.http.auth import Gatekeeper
    from bot.settings.http import HttpSettings

MEBIBYTE = 1024 * 1024
MOST_BODY = MEBIBYTE
UPLOADS, PROGRAMS = "/api/uploads/", ("/api/langgraph/", "/v1/")
"""Below these, a signed-in caller's body may be as large as one message's files: programs send them inside of JSON."""
OWN = ("/api/", "/v1/")
"""Below these, nobody changes anything without signing in."""
MOST_JSON = 32 * MEBIBYTE
"""Bytes of a program's JSON, whatever uploads may have: parsing takes several times that memory and blocks the loop."""
MOST_HELD = 4 * MOST_JSON
"""Bytes of JSON in all open requests of one caller: each is in memory until its answer ends."""
MOST_VALUES = 1_000_000
"""Values in a program's JSON, at least: it has fewer commas and opening brackets. An empty object of three bytes takes
seventy in memory; texts of the permitted length, and files, do not have as many of these signs."""
CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "media-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
PERMISSIONS = "camera=(), geolocation=(), payment=(), usb=()"
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": f"{PERMISSIONS}, microphone=()",
    "Cache-Control": "no-store",
}
"""Headers of each answer that does not set them itself."""


class Guard:
    """ASGI middleware. most_upload: bytes of a body below UPLOADS, and, up to MOST_JSON, of one below PROGRAMS."""

    def __init__(self, app: ASGIApp, settings: HttpSettings, most_upload: int) -> None:
        self._app = app
        self._settings = settings
        self._most_upload = most_upload
        self._names = _names(settings)
        self._held: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers, base = Headers(scope=scope), self._settings.base_path
        scope["root_path"] = base
        path: str = scope["path"]
        inner = path.removeprefix(base) if base and f"{path}/".startswith(f"{base}/") else path
        most = self._most(scope["method"], f"{inner}/")
        gatekeeper = scope["app"].state.gatekeeper
        answer = self._with_headers(send, gatekeeper)
        if not self._is_ours(headers.get("host", "")):
            text = "this service does not serve that host name: open it at http.url, or on 127.0.0.1"
            return await error_response(421, "unknown_host", text)(scope, receive, answer)
        is_own = gatekeeper is not None and scope["method"] not in SAFE and inner.startswith(OWN)
        if is_own and (problem := await _unknown(scope)) is not None:
            return await answer_to(problem)(scope, receive, answer)
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > most:
            return await _too_large(most)(scope, receive, answer)
        is_json = most > MOST_BODY and inner.startswith(PROGRAMS)
        body = _Json(receive, most, self._held, scope["state"]["caller"].key) if is_json else _Body(receive, most)
        try:
            await self._app(scope, body.receive, answer)
        finally:
            body.leave()

    def _most(self, method: str, path: str) -> int:
        """Limit on a request's body in bytes. path: below the base path, with a slash at its end."""
        if method in SAFE:
            return MOST_BODY
        if path.startswith(PROGRAMS):
            return max(MOST_BODY, min(MOST_JSON, self._most_upload))
        return max(MOST_BODY, self._most_upload) if path.startswith(UPLOADS) else MOST_BODY

    def _is_ours(self, host: str) -> bool:
        """Whether the host is a name of ours: a page of another site can make its own name resolve to this machine.

        Where others reach this machine and the settings have no address, its names are unknown; TLS has checked them.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:  # such as "["
            return False
        if self._settings.is_exposed and self._settings.url is None:
            return True
        return name in self._names or is_loopback(name)

    def _with_headers(self, send: Send, gatekeeper: Gatekeeper | None) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if self._settings.is_secure:
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
                if gatekeeper is not None and gatekeeper.closing.is_set():
                    headers["Connection"] = "close"  # else the next request may not be read any more
            await send(message)

        return sending


class _Body:
    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = self._left = most

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                # FastAPI turns other errors of reading a body into that of a malformed body.
                raise HTTPException(413, f"a request may have at most {self._most} bytes here")
        return message

    def leave(self) -> None:
        """The request has ended."""


class _Json(_Body):
    """A program's JSON. held: bytes by caller. key: of this one."""

    def __init__(self, receive: Receive, most: int, held: Counter[str], key: str) -> None:
        super().__init__(receive, most)
        self._held = held
        self._key = key
        self._size = self._values = 0

    async def receive(self) -> Message:
        message = await super().receive()
        data = message.get("body", b"")
        self._size += len(data)
        self._held[self._key] += len(data)
        self._values += sum(map(data.count, (b",", b"[", b"{")))
        if self._values > MOST_VALUES:
            raise HTTPException(413, f"a request may have at most {MOST_VALUES} values here")
        if self._held[self._key] > MOST_HELD:
            text = f"all requests at once may have at most {MOST_HELD} bytes"
            raise HTTPException(429, text, {"Retry-After": "10"})
        return message

    def leave(self) -> None:
        self._held[self._key] -= self._size
        self._held += Counter()  # drops zeros


async def _unknown(scope: Scope) -> HttpProblem | StoreError | None:
    """Why a body is not read: FastAPI would read and parse all of it before its dependencies ask who sent it."""
    try:
        return not_signed_in() if await caller_of(Request(scope)) is None else None
    except (HttpProblem, StoreError) as error:
        return error


def _too_large(most: int) -> ASGIApp:
    text = f"a request may have at most {most} bytes here"
    return error_response(413, "too_large", text, most=f"{most // MEGABYTE} MB")


def _names(settings: HttpSettings) -> frozenset[str]:
    own = settings.address[0] if settings.listen is not None else ""
    return frozenset({"localhost", own, urlsplit(settings.url or "").hostname or ""} - {""})
