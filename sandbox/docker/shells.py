"""The wrapper shells of one container: started, one kept waiting, and what they left behind ended. Used by commands.py.

Docker takes long to start a program, so that one waits for the next command. If one was killed together with its
command, a sweeper ends what is left; where that fails, the whole container is restarted.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, SandboxError
from sandbox.docker import hints, scripts
from sandbox.docker.api import Conflict, NotFound
from sandbox.docker.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sandbox.docker.api import Attached, DockerApi
    from sandbox.docker.plan import Plan

_SWEEP_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Access:
    """What programs of a container are started with. environment: None removes a variable. revive: has the
    container there and running, and gives its id."""

    api: DockerApi
    plan: Plan
    environment: Mapping[str, str | None]
    revive: Callable[[], Awaitable[str]]


class Shells:
    """The wrapper shells of one container, given by its id. All methods raise SandboxError where the daemon fails."""

    def __init__(self, access: Access, container: str) -> None:
        self._access = access
        self._container = container
        self._marks: set[str] = set()
        self._sweeping = asyncio.Lock()
        self._spare: asyncio.Task[Shell] | None = None
        self._closed = False
        self.restarts = 0
        """How often all that ran in the container was killed, because what was left of a command could not be."""
        self.killed = 0
        """How many processes the kernel had killed for want of memory at the last sweep."""

    async def open(self, *, found: bool) -> None:
        """Before all else. found: the container ran before; a gateway before this one may have left something there."""
        if found:
            await self.sweep()

    def prepare(self) -> None:
        """Have a shell wait for the next command."""
        if self._spare is None and not self._closed:
            self._spare = asyncio.create_task(self.start(), name="shell for the next command")

    async def take(self) -> Shell:
        """The waiting shell, or a new one."""
        spare, self._spare = self._spare, None
        if spare is None:
            return await self.start()
        try:
            shell = await spare
        except SandboxError:
            return await self.start()
        if shell.alive:
            return shell
        await self.let_go(shell)
        return await self.start()

    async def start(self) -> Shell:
        mark = secrets.token_hex(8)
        async with self._sweeping:
            self._marks.add(mark)
        try:
            return Shell(mark, await self._attach(scripts.wrapper(mark, self._access.plan.limits)))
        except BaseException:  # Also where the caller gives up: a mark that is kept would spare what bears it.
            self._marks.discard(mark)
            raise

    async def let_go(self, shell: Shell) -> None:
        """Its input ends, and with it all that it runs."""
        await shell.close()
        self._marks.discard(shell.mark)

    async def drop(self, starting: asyncio.Task[Shell]) -> None:
        """Let go of a shell that is being started."""
        await asyncio.gather(starting, return_exceptions=True)
        if not starting.cancelled() and starting.exception() is None:
            await self.let_go(starting.result())

    async def sweep(self, *, without: str = "") -> None:
        """End everything in the container but the shells that are known, and of these the one marked `without`."""
        async with self._sweeping:
            killed = await self._swept(self._marks - {without})
            if killed is None:
                await self._restart()
            else:
                self.killed = killed

    async def _restart(self) -> None:
        self.restarts += 1
        await self._access.api.restart(self._container)

    async def close(self, *, sweep: bool) -> None:
        """The shells that were taken have been let go of. sweep: whether the container stays, with nothing in it."""
        self._closed = True
        spare, self._spare = self._spare, None
        if spare is not None:
            await self.drop(spare)
        if not sweep:
            return
        await self.sweep()
        if not await self._is_empty():
            await self._restart()

    async def _is_empty(self) -> bool:
        """After a sweep. The sweeper is no stronger than what it sweeps away: the last word is the daemon's."""
        return all(map(self._access.plan.is_no_commands, await self._access.api.processes(self._container)))

    async def _attach(self, program: tuple[str, ...]) -> Attached:
        try:
            return await self._attach_as_is(program)
        except (NotFound, Conflict):  # It was stopped or removed by somebody else; the daemon's end stops all.
            self._container = await self._access.revive()
        try:
            return await self._attach_as_is(program)
        except Conflict as error:
            raise SandboxError("the container ends as soon as it is started", hints.IMAGE) from error

    async def _attach_as_is(self, program: tuple[str, ...]) -> Attached:
        access = self._access
        return await access.api.attach(
            self._container,
            program,
            user=f"{access.plan.uid}:{access.plan.gid}",
            folder=WORKSPACE,
            environment=access.environment,
        )

    async def _swept(self, kept: set[str]) -> int | None:
        """How many processes the kernel has killed there so far; None: the sweeper did not get through."""
        try:
            async with asyncio.timeout(_SWEEP_SECONDS):
                sweeper = Shell("", await self._attach_as_is(scripts.sweeper(sorted(kept))))
                try:
                    await sweeper.finished()
                    return sweeper.killed_by_kernel()
                finally:
                    await sweeper.close()
        except (TimeoutError, Conflict):
            return None
