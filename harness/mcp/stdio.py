"""The stdio transport: a server as a child process, its lines bounded, its stderr logged, ended with the gateway.

The SDK's own client passes stderr to the terminal, reads lines of any length and leaves the process behind when the
gateway is killed; so only its session is used. Entered and left in one task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

from harness.mcp import keeper
from harness.mcp.config import plain
from harness.mcp.errors import ServerFailed
from harness.text.frames import line
from sandbox.base import until_done

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anyio.abc import ObjectReceiveStream, ObjectSendStream

    from harness.mcp.config import McpServerSettings
    from harness.mcp.session import Streams


log = logging.getLogger(__name__)
LARGEST_MESSAGE = 8 * 1024 * 1024
GOODBYE_SECONDS = 0.5
"""Seconds that a process may run after its input was closed; then it is ended."""
KILLED_SECONDS = 10.0
MOST_STRANGE = 1000
"""Lines that are not messages, after which a server counts as broken: reading them would starve other work."""
LOGGED_LINES, LOGGED_SECONDS = 20, 60.0
"""Lines of stderr logged per period; further ones are counted."""
_INHERITED = ("PATH", "HOME", "LANG")

ENDED_SECONDS = 10.0


class Child:
    """A program under its keeper, with three pipes. Created by `started`.

    asyncio's own subprocess reports the exit only when all output was read, and starts a thread for each process.
    """

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
        """Open our ends of the pipes. limit: bytes of a line."""
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
        """Wait for the program and everything that it started; returns its exit code, None if the time is up first.

        Works in a cancelled task, where asyncio.timeout of Python 3.11 does not.
        """
        await asyncio.wait({self._exited}, timeout=seconds)
        return self._exited.result() if self._exited.done() else None

    def end(self) -> None:
        """Have the keeper end the program. Idempotent."""
        control, self._control = self._control, -1
        if control >= 0:
            os.close(control)

    def kill(self) -> None:
        """Kill the keeper as well, even while it waits."""
        self._process.kill()

    def close(self) -> None:
        self.end()
        for transport in self._transports:
            transport.close()
        if not self._exited.done():
            self._loop.remove_reader(self._handle)
            os.close(self._handle)


async def started(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, limit: int) -> Child:
    """Start a program with its own environment. Raises OSError if that fails in `cwd`.

    A cancelled start is awaited and then ended: it cannot be withdrawn, and nothing else knows of it.
    """
    starting = asyncio.ensure_future(_connected(argv, env, cwd, limit))
    if not await until_done(starting):
        return starting.result()
    if starting.exception() is None:
        child = starting.result()
        child.end()
        await until_done(asyncio.ensure_future(child.ended(ENDED_SECONDS)))
        child.close()
    raise asyncio.CancelledError


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


def environment(settings: McpServerSettings) -> dict[str, str]:
    """The few inherited environment variables of a server's process, and its own."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return inherited | {name: plain(value) for name, value in settings.env.items()}


@contextlib.asynccontextmanager
async def stdio_streams(server: str, settings: McpServerSettings) -> AsyncIterator[Streams]:
    """The session's two streams while the process runs; afterwards nothing of it is left. Raises ServerFailed."""
    child = await _started(settings)
    to_session, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, child, to_session, server)
            tasks.start_soon(_write, from_session, child.stdin)
            tasks.start_soon(_log, child.stderr, server)
            yield incoming, outgoing
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _ended(child, server)
        for stream in (to_session, incoming, outgoing, from_session):
            stream.close()


async def _started(settings: McpServerSettings) -> Child:
    assert settings.command is not None
    argv = [settings.command, *settings.args]
    try:
        # A cancelled scope would interrupt the wait for it again and again.
        with anyio.CancelScope(shield=True):
            child = await started(argv, environment(settings), settings.cwd, LARGEST_MESSAGE)
    except OSError as error:
        where = f" in {settings.cwd}" if settings.cwd is not None else ""
        raise ServerFailed(f"its process cannot be started{where}: {os.strerror(error.errno or 0)}") from error
    return child


async def _ended(child: Child, server: str) -> None:
    """End the process as the protocol prescribes: close its input, then have the keeper end the tree, and wait."""
    child.stdin.close()
    try:
        await child.ended(GOODBYE_SECONDS)
        child.end()
        if await child.ended(KILLED_SECONDS) is None:
            log.error("mcp %s: process cannot be killed; it hangs in the kernel", server)
            child.kill()
    finally:
        child.close()


async def _read(child: Child, to_session: ObjectSendStream[SessionMessage | Exception], server: str) -> None:
    """Pass messages to the session until the process closes its output, which is an error; other lines are skipped."""
    strange = 0
    while text := await _line(child.stdout):
        if strange == MOST_STRANGE:
            raise ServerFailed(f"it printed {MOST_STRANGE} lines that are not messages")
        try:
            message = JSONRPCMessage.model_validate_json(text)
        except ValidationError:
            strange += 1
            if strange == 1:
                log.warning("mcp %s: stray output: %s", server, line(text.decode(errors="replace")))
            continue
        try:
            await to_session.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
    raise ServerFailed(await _end_of(child))


async def _end_of(child: Child) -> str:
    """The state of a process whose output has ended."""
    code = await child.ended(KILLED_SECONDS)
    if code is None:
        return "its process has closed its output"
    if code == keeper.NOT_STARTED:
        return f"its program is missing or cannot be run (exit code {code})"
    return f"its process has ended (exit code {code}; the log has its output)"


async def _line(stdout: asyncio.StreamReader) -> bytes:
    try:
        return await stdout.readline()
    except ValueError:
        raise ServerFailed(f"it sent a message of more than {LARGEST_MESSAGE // 1024 // 1024} MB") from None


async def _write(from_session: ObjectReceiveStream[SessionMessage], stdin: asyncio.StreamWriter) -> None:
    async with from_session:
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_none=True)
            stdin.write(text.encode() + b"\n")
            try:
                await stdin.drain()
            except ConnectionError:
                return  # it has ended, which its output shows as well


async def _log(stderr: asyncio.StreamReader, server: str) -> None:
    """Log its stderr, with secrets masked by our log; a flood is cut and counted."""
    loop = asyncio.get_running_loop()
    began, told, left_out = loop.time(), 0, 0
    while text := await _some(stderr):
        if loop.time() - began > LOGGED_SECONDS:
            if left_out:
                log.info("mcp %s: %d more lines of stderr omitted", server, left_out)
            began, told, left_out = loop.time(), 0, 0
        if told < LOGGED_LINES:
            told += 1
            log.info("mcp %s says: %s", server, line(text.decode(errors="replace"), 300))
        else:
            left_out += 1


async def _some(stderr: asyncio.StreamReader) -> bytes:
    """A line, or a placeholder for one that is too long."""
    try:
        return await stderr.readline()
    except ValueError:
        return b"[a line that was too long]"
