"""The gateway's side of the launcher, with which every provider starts its commands.

Forking a process of 150 MB with threads is slow and unsafe, so a small process does it. Its environment is empty, so
that it and its children contain nothing of the gateway's.
"""

from __future__ import annotations

import array
import asyncio
import json
import os
import socket
import sys
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sandbox.base import SandboxError
from sandbox.launcher.spec import BRANCH, LISTENING, START, Ended

if TYPE_CHECKING:
    from sandbox.launcher.spec import LaunchSpec


_SEARCH_PATH = str(Path(__file__).resolve().parents[2])
_CODE = "import sys; sys.path.append(sys.argv[2]); from sandbox.launcher.server import main; main()"

_LONGEST_MESSAGE = 8192


class Program:
    """A started program. Closing it ends the program and all processes that it started."""

    def __init__(self, control: socket.socket, output: int) -> None:
        self._control = control
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._loop.create_future()
        self._handed_over = False
        self._listener: asyncio.Future[socket.socket] = self._loop.create_future()
        self._loop.add_reader(control, self._heard)

    @property
    def output(self) -> int:
        """The reading end of the pipe for its stdout and stderr; non-blocking."""
        return self._output

    def kill(self) -> None:
        """Have it and all its descendants killed; `ended` returns when that is done. Idempotent."""
        try:
            self._control.send(b"kill")
        except OSError:
            return  # Nothing is left to kill.

    async def ended(self) -> Ended:
        """Wait until neither the program nor a descendant is left. Raises SandboxError if that cannot be determined."""
        return await asyncio.shield(self._ended)

    async def listener(self) -> socket.socket:
        """Wait for the socket of LaunchSpec.listen; the caller closes it. Never returns if its creation fails."""
        listener = await self._listener
        self._handed_over = True
        return listener

    def _take(self, listener: socket.socket) -> None:
        if self._listener.done():
            listener.close()
        else:
            self._listener.set_result(listener)

    def close(self) -> None:
        if not self._listener.cancel() and not self._handed_over and not self._listener.cancelled():
            self._listener.result().close()
        self._loop.remove_reader(self._control)
        self._control.close()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        if not self._ended.done():
            self._ended.cancel()

    def _heard(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, _LONGEST_MESSAGE, 1)
        except ConnectionResetError:
            # It ended without reading a `kill`. That is reported once, and before its last message.
            message, descriptors = self._control.recv(_LONGEST_MESSAGE), []
        if message == LISTENING:
            self._take(socket.socket(fileno=descriptors[0]))
            return
        self._loop.remove_reader(self._control)
        if self._ended.done():
            return
        if message:
            self._ended.set_result(Ended.decode(message))
        else:
            self._ended.set_exception(SandboxError("the process that supervised the command was killed"))
            self._ended.exception()  # Not every program is awaited.


class Starter(Protocol):
    """Starts programs. Called from the event loop's thread."""

    async def launch(self, spec: LaunchSpec) -> Program:
        """Start a program. Raises SandboxError if the launcher cannot be reached; `Program.ended` reports a spec that
        cannot be carried out."""


class _Asking(ABC):
    """Asks a process to start programs; if it has died, asks once more."""

    async def launch(self, spec: LaunchSpec) -> Program:
        ours, theirs = _pair()
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writing, True)
        specification = _memory_file("spec", spec.encode())
        with ExitStack() as unused:
            unused.callback(os.close, reading)
            unused.callback(ours.close)
            try:
                await self._request(START, [specification, theirs.fileno(), writing])
            except OSError as error:
                raise SandboxError("the process that starts commands does not answer") from error
            finally:
                theirs.close()
                os.close(specification)
                os.close(writing)
            try:
                program = Program(ours, reading)
            except OSError as error:  # closing `ours` ends the started program
                raise SandboxError("the machine has no resources to supervise another command") from error
            unused.pop_all()
            return program

    async def _request(self, request: bytes, descriptors: list[int]) -> None:
        asked = await self._ready()
        try:
            await _send(asked, request, descriptors)
        except ConnectionError:
            await self._drop(asked)
            await _send(await self._ready(), request, descriptors)

    @abstractmethod
    async def _ready(self) -> socket.socket:
        """The socket for requests; the process is started if there is none."""

    @abstractmethod
    async def _drop(self, dead: socket.socket) -> None:
        """Forget a dead process, unless another caller has already done so."""


class Launcher(_Asking):
    """The launcher's process. `close` it after use; it is started and restarted as needed."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._requests: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start the process, or a new one if it has died. Idempotent."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            await self._stop()
            ours, theirs = _pair()
            try:
                with theirs:
                    self._process = await asyncio.create_subprocess_exec(
                        sys.executable,
                        *("-I", "-S", "-c", _CODE, str(theirs.fileno()), _SEARCH_PATH),
                        env={},
                        cwd="/",
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                        start_new_session=True,
                    )
            except BaseException:  # including cancellation: only this code has the socket
                ours.close()
                raise
            self._requests = ours

    async def branch(self, cgroups: tuple[str, ...]) -> socket.socket:
        """A socket that accepts START for programs in these control groups. Raises OSError."""
        ours, theirs = _pair()
        groups = _memory_file("groups", json.dumps(cgroups).encode())
        try:
            await self._request(BRANCH, [groups, theirs.fileno()])
        except BaseException:  # including cancellation: only this code has the socket
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(groups)
        return ours

    async def _ready(self) -> socket.socket:
        while self._requests is None:
            await self.start()
        return self._requests

    async def _drop(self, dead: socket.socket) -> None:
        async with self._starting:
            if self._requests is dead:
                await self._stop()

    async def close(self) -> None:
        """End the process. Running programs continue until they are closed. Idempotent."""
        async with self._starting:
            await self._stop()

    async def _stop(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            await self._process.wait()
            self._process = None


class Branch(_Asking):
    """Starts programs in control groups with a branch of the launcher's process in them. `close` it after use."""

    def __init__(self, launcher: Launcher, cgroups: tuple[str, ...]) -> None:
        self._launcher = launcher
        self._cgroups = cgroups
        self._requests: socket.socket | None = None
        self._branching = asyncio.Lock()

    async def _ready(self) -> socket.socket:
        async with self._branching:
            if self._requests is None:
                self._requests = await self._launcher.branch(self._cgroups)
            return self._requests

    async def _drop(self, dead: socket.socket) -> None:
        if self._requests is dead:
            self.close()

    def close(self) -> None:
        """End the branch. Running programs continue until they are closed. Idempotent."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None


def _pair() -> tuple[socket.socket, socket.socket]:
    """Our socket, which is non-blocking, and the other process's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def _memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


async def _send(connection: socket.socket, request: bytes, descriptors: list[int]) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
    while True:
        try:
            connection.sendmsg([request], ancillary)
        except BlockingIOError:
            await _writable(connection)
        else:
            return


async def _writable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_writer(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_writer(connection)
