"""The caller of a request: its session or token, what that permits, and proof that a browser's request is intended.

@router.get("/api/x")
async def x(caller: SignedIn) -> ...: ...

@router.post("/api/y", dependencies=[requires("operate")])
async def y(caller: SignedIn) -> ...: ...
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request

from bot.access.admission import FloodGate
from bot.access.signin import PREFIX, csrf_of
from bot.http.errors import HttpProblem, too_many
from bot.http.sse import stream
from channels.supervision import until_first

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine

    from fastapi.responses import StreamingResponse

    from bot.access.signin import SignIns
    from bot.settings.http import HttpSettings
    from bot.tasks import Tasks
    from channels.base import Clock

COOKIE = "antler_session"
CSRF_HEADER = "X-Antler-CSRF"
CALLS_PER_MINUTE, CALLS_AT_ONCE = 600.0, 200
SIGN_INS_PER_MINUTE, SIGN_INS_AT_ONCE = 10.0, 10
SEARCHES_PER_MINUTE, SEARCHES_AT_ONCE = 60.0, 20
"""Searches of one person: the page searches while they type."""
MOST_STREAMS = 250
"""Streams of one session or token, half of all connections."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HOLDS_SECONDS = 1.0
"""Seconds between two checks that a client waiting for an answer may still have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller. person: their id; all they see and do is that person's. scopes: what this request may do. is_admin:
    they are an administrator now. key: of the session or token. csrf: sent along by scripts of a session's pages, ""
    for a token."""

    person: str
    scopes: frozenset[str]
    is_admin: bool
    is_program: bool
    key: str
    name: str = ""
    csrf: str = ""

    @property
    def by(self) -> str:
        """The actor in the log: the person, and for a program the token's id."""
        return f"{self.person} (token {self.key})" if self.is_program else self.person

    def may(self, scope: str) -> bool:
        return scope in self.scopes


