"""The server over HTTP: streamable at /mcp, SSE at /sse, a provider of tokens at /token, and the test's control."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tests.simulators.mcp.play import Play

CLIENT = ("antler", "client-s3cret")


class Provider:
    """Issues tokens token-secret-1, -2 ...; only the newest is valid. A refresh token is valid once."""

    def __init__(self, report: Any) -> None:
        self.number = 0
        self.revoked = False
        self.seconds = 3600
        self.refresh = "refresh-secret-0"
        self._report = report

    async def token(self, request: Request) -> Response:
        form = await request.form()
        grant = str(form.get("grant_type"))
        self._report(f"token {grant}")
        if grant == "refresh_token":
            if form.get("refresh_token") != self.refresh:
                return JSONResponse({"error": "invalid_grant", "error_description": "leaky-detail"}, 400)
            self.refresh = f"refresh-secret-{self.number + 1}"
        elif request.headers.get("authorization") != _basic():
            return JSONResponse({"error": "invalid_client"}, 401)
        self.number += 1
        self.revoked = False
        more = {"refresh_token": self.refresh} if grant == "refresh_token" else {}
        return JSONResponse({"access_token": self.access, "token_type": "Bearer", "expires_in": self.seconds, **more})

    @property
    def access(self) -> str:
        return f"token-secret-{self.number}"

    def lets_in(self, headers: Headers) -> bool:
        return not self.revoked and headers.get("authorization") == f"Bearer {self.access}"


def application(play: Play, *, tokens: bool) -> ASGIApp:
    provider = Provider(play.report)
    manager = StreamableHTTPSessionManager(play.server)
    sse = SseServerTransport("/messages/")

    async def over_sse(request: Request) -> Response:
        async with sse.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await play.server.run(read, write, play.options)
        return Response()

    async def streamable(scope: Scope, receive: Receive, send: Send) -> None:
        await manager.handle_request(scope, receive, send)

    async def control(request: Request) -> Response:
        name = request.path_params["name"]
        if name == "revoke":
            provider.revoked = True
        elif name == "short":
            provider.seconds = 30
        return JSONResponse({"tokens": provider.number, "calls": play.calls})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    routes = [
        Route("/token", provider.token, methods=["POST"]),
        Route("/control/{name}", control, methods=["POST"]),
        Route("/sse", over_sse),
        Route("/moved", _moved, methods=["GET", "POST"]),
        Route("/broken", _broken, methods=["GET", "POST"]),
        Mount("/messages/", app=sse.handle_post_message),
        Mount("/", app=streamable),
    ]
    return _Door(Starlette(routes=routes, lifespan=lifespan), provider, closed=tokens)


async def _moved(request: Request) -> Response:
    return Response(status_code=307, headers={"location": "http://169.254.169.254/latest"})


async def _broken(request: Request) -> Response:
    return Response("boom", status_code=500)


class _Door:
    """Access control. closed: MCP requests need a valid token."""

    def __init__(self, app: ASGIApp, provider: Provider, *, closed: bool) -> None:
        self._app = app
        self._provider = provider
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["path"].startswith(("/mcp", "/sse", "/messages"))
        if self._closed and guarded and not self._provider.lets_in(Headers(scope=scope)):
            await JSONResponse({"error": "unauthorized"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _basic() -> str:
    import base64

    return "Basic " + base64.b64encode(":".join(CLIENT).encode()).decode()
