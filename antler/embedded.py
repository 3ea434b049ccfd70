"""A gateway in this process for `antler.client`, and how requests reach it: no socket, nothing buffered whole."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import httpx

from antler.errors import NotStarted
from bot.process.embedding import embedded, settings_of
from bot.process.gateway import Unusable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
    from contextlib import AsyncExitStack
    from pathlib import Path

    from bot.settings import Settings

    App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]
    """An ASGI application."""

log = logging.getLogger(__name__)

MOST_WAITING = 16
"""Pieces of an answer that are made before they are read."""
CLOSING_SECONDS = 5.0
"""What is being answered has so long at the end."""


async def started(
    stack: AsyncExitStack, config: Settings | Path | str | None, name: str, *, platforms: bool
) -> tuple[str, AppTransport]:
    """A token of a gateway that serves until the stack is closed, and the way to it. Raises NotStarted."""
    try:
        gateway = await stack.enter_async_context(embedded(settings_of(config), name, platforms=platforms))
    except Unusable as error:
        raise NotStarted(str(error)) from None
    return gateway.token, AppTransport(gateway.app, gateway.failure)


class AppTransport(httpx.AsyncBaseTransport):
    """Requests to an ASGI application in the same event loop; unlike httpx's own it gives answers as they are made.

    failure: why the application does not answer any more, "" while it does.
    """

    def __init__(self, app: App, failure: Callable[[], str]) -> None:
        self._app = app
        self._failure = failure
        self._answering: dict[asyncio.Task[None], _Exchange] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if why := self._failure():
            raise NotStarted(f"the gateway has stopped: {why}")
        exchange = _Exchange(request)
        task = asyncio.create_task(self._answer(exchange, _scope(request)), name=f"embedded {request.url.path}")
        self._answering[task] = exchange
        task.add_done_callback(self._answering.pop)
        try:
            status, headers = await exchange.begun()
        except BaseException:
            exchange.leave()
            raise
        return httpx.Response(status, headers=headers, stream=exchange, request=request)

    async def _answer(self, exchange: _Exchange, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except Exception as error:  # as a server does: one request fails, and the others go on
            log.error("a request to the embedded gateway failed: %s", type(error).__name__)
        finally:
            exchange.over()

    async def aclose(self) -> None:
        """End what is being answered."""
        for exchange in self._answering.values():
            exchange.leave()
        if self._answering:
            _, late = await asyncio.wait(self._answering, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


class _Exchange(httpx.AsyncByteStream):
    """One request and its answer, which is read as a stream."""

    def __init__(self, request: httpx.Request) -> None:
        self._request = request
        self._body = aiter(request.stream)  # type: ignore[arg-type]  # an AsyncClient's request has such a body
        self._sent = False
        self._left = asyncio.Event()
        self._head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self._whole = False

    # The application's side.

    async def receive(self) -> dict[str, Any]:
        if not self._sent:
            with contextlib.suppress(StopAsyncIteration):
                return {"type": "http.request", "body": await anext(self._body), "more_body": True}
            self._sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if not self._head.done():
                self._head.set_result((message["status"], list(message.get("headers", ()))))
        elif message["type"] == "http.response.body" and not self._left.is_set():
            if body := message.get("body", b""):
                await self._pieces.put(body)
            if not message.get("more_body", False):
                self._whole = True
                await self._pieces.put(None)

    def over(self) -> None:
        """The application has returned, or failed."""
        if self._left.is_set():
            self._head.cancel()
        elif not self._head.done():
            self._head.set_exception(httpx.ReadError("the request was not answered", request=self._request))
        if not self._whole:
            self._room()
            self._pieces.put_nowait(None)

    # The client's side.

    async def begun(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and headers. Raises httpx.ReadError."""
        return await asyncio.shield(self._head)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece
        if not self._whole:
            raise httpx.ReadError("the answer was cut off", request=self._request)
        self._left.set()  # as a server tells an application once all is sent

    async def aclose(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Nobody reads the answer any more."""
        self._left.set()
        self._room()

    def _room(self) -> None:
        """Let who waits for room in the queue go on."""
        while self._pieces.full():
            self._pieces.get_nowait()


def _scope(request: httpx.Request) -> dict[str, Any]:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "server": (url.host, url.port or 80),
        "client": ("127.0.0.1", 0),
    }
