"""Runs one program to its end: limited output, a time limit, and nothing of it left afterwards."""

from __future__ import annotations

import asyncio
import codecs
import logging
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from sandbox.base import CommandResult, Ending, SandboxError, until_done
from sandbox.policy import CANNOT_RUN, refusal

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from sandbox.base import OnOutput
    from sandbox.launcher.client import Program, Starter
    from sandbox.launcher.spec import LaunchSpec
    from sandbox.local.disk import DiskShare, Stoppable


_log = logging.getLogger(__name__)
HEAD_BYTES = TAIL_BYTES = 512 * 1024
_READ_BYTES = 128 * 1024
_PACE_SECONDS = 0.005
"""Seconds between two reads: a flood of output, however small its pieces, costs at most a few per cent of one core."""
_DEATH_SECONDS = 20.0
"""Seconds after which a killed process that still exists hangs in the kernel."""
_LONGEST_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class Text:
    """Output. omitted: bytes left out between the beginning and the end, at the index `gap`."""

    output: str
    omitted: int = 0
    gap: int = 0


@dataclass(slots=True)
class Capture:
    """Collects output, at most `head` bytes from its beginning and `tail` bytes from its end."""

    head: int
    tail: int
    on_output: OnOutput = None
    _beginning: bytearray = field(default_factory=bytearray)
    _end: deque[bytes] = field(default_factory=deque)
    _held: int = 0
    _omitted: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    def add(self, data: bytes) -> None:
        self._tell(self._decoder.decode(data))
        room = self.head - len(self._beginning)
        self._beginning += data[:room]
        if len(data) > room:
            self._append(data[room:])

    def _append(self, data: bytes) -> None:
        self._end.append(data)
        self._held += len(data)
        while self._held > self.tail:
            oldest = self._end.popleft()
            surplus = self._held - self.tail
            if len(oldest) > surplus:
                self._end.appendleft(oldest[surplus:])
            dropped = min(surplus, len(oldest))
            self._held -= dropped
            self._omitted += dropped

    def finish(self) -> Text:
        """Return the output; nothing more will be added."""
        self._tell(self._decoder.decode(b"", final=True))
        beginning, end = bytes(self._beginning), b"".join(self._end)
        if not self._omitted:
            return Text((beginning + end).decode(errors="replace"))
        kept, rest = _whole_characters(beginning), _from_a_character(end)
        omitted = self._omitted + len(beginning) - len(kept) + len(end) - len(rest)
        first = kept.decode(errors="replace")
        return Text(first + rest.decode(errors="replace"), omitted, len(first))

    def _tell(self, text: str) -> None:
        if text and self.on_output is not None:
            self.on_output(text)


def _whole_characters(data: bytes) -> bytes:
    """Cut an incomplete character off the end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            return data
    return data


def _from_a_character(data: bytes) -> bytes:
    """Cut an incomplete character off the beginning."""
    for start, byte in enumerate(data[: _LONGEST_CHARACTER - 1]):
        if byte & 0xC0 != 0x80:
            return data[start:]
    return data[_LONGEST_CHARACTER - 1 :]


class NotStarted(SandboxError):
    """A program could not be started. problem: the reason, which may contain paths of this machine."""

    def __init__(self, problem: str) -> None:
        super().__init__("the command could not be started")
        self.problem = problem


class Stop(Enum):
    """Why Antler ended a program."""

    TIME = auto()
    SPACE = auto()
    CLOSED = auto()
    """The sandbox is no longer wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """exit_code: 128 + signal for a killed program. stopped: None if it ended by itself. seconds: how long it ran."""

    exit_code: int
    text: Text
    seconds: float
    stopped: Stop | None


class Running:
    """A running program; `run` passes it to its watcher."""

    def __init__(self, program: Program, on_output: OnOutput) -> None:
        self._program = program
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES, on_output)
        self._loop = asyncio.get_running_loop()
        self._drained = asyncio.Event()
        self._pause: asyncio.TimerHandle | None = None
        self._over = False
        self._stopped: Stop | None = None
        self._listen()

    async def listener(self) -> socket.socket:
        return await self._program.listener()

    def stop(self, why: Stop) -> None:
        """Kill it. The first reason counts."""
        self._stopped = self._stopped or why
        self._program.kill()

    async def finish(self) -> tuple[int, Text, Stop | None]:
        """Wait until nothing of it is left and all its output has been read. Raises NotStarted."""
        ended = await self._program.ended()
        if ended.problem:
            _log.error("a command could not be started: %s", ended.problem)
            raise NotStarted(ended.problem)
        self._over = True
        if self._pause is not None:
            self._pause.cancel()
            self._listen()
        await self._drained.wait()
        return ended.exit_code, self._capture.finish(), self._stopped

    async def kill(self) -> None:
        """Kill it and wait until it is gone."""
        self._program.kill()
        async with asyncio.timeout(_DEATH_SECONDS):
            await self._program.ended()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._program.close()

    def _listen(self) -> None:
        self._pause = None
        try:
            self._loop.add_reader(self._program.output, self._read)
        except OSError:  # ENOSPC: the commands of this user have used up the kernel's epoll watches (epoll_ctl(2))
            self._pause = self._loop.call_later(_PACE_SECONDS, self._look)

    def _look(self) -> None:
        """Read without notification, then try to listen again."""
        self._read()
        if self._over and not self._drained.is_set():
            self._listen()

    def _read(self) -> None:
        try:
            data = os.read(self._program.output, _READ_BYTES)
        except BlockingIOError:  # The program can read its own output, and was faster.
            self._rest()
            return
        if not data:
            self._loop.remove_reader(self._program.output)
            self._drained.set()
            return
        self._capture.add(data)
        self._rest()

    def _rest(self) -> None:
        if not self._over:  # Afterwards at most a full pipe is left.
            self._loop.remove_reader(self._program.output)
            self._pause = self._loop.call_later(_PACE_SECONDS, self._listen)


