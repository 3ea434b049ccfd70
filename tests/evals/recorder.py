"""A server between the gateway and a model's endpoint: passes everything on and notes which tools the model calls."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web

from tests.evals.checks import ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from aiohttp import ClientResponse

_HOST = "127.0.0.1"
_LARGEST_REQUEST = 64 * 1024 * 1024
_NO_LIMIT = ClientTimeout(total=None)
_PASSED_ON = ("Content-Type", "Retry-After")


@dataclass
class Recorder:
    """endpoint: the base URL of an OpenAI-compatible server. key: what it wants as a bearer token, or "".

    calls: of all answers so far that were asked for with tools. failures: what the endpoint refused.
    """

    endpoint: str
    key: str
    calls: list[ToolCall] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def base_url(self) -> str:
        """Where the gateway is to ask."""
        return f"http://{_HOST}:{self.port}/v1"

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Listen on a loopback port."""
        async with ClientSession(timeout=_NO_LIMIT, auto_decompress=True) as self._session:
            app = web.Application(client_max_size=_LARGEST_REQUEST)
            app.router.add_post("/v1/{path:.+}", self._pass_on)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, _HOST, 0)
                await site.start()
                self.port = runner.addresses[0][1]
                yield
            finally:
                await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        url = f"{self.endpoint.rstrip('/')}/{request.match_info['path']}"
        try:
            async with self._session.post(url, data=body, headers=headers) as answer:
                return await self._hand_on(request, body, answer)
        except ConnectionResetError:  # the gateway waits no longer, such as for a title from a slow model
            return web.Response()
        except ClientError as error:
            self.failures.append(f"nothing: {error}")
            return web.Response(status=web.HTTPBadGateway.status_code)

    async def _hand_on(self, request: web.Request, body: bytes, answer: ClientResponse) -> web.StreamResponse:
        kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(request)
        said = bytearray()
        async for piece in answer.content.iter_any():
            said += piece
            await response.write(piece)
        await response.write_eof()
        if answer.status != web.HTTPOk.status_code:
            self.failures.append(f"{answer.status}: {said[:300].decode(errors='replace')}")
        elif "tools" in json.loads(body):
            self.calls += tool_calls(said.decode(errors="replace"))
        return response


def tool_calls(answer: str) -> list[ToolCall]:
    """The tool calls of an answer: a JSON object, or a stream of events whose pieces are put together."""
    names: dict[int, str] = defaultdict(str)
    arguments: dict[int, str] = defaultdict(str)
    for number, call in _pieces(answer):
        function = call.get("function") or {}
        names[number] += function.get("name") or ""
        arguments[number] += function.get("arguments") or ""
    return [ToolCall(names[number], arguments[number]) for number in names]


def _pieces(answer: str) -> Iterable[tuple[int, dict[str, Any]]]:
    """(index of the call, a piece of it)."""
    if not answer.lstrip().startswith("data:") and "\ndata:" not in answer:
        events = [json.loads(answer)]
    else:
        lines = (line.removeprefix("data:").strip() for line in answer.splitlines() if line.startswith("data:"))
        events = [json.loads(line) for line in lines if line and line != "[DONE]"]
    for event in events:
        for choice in event.get("choices") or []:
            said = choice.get("delta") or choice.get("message") or {}
            for number, call in enumerate(said.get("tool_calls") or []):
                yield call.get("index", number), call
