"""One listener for all that Antler serves over HTTP: an application built from routers, in the gateway's own loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request
from uvicorn.config import Config
from uvicorn.server import Server

from bot.http.auth import SignedIn  # noqa: TC001  FastAPI reads the annotation
from bot.http.connections import Addresses, Connection, Entrance
from bot.http.errors import ANY_ERROR, tell_errors
from bot.http.guard import Guard
from bot.http.sse import EVENT, EventStream

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from bot.http.auth import Gatekeeper
    from bot.settings.http import HttpSettings

MOST_CONNECTIONS = 500
"""Concurrent connections; beyond that the answer is 503, so that idle connections cannot use up the process's files."""
CLOSING_SECONDS = 1.0
"""Seconds that answers in progress have at the stop."""
REPLACED_SECONDS = 30.0
"""Seconds that answers in progress have when another listener takes over."""


class _Server(Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the gateway."""
        yield


class Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The description of all routes. Errors are JSON, even on routes whose answers are not; streams are described
        by their events."""
        if self.openapi_schema is None:
            operations = [each for path in super().openapi()["paths"].values() for each in path.values()]
            for responses in (each["responses"] for each in operations):
                for status in ANY_ERROR:
                    (described,) = responses[status]["content"].values()
                    responses[status]["content"] = {"application/json": described}
                for answer in responses.values():
                    if EventStream.media_type in answer.get("content", {}):
                        answer["content"][EventStream.media_type] = {"schema": EVENT}
        return super().openapi()


def docs_router() -> APIRouter:
    """/api/docs: the description as JSON; a page to display it would need scripts from other servers."""
    router = APIRouter()

    @router.get("/api/docs", include_in_schema=False)
    async def docs(caller: SignedIn, request: Request) -> dict[str, Any]:
        described: dict[str, Any] = request.app.openapi()
        return described

    return router


def make_app(
    settings: HttpSettings, routers: Sequence[APIRouter], gatekeeper: Gatekeeper | None = None, most_upload: int = 0
) -> FastAPI:
    """The application that serves these routers and nothing else. gatekeeper: identifies callers; None where no route
    needs it. most_upload: bytes of an upload."""
    app = Application(title="Antler", docs_url=None, redoc_url=None, openapi_url=None, responses=ANY_ERROR)
    app.state.gatekeeper = gatekeeper
    tell_errors(app)
    app.add_middleware(Guard, settings=settings, most_upload=most_upload)
    for router in routers:
        app.include_router(router)
    return app


class HttpServer:
    """The listener, which answers from `start` to `close`. address: bound, see `listening`; closed along with it."""

    def __init__(
        self,
        settings: HttpSettings,
        address: socket.socket,
        routers: Sequence[APIRouter],
        gatekeeper: Gatekeeper | None = None,
        most_upload: int = 0,
    ) -> None:
        config = Config(
            make_app(settings, routers, gatekeeper, most_upload),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=Connection,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=list(settings.proxies),
            ssl_certfile=settings.tls.cert if settings.tls is not None else None,
            ssl_keyfile=settings.tls.key if settings.tls is not None else None,
            limit_concurrency=MOST_CONNECTIONS,
        )
        config.load()
        self._gatekeeper = gatekeeper
        self._server = _Server(config)
        self._serving: asyncio.Task[None] | None = None
        self._socket = address
        self._addresses = Addresses(settings.proxies if settings.behind_proxy else ())

    @property
    def port(self) -> int:
        """The port that it listens on, also where port 0 left the choice to the system."""
        number: int = self._socket.getsockname()[1]
        return number

    def start(self) -> None:
        # Not earlier: who gives up while this is made closes the socket that was given.
        self._socket = Entrance(self._socket, self._addresses)
        self._serving = asyncio.create_task(self._server.serve([self._socket]), name="http")

    def release(self) -> None:
        """Accept no more connections, at once: the address is free for another listener. `close` must still follow."""
        for listening in self._server.servers if self._server.started else ():
            listening.close()
        self._socket.close()

    async def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Accept no more connections, and end within about these seconds, in which answers in progress may finish.

        Never awaits the serving task itself: cancelling the caller must not cancel that task. May be called again by a
        caller that cannot wait as long as the first one.
        """
        if self._gatekeeper is not None:
            self._gatekeeper.closing.set()
        self._server.should_exit = True
        if self._serving is not None:
            _, late = await asyncio.wait({self._serving}, timeout=seconds)
            if late:
                for answering in tuple(self._server.server_state.tasks):
                    answering.cancel()
                self._server.force_exit = True
                await asyncio.wait({self._serving})
        self._socket.close()
