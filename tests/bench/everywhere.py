"""Scenario `platforms-4x25`: one gateway with four platforms, 25 concurrent chats each, compared to Telegram only."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.chats import ROUND_SECONDS
from tests.bench.crowds import Crowd
from tests.bench.figures import Figure, Outcome, spread
from tests.bench.gauge import Meter, memory, watching
from tests.bench.stage import LIFTED, LOOK_SECONDS, QUIET_SECONDS, SHORT
from tests.bench.timeline import busy_seconds, requests, timings
from tests.flow.gateway import World, merged
from tests.simulators.feishu import client as feishu_client
from tests.simulators.model.client import ModelSimulator
from tests.simulators.process import SimulatorProcess
from tests.simulators.slack import client as slack_client
from tests.simulators.telegram import client as telegram_client
from tests.simulators.wecom import client as wecom_client
from tests.torture.accounts import Accounts, lifted
from tests.torture.on_feishu import OnFeishu
from tests.torture.on_slack import OnSlack
from tests.torture.on_telegram import OnTelegram
from tests.torture.on_wecom import OnWecom

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.bench.gauge import Memory, Watch
    from tests.bench.timeline import Timing

CHATS = 25
"""Per platform; Telegram only has as many as all four together."""
PLATFORMS = 4
OPEN = {"access": {"dm": "open", "i_accept_public": True}}
CONNECTED_SECONDS = 60.0


@dataclass(frozen=True)
class Size:
    """Size of the scenario. rounds: of one message per chat. idle_seconds: before the idle process's memory is read."""

    rounds: int
    idle_seconds: float


@dataclass
class FourPlatforms(World):
    """A world with four platforms. accounts: those other than Telegram's."""

    accounts: Accounts | None = field(default=None, kw_only=True)

    def config(self) -> dict[str, Any]:
        known = super().config()
        return known if self.accounts is None else merged(known, {"channels": self.accounts.config()})

    @property
    def variables(self) -> dict[str, str]:
        return super().variables | ({} if self.accounts is None else self.accounts.variables())

    async def start(self, **environment: str) -> None:
        """Start the process and wait until all its accounts receive."""
        if self.accounts is not None:
            await self.accounts.wecom.before_start()
        await super().start(**environment)
        if self.accounts is not None:
            await self.accounts.are_ready(CONNECTED_SECONDS)


@dataclass
class Scene:
    """A gateway that is not started yet, and its crowds. simulators: pids."""

    world: World
    model: ModelSimulator
    crowds: Sequence[Crowd]
    simulators: tuple[int, ...]

    @property
    def pid(self) -> int:
        assert self.world.process is not None
        return self.world.process.pid

    @property
    def people(self) -> int:
        return sum(len(crowd.platform.places) for crowd in self.crowds)

    def meter(self) -> Meter:
        return Meter(self.pid, (*self.simulators, os.getpid()))

    async def play_round(self, number: int) -> None:
        """Let everyone write at once; return once all is answered and idle, or when that took too long."""
        wanted = await self._showing() + self.people
        await asyncio.gather(*(crowd.say_at_once(SHORT, number) for crowd in self.crowds))
        deadline = time.monotonic() + ROUND_SECONDS
        while await self._showing() < wanted:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        for crowd in self.crowds:
            await crowd.platform.is_idle(QUIET_SECONDS, ROUND_SECONDS)

    async def _showing(self) -> int:
        return sum([await crowd.count_showing(SHORT.answer) for crowd in self.crowds])


@dataclass
class Measured:
    """Measurements of one gateway. found: by account."""

    idle: Memory
    after: Memory
    watch: Watch
    meter: Meter
    found: dict[str, list[Timing]]
    problems: list[str]

    @property
    def all(self) -> list[Timing]:
        return [timing for timings in self.found.values() for timing in timings]


async def four_platforms(size: Size) -> Outcome:
    """Measure without the accounts' rate limits, as in `chats-N`."""
    async with _alone() as scene:
        alone = await _measure(scene, size)
    async with _everywhere() as scene:
        four = await _measure(scene, size)
    messages = size.rounds * CHATS * PLATFORMS
    return Outcome(
        figures(four, alone, messages),
        {
            "messages": messages,
            "foreign_cpu_share": round(four.meter.foreign_share, 3),
            "telegram_alone_foreign_cpu_share": round(alone.meter.foreign_share, 3),
        },
        [*four.problems, *(f"Telegram alone: {problem}" for problem in alone.problems)],
    )


def figures(four: Measured, alone: Measured, messages: int) -> list[Figure]:
    """Speed and cost over all platforms, the times of each, and the memory compared to Telegram only."""
    alone_cpu = Figure("telegram_alone_cpu_per_msg", alone.meter.cpu * 1000 / messages, "ms")
    memory_of_both = [*_memory("", four), *_memory("telegram_alone_", alone)]
    return [*_speed(four, messages), alone_cpu, *_of_each(four), *memory_of_both]


