"""The gateway's process with crash windows, connected to the simulators, and the record of its lives and deaths."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests.flow.gateway import World
from tests.simulators.process import REPO_ROOT
from tests.torture.crash import ARMED_FILE, CRASHED_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

START_SECONDS = 60.0
END_SECONDS = 30.0
MODULE = "tests.torture.process"
START_REFUSALS = ("antler: database", "the agent cannot be built")
"""Log lines of a process that cannot start: the database, or (a little later) the checkpoints, cannot be opened."""

SETTINGS: dict[str, Any] = {
    "access": {"dm": "open", "i_accept_public": True},
    # The suite writes faster than people, and tests crashes, not waits for rate limits.
    "channels": {"telegram": {"rate": {"per_second": 200, "per_chat_per_second": 20, "per_group_per_minute": 1200}}},
    # Each message has its own answer, however soon the next one arrives.
    "conversations": {"busy": "queue", "join_seconds": 0},
    "limits": {"queued_per_conversation": 500, "messages_per_minute": 10_000, "message_burst": 1000},
    "shutdown_grace_seconds": 8,
}


class StillAlive(AssertionError):
    """Raised when a process that had to end, or to poll, did not."""


@dataclass(slots=True)
class Life:
    """One process. Times are monotonic seconds of the machine. ending: "" while it lives, then "kill" (SIGKILL from
    outside), "crash W5:1" (at a window), "stop" (SIGTERM, exit code 0) or "exit N" (by itself or after SIGTERM).

    connected: when it was known to receive from every platform, None if that was not awaited. leaving: when it was
    asked to stop. disturbed: there was a problem with the machine (a full disk) when it began, harmed: at any time;
    then it may refuse to start. frozen: it was frozen for some time. replaced: another process then took over its work,
    so that it could not record what it had sent. outages: begin and end of each period without its database.
    """

    pid: int
    began: float
    ended: float | None = None
    ending: str = ""
    connected: float | None = None
    leaving: float | None = None
    disturbed: bool = False
    harmed: bool = False
    frozen: bool = False
    replaced: bool = False
    outages: Sequence[tuple[float, float]] = ()

    @property
    def killed(self) -> bool:
        return self.replaced or self.ending == "kill" or self.ending.startswith("crash ")

    def could_store(self, since: float) -> float:
        """Seconds from then to its end in which it could reach its database."""
        ended = self.ended if self.ended is not None else math.inf
        could, at = 0.0, since
        for began, to in (*sorted(self.outages), (ended, ended)):
            could += max(0.0, min(began, ended) - at)
            at = max(at, to)
        return could

    def lived_at(self, moment: float) -> bool:
        return self.began <= moment and (self.ended is None or moment <= self.ended)


@dataclass
class TortureWorld(World):
    """A world whose process can be killed. sabotage: names of protections to remove. lease: seconds of the database's
    lease, quiet: seconds that a process must live before it retries runs active at two deaths; 0: the real ones.

    lives: of all processes on the same work. woken: the model key of each frozen process, and when it was resumed.
    control_folder: of another world that shares its lives with this one.
    """

    sabotage: str = ""
    lease: int = 0
    quiet: float = 4.0
    control_folder: Path | None = None
    _life: Life | None = None
    lives: list[Life] = field(default_factory=list)
    woken: list[tuple[str, float]] = field(default_factory=list)

    @property
    def control(self) -> Path:
        """The folder of the control files."""
        folder = self.control_folder or self.folder / "control"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def life(self) -> Life:
        """The newest life of this world."""
        assert self._life is not None
        return self._life

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command of the process."""
        return ("run",)

    @property
    def variables(self) -> dict[str, str]:
        own = {"TORTURE_FOLDER": str(self.control), "TORTURE_SABOTAGE": self.sabotage}
        shorter = {"TORTURE_LEASE": self.lease, "TORTURE_QUIET": self.quiet}
        return super().variables | own | {name: str(value) for name, value in shorter.items() if value}

    async def _launch(self, environment: dict[str, str]) -> asyncio.subprocess.Process:
        self.config_file.write_text(yaml.safe_dump(self.config()))
        began = time.monotonic()
        with (self.folder / "log.txt").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", MODULE, *self.arguments, "--config", str(self.config_file)),
                cwd=REPO_ROOT,
                env=self.variables | environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._life = Life(self.process.pid, began)
        self.lives.append(self._life)
        return self.process

    async def launch(self, crash_at: str = "") -> Life:
        """Start a process and return at once. crash_at: a window and its nth passing, armed from the start."""
        await self._launch({"CRASH_AT": crash_at} if crash_at else {})
        return self.life

    async def polls(self, seconds: float = START_SECONDS) -> bool:
        """Wait until the process receives; False if it ended instead. Raises StillAlive if it does neither."""
        assert self.process is not None
        polled = asyncio.create_task(self._receives(seconds))
        ended = asyncio.create_task(self.process.wait())
        try:
            await asyncio.wait({polled, ended}, return_when=asyncio.FIRST_COMPLETED)
            if polled.done() and not ended.done():
                if polled.exception() is not None:
                    raise StillAlive(f"process {self.process.pid} does not receive") from polled.exception()
                self.life.connected = time.monotonic()
                return True
            await self.over()
            return False
        finally:
            for task in (polled, ended):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, AssertionError):
                    await task

    async def _receives(self, seconds: float) -> None:
        """Wait until the newest process is connected to its platform."""
        await self.telegram.wait_polled(seconds)

    def arm(self, crash_at: str) -> None:
        """Let the process die at that window's nth passing from now on."""
        file = self.control / ARMED_FILE
        draft = file.with_suffix(".new")
        draft.write_text(crash_at)
        draft.replace(file)

    def disarm(self) -> None:
        """Disarm all windows."""
        (self.control / ARMED_FILE).unlink(missing_ok=True)

    async def over(self, timeout: float = END_SECONDS) -> Life:
        """Wait for the end of the process, whatever the cause. Raises StillAlive."""
        assert self.process is not None
        try:
            code = await asyncio.wait_for(self.process.wait(), timeout)
        except TimeoutError:
            raise StillAlive(f"process {self.process.pid} did not end within {timeout:g} s") from None
        if not self.life.ending:
            self.life.ended = time.monotonic()
            self.life.ending = self._ending(code)
        return self.life

    def _ending(self, code: int) -> str:
        if code == -signal.SIGKILL:
            crashed = self.control / CRASHED_FILE
            if crashed.exists():
                window, _, at = crashed.read_text().splitlines()[-1].partition(" ")
                crashed.unlink()
                self.life.ended = float(at)
                return f"crash {window}"
            return "kill"
        return "stop" if code == 0 else f"exit {code}"

    @property
    def gave_up_starting(self) -> bool:
        """Whether the newest process logged that it ended because it could not start."""
        last = self.log.rpartition("is connected as")[2]
        return any(sentence in last for sentence in START_REFUSALS)

    async def murder(self) -> Life:
        """Kill the process from outside (SIGKILL)."""
        self._signal(signal.SIGKILL)
        return await self.over()

    async def retire(self) -> Life:
        """Stop the process as planned (SIGTERM)."""
        self.life.leaving = time.monotonic()
        self._signal(signal.SIGTERM)
        return await self.over()

    def freeze(self) -> None:
        """Pause the process (SIGSTOP), as on a paused machine."""
        self.life.frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        if self.life.frozen:
            self.woken.append((self.variables["MODEL_KEY"], time.monotonic()))

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.life.pid, number)

    async def bury(self) -> None:
        """Make sure that no process is left running."""
        if self.alive:
            self.thaw()
            await self.murder()