async def run(
    starter: Starter,
    spec: LaunchSpec,
    *,
    timeout: float,
    on_output: OnOutput = None,
    watch: Callable[[Running], None] | None = None,
) -> Outcome:
    """Run a program. timeout in seconds. watch: called once with the running program, to stop it for other reasons.

    When this returns, raises or is cancelled, no process of the program's tree is left. Raises SandboxError.
    """
    started = time.monotonic()
    running = Running(await starter.launch(spec), on_output)
    limit = asyncio.get_running_loop().call_later(timeout, running.stop, Stop.TIME)
    try:
        if watch is not None:
            watch(running)
        exit_code, text, stopped = await running.finish()
    except BaseException:  # including cancellation: nothing of its tree may be left
        await _make_sure(running)
        raise
    finally:
        limit.cancel()
        running.close()
    return Outcome(exit_code=exit_code, text=text, seconds=time.monotonic() - started, stopped=stopped)


async def _make_sure(running: Running) -> None:
    """Kill it and wait for its end, even if this task is cancelled again."""
    killing = asyncio.ensure_future(running.kill())
    await until_done(killing)
    if isinstance(problem := killing.exception(), TimeoutError):
        raise SandboxError("a command could not be killed: it hangs in the kernel") from problem


def not_run(reason: str) -> CommandResult:
    """The result of a command that no shell could run."""
    return CommandResult(ending=Ending.EXITED, exit_code=CANNOT_RUN, output=reason, seconds=0.0)


def ended(
    text: Text, *, exit_code: int, stopped: Stop | None, seconds: float, out_of_memory: bool, full: bool
) -> CommandResult:
    """The result of a command. full: it began with a used-up disk share. Raises SandboxError for CLOSED."""
    ending = Ending.EXITED
    match stopped:
        case Stop.CLOSED:
            raise SandboxError("the sandbox was closed while the command ran")
        case Stop.TIME:
            ending = Ending.TIMED_OUT
        case Stop.SPACE:
            ending = Ending.OUT_OF_SPACE
        case None if exit_code and out_of_memory:
            ending = Ending.OUT_OF_MEMORY
        case None if exit_code and full:
            ending = Ending.OUT_OF_SPACE
    return CommandResult(
        ending=ending,
        exit_code=None if stopped else exit_code,
        output=text.output,
        seconds=seconds,
        omitted=text.omitted,
        gap=text.gap,
    )


class Commands(ABC):
    """Runs the commands of one thread until it is closed. disk: the thread's share."""

    def __init__(self, disk: DiskShare) -> None:
        self._disk = disk
        self._running: set[Stoppable] = set()
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def execute(self, command: str, *, timeout: float, on_output: OnOutput = None) -> CommandResult:
        """Run a command to its end, see Sandbox.execute_command."""
        if reason := refusal(command):
            return not_run(reason)
        self._calls += 1
        self._idle.clear()
        try:
            full = await self._disk.check()
            if self._closed:
                raise SandboxError("the sandbox is closed")
            return await self._execute(command, timeout, on_output, full=full)
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    @abstractmethod
    async def _execute(self, command: str, timeout: float, on_output: OnOutput, *, full: bool) -> CommandResult:
        """Run it. full: the thread's disk share is used up, so that files can be deleted but not grow."""

    def _begun(self, running: Stoppable) -> None:
        """Register a command to be stopped when this is closed, which may have already happened."""
        self._running.add(running)
        if self._closed:
            running.stop(Stop.CLOSED)

    async def _end_all(self) -> None:
        """Kill what runs and wait for it; afterwards nothing can be run. Idempotent."""
        self._closed = True
        for running in self._running:
            running.stop(Stop.CLOSED)
        await self._idle.wait()
