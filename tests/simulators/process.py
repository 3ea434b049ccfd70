"""Runs a simulator in its own process: `SimulatorProcess` for tests, `serve_until_orphaned` for its `__main__`.

The protocol: the child binds a loopback port, prints one JSON line such as {"port": 4711} and serves until its standard
input closes or SIGTERM arrives, so it cannot outlive the test run that started it.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

REPO_ROOT = Path(__file__).resolve().parents[2]
PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def heed_interrupts() -> None:
    """Restore Ctrl-C, in a child before its program: a shell makes processes in the background ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SimulatorStartError(RuntimeError):
    """The child ended or timed out before it announced its port."""


class SimulatorProcess:
    """One simulator, started as `python -m MODULE ARGS`; bound to no event loop, so it fits fixtures of any scope.

    Use it with `async with` or `with`. `ready` holds the announced JSON object, `port` its port.
    """

    def __init__(self, module: str, *args: str, start_timeout: float = 40.0, stop_timeout: float = 5.0) -> None:
        self._command = [sys.executable, "-m", module, *args]
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self.ready: dict[str, Any] = {}

    @property
    def port(self) -> int:
        """The loopback TCP port that the simulator listens on."""
        return int(self.ready["port"])

    @property
    def pid(self) -> int:
        """The child's process id, for tests that signal it."""
        return self._running().pid

    def start(self) -> None:
        """Start the child and wait for its announcement; raises SimulatorStartError."""
        self._process = subprocess.Popen(
            self._command, cwd=REPO_ROOT, env=child_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            self.ready = json.loads(self._first_line())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Close the child's standard input, wait, and kill it if it does not exit; safe to call twice."""
        process = self._process
        if process is None:
            return
        self._process = None
        with process:  # closes both pipes and reaps the child
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(self._stop_timeout)
            except subprocess.TimeoutExpired:
                process.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the simulator is not running")
        return self._process

    def _first_line(self) -> bytes:
        """Read the announcement from the raw pipe: a line only counts when it is complete."""
        process = self._running()
        assert process.stdout is not None
        line = b""
        deadline = time.monotonic() + self._start_timeout
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not readable:
                raise SimulatorStartError(f"{self._command[2]} announced no port within {self._start_timeout} s")
            byte = os.read(process.stdout.fileno(), 1)
            if not byte:
                raise SimulatorStartError(f"{self._command[2]} ended early: exit code {process.wait()}")
            line += byte
        return line

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def child_environment() -> dict[str, str]:
    """This process's environment without proxy settings, which would send loopback calls to the proxy."""
    return {name: value for name, value in os.environ.items() if name.lower() not in PROXY_VARIABLES}


async def serve_until_orphaned(port: int, **details: Any) -> None:
    """In the child: announce the port (and details), then return once standard input closes or SIGTERM arrives."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    loop.add_reader(sys.stdin.fileno(), _end_when_closed, loop, over)
    print(json.dumps({"port": port, **details}), flush=True)
    await over.wait()


def _end_when_closed(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    # os.read, not sys.stdin: nothing may remain in a buffer that the loop cannot see.
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        over.set()
