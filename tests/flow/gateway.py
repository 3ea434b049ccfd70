"""The real gateway in its own process, between the simulators, started and configured as by an operator."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.flow import tidiness
from tests.flow.forking import STRICT, ForkedProcess, Template
from tests.simulators.process import REPO_ROOT, child_environment
from tests.simulators.telegram.seen import ALICE, TEAM

if TYPE_CHECKING:
    from types import TracebackType

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator

Process = asyncio.subprocess.Process | ForkedProcess
READY_SECONDS = 45.0
STOP_SECONDS = 30.0


@dataclass
class World:
    """One gateway between one Telegram and one model server.

    `settings` is merged over the config below, `environment` over the process's variables. program: the module that is
    run, role: its command. prefix: a program, with its arguments, that becomes the gateway. whole: start it as an
    operator does, including imports; otherwise these are already done (forking.py).
    """

    telegram: TelegramSimulator
    model: ModelSimulator
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    program: str = "bot"
    role: str = "run"
    prefix: tuple[str, ...] = ()
    whole: bool = False
    process: Process | None = None
    _logging: asyncio.Task[None] | None = None
    _logged: asyncio.Event = field(default_factory=asyncio.Event)
    found: set[tuple[Path, int]] = field(default_factory=set)
    """The result of tidiness.logs_of when the newest process started."""
    _earlier: int = 0
    """Characters of the log that earlier processes wrote."""

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text()

    def peak_memory(self) -> int:
        """Peak memory of the process in bytes."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def config(self) -> dict[str, Any]:
        base: dict[str, Any] = {
            "data_dir": str(self.data_dir),
            "shutdown_grace_seconds": 8,
            "models": [
                {"name": "main", "model": "sim", "base_url": self.model.base_url, "api_key": "$MODEL_KEY"},
                {"name": "other", "model": "sim-2", "base_url": self.model.base_url, "api_key": "$MODEL_KEY"},
            ],
            "channels": {"telegram": {"token": "$BOT_TOKEN", "base_url": self.telegram.root}},
            # Tests compare answers with the model's text; those about progress use /verbose.
            "conversations": {"progress": "off"},
            "access": {
                "allow": [f"telegram:{ALICE.id}"],
                "groups": {"allow": [f"telegram:{TEAM.id}"]},
            },
        }
        return merged(base, self.settings)

    async def start(self, **environment: str) -> None:
        """Start the process and wait until it is connected."""
        process = await self._launch(environment)
        connected = asyncio.create_task(self._connected())
        ended = asyncio.create_task(self._waited(process))
        await asyncio.wait({connected, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not connected.done():
            connected.cancel()
            raise AssertionError(f"the gateway ended with {process.returncode}:\n{self.log}")
        ended.cancel()
        await connected

    async def _connected(self) -> None:
        await self.telegram.wait_polled(READY_SECONDS)

    async def ends(self) -> int:
        """Start the process, which is expected to end by itself; return its exit code."""
        process = await self._launch({})
        async with asyncio.timeout(READY_SECONDS):
            return await self._waited(process)

    async def begin(self) -> None:
        """Start the process without waiting for a poll, for a gateway that will not connect."""
        await self._launch({})

    async def wait_for_log(self, text: str, timeout: float = 40.0) -> None:
        """Wait until the newest process has logged a text."""
        async with asyncio.timeout(timeout):
            while text not in self.log[self._earlier :]:
                self._logged.clear()
                await self._logged.wait()

    async def _waited(self, process: Process) -> int:
        """The exit code, once the log is complete."""
        code = await process.wait()
        if self._logging is not None:
            await self._logging
        return code

    async def _keep_log(self, output: asyncio.StreamReader) -> None:
        with (self.folder / "log.txt").open("ab", buffering=0) as log:
            while chunk := await output.read(64 * 1024):
                log.write(chunk)
                self._logged.set()

    async def _launch(self, environment: dict[str, str]) -> Process:
        self.write_config()
        (self.folder / "log.txt").touch()
        self._earlier = len(self.log)
        self.found = tidiness.logs_of(self.data_dir)
        arguments = (self.role, "--config", str(self.config_file))
        self.process = await self._started(*arguments, environment=self.variables | environment)
        assert self.process.stdout is not None
        self._logging = asyncio.create_task(self._keep_log(self.process.stdout), name="gateway log")
        return self.process

    async def _started(self, *arguments: str, environment: dict[str, str]) -> Process:
        if not self.prefix and not self.whole:
            return await Template.shared().start(arguments, environment, self.program)
        return await asyncio.create_subprocess_exec(
            *(*self.prefix, sys.executable, "-W", STRICT, "-m", self.program, *arguments),
            cwd=REPO_ROOT,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    def write_config(self) -> None:
        self.config_file.write_text(yaml.safe_dump(self.config()))

    @property
    def config_file(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the process: this process's, the secrets, and the test's `environment`."""
        secrets = {"MODEL_KEY": self.model.api_key, "BOT_TOKEN": self.telegram.token}
        return child_environment() | secrets | self.environment

    async def end(self) -> int:
        """Stop the process as planned; return the exit code."""
        return await self._end(signal.SIGTERM)

    async def stop(self) -> int:
        """Stop the process as planned and check that it leaves nothing behind; return the exit code."""
        code = await self.end()
        if code == 0:
            await tidiness.check(self)
        return code

    async def kill(self) -> None:
        """Kill the process (kill -9). Return once Telegram has noticed, so that a later `start` waits again."""
        await self._end(signal.SIGKILL)
        await tidiness.all_closed(self.telegram.open_connections)

    async def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                return await self._waited(self.process)
        finally:
            if self.process.returncode is None:
                self.process.kill()
                await self._waited(self.process)
            self.process = None

    async def command(self, *arguments: str) -> tuple[int, str]:
        """Run another `antler` command with the same config; return exit code and output."""
        process = await Template.shared().start((*arguments, "--config", str(self.config_file)), self.variables)
        output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    async def __aenter__(self) -> World:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.returncode is None:
            code = await self.stop()
            if kind is None:
                assert code == 0, f"the gateway ended with {code}:\n{self.log}"
        if kind is not None:
            print(f"--- gateway log ---\n{self.log}")


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        if value is None:
            result.pop(key, None)
            continue
        result[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result
