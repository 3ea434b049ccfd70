"""The wrapper shells of one container: started, one kept waiting, and what they left behind ended.

Docker takes long to start a program, so that one waits for the next command. If one was killed together with its
command, a sweeper ends what is left; where that fails, the whole container is restarted.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, SandboxError
from sandbox.docker import scripts
from sandbox.docker.api import IMAGE, Conflict, NotFound
from sandbox.local.process import HEAD_BYTES, TAIL_BYTES, Capture

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sandbox.docker.api import Attached, DockerApi
    from sandbox.docker.plan import Plan
    from sandbox.local.process import Text


_SWEEP_SECONDS = 15.0
_PACE_BYTES = 64 * 1024
_PACE_SECONDS = 0.005
"""After so much output at once the next is read so much later: a flood costs a few per cent of one core."""
_LONGEST_REPORT = 4096
_STDOUT = 1
_BEGUN = b"begun\n"
_ENDED = re.compile(rb"^ended (\d{1,3}) (\d{1,12}) (\d{1,12}) ([01])$", re.MULTILINE)
_CLEAN = re.compile(rb"^clean (\d{1,12})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the wrapper reported. out_of_memory: the kernel killed something meanwhile, for want of memory.

    clean: nothing of the command is left.
    """

    exit_code: int
    out_of_memory: bool
    clean: bool


class Shell:
    """A wrapper that has been started. mark: its name, by which a sweeper can spare it."""

    def __init__(self, mark: str, attached: Attached) -> None:
        self.mark = mark
        self._attached = attached
        self._report = bytearray()
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES)
        self._begun = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="output of a command in a container")

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    @property
    def begun(self) -> bool:
        """Whether it took the order."""
        return self._begun.is_set()

    def listen(self, on_output: Callable[[str], None] | None) -> None:
        """Before the order: who is told of the output."""
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES, on_output)

    async def give(self, order: bytes) -> None:
        """Raises SandboxError."""
        await self._attached.write(order)

    async def until_begun(self) -> None:
        """Wait until it took the order, or ended without that."""
        begun = asyncio.create_task(self._begun.wait(), name="beginning of a command")
        try:
            await asyncio.wait([begun, self._reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()

    async def end(self) -> None:
        """Ask it to kill the command with all its processes."""
        try:
            await self._attached.write(b"\n")
        except SandboxError:
            return  # It has ended, or the daemon has: `finished` tells.

    async def finished(self) -> Ended | None:
        """Wait for the end of its output. None: it was killed before it could report. Raises SandboxError."""
        await asyncio.shield(self._reading)
        found = _ENDED.search(self._report)
        if found is None:
            return None
        code, before, after, left = map(int, found.groups())
        return Ended(exit_code=code, out_of_memory=after > before, clean=left == 0)

    def killed_by_kernel(self) -> int | None:
        """Number of processes that the kernel killed, by the sweeper's report; None if it did not come to its end."""
        found = _CLEAN.search(self._report)
        return int(found[1]) if found else None

    def text(self) -> Text:
        """What the command printed; once, at the end."""
        return self._capture.finish()

    async def close(self) -> None:
        """Let go of it; its input ends, and so does what it runs. Idempotent."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._attached.close()

    async def _read(self) -> None:
        at_once = 0
        while (piece := await self._attached.read()) is not None:
            stream, data = piece
            if stream == _STDOUT:
                self._capture.add(data)
                at_once += len(data)
            else:
                self._heard(data)
            if at_once > _PACE_BYTES:
                at_once = 0
                await asyncio.sleep(_PACE_SECONDS)

    def _heard(self, data: bytes) -> None:
        self._report += data[: max(0, _LONGEST_REPORT - len(self._report))]
        if self._report.startswith(_BEGUN):
            self._begun.set()


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
            raise SandboxError("the container ends as soon as it is started", IMAGE) from error

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
