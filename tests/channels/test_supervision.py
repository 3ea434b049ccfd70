"""What all adapters share of keeping a connection: repeating, waiting, and what people are told meanwhile."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import pytest

from channels.base import ConnectionState, Health
from channels.errors import ChannelError, Fatal, RateLimited, Temporary
from channels.supervision import Backoff, Supervisor, within
from tests.clock import VirtualClock

LOG = logging.getLogger("channels.test")


@dataclass
class Step:
    """Fails in turn with what it was given, then succeeds; remembers when it was called."""

    clock: VirtualClock
    errors: list[ChannelError]
    called: list[float] = field(default_factory=list)

    async def __call__(self) -> str:
        self.called.append(self.clock.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    @property
    def waited(self) -> list[float]:
        """Seconds between two calls."""
        return [later - earlier for earlier, later in zip(self.called, self.called[1:], strict=False)]


@dataclass
class Bench:
    clock: VirtualClock = field(default_factory=VirtualClock)
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.health, self.clock, LOG, "main", self.judge)

    def judge(self, error: ChannelError) -> tuple[str, float] | None:
        """The made-up platform has an opinion on one failure only."""
        return ("a rival is there", 100.0) if str(error) == "rival" else None

    async def after(self, *errors: ChannelError) -> list[float]:
        """Keep a step that fails so, return how long it waited each time."""
        step = Step(self.clock, list(errors))
        assert await self.clock.until(self.supervisor.keep(step)) == "done"
        return step.waited


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_waiting_times_double_up_to_half_a_minute() -> None:
    backoff = Backoff()
    for most in (1, 2, 4, 8, 16, 30, 30):
        assert 0.75 * most <= backoff.next() <= most
    backoff.reset()
    assert backoff.next() <= 1


async def test_a_step_is_repeated_until_it_succeeds_and_waits_longer_each_time(bench: Bench) -> None:
    first, second, third = await bench.after(*[Temporary("no answer")] * 3)
    assert first <= 1 < second <= 2 < third <= 4
    (fourth,) = await bench.after(Temporary("no answer"))
    assert fourth > 4, "that a step has succeeded does not make the connection a good one"
    bench.supervisor.steady()
    (fifth,) = await bench.after(Temporary("no answer"))
    assert fifth <= 1


async def test_a_rate_limit_is_waited_for(bench: Bench) -> None:
    assert await bench.after(RateLimited("slow down", 40.0)) == [40.0]


async def test_the_platforms_own_judgement_comes_first_and_leaves_the_others_alone(bench: Bench) -> None:
    rival, other = await bench.after(Temporary("rival"), Temporary("no answer"))
    assert rival == 100.0
    assert other <= 1


async def test_people_are_told_once_for_each_reason(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await bench.after(Temporary("no answer"), Temporary("no answer"), Temporary("rival"))
    assert (bench.health.state, bench.health.detail) == (ConnectionState.RETRYING, "a rival is there")
    bench.supervisor.connected()
    bench.supervisor.connected()
    assert (bench.health.state, bench.health.detail, bench.health.reconnects) == (ConnectionState.CONNECTED, "", 1)
    assert [record.getMessage() for record in caplog.records] == [
        "main: no answer; trying again",
        "main: a rival is there; trying again",
        "main: connected again",
    ]


async def test_a_network_that_stays_away_is_told_again_and_again_with_its_host(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor(bench.health, bench.clock, LOG, "main", url="https://api.chat.example:8443/bot")
    step = Step(bench.clock, [Temporary("no route")] * 1000)
    began = bench.clock.monotonic()
    await bench.clock.until(supervisor.keep(step))
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "main: no route; trying again (api.chat.example)"
    assert bench.health.detail == "no route (api.chat.example)"
    hours = (bench.clock.monotonic() - began) / 3600
    assert hours > 6
    assert told[1] == "main: no route, for 5 min; trying again (api.chat.example)"
    assert hours < len(told) < hours + 6


async def test_what_only_a_person_can_mend_ends_it_with_the_hint_in_sight(bench: Bench) -> None:
    with pytest.raises(Fatal):
        await bench.after(Temporary("no answer"), Fatal("the token is wrong", "copy it again"))
    assert (bench.health.state, bench.health.detail) == (ConnectionState.STOPPED, "the token is wrong; copy it again")


async def test_a_mistake_of_ours_is_not_repeated(bench: Bench) -> None:
    async def step() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await bench.supervisor.keep(step)


@pytest.mark.parametrize("turns", range(6))
async def test_no_cancellation_is_lost_as_what_is_waited_for_ends(turns: int) -> None:
    event, began = asyncio.Event(), asyncio.Event()

    async def waiting() -> None:
        began.set()
        await within(10, event.wait())

    task = asyncio.create_task(waiting())
    await began.wait()
    await asyncio.sleep(0)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = task.cancel()
    await asyncio.wait({task})
    assert task.cancelled() == cancelled


async def test_a_limited_wait_ends_in_time_and_leaves_nothing_running() -> None:
    ended = asyncio.Event()

    async def part() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    assert not await within(0.01, part())
    assert ended.is_set()
    assert await within(10, ended.wait())
    with pytest.raises(ZeroDivisionError):
        await within(10, _fails())


async def _fails() -> None:
    raise ZeroDivisionError
