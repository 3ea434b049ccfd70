"""Tries the configured MCP servers, for `antler check-config`; the gateway itself has them in harness/mcp/pool.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from harness.mcp.pool import McpPool

if TYPE_CHECKING:
    from bot.settings import Settings


def probe(settings: Settings) -> list[str]:
    """A line for each server; connects to it, asks for its tools, and ends the connection again."""
    return asyncio.run(_probe(settings)) if settings.mcp_servers else []


async def _probe(settings: Settings) -> list[str]:
    # A provider may take a refresh token once only, so the running gateway's cache has to be the one that is used.
    pool = McpPool(settings.mcp_servers, folder=settings.data_dir, route=settings.network_route, clock=SystemClock())
    pool.start()
    try:
        await pool.settled()
        return [str(facts) for facts in pool.facts]
    finally:
        await pool.close()