def _speed(four: Measured, messages: int) -> list[Figure]:
    every = four.all
    return [
        Figure("msgs_per_s", len(every) / busy_seconds(every, CHATS * PLATFORMS) if every else None, "/s"),
        Figure("cpu_per_msg", four.meter.cpu * 1000 / messages, "ms"),
        *spread("inbound", [t.inbound_ms for t in every], "ms"),
        *spread("final", [t.final_ms for t in every], "ms"),
        *spread("whole", [t.whole_seconds for t in every], "s"),
    ]


def _of_each(four: Measured) -> list[Figure]:
    figures = []
    for account, found in four.found.items():
        inbound = spread(f"{account}_inbound", [t.inbound_ms for t in found], "ms")[0]
        figures += [inbound, *spread(f"{account}_whole", [t.whole_seconds for t in found], "s")]
    return figures


def _memory(prefix: str, measured: Measured) -> list[Figure]:
    highest = measured.watch.highest
    return [
        Figure(f"{prefix}rss_idle", measured.idle.rss, "MB"),
        Figure(f"{prefix}pss_idle", measured.idle.pss, "MB"),
        Figure(f"{prefix}rss_most", highest.rss, "MB"),
        Figure(f"{prefix}pss_most", highest.pss, "MB"),
        Figure(f"{prefix}rss_after", measured.after.rss, "MB"),
        Figure(f"{prefix}pss_after", measured.after.pss, "MB"),
    ]


async def _measure(scene: Scene, size: Size) -> Measured:
    """Measure the idle process, run a warm-up round that does not count, then the rounds."""
    async with scene.world:
        await asyncio.sleep(size.idle_seconds)
        idle = memory(scene.pid)
        await scene.play_round(0)
        meter = scene.meter()
        began = time.monotonic()
        async with watching(scene.pid) as watch:
            meter.begin()
            for number in range(size.rounds):
                await scene.play_round(number + 1)
            meter.end()
        after = memory(scene.pid)
        found, problems = await _timings(scene, began)
    return Measured(idle, after, watch, meter, found, problems)


async def _timings(scene: Scene, began: float) -> tuple[dict[str, list[Timing]], list[str]]:
    """Timings of messages since that moment, by account, and a sentence for each missing or wrong answer."""
    asked = [request for request in requests(await scene.model.completions()) if request.started >= began]
    found, problems = {}, []
    for crowd in scene.crowds:
        chats = set(crowd.numbers.values())
        deliveries = [delivery for delivery in await crowd.deliveries() if delivery.queued_at >= began]
        own = [request for request in asked if request.chat_id in chats]
        shown = [call for call in await crowd.shown() if call.at >= began]
        account = crowd.platform.account
        found[account], wrong = timings(deliveries, own, shown, SHORT.answer)
        expected = len(deliveries) - len(found[account])
        problems += [f"{account}: {problem}" for problem in wrong]
        if expected and not wrong:
            problems.append(f"{account}: {expected} messages without a timing")
    return found, problems


@contextlib.asynccontextmanager
async def _alone() -> AsyncIterator[Scene]:
    async with _around({}, None, CHATS * PLATFORMS, ()) as scene:
        yield scene


@contextlib.asynccontextmanager
async def _everywhere() -> AsyncIterator[Scene]:
    with (
        SimulatorProcess(slack_client.MODULE) as slack_process,
        SimulatorProcess(feishu_client.MODULE) as feishu_process,
        SimulatorProcess(wecom_client.MODULE) as wecom_process,
    ):
        async with (
            slack_client.connect(slack_process) as slack,
            feishu_client.connect(feishu_process) as feishu,
            wecom_client.connect(wecom_process) as wecom,
        ):
            accounts = Accounts(
                OnSlack.with_people(slack, CHATS, 0),
                OnFeishu.with_people(feishu, CHATS, 0),
                OnWecom.with_people(wecom, CHATS, 0),
            )
            pids = (slack_process.pid, feishu_process.pid, wecom_process.pid)
            async with _around({"channels": lifted(10_000, 100)}, accounts, CHATS, pids) as scene:
                yield scene


@contextlib.asynccontextmanager
async def _around(
    settings: dict[str, Any], accounts: Accounts | None, on_telegram: int, pids: tuple[int, ...]
) -> AsyncIterator[Scene]:
    """A gateway with chats on Telegram and a crowd of CHATS on each of the other accounts."""
    async with (
        SimulatorProcess("tests.simulators.model") as model_process,
        SimulatorProcess(telegram_client.MODULE) as telegram_process,
        telegram_client.connect(telegram_process) as telegram,
        ModelSimulator(model_process.port) as model,
    ):
        with tempfile.TemporaryDirectory(prefix="antler-bench-", ignore_cleanup_errors=True) as folder:
            configured = merged(merged(LIFTED, OPEN), settings)
            world = FourPlatforms(telegram, model, Path(folder), configured, accounts=accounts)
            others = () if accounts is None else (accounts.slack, accounts.feishu, accounts.wecom)
            platforms = (OnTelegram.with_people(telegram, on_telegram, 0), *others)
            for platform in platforms:
                await platform.prepare()
            # Numbers are unique: they identify the requests to the model.
            crowds = [Crowd(platform, 1 + 1000 * n) for n, platform in enumerate(platforms)]
            yield Scene(world, model, crowds, (model_process.pid, telegram_process.pid, *pids))
