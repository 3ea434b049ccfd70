"""Scenario `soak`: long steady traffic, while memory, handles and answers are monitored."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from bot.control.server import read_status
from tests.bench.chats import warm_up
from tests.bench.figures import Figure, Outcome, Target, slope, spread
from tests.bench.gauge import MEGABYTE, anonymous, cpu_seconds, handles, memory
from tests.bench.stage import stage
from tests.bench.traffic import WAVE_EVERY, WAVE_LASTS, WAVES, Talk, mark, marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.stage import Stage

CHATS = 50
SAMPLE_SECONDS = 5.0
WARM_SHARE = 0.5
"""Share of the time that does not count for slopes: caches fill, lazy imports happen, and in half an hour each kind of
fault has occurred once, with the burst of messages after it. Memory of such a burst is kept for the next one."""
DRAIN_SECONDS = 180.0
FLAT_MEMORY = Target(10)
"""MB per hour: a gigabyte in four days would exceed it. Less cannot be distinguished from noise in half an hour."""
FLAT_HANDLES = Target(3)


@dataclass(frozen=True)
class Sample:
    """One sample of the gateway; memory and databases in MB. at: seconds since the traffic began."""

    at: float
    rss: float
    anonymous: float
    files: int
    threads: int
    databases: float
    running: int
    waiting: int
    sent: int


@dataclass
class Soak:
    """The state so far. sent: time of each message, by mark."""

    began: float
    sent: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    waves: list[tuple[float, float, str]] = field(default_factory=list)

    def age(self) -> float:
        return time.monotonic() - self.began


async def soak(minutes: float, rate: float, *, with_faults: bool) -> Outcome:
    """Send `rate` messages per second for this many minutes in CHATS chats, under the account's default limits."""
    async with stage(CHATS, {}) as scene, scene.world:
        await warm_up(scene)
        await scene.telegram.keep_lean()
        await scene.model.keep_lean()
        state, cpu = Soak(time.monotonic()), cpu_seconds(scene.pid)
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(_look(scene, state), name="samples")
            raging = tasks.create_task(_rage(scene, state, minutes * 60 if with_faults else 0), name="faults")
            await _talk(scene, state, minutes * 60, rate, stumbling=with_faults)
            await raging
            shown = await _drained(scene, state)
            await scene.until_quiet()
            looking.cancel()
        await _sample(scene, state)
        cpu = cpu_seconds(scene.pid) - cpu
        seconds = await _seconds(scene, state)
        tally = {f"{method} {outcome}": n for (method, outcome), n in sorted((await scene.telegram.tally()).items())}
    return _verdict(state, shown, seconds, cpu, tally)


async def _talk(scene: Stage, state: Soak, seconds: float, rate: float, *, stumbling: bool) -> None:
    """Send messages on schedule: a late one does not delay later ones."""
    talk = Talk(stumbling=stumbling)
    for number in range(int(seconds * rate)):
        await asyncio.sleep(max(0.0, number / rate - state.age()))
        person = scene.people[number % len(scene.people)]
        said = await scene.telegram.user_says(talk.question(number), user=person)
        assert said.update_id is not None
        state.sent[mark(number)] = said.update_id


async def _rage(scene: Stage, state: Soak, seconds: float) -> None:
    """Cause a wave of faults every WAVE_EVERY seconds, the last one well before the end."""
    number = 0
    while (number + 0.5) * WAVE_EVERY + WAVE_LASTS < seconds:
        wave = WAVES[number % len(WAVES)]
        await asyncio.sleep(max(0.0, (number + 0.5) * WAVE_EVERY - state.age()))
        began = state.age()
        await wave.begin(scene.telegram)
        await asyncio.sleep(WAVE_LASTS)
        await wave.end(scene.telegram)
        state.waves.append((began, state.age(), wave.name))
        number += 1


async def _look(scene: Stage, state: Soak) -> None:
    while True:
        await _sample(scene, state)
        await asyncio.sleep(SAMPLE_SECONDS)


