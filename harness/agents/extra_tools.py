"""The tools beside the sandbox's: the web's and the operator's own; made and closed by runner.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.agents.configured_tools import ANTLERS, configured_tools, distinct
from harness.agents.sandbox_tools import sandbox_tools
from harness.errors import ToolSetupError
from harness.graph.calls import is_foreign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.tools import BaseTool

    from harness.agents.extras import ExtraSettings
    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.ports import Clock
    from harness.web.service import Web


class Extras:
    """tools: of which no two have one name. outside: some bring what strangers wrote."""

    def __init__(self, web: Web | None, tools: Sequence[BaseTool]) -> None:
        self.tools = tuple(tools)
        self.outside = web is not None or any(map(is_foreign, tools))
        self._web = web

    async def close(self) -> None:
        """Give back connections and processes; runs must have ended."""
        if self._web is not None:
            await self._web.close()


async def load_extras(
    settings: ExtraSettings, given: Sequence[BaseTool], sandbox: SandboxSetup | None, spool: Spool | None, clock: Clock
) -> Extras:
    """given: tools from elsewhere. The rest: of the agent's own tools, whose names are taken.

    Raises ToolSetupError.
    """
    # All that any model may get: a clash is told at the start and not by the first picture.
    own = sandbox_tools(sandbox, spool=spool, sees_images=True, clock=clock) if sandbox is not None else []
    loaded = await asyncio.to_thread(configured_tools, settings.tools, settings.groups)
    web = _web(settings)
    try:
        placed = [(ANTLERS, tool) for tool in [*own, *(web.tools if web else ()), *given]]
        return Extras(web, distinct([*placed, *loaded])[len(own) :])
    except ToolSetupError:
        if web is not None:
            await web.close()
        raise


def _web(settings: ExtraSettings) -> Web | None:
    if not settings.web.is_on:
        return None
    # Here, not at the top: with it comes an HTTP client, which an agent without the web does not need.
    from harness.web.service import Web

    return Web(settings.web, settings.route)
