"""One mode's run: a world, its load, its deaths, and in the end the judge."""

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
"""Seconds between two messages, about."""
QUIET = 0.25
IDLE_SECONDS = 2.0
SETTLE_SECONDS = 120.0
PATIENCE_SECONDS = 15.0
"""After which a process that waits for room is let be."""
MOST_EXITS = 5
"""Processes that end by themselves before the campaign is given up."""


class GivenUp(Exception):
    """The gateway does not even run: to go on would show nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is done. kills: of a mode in all; frozen: seconds of SIGSTOP; lively: seconds that a process lives at
    most under load before it is killed; slow_faults: calls may hang for longer than the client waits; again:
    share of crashes at a window after which the next process is to crash there, too; settle: seconds after which work
    that has not ended counts as stuck; quiet: of a restart storm, see `TortureWorld`; seconds: after which a cluster is
    disturbed no more."""

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
    """What every mode works with. Use it with `async with`; then nothing of it is left running.

    patient: the database could not be written at times. disturbed: something is wrong with the machine now, so that a
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
        """A campaign of its own bot, with a world in that folder that is not started yet."""
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
        """A campaign of a world that is not started yet, with these platforms around it."""
        chance = random.Random(f"{report.seed} {report.mode}")
        load = Load({platform.account: platform for platform in platforms}, chance)
        for platform in platforms:
            await platform.prepare()
        groups = [f"{place.account}:{place.chat}" for place in load.places if place.is_group]
        world.settings = merged(world.settings, {"access": {"groups": {"allow": groups}}})
        return cls(world, load, report, scale, chance, Ledger.of(world.data_dir))

    # Lives and deaths.

    async def launch(self, crash_at: str = "") -> Life:
        """Start a process; returns at once. crash_at: a window and its passing, armed from the start."""
        life = await self.world.launch(crash_at)
        life.disturbed = life.harmed = self.disturbed
        self.report.starts += 1
        return life

    async def start(self, crash_at: str = "") -> bool:
        """Start a process and wait until it polls; False when it ended instead, or waits for the machine to be well."""
        await self.launch(crash_at)
        may_wait = self.patient and self.disturbed
        try:
            if await self.world.polls(PATIENCE_SECONDS if may_wait else START_SECONDS):
                return True
        except StillAlive:
            if not may_wait:
                raise
            return False  # nothing could be accepted, so it does not ask for anything
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
        """The process is to end, or has ended, by itself at a window. Raises StillAlive."""
        await self.world.over(self.scale.settle)
        self._died()

    async def stop(self) -> None:
        """A planned stop, unless the process dies at a window before."""
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
        """People talk inside this block, with so many seconds between two messages, about."""
        silence = asyncio.Event()
        task = asyncio.create_task(self.load.talk(pause, silence), name="load")
        try:
            yield
        finally:
            silence.set()
            await task

    async def live(self, least: float = 0.0) -> None:
        """Let some random time pass."""
        await asyncio.sleep(self.chance.uniform(least, max(least, self.scale.lively)))

    async def settle(self, longest: float = 0.0) -> bool:
        """Until everything that was said is answered and the gateway rests; what never rests is reported. longest: in
        seconds, if that is more than the scale says."""
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
        """Whether a process lives and has nothing left to do."""
        return await self._is_idle() and self.world.alive and not self.ledger.open_work()

    async def _is_idle(self) -> bool:
        for platform in self.load.platforms.values():
            if not await platform.is_idle(QUIET, IDLE_SECONDS):
                return False
        return True

    # The end.

    async def finish(self) -> Report:
        """Let it come to rest, stop it, and judge."""
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
        """Of the gateway's database and of the agent's checkpoints; PostgreSQL looks after its own."""
        if not (self.world.data_dir / "antler.db").exists():
            return "-"
        verdicts = {name: integrity(self.world.data_dir / name) for name in ("antler.db", "checkpoints.db")}
        for name, verdict in verdicts.items():
            if verdict != "ok":
                self.report.blame("broken_files", f"{name}: {verdict}")
        return "ok" if set(verdicts.values()) == {"ok"} else "broken"

    def say(self, text: str) -> None:
        """A line of progress."""
        print(f"[{self.report.mode}] {text}", file=sys.stderr, flush=True)

    async def __aenter__(self) -> Campaign:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.bury()
