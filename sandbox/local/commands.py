"""Runs one thread's commands in a cage and says how they ended. Used by the local providers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox.base import CommandResult, Ending, SandboxError
from sandbox.launcher.client import Branch
from sandbox.local.cage import Order
from sandbox.local.process import Outcome, Running, Stop, run
from sandbox.policy import CANNOT_RUN, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.egress.proxy import EgressProxy
    from sandbox.kernel.cgroups import Group
    from sandbox.launcher.client import Launcher, Starter
    from sandbox.local.cage import Bind, Cage
    from sandbox.local.disk import DiskShare

_ENDINGS = {Stop.TIME: Ending.TIMED_OUT, Stop.SPACE: Ending.OUT_OF_SPACE}


class Commands:
    """One thread's. binds: asked for before each command. group: the control group that holds them; None where there
    is none. proxy: their only network."""

    def __init__(
        self,
        cage: Cage,
        launcher: Launcher,
        binds: Callable[[], tuple[Bind, ...]],
        disk: DiskShare,
        group: Group | None,
        proxy: EgressProxy | None = None,
    ) -> None:
        self._cage = cage
        self._branch = Branch(launcher, group.entrances) if group else None
        self._starter: Starter = self._branch or launcher
        self._binds = binds
        self._disk = disk
        self._group = group
        self._proxy = proxy
        self._running: set[Running] = set()
        self._begun = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def execute(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> CommandResult:
        """Run a command to its end, as Sandbox.execute_command does."""
        if reason := refusal(command):
            return CommandResult(ending=Ending.EXITED, exit_code=CANNOT_RUN, output=reason, seconds=0.0)
        self._begun += 1
        self._idle.clear()
        try:
            full = await self._disk.check()
            if self._closed:
                raise SandboxError("the sandbox is closed")
            order = Order(command=command, binds=self._binds(), full=full)
            killed_before = self._group.out_of_memory() if self._group else 0
            outcome = await self._watched(order, timeout, on_output)
            killed = self._group.out_of_memory() > killed_before if self._group else False
            return _result(outcome, out_of_memory=killed, full=full)
        finally:
            self._begun -= 1
            if not self._begun:
                self._idle.set()

    async def _watched(self, order: Order, timeout: float, on_output: Callable[[str], None] | None) -> Outcome:
        watching: list[asyncio.Task[None]] = []
        known: list[Running] = []

        def watch(running: Running) -> None:
            known.append(running)
            self._running.add(running)
            if self._closed:
                running.stop(Stop.CLOSED)
            watching.append(asyncio.create_task(self._disk.watch(running), name="disk of a command"))
            if self._proxy is not None:
                watching.append(asyncio.create_task(_serve(self._proxy, running, self), name="network of a command"))

        try:
            return await run(self._starter, self._cage.spec(order), timeout=timeout, on_output=on_output, watch=watch)
        finally:
            self._running.difference_update(known)
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def close(self) -> None:
        """Kill what runs and wait for it; nothing can be run any more. Idempotent."""
        self._closed = True
        for running in self._running:
            running.stop(Stop.CLOSED)
        await self._idle.wait()
        if self._branch is not None:
            self._branch.close()


async def _serve(proxy: EgressProxy, running: Running, whose: Commands) -> None:
    """The command's way out, until this is cancelled."""
    async with proxy.serve(await running.listener(), whose):
        await asyncio.Event().wait()


def _result(outcome: Outcome, *, out_of_memory: bool, full: bool) -> CommandResult:
    if outcome.stopped is Stop.CLOSED:
        raise SandboxError("the sandbox was closed while the command ran")
    ending = Ending.EXITED
    if outcome.stopped is not None:
        ending = _ENDINGS[outcome.stopped]
    elif outcome.exit_code and out_of_memory:
        ending = Ending.OUT_OF_MEMORY
    elif outcome.exit_code and full:
        ending = Ending.OUT_OF_SPACE
    return CommandResult(
        ending=ending,
        exit_code=None if outcome.stopped else outcome.exit_code,
        output=outcome.text.output,
        seconds=outcome.seconds,
        omitted=outcome.text.omitted,
        gap=outcome.text.gap,
    )
