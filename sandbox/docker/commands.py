"""Runs one thread's commands in its container and reports how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from sandbox.base import CommandResult, SandboxError, until_done
from sandbox.docker import scripts
from sandbox.docker.shells import Ended
from sandbox.local.process import Commands, Stop, ended, not_run

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sandbox.base import OnOutput
    from sandbox.docker.shells import Shell, Shells
    from sandbox.local.disk import DiskShare

_BEGIN_SECONDS = 60.0
_END_SECONDS = 3.0
"""Seconds that a wrapper may take to end its command before the sweeper does so."""
_LONG_SECONDS = 0.5
"""Seconds after which the shell for a second command is started; earlier, it would slow the first one down."""
_KILLED = 128 + 9
_NOT_STARTED = "bash: the sandbox cannot start a command: too many processes, or too little memory\n"


class _Command:
    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.stopped: Stop | None = None
        self._stopping = asyncio.Event()

    def stop(self, why: Stop) -> None:
        """Stop the command. The first reason counts."""
        self.stopped = self.stopped or why
        self._stopping.set()

    async def ended(self) -> Ended | None:
        """Wait for its own or the requested end. None: it is unknown what is left of it."""
        finished = asyncio.create_task(self.shell.finished(), name="end of a command in a container")
        stopping = asyncio.create_task(self._stopping.wait(), name="stop of a command in a container")
        try:
            await asyncio.wait([finished, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                await self.shell.end()
                await asyncio.wait([finished], timeout=_END_SECONDS)
            return finished.result() if finished.done() else None
        finally:
            for task in (finished, stopping):
                task.cancel()
            await asyncio.gather(finished, stopping, return_exceptions=True)


class ContainerCommands(Commands):
    """Runs the commands of one thread in its container."""

    def __init__(self, shells: Shells, disk: DiskShare) -> None:
        super().__init__(disk)
        self._shells = shells

    async def _execute(self, command: str, timeout: float, on_output: OnOutput, *, full: bool) -> CommandResult:
        shell = await self._begin(scripts.order(command, full=full), on_output)
        if not shell.begun:
            return not_run(_NOT_STARTED + shell.text().output)
        started = time.monotonic()
        end, stopped = await self._watched(shell, timeout)
        return ended(
            shell.text(),
            exit_code=end.exit_code,
            stopped=stopped,
            seconds=time.monotonic() - started,
            out_of_memory=end.out_of_memory,
            full=full,
        )

    async def _begin(self, order: bytes, on_output: OnOutput) -> Shell:
        """Give the order to a shell. The waiting one may have been killed; then a new one gets the order."""
        shell = await self._ordered(self._shells.take(), order, on_output)
        return shell if shell.begun else await self._ordered(self._shells.start(), order, on_output)

    async def _ordered(self, starting: Coroutine[None, None, Shell], order: bytes, on_output: OnOutput) -> Shell:
        task = asyncio.create_task(starting, name="shell for a command")
        try:
            shell = await asyncio.shield(task)
        except asyncio.CancelledError:
            await _in_any_case(self._shells.drop(task))
            raise
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                shell.listen(on_output)
                with contextlib.suppress(SandboxError):  # It has ended, so it did not begin.
                    await shell.give(order)
                await shell.until_begun()
        except TimeoutError as error:
            await self._abandon(shell)
            raise SandboxError("the container does not answer") from error
        except asyncio.CancelledError:
            await _in_any_case(self._abandon(shell))
            raise
        if not shell.begun:
            await self._shells.let_go(shell)
        return shell

    async def _abandon(self, shell: Shell) -> None:
        """Release a shell that may have begun the command."""
        await self._shells.let_go(shell)
        await self._shells.sweep()

    async def _watched(self, shell: Shell, timeout: float) -> tuple[Ended, Stop | None]:
        """Wait for a command's end and make sure that nothing of it is left."""
        command = _Command(shell)
        self._begun(command)
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(timeout, command.stop, Stop.TIME),
            loop.call_later(_LONG_SECONDS, self._shells.prepare),
        ]
        watching = asyncio.create_task(self._disk.watch(command), name="disk of a command")
        try:
            return await self._settle(command), command.stopped
        except asyncio.CancelledError:
            command.stop(Stop.CLOSED)
            await _in_any_case(self._settle(command))
            raise
        finally:
            for timer in timers:
                timer.cancel()
            watching.cancel()
            self._running.discard(command)
            await _in_any_case(self._put_away(shell, watching))

    async def _put_away(self, shell: Shell, watching: asyncio.Task[None]) -> None:
        await asyncio.gather(watching, return_exceptions=True)
        await self._shells.let_go(shell)
        self._shells.prepare()

    async def _settle(self, command: _Command) -> Ended:
        restarts = self._shells.restarts
        ended = await command.ended()
        if ended is not None and ended.clean:
            return ended
        before = self._shells.killed
        await self._shells.sweep(without=command.shell.mark)
        if self._shells.restarts != restarts and command.stopped is None:
            raise SandboxError("the sandbox was restarted while the command ran")
        return ended or Ended(exit_code=_KILLED, out_of_memory=self._shells.killed > before, clean=True)

    async def close(self, *, sweep: bool) -> None:
        """Kill what runs and wait for it; afterwards nothing can be run. Idempotent.

        sweep: whether the container is kept, so that nothing may be left in it.
        """
        if self._closed:
            return
        await self._end_all()
        await self._shells.close(sweep=sweep)


async def _in_any_case(work: Coroutine[None, None, object]) -> None:
    """Complete the work even if this task is cancelled; the cancellation is then passed on. Errors are ignored: they
    are the daemon's, and the next command will encounter them."""
    doing = asyncio.ensure_future(work)
    cancelled = await until_done(doing)
    doing.exception()
    if cancelled:
        raise asyncio.CancelledError
