"""A process with three pipes, for stdio.py. asyncio's own waits for a process only when all its output was read, and
starts a thread for each."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.mcp import keeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENDED_SECONDS = 10.0


class Child:
    """A program below its keeper. Made by `started`."""

    def __init__(self, process: subprocess.Popen[bytes], control: int) -> None:
        self._process = process
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._handle = os.pidfd_open(process.pid)
        self._exited: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(self._handle, self._exit)
        self._transports: list[asyncio.BaseTransport] = []
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self.stderr: asyncio.StreamReader

    async def connect(self, limit: int) -> None:
        """Open the pipes' ends. limit: bytes of a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.stdout = await self._reading(self._process.stdout, limit)
        self.stderr = await self._reading(self._process.stderr, limit)
        transport, protocol = await self._loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), self._process.stdin
        )
        self._transports.append(transport)
        self.stdin = asyncio.StreamWriter(transport, protocol, None, self._loop)

    async def _reading(self, pipe: IO[bytes], limit: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit)
        transport, _ = await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        self._transports.append(transport)
        return reader

    def _exit(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self._exited.set_result(self._process.wait())

    async def ended(self, seconds: float) -> int | None:
        """Wait for it and all that it started; its exit code, None when it is not over within this time.

        Works in a task that was cancelled, where asyncio.timeout of Python 3.11 does not.
        """
        await asyncio.wait({self._exited}, timeout=seconds)
        return self._exited.result() if self._exited.done() else None

    def end(self) -> None:
        """Have the keeper end it. Idempotent."""
        control, self._control = self._control, -1
        if control >= 0:
            os.close(control)

    def kill(self) -> None:
        """The keeper too, whatever it waits for."""
        self._process.kill()

    def close(self) -> None:
        """Give back the pipes."""
        self.end()
        for transport in self._transports:
            transport.close()
        if not self._exited.done():
            self._loop.remove_reader(self._handle)
            os.close(self._handle)


async def started(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, limit: int) -> Child:
    """Start a program with an environment of its own. Raises OSError when that cannot be done in `cwd`.

    A start that is cancelled is waited for and ended: it cannot be withdrawn, and nobody else knows of it.
    """
    starting = asyncio.ensure_future(_connected(argv, env, cwd, limit))
    if not await _over(starting):
        return starting.result()
    if starting.exception() is None:
        child = starting.result()
        child.end()
        await _over(asyncio.ensure_future(child.ended(ENDED_SECONDS)))
        child.close()
    raise asyncio.CancelledError


async def _over(work: asyncio.Future[Any]) -> bool:
    """Wait for it whatever happens; whether this was cancelled meanwhile."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


async def _connected(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, limit: int) -> Child:
    theirs, ours = os.pipe()
    command = [sys.executable, "-I", "-S", str(Path(keeper.__file__)), str(theirs), *argv]
    try:
        process = await asyncio.to_thread(_open, command, dict(env), cwd, theirs)
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    child = Child(process, ours)
    await child.connect(limit)
    return child


def _open(command: list[str], env: dict[str, str], cwd: Path | None, control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=env,
        cwd=cwd,
        pass_fds=(control,),
        start_new_session=True,
    )
