"""The connection to one server: made, watched and remade; its tools and its calls.

A session's scopes must be exited in the task that entered them, so one task holds the session from start to end, while
calls come from the tasks of the runs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx
from mcp import McpError
from mcp.types import CONNECTION_CLOSED, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from pydantic import ValidationError

from harness.mcp.definitions import checked
from harness.mcp.errors import CallFailed, ServerFailed
from harness.mcp.http import BROKEN, GONE, REFUSED, UNREACHED, code_of, http_streams, plain_client
from harness.mcp.oauth import Tokens
from harness.mcp.session import Session, silence_sdk_log
from harness.mcp.stdio import stdio_streams
from harness.text.frames import line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from mcp.types import CallToolResult

    from harness.mcp.config import McpServerSettings, OAuthSettings
    from harness.mcp.definitions import RemoteTool
    from harness.mcp.http import Route
    from harness.mcp.pool import State
    from harness.mcp.session import Streams
    from harness.ports import Clock


log = logging.getLogger(__name__)

PING_SECONDS, PONG_SECONDS = 30.0, 10.0
"""Seconds between two pings, and for an answer to one."""
RELIST_SECONDS = 300.0
"""Seconds until the tool list is read again, for servers whose change notification was lost."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Shortest and longest delay in seconds between two attempts to connect; it grows."""
STEADY_SECONDS = 60.0
"""Seconds after which a connection counts as good: the delays start from the shortest again."""
CALM_SECONDS = 1.0
"""Minimum seconds between two reads of the list, however often it changes."""
GREETING_SECONDS = 10.0
"""Seconds that a call waits for a connection in progress."""
MOST_TOLD = 10
"""Number of refused tools that are named."""
LONGEST_ERROR = 2000
"""Characters kept of a server's error message."""
BROKE = "the connection to its server broke during the call"
NOT_BEGUN = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS})
"""Errors meaning that the server did not understand a call (JSON-RPC 2.0, section 5.1)."""
silence_sdk_log()

T = TypeVar("T")


async def within(seconds: float, session: Session, work: Coroutine[Any, Any, T]) -> T:
    """A request's result. Raises TimeoutError, ServerFailed if the session ends first, and the request's own errors."""
    task = asyncio.ensure_future(work)
    try:
        waited: set[asyncio.Future[Any]] = {task, session.ended}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})
    if session.ended.done():
        raise ServerFailed("the connection has ended")
    raise TimeoutError


def reason(error: BaseException) -> str:
    """Why a connection failed, for operators; never a URL, which may contain a key."""
    match error:
        case BaseExceptionGroup():
            inner = [each for each in error.exceptions if not isinstance(each, anyio.ClosedResourceError)]
            return reason(next((e for e in inner if _says(e)), inner[0] if inner else error.exceptions[0]))
        case ServerFailed():
            return str(error)
        case McpError():
            return error.error.message
        case httpx.HTTPStatusError():
            return f"it responded with status {error.response.status_code}"
        case httpx.HTTPError():
            return f"it cannot be reached ({type(error).__name__})"
        case TimeoutError():
            return "it does not answer"
        case OSError():
            return os.strerror(error.errno) if error.errno else type(error).__name__
        case RuntimeError():
            return str(error)
    return f"it violates the MCP protocol ({type(error).__name__})"


