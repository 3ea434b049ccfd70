"""The sandbox as a run sees it: acquired on first use, released when the run ends; for the runner and the tools."""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import RESULTS, Problem, SandboxError

if TYPE_CHECKING:
    from sandbox.base import Report, Sandbox, SandboxProvider

log = logging.getLogger(__name__)

CANCELLED, FAILED = "cancelled", "failed"
"""Endings of a command whose result was lost: the run was stopped, the sandbox failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSetup:
    """A started provider, with its report. The caller shuts it down.

    command_seconds: time limit of a command that requests none; most_command_seconds: the longest limit it can request.
    """

    provider: SandboxProvider
    report: Report
    command_seconds: float = 120.0
    most_command_seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended, for the audit log. ending: one of sandbox.base.Ending, or CANCELLED or FAILED."""

    ending: str
    exit_code: int | None
    seconds: float


class RunSandbox:
    """One run's hold on its thread's sandbox, and state that its tools share.

    writing: held while a file is changed. successors: version of a file -> the version that this run made of it.
    images: tool call -> a picture to be shown next (a data URL), None while it is being fetched. commands: tool call ->
    how its command ended.
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
        """The sandbox for a subagent of the run: the same sandbox and lock, with separate state, since the subagent has
        seen neither the files nor the pictures of the others. Only the run's own object is released."""
        branch = copy(self)
        branch._remember(self.writing)
        return branch

    async def get(self) -> Sandbox:
        """The sandbox, acquired on the first call. Raises SandboxError; the next call tries again."""
        return await self._hold.get()

    async def release(self) -> None:
        """Release the sandbox if it was acquired. Never raises SandboxError: the run is over anyway."""
        await self._hold.release()


async def kept(run: RunSandbox | None, name: str, content: str | bytes, what: str) -> str:
    """Keep a result that the model does not get itself as a file. Returns its path, "" without a sandbox or where it
    cannot be written. what: the content, for the log."""
    if run is None:
        return ""
    path = f"{RESULTS}/{name}"
    try:
        written = await (await run.get()).write_file(path, content)
    except SandboxError as error:
        log.warning("%s not kept: %s %s", what, error, error.hint)
        return ""
    if isinstance(written, Problem):
        log.info("%s not kept: %s %s", what, written.code, written.detail)
        return ""
    return path


class _Hold:
    """One thread's sandbox, acquired on first use."""

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
            log.warning("sandbox not released: %s %s", error, error.hint)
