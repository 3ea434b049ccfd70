"""A campaign, one run of a mode: a world, its load, its deaths, and finally the judgment."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.flow.gateway import merged
from tests.torture.facts import gather
from tests.torture.ledger import Ledger, integrity
from tests.torture.load import Load
from tests.torture.on_telegram import OnTelegram
from tests.torture.oracle import Judge
from tests.torture.report import Report
from tests.torture.world import SETTINGS, START_SECONDS, StillAlive, TortureWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path
    from typing import Any

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.torture.platform import Platform
    from tests.torture.world import Life

PAUSE = 0.25
"""Average seconds between two messages."""
QUIET = 0.25
IDLE_SECONDS = 2.0
SETTLE_SECONDS = 120.0
PATIENCE_SECONDS = 15.0
"""Time after which a process that waits for disk space is no longer waited for."""
MOST_EXITS = 5
"""Processes that end by themselves before the campaign is abandoned."""


class GivenUp(Exception):
    """The gateway does not even run: continuing would reveal nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The size of a campaign. kills: total of a mode; frozen: seconds of SIGSTOP; lively: most seconds that a process
    lives under load before it is killed; slow_faults: calls may hang for longer than the client waits; again:
    share of crashes at a window after which the next process is to crash there, too; settle: seconds after which
    unfinished work counts as stuck; quiet: of a restart storm, see `TortureWorld`; seconds: time after which a cluster
    is not disturbed any more."""

    kills: int
    frozen: float = 60.0
    lively: float = 3.0
    slow_faults: bool = True
    again: float = 0.25
    settle: float = SETTLE_SECONDS
    quiet: float = 0.0
    seconds: float = math.inf


@dataclass
class Campaign:
    """What every mode works with. Use it with `async with`, which leaves nothing running.

    patient: the database was not always writable. disturbed: something is wrong with the machine now, so that a
    process may refuse to start.
    """

    world: TortureWorld
    load: Load
    report: Report
    scale: Scale
    chance: random.Random
    ledger: Ledger
    patient: bool = False
    disturbed: bool = False
    finished: bool = False
    _counted: Life | None = None
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    async def of(
        cls,
        mode: str,
        telegram: TelegramSimulator,
        model: ModelSimulator,
        folder: Path,
        *,
        seed: int,
        scale: Scale,
        adopt: bool = False,
        sabotage: str = "",
        settings: dict[str, Any] | None = None,
    ) -> Campaign:
        """A campaign with its own bot and a world in that folder that is not started yet."""
        await model.reset()
        adopting = {"channels": {"telegram": {"adopt_placeholders": adopt}}}
        configured = merged(merged(SETTINGS, adopting), settings or {})
        world = TortureWorld(await telegram.fresh_bot(), model, folder, configured, sabotage=sabotage)
        platform = OnTelegram.with_people(world.telegram, 4, 2, adopts=adopt)
        report = Report(mode, seed, adopted=adopt, folder=str(folder))
        return await cls.between(world, [platform], report, scale)

    @classmethod
    async def between(
        cls, world: TortureWorld, platforms: Sequence[Platform], report: Report, scale: Scale
    ) -> Campaign:
        """A campaign of a world that is not started yet, connected to these platforms."""
        chance = random.Random(f"{report.seed} {report.mode}")
        load = Load({platform.account: platform for platform in platforms}, chance)
        for platform in platforms:
            await platform.prepare()
        groups = [f"{place.account}:{place.chat}" for place in load.places if place.is_group]
        world.settings = merged(world.settings, {"access": {"groups": {"allow": groups}}})
        return cls(world, load, report, scale, chance, Ledger.of(world.data_dir))

    # Lives and deaths.

    async def launch(self, crash_at: str = "") -> Life:
        """Start a process and return at once. crash_at: a window and its nth passing, armed from the start."""
        life = await self.world.launch(crash_at)
        life.disturbed = life.harmed = self.disturbed
        self.report.starts += 1
        return life

    async def start(self, crash_at: str = "") -> bool:
        """Start a process and wait until it polls; False if it ended instead, or waits for the machine to recover."""
        await self.launch(crash_at)
        may_wait = self.patient and self.disturbed
        try:
            if await self.world.polls(PATIENCE_SECONDS if may_wait else START_SECONDS):
                return True
        except StillAlive:
            if not may_wait:
                raise
            return False  # it could store nothing, so it does not poll
        self._died()
        return False

    def _died(self) -> None:
        life = self.world.life
        if life is self._counted:
            return
        self._counted = life
        if life.ending.startswith("crash "):
            self.report.kills += 1
            window = life.ending.split()[1].partition(":")[0]
            self.report.windows[window] = self.report.windows.get(window, 0) + 1
        elif life.harmed and life.ending == "exit 1" and self.world.gave_up_starting:
            self.report.refused_starts += 1
        else:
            self.report.blame("unexpected_exits", f"process {life.pid} ended with {life.ending!r}")
            if self.report.unexpected_exits >= MOST_EXITS:
                raise GivenUp(f"the gateway ended by itself {MOST_EXITS} times, see {self.world.folder}")

    async def kill(self) -> None:
        if not self.world.alive:
            return await self.dead()
        await self.world.murder()
        self.report.kills += 1

    async def dead(self) -> None:
        """Wait until the process has ended by itself at a window. Raises StillAlive."""
        await self.world.over(self.scale.settle)
        self._died()

    async def stop(self) -> None:
        """Stop the process as planned, unless it dies at a window first."""
        life = await self.world.retire()
        if life.ending.startswith("crash "):
            return self._died()
        self.report.stops += 1
        if life.ending != "stop":
            self.report.blame("unexpected_exits", f"a planned stop of process {life.pid} ended with {life.ending!r}")
        return None

    # Load.

    @contextlib.asynccontextmanager
    async def talking(self, pause: float = PAUSE) -> AsyncIterator[None]:
        """Let people talk within this block. pause: average seconds between two messages."""
        silence = asyncio.Event()
        task = asyncio.create_task(self.load.talk(pause, silence), name="load")
        try:
            yield
        finally:
            silence.set()
            await task

    async def live(self, least: float = 0.0) -> None:
        """Wait for a random time."""
        await asyncio.sleep(self.chance.uniform(least, max(least, self.scale.lively)))

    async def settle(self, longest: float = 0.0) -> bool:
        """Wait until every message is answered and the gateway is idle; report what never finishes. longest: seconds,
        if more than the scale's."""
        longest = max(longest, self.scale.settle)
        deadline = time.monotonic() + longest
        while True:
            if not self.world.alive:
                await self.dead()
                await self.start()
            if await self.rests():
                return True
            if time.monotonic() > deadline:
                self.report.blame("unsettled", f"after {longest:g} s there is still {self.ledger.open_work()}")
                return False

    async def rests(self) -> bool:
        """Whether a process is alive and has nothing left to do."""
        return await self._is_idle() and self.world.alive and not self.ledger.open_work()

    async def _is_idle(self) -> bool:
        for platform in self.load.platforms.values():
            if not await platform.is_idle(QUIET, IDLE_SECONDS):
                return False
        return True

    # The end.

    async def finish(self) -> Report:
        """Let the gateway become idle, stop it, and judge."""
        if not self.world.alive:
            await self.start()
        await self.settle()
        await self.stop()
        self.report.integrity = self._integrity()
        for facts in await gather(self.world, self.load, self.ledger):
            alone = len(self.load.platforms) == 1
            report = self.report if alone else self.report.part(facts.account)
            Judge(facts, report, patient=self.patient).judge()
            for problem in await self.load.platforms[facts.account].problems():
                report.blame("broken_rules", problem)
            if not alone:
                self.report.add(report)
        self.report.seconds = round(time.monotonic() - self._began, 1)
        self.finished = True
        return self.report

    def _integrity(self) -> str:
        """Check the gateway's database and the agent's checkpoints; PostgreSQL is not checked."""
        if not (self.world.data_dir / "antler.db").exists():
            return "-"
        verdicts = {name: integrity(self.world.data_dir / name) for name in ("antler.db", "checkpoints.db")}
        for name, verdict in verdicts.items():
            if verdict != "ok":
                self.report.blame("broken_files", f"{name}: {verdict}")
        return "ok" if set(verdicts.values()) == {"ok"} else "broken"

    def say(self, text: str) -> None:
        """Print a line of progress."""
        print(f"[{self.report.mode}] {text}", file=sys.stderr, flush=True)

    async def __aenter__(self) -> Campaign:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.bury()