class Gatekeeper:
    """Identifies callers. settings: of the listener that uses it."""

    def __init__(self, signins: SignIns, settings: HttpSettings, clock: Clock) -> None:
        self.signins = signins
        self.settings = settings
        self._calls = FloodGate(clock, CALLS_PER_MINUTE, CALLS_AT_ONCE)
        self._sign_ins = FloodGate(clock, SIGN_INS_PER_MINUTE, SIGN_INS_AT_ONCE)
        self._streams: Counter[str] = Counter()
        self._searches = FloodGate(clock, SEARCHES_PER_MINUTE, SEARCHES_AT_ONCE)
        self._searching = asyncio.Lock()
        self.closing = asyncio.Event()
        """Set when the listener ends: streams then end by themselves."""
        self.upkeep: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        """Work done while the listener is open, by name; routers add to it, and are created in a thread."""

    def begin(self, tasks: Tasks) -> None:
        """Begin the upkeep of an open listener."""
        for name, work in self.upkeep.items():
            tasks.spawn(name, until_first(work(), self.closing.wait()))

    async def caller(self, request: Request) -> Caller | None:
        """The caller, None where no one is signed in. Raises HttpProblem for an invalid token, for a request of another
        site, and for too many requests."""
        found = await self._by_token(request) if _token_of(request) else self._by_cookie(request)
        if found is not None and not self._calls.passes(found.key):
            raise too_many()
        return found

    def stream(self, caller: Caller, events: AsyncGenerator[str, None], *, retry: bool = True) -> StreamingResponse:
        """Server-sent events for a caller, which end with their session or token, and with the listener. events: see
        `sse.event`. retry: see `sse.stream`. Raises HttpProblem for too many at once."""
        self.check_streams(caller)
        counted, holds = self.counted(caller, events), lambda: self.signins.holds(caller.key)
        return stream(counted, holds, self.closing, retry=retry)

    async def counted(self, caller: Caller, texts: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """The same texts, counted as one of the caller's streams until their end."""
        self._streams[caller.key] += 1
        try:
            async with aclosing(texts):
                async for text in texts:
                    yield text
        finally:
            self._streams[caller.key] -= 1
            self._streams += Counter()  # drops zeros

    @asynccontextmanager
    async def searching(self, caller: Caller) -> AsyncIterator[None]:
        """Allow one search at a time: each reads thousands of rows, and the store has few readers. Raises HttpProblem
        where a person searches too often."""
        if not self._searches.passes(caller.person):
            raise too_many()
        async with self._searching:
            yield

    def check_streams(self, caller: Caller) -> None:
        """Check that the caller may have one more stream, before anything is begun for it. Raises HttpProblem."""
        if self._streams[caller.key] >= MOST_STREAMS:
            raise HttpProblem(429, "too_many_streams", f"at most {MOST_STREAMS} streams at once", {"Retry-After": "10"})

    def check_sign_in(self, request: Request) -> None:
        """Refuse a request of another site, and one too many. Raises HttpProblem."""
        self.check_site(request)
        client = request.client.host if request.client is not None else ""
        if not self._sign_ins.passes(client):
            raise too_many()

    def check_site(self, request: Request) -> None:
        """Refuse requests that a page of another site makes its visitor's browser send. Raises HttpProblem."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            raise _foreign()
        if origin is not None and _host_of(origin) not in self._hosts(request):
            raise _foreign()

    def _hosts(self, request: Request) -> set[str]:
        """The hosts of our own pages, as in an origin."""
        return {request.headers.get("host", "").lower(), urlsplit(self.settings.root).netloc.lower()}

    async def _by_token(self, request: Request) -> Caller:
        row = self.signins.token(_token_of(request))
        if row is None:
            if not self._sign_ins.passes(request.client.host if request.client is not None else ""):
                raise too_many()
            raise HttpProblem(401, "bad_token", "the token is unknown, or no longer valid", _BEARER)
        await self.signins.note_use(row)
        return Caller(
            person=row.person,
            scopes=self.signins.scopes(row),
            is_admin=self.signins.is_admin(row.person),
            is_program=True,
            key=row.id,
            name=row.name,
        )

    def _by_cookie(self, request: Request) -> Caller | None:
        cookie = request.cookies.get(COOKIE, "")
        row = self.signins.session(cookie) if cookie else None
        if row is None:
            return None
        csrf = csrf_of(cookie)
        if request.method not in SAFE:
            self.check_site(request)
            if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), csrf.encode()):
                raise HttpProblem(403, "csrf", f"the page's {CSRF_HEADER} is wrong or missing: reload the page")
        return Caller(
            person=row.person,
            scopes=self.signins.scopes(row),
            is_admin=self.signins.is_admin(row.person),
            is_program=False,
            key=row.id,
            name=self.signins.name_of(row.person),
            csrf=csrf,
        )


def _host_of(origin: str) -> str | None:
    """Host and port of an origin, None where it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # such as "http://["
        return None


_BEARER = {"WWW-Authenticate": "Bearer"}


def _token_of(request: Request) -> str:
    """The token of a request, "" where it has none."""
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    key = request.headers.get("x-api-key", "")
    return key if key.startswith(f"{PREFIX}_") else ""


def not_signed_in() -> HttpProblem:
    return HttpProblem(401, "not_signed_in", "sign in with a link of `antler web`, or send a token", _BEARER)


def signed_out() -> HttpProblem:
    """The problem of a client that waits while its session or token ends."""
    return HttpProblem(401, "not_signed_in", "the session or token is no longer valid", _BEARER)


def _foreign() -> HttpProblem:
    return HttpProblem(403, "foreign_site", "this was not sent by a page of this service")


async def caller_of(request: Request) -> Caller | None:
    """The caller, None where no one is signed in. Raises HttpProblem as `Gatekeeper.caller` does."""
    if not hasattr(request.state, "caller"):  # each request counts once
        gatekeeper = cast("Gatekeeper", request.app.state.gatekeeper)
        request.state.caller = await gatekeeper.caller(request)
    return cast("Caller | None", request.state.caller)


async def _signed_in(caller: MaybeSignedIn) -> Caller:
    if caller is None:
        raise not_signed_in()
    return caller


MaybeSignedIn = Annotated[Caller | None, Depends(caller_of)]
"""The caller, None where no one is signed in."""
SignedIn = Annotated[Caller, Depends(_signed_in)]
"""The caller; 401 where no one is signed in."""


def requires(*scopes: str) -> Any:
    """A dependency that admits only callers with all of these scopes."""

    async def check(caller: SignedIn) -> None:
        missing = [scope for scope in scopes if not caller.may(scope)]
        if missing:
            raise HttpProblem(403, "missing_scope", f"this needs the scope {', '.join(missing)}", scopes=missing)

    return Depends(check)
