"""The MCP servers of this process: connected in the background, called by the agent's tools, shown in /status.

Created by the gateway before anything heavy is imported; code that uses the SDK is imported at the start, and only if a
server is configured.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from harness.mcp.config import plain
from harness.mcp.errors import CallFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

    from mcp.types import CallToolResult

    from harness.mcp.config import McpServerSettings
    from harness.mcp.connection import Connection
    from harness.mcp.definitions import RemoteTool
    from harness.ports import Clock

    Route = tuple[str | None, Path | None]

log = logging.getLogger(__name__)

State = Literal["connecting", "ready", "retrying", "off"]
"""retrying: a connection was attempted, and is not open now."""

START_SECONDS = 10.0
"""Seconds after the start during which a run waits for servers that were not tried yet."""
FOLDER = "mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """State of a server, for operators. tools: how many the agent has. detail: why the server is not ready, or which of
    its tools were refused."""

    name: str
    state: State
    tools: int
    detail: str
    silence: float | None

    def __str__(self) -> str:
        count = f"{self.tools} tool{'' if self.tools == 1 else 's'}"
        return f"{self.name}: {self.state}, {count}{f' ({self.detail})' if self.detail else ''}"


def _ignore(secret: str) -> None:
    """The default for `learn`: no redaction."""


class McpPool:
    """The pool. folder: the data folder, which holds tokens. route: (proxy, CA file) for a URL. learn: called with
    tokens."""

    def __init__(
        self,
        servers: Mapping[str, McpServerSettings],
        *,
        folder: Path,
        route: Callable[[str], Route],
        clock: Clock,
        learn: Callable[[str], None] = _ignore,
    ) -> None:
        self._servers = dict(servers)
        self._folder = folder / FOLDER
        self._route = route
        self._clock = clock
        self._learn = learn
        self._connections: dict[str, Connection] = {}
        self._task: asyncio.Task[None] | None = None
        self._made = asyncio.Event()
        self._start_ends = 0.0
        self._revision = 0

    @property
    def revision(self) -> int:
        """A number that changes whenever the tools do."""
        return self._revision

    @property
    def tools(self) -> tuple[RemoteTool, ...]:
        """The tools of all servers reached at least once: an unreachable server keeps its tools, and calls report
        it."""
        return tuple(tool for connection in self._connections.values() for tool in connection.tools)

    @property
    def facts(self) -> tuple[ServerFacts, ...]:
        """The current state of the servers, in the order of the config."""
        return tuple(self._facts(name) for name in self._servers)

    def _facts(self, name: str) -> ServerFacts:
        connection = self._connections.get(name)
        if connection is None:
            state: State = "connecting" if self._servers[name].enabled else "off"
            broken = state == "connecting" and self._task is not None and self._task.done()
            detail = "the MCP client failed: see the log" if broken else ""
            return ServerFacts(name=name, state=state, tools=0, detail=detail, silence=None)
        health = connection.health
        return ServerFacts(
            name=name, state=health.state, tools=health.tools, detail=health.detail, silence=health.silence
        )

    def start(self) -> None:
        """Begin to connect; returns at once. Does nothing if no server is enabled, or if called again."""
        if self._task is None and any(server.enabled for server in self._servers.values()):
            self._start_ends = self._clock.monotonic() + START_SECONDS
            self._task = asyncio.create_task(self._serve(), name="mcp")
            self._task.add_done_callback(self._report)

    async def settled(self) -> None:
        """Wait until every server was tried, for a few seconds after the start; later return at once."""
        left = self._start_ends - self._clock.monotonic()
        if self._task is None or left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await self._made.wait()
                for connection in self._connections.values():
                    await connection.tried.wait()
        except TimeoutError:
            log.info("mcp: runs continue without the servers that have not answered yet")
        self._start_ends = 0.0

    async def call(self, tool: RemoteTool, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool on its server. Raises CallFailed. Cancelling this withdraws the call."""
        connection = self._connections.get(tool.server)
        if connection is None:
            raise CallFailed("its server is no longer configured", happened=False)
        if not any(each.name == tool.name for each in connection.tools):
            raise CallFailed("its server no longer offers it", happened=False)
        return await connection.call(tool.name, arguments)

    async def close(self) -> None:
        """End all connections and processes. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _serve(self) -> None:
        module = await asyncio.to_thread(importlib.import_module, "harness.mcp.connection")
        for name, settings in self._servers.items():
            if settings.enabled:
                self._connections[name] = self._connection(module, name, settings)
        self._made.set()
        async with asyncio.TaskGroup() as tasks:
            for name, connection in self._connections.items():
                tasks.create_task(connection.serve(), name=f"mcp {name}")

    def _report(self, task: asyncio.Task[None]) -> None:
        """Log the defect that ended the task, which no caller awaits."""
        self._made.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("mcp: no server is connected, since the client failed", exc_info=error)

    def _connection(self, module: ModuleType, name: str, settings: McpServerSettings) -> Connection:
        route: Route = (None, None) if settings.url is None else self._route(plain(settings.url))
        tokens = None
        if settings.oauth is not None:
            file = self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
            tokens = module.make_tokens(
                settings.oauth, file, self._route(plain(settings.oauth.token_url)), self._clock, self._learn
            )
        connection: Connection = module.Connection(name, settings, route, tokens, self._clock, self._tools_changed)
        return connection

    def _tools_changed(self) -> None:
        self._revision += 1
