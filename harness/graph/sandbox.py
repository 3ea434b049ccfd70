"""The sandbox as a run has it: acquired at the first use, released when the run ends; for the runner and the tools."""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import SandboxError

if TYPE_CHECKING:
    from sandbox.base import Report, Sandbox, SandboxProvider

log = logging.getLogger(__name__)

CANCELLED, FAILED = "cancelled", "failed"
"""How a command ended whose result nobody got: the run was stopped, the sandbox does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSetup:
    """A provider that was started, with what it told then. The caller shuts it down.

    command_seconds: how long a command may take that asks for no time; most_command_seconds: the most it can ask for.
    """

    provider: SandboxProvider
    report: Report
    command_seconds: float = 120.0
    most_command_seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended, for the audit log. ending: as in sandbox.base.Ending, or CANCELLED or FAILED."""

    ending: str
    exit_code: int | None
    seconds: float


class RunSandbox:
    """One run's hold on its thread's sandbox, and what its tools remember for each other.

    writing: held while a file is changed. successors: version of a file -> the version that this run made of it.
    images: tool call -> a picture to be shown next (a data URL), None while it is fetched. commands: tool call -> how
    its command ended.
    """

    def __init__(self, provider: SandboxProvider, thread_id: str) -> None:
        self._hold = _Hold(provider, thread_id)
        self._remember(asyncio.Lock())

    def _remember(self, writing: asyncio.Lock) -> None:
        self.writing = writing
        self.successors: dict[str, str] = {}
        self.images: dict[str, str | None] = {}
        self.commands: dict[str, CommandEnd] = {}

    def branch(self) -> RunSandbox:
        """The sandbox for a subagent of the run: the same one and the same lock, with a memory of its own, since it has
        seen neither the files nor the pictures of the others. Only the run's own is released."""
        branch = copy(self)
        branch._remember(self.writing)
        return branch

    async def get(self) -> Sandbox:
        """The sandbox, acquired at the first call. Raises SandboxError; the next call tries again."""
        return await self._hold.get()

    async def release(self) -> None:
        """Give it back if it was asked for. Never raises SandboxError: the run is over anyway."""
        await self._hold.release()


class _Hold:
    """One thread's sandbox, acquired at its first use."""

    def __init__(self, provider: SandboxProvider, thread_id: str) -> None:
        self._provider = provider
        self._thread_id = thread_id
        self._acquiring = asyncio.Lock()
        self._asked = False
        self._held: Sandbox | None = None

    async def get(self) -> Sandbox:
        async with self._acquiring:
            if self._held is None:
                self._asked = True
                self._held = await self._provider.acquire(self._thread_id)
            return self._held

    async def release(self) -> None:
        if not self._asked:
            return
        self._asked, self._held = False, None
        try:
            await self._provider.release(self._thread_id)
        except SandboxError as error:
            log.warning("a sandbox was not released: %s %s", error, error.hint)
