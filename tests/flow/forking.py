"""Gateways without the second of imports per start: forks of a process that has imported the modules they need.

The process of the tests has one template, started at first use: `python -m tests.flow.forking`. Its standard input is
the other end of a socket; it ends when that is closed. It forks once per order; the fork gets the variables, folder and
standard streams of a newly started program, and becomes `python -m bot ...`. Imports and Python options at startup are
covered by the tests that start a separate program.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRELOADED = (
    "bot.cli.options",
    "bot.control.server",
    "bot.http.server",
    "bot.process.app",
    "bot.process.gateway",
    "bot.process.worker",
    "channels.telegram.channel",
    "harness.run.runner",
    "harness.threads.postgres_saver",
    "procrastinate",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
)
"""Modules that gateways and workers import. None of them may start a thread or open a file."""
STRICT = "error::DeprecationWarning:bot"
LONGEST_ORDER = 200_000

Channel = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ForkedProcess:
    """The part of asyncio.subprocess.Process that tests use. stdout: includes standard error; None if the process
    writes to a file."""

    def __init__(self, pid: int, news: Channel, stdout: asyncio.StreamReader | None = None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._ended = asyncio.create_task(self._end(*news), name=f"end of {pid}")

    async def wait(self) -> int:
        """The exit code, negative for a signal."""
        return await asyncio.shield(self._ended)

    async def communicate(self) -> tuple[bytes, None]:
        """Its complete output."""
        assert self.stdout is not None
        said = await self.stdout.read()
        await self.wait()
        return said, None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def _end(self, ending: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        try:
            self.returncode = int(await ending.readline())
        finally:
            writer.close()
        await writer.wait_closed()
        return self.returncode


class Template:
    """The template of this process."""

    _one: Template | None = None

    def __init__(self) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = (sys.executable, "-m", __name__)
            self._process = subprocess.Popen(command, cwd=REPO_ROOT, env=child_environment(), stdin=theirs.fileno())
        atexit.register(self._close)

    @classmethod
    def shared(cls) -> Template:
        if cls._one is None or cls._one._process.poll() is not None:
            cls._one = cls()
        return cls._one

    def _close(self) -> None:
        self._orders.close()
        self._process.wait()

    async def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], module: str = "bot", log: int | None = None
    ) -> ForkedProcess:
        """Start `python -m MODULE ARGUMENTS` in the repository's folder. log: file descriptor for its output."""
        if log is not None:
            return ForkedProcess(*await self._ordered(module, arguments, environment, log))
        out, output = os.pipe()
        try:
            pid, news = await self._ordered(module, arguments, environment, output)
        finally:
            os.close(output)
        stdout = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(out, "rb", buffering=0)
        )
        return ForkedProcess(pid, news, stdout)

    async def _ordered(
        self, module: str, arguments: Sequence[str], environment: Mapping[str, str], output: int
    ) -> tuple[int, Channel]:
        """The fork's pid, and the channel that reports its end."""
        news, theirs = socket.socketpair()
        order = json.dumps({"arguments": [module, *arguments], "environment": dict(environment)}).encode()
        with theirs:
            await asyncio.to_thread(socket.send_fds, self._orders, [order], [output, theirs.fileno()])
        reader, writer = await asyncio.open_connection(sock=news)
        return int(await reader.readline()), (reader, writer)


# In the template.


def _forks(orders: socket.socket) -> list[str]:
    """Fork for each order. Return in the fork, with its module and arguments; exit when no more orders can arrive."""
    selector = selectors.DefaultSelector()
    selector.register(orders, selectors.EVENT_READ)
    running: dict[int, tuple[int, int]] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is not orders:
                selector.unregister(key.fileobj)
                _reaped(*running.pop(key.fd), key.fd)
                continue
            order, fds, _, _ = socket.recv_fds(orders, LONGEST_ORDER, 2)
            if not order:
                sys.exit()
            output, news = fds
            wanted: dict[str, Any] = json.loads(order)
            if (pid := os.fork()) == 0:
                selector.close()
                orders.close()
                for fd in (news, *running, *(news for _, news in running.values())):
                    os.close(fd)
                _become(output, wanted["environment"])
                return list(wanted["arguments"])
            os.close(output)
            os.write(news, f"{pid}\n".encode())
            watched = os.pidfd_open(pid)
            running[watched] = (pid, news)
            selector.register(watched, selectors.EVENT_READ)


def _reaped(pid: int, news: int, watched: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # the test has ended
        os.write(news, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os.close(news)
    os.close(watched)


def _become(output: int, environment: Mapping[str, str]) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, standard in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, standard)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


def _main() -> None:
    warnings.filterwarnings("error", category=DeprecationWarning, module=r"bot\Z")
    sys.warnoptions.append(STRICT)
    from bot.process import imports

    imports.install()
    for name in PRELOADED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    orders = socket.socket(fileno=os.dup(0))
    sys.argv = _forks(orders)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