async def _sample(scene: Stage, state: Soak) -> None:
    status = await read_status(scene.world.data_dir)
    files, threads = handles(scene.pid)
    databases = sum(path.stat().st_size for path in scene.world.data_dir.glob("*.db*")) / MEGABYTE
    rss = memory(scene.pid).rss
    load = (status["running"], status["waiting"], len(state.sent))
    state.samples.append(Sample(state.age(), rss, anonymous(scene.pid), files, threads, databases, *load))


async def _drained(scene: Stage, state: Soak) -> Counter[str]:
    """Number of messages that show each mark, once all marks are shown or DRAIN_SECONDS have passed."""
    deadline = time.monotonic() + DRAIN_SECONDS
    while True:
        shown: Counter[str] = Counter()
        for person in scene.people:
            shown += marks(message.text for message in await scene.telegram.bot_messages(person))
        if state.sent.keys() <= shown.keys() or time.monotonic() > deadline:
            return shown
        await asyncio.sleep(SAMPLE_SECONDS)


async def _seconds(scene: Stage, state: Soak) -> list[float]:
    """Seconds of each answered message, from its time of writing to the last edit of its answer."""
    queued = {update.update_id: update.queued_at for update in await scene.telegram.deliveries()}
    ended: dict[str, float] = {}
    for person in scene.people:
        for message in await scene.telegram.bot_messages(person):
            ended |= dict.fromkeys(marks([message.text]), message.changed_at)
    return [ended[name] - queued[update] for name, update in state.sent.items() if name in ended and update in queued]


def _verdict(state: Soak, shown: Counter[str], seconds: Sequence[float], cpu: float, tally: dict[str, int]) -> Outcome:
    missing = sorted(state.sent.keys() - shown.keys())
    warm = settled(state.samples)
    figures = [
        Figure("sent", len(state.sent), "messages"),
        Figure("unanswered", len(missing), "messages", Target(0)),
        Figure("shown_twice", sum(count > 1 for count in shown.values()), "answers", Target(0)),
        Figure("rss_growth", growth(warm, "rss"), "MB/h", FLAT_MEMORY),
        Figure("anonymous_growth", growth(warm, "anonymous"), "MB/h", FLAT_MEMORY),
        Figure("rss_most", max(sample.rss for sample in state.samples), "MB", Target(175)),
        Figure("open_files_rise", rise(warm, "files"), "files", FLAT_HANDLES),
        Figure("threads_rise", rise(warm, "threads"), "threads", FLAT_HANDLES),
        Figure("backlog_most", max(sample.running + sample.waiting for sample in state.samples), "messages"),
        Figure("backlog_at_the_end", state.samples[-1].running + state.samples[-1].waiting, "messages", Target(0)),
        Figure("databases_per_1000_messages", growth(warm, "databases", by="sent") * 1000, "MB"),
        Figure("cpu_per_msg", cpu * 1000 / max(1, len(state.sent)), "ms"),
        *spread("whole", seconds, "s"),
    ]
    details = {
        "minutes": round(state.age() / 60, 1),
        "warm_up_seconds": round(warm[0].at),
        "waves": [[round(began, 1), round(ended, 1), name] for began, ended, name in state.waves],
        "calls": tally,
        "unanswered": missing[:50],
        "samples": [{name: round(value, 2) for name, value in asdict(sample).items()} for sample in state.samples],
    }
    problems = [f"{len(missing)} of {len(state.sent)} messages were not answered"] if missing else []
    return Outcome(figures, details, problems)


def settled(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples after the warm-up; at least two if there are two."""
    start = min(int(len(samples) * WARM_SHARE), max(0, len(samples) - 2))
    return samples[start:]


def growth(samples: Sequence[Sample], name: str, by: str = "hour") -> float:
    """Growth of a value per hour, or per unit of another value."""
    return slope((s.at / 3600 if by == "hour" else getattr(s, by), getattr(s, name)) for s in samples)


def rise(samples: Sequence[Sample], name: str) -> float:
    """Rise from the minimum of the first third to that of the last: idle connections come and go, a leak stays."""
    third = max(1, len(samples) // 3)
    return float(min(getattr(s, name) for s in samples[-third:]) - min(getattr(s, name) for s in samples[:third]))
