"""The agent of this process: imported and built while the channels run already; runs that come earlier wait for it.

For gateway.py.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING

from bot.store.effects import StoreEffectLog, StoreRunLedger
from harness.errors import ModelSetupError
from harness.spool import SpoolSettings

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from bot.patience import PatientStore
    from bot.sandboxes import Sandboxes
    from bot.settings import Settings
    from channels.base import Clock
    from harness.ports import AuditLog, Harness
    from harness.sandboxes import SandboxSetup

log = logging.getLogger(__name__)

SOMEWHERE = "https://internet.invalid"


class Agent:
    """sandboxes: started with it, shut down by the caller. audit: of the agent's commands. spool: the folder for the
    files that it presents."""

    def __init__(
        self, settings: Settings, store: PatientStore, clock: Clock, sandboxes: Sandboxes, audit: AuditLog, spool: Path
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._sandboxes = sandboxes
        self._audit = audit
        self._spool = spool
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
        except ModelSetupError as error:
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
        if self._harness.done() and not self._harness.exception():
            await self._harness.result().close()

    async def _made_by(self, runner: ModuleType, sandbox: SandboxSetup | None) -> Harness:
        settings = self._settings
        harness: Harness = await runner.make_harness(
            models=settings.models,
            summarization=settings.summarization,
            llm=settings.llm,
            model_call_limit=settings.limits.model_calls,
            database=settings.checkpoints,
            effects=StoreEffectLog(self._store),
            ledger=StoreRunLedger(self._store),
            clock=self._clock,
            route=self._route,
            sandbox=sandbox,
            audit=self._audit,
            spool=SpoolSettings(folder=self._spool),
        )
        return harness

    def _route(self, name: str) -> tuple[str | None, Path | None]:
        """How to reach a model's provider; one that names no URL is somewhere on the internet."""
        url = next((model.base_url for model in self._settings.models if model.name == name), None)
        return self._settings.network_route(url or SOMEWHERE)
