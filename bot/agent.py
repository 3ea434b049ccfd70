"""The agent of this process: imported and built while the channels run already; runs that come earlier wait for it.

For gateway.py.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING

from bot.approvals.book import StoreApprovals
from bot.store.effects import StoreEffectLog, StoreRunLedger
from harness.errors import SetupError
from harness.extras import ExtraSettings
from harness.spool import SpoolSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType

    from bot.budgets import Budgets
    from bot.meter import Meter
    from bot.patience import PatientStore
    from bot.sandboxes import Sandboxes
    from bot.settings import Settings
    from channels.base import Clock
    from harness.mcp.pool import McpPool
    from harness.ports import AuditLog, Harness
    from harness.sandboxes import SandboxSetup
    from harness.schedules import Scheduling
    from harness.souls import AgentDefinition

log = logging.getLogger(__name__)

SOMEWHERE = "https://internet.invalid"


class Agent:
    """sandboxes: started with it, shut down by the caller. audit: of the agent's commands. spool: the folder for the
    files that it presents. servers: started and closed with it. meter: of what its runs use; budgets: on that.
    scheduling: what people put off; None: nothing can be. definitions: of agents, by name; None: only the plain one."""

    def __init__(
        self,
        *,
        settings: Settings,
        store: PatientStore,
        clock: Clock,
        sandboxes: Sandboxes,
        audit: AuditLog,
        spool: Path,
        servers: McpPool,
        meter: Meter,
        budgets: Budgets,
        scheduling: Scheduling | None = None,
        definitions: Mapping[str, AgentDefinition] | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._sandboxes = sandboxes
        self._audit = audit
        self._spool = spool
        self._servers = servers
        self._definitions = definitions
        self._meter = meter
        self._budgets = budgets
        self._scheduling = scheduling
        self._harness: asyncio.Future[Harness] = asyncio.get_running_loop().create_future()

    async def harness(self) -> Harness:
        """The agent as soon as it is built. Raises what its building raised."""
        return await asyncio.shield(self._harness)

    async def build(self) -> str | None:
        """Import and build it, once; returns why that cannot be done, for operators."""
        try:
            runner, sandbox = await asyncio.gather(
                asyncio.to_thread(importlib.import_module, "harness.runner"), self._sandboxes.start()
            )
            self._sandboxes.tell()
            self._harness.set_result(await self._made_by(runner, sandbox))
        except SetupError as error:
            self._harness.set_exception(error)
            return str(error)
        except Exception as error:
            # Whatever it is (a missing package, a bad model class), the runs that wait for the agent must hear of it.
            log.exception("the agent cannot be built")
            self._harness.set_exception(error)
            return "the agent cannot be built"
        return None

    async def close(self) -> None:
        """Give back what it holds, if it was built; its runs must have ended."""
        await self._servers.close()
        if self._harness.done() and not self._harness.exception():
            await self._harness.result().close()

    async def _made_by(self, runner: ModuleType, sandbox: SandboxSetup | None) -> Harness:
        settings = self._settings
        self._servers.start()
        harness: Harness = await runner.make_harness(
            models=settings.models,
            summarization=settings.summarization,
            llm=settings.llm,
            loop=settings.loop,
            model_call_limit=settings.limits.model_calls,
            database=settings.checkpoints,
            effects=StoreEffectLog(self._store),
            ledger=StoreRunLedger(self._store, self._meter),
            budget=None if self._budgets.none else self._budgets,
            clock=self._clock,
            route=self._route,
            extras=ExtraSettings(
                web=settings.web, tools=settings.tools, groups=settings.tool_groups, route=settings.network_route
            ),
            sandbox=sandbox,
            audit=self._audit,
            guardrails=settings.guardrails,
            approvals=StoreApprovals(self._store),
            spool=SpoolSettings(folder=self._spool),
            servers=self._servers if settings.mcp_servers else None,
            tool_search=settings.tool_search,
            subagents=settings.subagents,
            definitions=self._definitions,
            scheduling=self._scheduling,
        )
        return harness

    def _route(self, name: str) -> tuple[str | None, Path | None]:
        """How to reach a model's provider; one that names no URL is somewhere on the internet."""
        url = next((model.base_url for model in self._settings.models if model.name == name), None)
        return self._settings.network_route(url or SOMEWHERE)