def _says(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup | ServerFailed | McpError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """detail: why it is not ready, or which tools were refused. silence: seconds since the last sign of life."""

    state: State
    tools: int
    detail: str
    silence: float | None


class Connection:
    """on_tools: called whenever the tools have changed. Network timeouts use the loop's time, not the clock's."""

    def __init__(
        self,
        name: str,
        settings: McpServerSettings,
        route: Route,
        tokens: Tokens | None,
        clock: Clock,
        on_tools: Callable[[], None],
    ) -> None:
        self.name = name
        self.tools: tuple[RemoteTool, ...] = ()
        self.tried = asyncio.Event()
        self._settings = settings
        self._route = route
        self._tokens = tokens
        self._clock = clock
        self._on_tools = on_tools
        self._refused: tuple[str, ...] = ()
        self._session: Session | None = None
        self._ready = asyncio.Event()
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()
        self._problem = ""
        self._last_sign: float | None = None

    @property
    def health(self) -> Health:
        """The current state."""
        state: State = "ready" if self._session is not None else "retrying" if self.tried.is_set() else "connecting"
        silence = None if self._last_sign is None else round(self._clock.monotonic() - self._last_sign, 1)
        detail = self._problem if state != "ready" else _refusals(self._refused)
        return Health(state=state, tools=len(self.tools), detail=detail, silence=silence)

    async def serve(self) -> None:
        """Connect and reconnect until cancelled."""
        wait = FIRST_WAIT
        while True:
            began = self._clock.monotonic()
            try:
                await self._connect()
            except Exception as error:
                # A server, or the SDK because of it, may fail in any way: this is logged and retried.
                self._note(error)
            finally:
                self._lost()
            if self._clock.monotonic() - began > STEADY_SECONDS:
                wait = FIRST_WAIT
            await self._pause(wait * random.uniform(0.8, 1.2))
            wait = min(wait * 2, LONGEST_WAIT)

    def _note(self, error: Exception) -> None:
        problem = line(reason(error), 300)
        if problem != self._problem:
            log.warning("mcp %s: %s; retrying", self.name, problem)
        self._problem = problem

    def _lost(self) -> None:
        self._ready.clear()
        session, self._session = self._session, None
        if session is not None:
            session.end()
        self.tried.set()

    async def _pause(self, seconds: float) -> None:
        """Wait until the time is up, or a call needs the server."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        hurried = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({sleeping, hurried}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            hurried.cancel()
            # Not before the wait: a call that found the old session gone may have arrived by then.
            self._hurry.clear()

    def _streams(self) -> AbstractAsyncContextManager[Streams]:
        if self._settings.transport == "stdio":
            return stdio_streams(self.name, self._settings)
        return http_streams(self._settings, self._route, self._tokens)

    async def _connect(self) -> None:
        """Run one session from start to end. Raises the error that ended it."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._settings.connect_timeout) as scope:
            async with self._streams() as streams, Session(streams, self._changed.set) as session:
                await session.initialize()
                await self._list(session)
                scope.deadline = float("inf")
                self._session, self._problem = session, ""
                self._ready.set()
                self.tried.set()
                log.info("mcp %s: connected, %d tools", self.name, len(self.tools))
                await self._watch(session)
        if scope.cancelled_caught:
            raise ServerFailed(f"it did not answer within {self._settings.connect_timeout:g} s")

    async def _watch(self, session: Session) -> None:
        """Ping the session, and read changed tools again, until it ends, which is an error."""
        listed = self._clock.monotonic()
        while True:
            await self._news(session)
            if session.ended.done():
                raise ServerFailed("the connection has ended")
            if self._changed.is_set() or self._clock.monotonic() - listed > RELIST_SECONDS:
                listed = self._clock.monotonic()
                await within(self._settings.connect_timeout, session, self._list(session))
                await self._clock.sleep(CALM_SECONDS)
            else:
                await within(PONG_SECONDS, session, session.send_ping())
                self._last_sign = self._clock.monotonic()

    async def _news(self, session: Session) -> None:
        """Wait until the tools have changed, the session has ended, or it was silent for long."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            waited: set[asyncio.Future[Any]] = {changed, session.ended}
            await asyncio.wait(waited, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    async def _list(self, session: Session) -> None:
        self._changed.clear()
        found = checked(self.name, self._settings, await session.offers())
        self._last_sign = self._clock.monotonic()
        if found.refused and found.refused != self._refused:
            log.warning("mcp %s: %s", self.name, _refusals(found.refused))
        self._refused = found.refused
        if found.tools != self.tools:
            self.tools = found.tools
            self._on_tools()

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool by the server's name for it. Raises CallFailed.

        Cancelling this withdraws the call. A call that was certainly not executed is retried once.
        """
        try:
            return await self._called(await self._current(), tool, arguments)
        except _NotSent:
            return await self._again(tool, arguments)

    async def _again(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        try:
            return await self._called(await self._current(), tool, arguments)
        except _NotSent as error:
            raise CallFailed(f"its server cannot be reached now: {error}", happened=False) from None

    async def _current(self) -> Session:
        """The session; waits a while for one in progress. Raises CallFailed."""
        if self._session is None or self._session.ended.done():
            self._hurry.set()
            self._ready.clear()
            try:
                async with asyncio.timeout(GREETING_SECONDS):
                    await self._ready.wait()
            except TimeoutError:
                pass
        if self._session is None:
            # The reason is for operators: it may name a local folder.
            raise CallFailed("its server is not connected now", happened=False)
        return self._session

    async def _called(self, session: Session, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        """Make a call. Raises CallFailed, or _NotSent with the session ended."""
        seconds = self._settings.timeout
        try:
            result = await within(seconds, session, session.call(tool, arguments))
        except TimeoutError:
            text = f"its server did not answer within {seconds:g} seconds, so the call was abandoned"
            raise CallFailed(text, happened=True) from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            session.end()
            raise _NotSent("the connection has ended") from None
        except ServerFailed:
            raise CallFailed(BROKE, happened=True) from None
        except ValidationError:
            raise CallFailed("its server's response is not a result", happened=True) from None
        except McpError as error:
            raise self._failure(session, error) from None
        self._last_sign = self._clock.monotonic()
        return result

    def _failure(self, session: Session, error: McpError) -> CallFailed | _NotSent:
        code, text = error.error.code, line(error.error.message, LONGEST_ERROR)
        match code_of(error.error):  # a server's own errors with one of these codes do not count
            case found if found in (UNREACHED, GONE):
                session.end()
                return _NotSent(text)
            case found if found == BROKEN:
                return CallFailed(f"its server failed during the call: {text}", happened=True)
            case found if found == REFUSED:
                return CallFailed(f"its server rejects Antler: {text}", happened=False)
        if code == CONNECTION_CLOSED and session.ended.done():
            return CallFailed(BROKE, happened=True)
        return CallFailed(f"its server returned error {code}", happened=code not in NOT_BEGUN, said=text)


def _refusals(refused: tuple[str, ...]) -> str:
    more = f"; and {len(refused) - MOST_TOLD} more" if len(refused) > MOST_TOLD else ""
    return "; ".join(f"refused {each}" for each in refused[:MOST_TOLD]) + more


class _NotSent(Exception):
    """A call did not reach the server."""


def make_tokens(
    settings: OAuthSettings, file: Path, route: Route, clock: Clock, learn: Callable[[str], None]
) -> Tokens:
    """The tokens of a server; defined here so that the pool need not import HTTP."""
    return Tokens(settings, file, functools.partial(plain_client, route), clock, learn)
