"""The wrapper shells of one container: they are started, one is kept waiting, and their leftovers are ended.

Docker is slow to start a program, so one shell waits for the next command. If one was killed together with its command,
a sweeper ends what is left; if that fails, the whole container is restarted.
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

    from sandbox.base import OnOutput
    from sandbox.docker.api import Attached, DockerApi
    from sandbox.docker.plan import Plan
    from sandbox.local.process import Text


_SWEEP_SECONDS = 15.0
_PACE_BYTES = 64 * 1024
_PACE_SECONDS = 0.005
"""After this much output without a pause, wait this many seconds: a flood costs a few per cent of one core."""
_LONGEST_REPORT = 4096
_STDOUT = 1
_BEGUN = b"begun\n"
_ENDED = re.compile(rb"^ended (\d{1,3}) (\d{1,12}) (\d{1,12}) ([01])$", re.MULTILINE)
_CLEAN = re.compile(rb"^clean (\d{1,12})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The wrapper's report. out_of_memory: the kernel killed something during the command for lack of memory.

    clean: nothing of the command is left.
    """

    exit_code: int
    out_of_memory: bool
    clean: bool


class Shell:
    """A started wrapper. mark: its name, by which a sweeper can spare it."""

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
        """Whether it accepted the order."""
        return self._begun.is_set()

    def listen(self, on_output: OnOutput) -> None:
        """Set the receiver of the output; call it before `give`."""
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES, on_output)

    async def give(self, order: bytes) -> None:
        """Send the order. Raises SandboxError."""
        await self._attached.write(order)

    async def until_begun(self) -> None:
        """Wait until it has accepted the order, or ended without that."""
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
            return  # It has ended, or the daemon has: see `finished`.

    async def finished(self) -> Ended | None:
        """Wait for the end of its output. None: it was killed before it could report. Raises SandboxError."""
        await asyncio.shield(self._reading)
        found = _ENDED.search(self._report)
        if found is None:
            return None
        code, before, after, left = map(int, found.groups())
        return Ended(exit_code=code, out_of_memory=after > before, clean=left == 0)

    def killed_by_kernel(self) -> int | None:
        """Number of processes killed by the kernel, per the sweeper's report; None if it was not completed."""
        found = _CLEAN.search(self._report)
        return int(found[1]) if found else None

    def text(self) -> Text:
        """The command's output; call it once, at the end."""
        return self._capture.finish()

    async def close(self) -> None:
        """Release it; its input ends, and so does what it runs. Idempotent."""
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
    """How programs of a container are started. environment: None removes a variable. revive: makes sure that the
    container is running, and returns its id."""

    api: DockerApi
    plan: Plan
    environment: Mapping[str, str | None]
    revive: Callable[[], Awaitable[str]]


class Shells:
    """The wrapper shells of one container, given by its id. All methods raise SandboxError if the daemon fails."""

    def __init__(self, access: Access, container: str) -> None:
        self._access = access
        self._container = container
        self._marks: set[str] = set()
        self._sweeping = asyncio.Lock()
        self._spare: asyncio.Task[Shell] | None = None
        self._closed = False
        self.restarts = 0
        """How often the whole container was restarted because leftovers of a command could not be killed."""
        self.killed = 0
        """Number of processes killed by the kernel for lack of memory, as of the last sweep."""

    async def open(self, *, found: bool) -> None:
        """Call it first. found: the container was already running, so a former gateway may have left something."""
        if found:
            await self.sweep()

    def prepare(self) -> None:
        """Start a shell that waits for the next command."""
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
        except BaseException:  # Including cancellation: a remaining mark would spare its bearer.
            self._marks.discard(mark)
            raise

    async def let_go(self, shell: Shell) -> None:
        """End its input, and with it everything it runs."""
        await shell.close()
        self._marks.discard(shell.mark)

    async def drop(self, starting: asyncio.Task[Shell]) -> None:
        """Release a shell that is being started."""
        await asyncio.gather(starting, return_exceptions=True)
        if not starting.cancelled() and starting.exception() is None:
            await self.let_go(starting.result())

    async def sweep(self, *, without: str = "") -> None:
        """End everything in the container except the known shells; the one marked `without` is ended as well."""
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
        """Close; all taken shells must have been released. sweep: whether the container stays, with nothing in it."""
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
        """Whether a sweep was successful, according to the daemon: the sweeper has no more power than its targets."""
        return all(map(self._access.plan.is_no_commands, await self._access.api.processes(self._container)))

    async def _attach(self, program: tuple[str, ...]) -> Attached:
        try:
            return await self._attach_as_is(program)
        except (NotFound, Conflict):  # It was stopped or removed by others, or the daemon was restarted.
            self._container = await self._access.revive()
        try:
            return await self._attach_as_is(program)
        except Conflict as error:
            raise SandboxError("the container exits as soon as it is started", IMAGE) from error

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
        """Sweep; returns how many processes the kernel has killed there so far, None if the sweeper failed."""
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
