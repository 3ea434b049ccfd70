"""A server over HTTP whose responses contain no answer, do not come or do not end: no call waits for them in vain."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from harness.mcp.config import McpServerSettings
from harness.mcp.errors import CallFailed
from tests.harness.mcp.conftest import named, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.harness.mcp.conftest import Bench

EVENTS, JSON = "text/event-stream", "application/json"
TOOLS: dict[str, Any] = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
ENDED, NONE = "ended without a result", "is no MCP message"


class Server:
    """Answers calls with `body`, of the type `kind`. silent: the messages that get no response. forgets: what follows
    gets status 404. crowd: the number of calls that are answered together. endless: calls get a stream without end."""

    def __init__(self) -> None:
        self.kind, self.status, self.body = JSON, 200, ""
        self.silent: set[str] = set()
        self.forgets = self.endless = False
        self.crowd = asyncio.Barrier(1)
        self.called, self.closed = asyncio.Event(), asyncio.Event()
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        app = web.Application()
        app.router.add_post("/mcp", self._post)
        app.router.add_post("/mcp/", self._moved)
        app.router.add_delete("/mcp", self._delete)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _moved(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/mcp"})

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        return await self._respond("delete", web.Response())

    async def _post(self, request: web.Request) -> web.StreamResponse:
        message = await request.json()
        result: dict[str, Any]
        session = {"mcp-session-id": "one"}
        match message["method"]:
            case "initialize":
                self.forgets = False
                version = message["params"]["protocolVersion"]
                about = {"serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}
                result = about | {"protocolVersion": version}
            case _ if self.forgets:
                return web.Response(status=404)
            case "tools/list":
                result = TOOLS
            case "tools/call":
                self.called.set()
                await self.crowd.wait()
                return await (self._stream(request) if self.endless else self._called(message["id"]))
            case name:
                return await self._respond(name, web.Response(status=202))
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=session)

    async def _respond(self, name: str, response: web.Response) -> web.Response:
        if name in self.silent:
            await asyncio.Event().wait()
        return response

    async def _called(self, number: int) -> web.Response:
        body = self.body or answer(number)
        return web.Response(body=body.encode(), status=self.status, headers={"Content-Type": self.kind})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENTS})
        await response.prepare(request)
        try:
            while True:
                await response.write(b": still here\n\n")
                await asyncio.sleep(0.05)
        finally:
            self.closed.set()

    def settings(self, path: str = "/mcp", **more: Any) -> McpServerSettings:
        return McpServerSettings.model_validate({"url": f"http://127.0.0.1:{self.port}{path}", **more})


def answer(number: int) -> str:
    result = {"content": [{"type": "text", "text": "done"}]}
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server().running() as running:
        yield running


@pytest.mark.parametrize(
    ("kind", "status", "body", "why"),
    [
        (EVENTS, 200, 'data: {"jsonrpc": "2.0", "method": "notifications/x"}\n\n', ENDED),
        (EVENTS, 200, "data: {\n\n", ENDED),
        ("text/html", 200, "<html>", NONE),
        ("text/plain", 200, answer(2), NONE),
        (JSON, 200, '{"jsonrpc": "2.0"', NONE),
        (JSON, 200, f"[{answer(2)}]", NONE),
        (JSON, 200, answer(99), NONE),
        (JSON, 202, " ", NONE),
    ],
)
async def test_a_response_without_an_answer_fails_its_call_at_once(
    bench: Bench, server: Server, kind: str, status: int, body: str, why: str
) -> None:
    async with bench.pool(s=server.settings()) as pool, asyncio.timeout(20):
        server.kind, server.status, server.body = kind, status, body
        with pytest.raises(CallFailed, match=why) as failed:
            await pool.call(named(pool, "act"), {})
        assert failed.value.happened
        server.kind, server.status, server.body = JSON, 200, ""
        assert await text_of(pool, "act") == "done"


async def test_a_server_may_have_another_slash_in_its_address(bench: Bench, server: Server) -> None:
    async with bench.pool(s=server.settings("/mcp/")) as pool:
        assert await text_of(pool, "act") == "done"
        server.body = "{"
        with pytest.raises(CallFailed, match=NONE):
            await pool.call(named(pool, "act"), {})


async def test_a_server_that_does_not_confirm_holds_nothing_up(
    bench: Bench, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.mcp.http.NOTICE_SECONDS", 0.3)
    server.silent = {"delete", "notifications/cancelled"}
    async with asyncio.timeout(20), bench.pool(s=server.settings()) as pool:
        server.crowd = asyncio.Barrier(2)
        stopped = asyncio.create_task(pool.call(named(pool, "act"), {}))
        await server.called.wait()
        stopped.cancel()
        await asyncio.wait({stopped})
        server.crowd = asyncio.Barrier(1)
        assert await text_of(pool, "act") == "done"
        server.forgets = True
        assert await text_of(pool, "act") == "done"


async def test_as_many_calls_as_there_are_runs_are_made_at_once(bench: Bench, server: Server) -> None:
    server.crowd = asyncio.Barrier(150)
    async with bench.pool(s=server.settings()) as pool, asyncio.timeout(20):
        assert await asyncio.gather(*(text_of(pool, "act") for _ in range(150))) == ["done"] * 150


async def test_a_response_that_never_ends_is_closed(
    bench: Bench, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.mcp.http.CONNECT_SECONDS", 0.5)
    server.endless = True
    async with bench.pool(s=server.settings(timeout=0.2, connect_timeout=2)) as pool, asyncio.timeout(20):
        with pytest.raises(CallFailed, match="did not answer"):
            await pool.call(named(pool, "act"), {})
        assert not server.closed.is_set()
        await server.closed.wait()
