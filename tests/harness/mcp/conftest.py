"""Fixtures of the MCP tests: servers of the simulator, and pools on them."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from harness.mcp.config import McpServerSettings
from harness.mcp.pool import McpPool
from tests.simulators.mcp.reports import Reports, listening
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.mcp.definitions import RemoteTool
    from harness.mcp.pool import Route


HARMLESS = {"*": {"destructive": False}}
"""Else people would be asked for each call of what says nothing of itself."""


class Bench:
    """Makes servers' settings and pools. learnt: the secrets that a pool has told of."""

    def __init__(self, folder: Path, reports: Reports) -> None:
        self.folder = folder
        self.reports = reports
        self.learnt: list[str] = []
        self.route: Route = (None, None)

    def stdio(self, *arguments: str, **more: Any) -> McpServerSettings:
        program = ["-m", "tests.simulators.mcp", "stdio", "--report", str(self.reports.port), *arguments]
        values = {"command": sys.executable, "args": program, "cwd": str(REPO_ROOT), "hints": HARMLESS}
        return McpServerSettings.model_validate(values | more)

    @asynccontextmanager
    async def pool(self, **servers: McpServerSettings) -> AsyncIterator[McpPool]:
        """Started, and settled."""
        pool = McpPool(
            servers,
            folder=self.folder,
            route=lambda url: self.route,
            clock=SystemClock(),
            learn=self.learnt.append,
        )
        pool.start()
        try:
            await pool.settled()
            yield pool
        finally:
            await pool.close()


def named(pool: McpPool, name: str, server: str = "") -> RemoteTool:
    """A tool by the server's name for it."""
    return next(tool for tool in pool.tools if tool.name == name and server in ("", tool.server))


async def text_of(pool: McpPool, name: str, server: str = "", **arguments: Any) -> str:
    """What a call answers."""
    answer = await pool.call(named(pool, name, server), arguments)
    return "\n".join(str(getattr(block, "text", "")) for block in answer.content)


@pytest.fixture
async def reports() -> AsyncIterator[Reports]:
    async with listening() as found:
        yield found


@pytest.fixture
def bench(tmp_path: Path, reports: Reports) -> Bench:
    return Bench(tmp_path, reports)
