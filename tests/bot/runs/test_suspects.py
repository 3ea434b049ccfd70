"""What kills the process is found and given up; a kill from outside is blamed on no message."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from bot.runs.driving import QUIET_SECONDS
from bot.store import runs
from bot.store.rows import RunRow, RunState
from bot.texts.en import EN
from tests.bot.conversations.test_policies import bubble, press
from tests.bot.core import ANN, BOB, Core, core
from tests.bot.runs.test_approvals import asks
from tests.bot.scripted_harness import ScriptedHarness
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

POISON, QUICK = "poison", "quick"
STEP = 0.25
"""Seconds by which the clock is turned; a process that dies is followed by the next one within that."""
WARM_UP = 1.5
KILLS = 40


@dataclass
class Deadly(ScriptedHarness):
    """Answers take `seconds`, to a message that begins with QUICK a moment; one that begins with POISON kills the
    process after `fuse` instead.

    working_on: what it works on now, most_together: at one time, since the test set it to 0.
    """

    clock: VirtualClock = field(default_factory=VirtualClock)
    seconds: float = 2.0
    fuse: float = 0.5
    killed: bool = False
    working_on: set[str] = field(default_factory=set)
    most_together: int = 0

    async def echo(self, tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        text = tell.run_input.text
        self.working_on.add(text)
        self.most_together = max(self.most_together, len(self.working_on))
        try:
            self.step(tell.ctx.thread_id)  # each attempt gets somewhere
            if text.startswith(POISON):
                await self.clock.sleep(self.fuse)
                self.killed = True
                await asyncio.Future()
            await self.clock.sleep(0.1 if text.startswith(QUICK) else self.seconds)
            yield tell.answer(f"echo: {text}")
        finally:
            self.working_on.discard(text)


@dataclass
class Watched:
    """A gateway whose operator starts it again whenever it has died."""

    core: Core
    agent: Deadly
    deaths: int = 0

    async def kill(self) -> None:
        self.agent.killed = False
        self.deaths += 1
        await self.core.restart()

    async def live(self, seconds: float) -> None:
        """So much time passes, with all the deaths that it brings."""
        for _ in range(round(seconds / STEP)):
            await self.core.clock.advance(STEP)
            if self.agent.killed:
                await self.kill()

    async def unended(self) -> list[RunRow]:
        found: list[RunRow] = await self.core.store.read(runs.unended)
        return found


@asynccontextmanager
async def watched(
    folder: Path, *, seconds: float = 2.0, warm_up: float = 0.0, queue_limit: int = 20
) -> AsyncIterator[Watched]:
    agent = Deadly(seconds=seconds)
    async with core(folder, harness=agent, queue_limit=queue_limit) as c:
        agent.clock, c.warm_up = c.clock, warm_up
        yield Watched(c, agent)


# Kills from outside.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_kills_loses_nothing_and_blames_nobody(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    said: dict[str, list[str]] = {ANN: [], BOB: [], "g": []}
    async with watched(tmp_path, seconds=1.5, warm_up=WARM_UP, queue_limit=1000) as w:
        for number in range(KILLS):
            for place in chance.sample(list(said), k=chance.randint(0, 2)):
                text = f"{chance.choice((QUICK, QUICK, 'long'))} {number}"
                said[place].append(text)
                await w.core.say(text, ANN if place == "g" else place, "g" if place == "g" else None)
            await w.core.clock.advance(chance.uniform(0.2, 2.4))
            await w.kill()
        await w.core.answered()
        assert w.core.dead == []
        keys = (f"memory:{ANN}", f"memory:{BOB}", "memory:g")
        ended = await w.core.store.read(lambda tx: [run for key in keys for run in runs.recent(tx, key, 2000)])
        assert {run.state for run in ended} == {RunState.SUCCESS}
        for place, messages in said.items():
            assert w.core.texts(place) == [f"echo: {text}" for text in messages]


async def test_what_died_once_goes_on_at_once_and_what_died_twice_waits_for_a_quiet_minute(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say("q")
        await w.kill()
        assert w.agent.working_on == {"q"}
        await w.kill()
        for _ in range(10):  # while it waits, nothing counts against it
            await w.core.clock.advance(QUIET_SECONDS / 2)
            assert w.agent.working_on == set()
            assert w.core.texts() == [f"{EN.held} (30 s)"]
            await w.kill()
        assert [len(run.deaths) for run in await w.unended()] == [2]
        await w.core.clock.advance(QUIET_SECONDS)
        assert w.agent.working_on == {"q"}
        assert w.core.texts() == [EN.working]
        await w.core.answered()
        assert w.core.texts() == ["echo: q"]


async def test_what_has_waited_for_a_person_is_no_suspect_any_more(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        gate = asyncio.Event()
        asks(w.core, "send it", gate=gate)
        await w.core.say("send it")
        await w.kill()
        await w.kill()
        gate.set()
        await w.core.clock.advance(QUIET_SECONDS + 1)
        (active,), (stored,) = w.core.runs.active.values(), await w.unended()
        assert active.row.deaths == stored.deaths == ()
        await press(w.core, bubble(w.core, 1), "Allow once")
        await w.core.answered()
        assert "allowed: True" in w.core.texts()


async def test_a_death_before_the_agent_is_there_counts_for_nobody(tmp_path: Path) -> None:
    async with watched(tmp_path, warm_up=WARM_UP) as w:
        await w.core.say("q")
        await w.kill()  # its first process had no warm-up
        for _ in range(5):
            await w.core.clock.advance(WARM_UP / 2)
            await w.kill()
        assert [len(run.deaths) for run in await w.unended()] == [1]
        await w.core.answered()
        assert w.core.texts() == ["echo: q"]


async def test_a_planned_stop_is_no_death(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say("q")
        for _ in range(5):
            await w.core.stop()
            await w.core.start()
            await w.core.clock.settle()
            assert w.agent.working_on == {"q"}
        assert [run.deaths for run in await w.unended()] == [()]


async def test_what_waits_for_its_trial_can_be_stopped_and_outlives_a_planned_stop(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say("one")
        await w.core.say("two", BOB)
        await w.kill()
        await w.kill()
        await w.core.say("/stop")
        assert w.core.texts() == [EN.stopped_by["stopped"]]
        await w.core.stop()
        assert w.core.texts(BOB) == [EN.paused]
        await w.core.start()
        await w.core.clock.advance(QUIET_SECONDS / 2)
        assert w.core.texts(BOB) == [f"{EN.held} (30 s)"]
        await w.core.answered()
        assert w.core.texts(BOB) == ["echo: two"]


async def test_others_are_served_while_suspects_wait(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say("one")
        await w.kill()
        await w.kill()
        await w.core.say("other", BOB)
        await w.core.clock.advance(w.agent.seconds)
        assert w.core.texts(BOB) == ["echo: other"]
        assert w.core.texts() == [EN.held]


async def test_suspects_are_tried_one_at_a_time_and_a_long_one_makes_room(tmp_path: Path) -> None:
    async with watched(tmp_path, seconds=600) as w:
        await w.core.say("one")
        await w.core.say("two", BOB)
        await w.kill()
        await w.kill()
        await w.core.clock.advance(QUIET_SECONDS)
        assert len(w.agent.working_on) == 1
        await w.core.clock.advance(QUIET_SECONDS)
        assert w.agent.working_on == {"one", "two"}
        await w.core.answered()
        assert w.core.texts() + w.core.texts(BOB) == ["echo: one", "echo: two"]


async def test_what_is_stopped_in_its_trial_makes_room(tmp_path: Path) -> None:
    async with watched(tmp_path, seconds=600) as w:
        await w.core.say("one")
        await w.core.say("two", BOB)
        await w.kill()
        await w.kill()
        await w.core.clock.advance(QUIET_SECONDS)
        (tried,) = w.agent.working_on
        await w.core.say("/stop", ANN if tried == "one" else BOB)
        assert w.agent.working_on == {"one", "two"} - {tried}


# What really kills.


async def test_a_message_that_kills_is_given_up_at_the_third_death_and_can_be_tried_again(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say(POISON)
        await w.core.say("behind it")
        await w.live(QUIET_SECONDS + 20)
        assert w.deaths == 3
        assert w.core.texts() == [EN.gave_up.format(deaths=3), "echo: behind it"]
        answered, dead = await w.core.store.read(lambda tx: runs.recent(tx, f"memory:{ANN}", 2))
        assert (dead.state, answered.state) == (RunState.ERROR, RunState.SUCCESS)
        assert [run.run_id for run in w.core.dead] == [dead.run_id]


async def test_try_again_gives_it_three_more(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say(POISON)
        await w.live(QUIET_SECONDS + 20)
        (bubble,) = w.core.channel.chats[ANN]
        ((button,),) = bubble.part.buttons
        assert button.label == EN.button_retry
        w.agent.fuse = 10_000  # whatever it was has been mended
        await w.core.press(bubble.message_id, button.data)
        assert w.agent.working_on == {POISON}
        await w.kill()
        assert w.agent.working_on == {POISON}
        assert w.deaths == 4


async def test_of_two_suspects_the_innocent_one_is_answered(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        await w.core.say(f"{POISON} of Ann's")
        await w.core.say("of Bob's", BOB)
        await w.live(3.0)
        assert w.deaths == 2
        assert w.agent.working_on == set()
        w.agent.most_together = 0
        await w.live(4 * QUIET_SECONDS)
        assert w.agent.most_together == 1
        assert w.core.texts(BOB) == ["echo: of Bob's"]
        assert w.core.texts() == [EN.gave_up.format(deaths=w.deaths)]
        assert w.deaths == 3


async def test_two_that_kill_are_both_found(tmp_path: Path) -> None:
    async with watched(tmp_path) as w:
        for place, person in ((None, ANN), (None, BOB), ("g", BOB)):
            await w.core.say("fine" if place else POISON, person, place)
        await w.live(20 * QUIET_SECONDS)
        assert [row.state for row in w.core.dead] != []
        assert len(w.core.dead) == 2
        assert w.core.texts("g") == ["echo: fine"]
        deaths = w.deaths
        await w.live(QUIET_SECONDS)
        assert w.deaths == deaths


async def test_one_that_kills_is_found_in_the_middle_of_everybody_elses_talk(tmp_path: Path) -> None:
    """It is never alone at work, so the deaths count against it once the others have lived."""
    async with watched(tmp_path, seconds=4.0, queue_limit=1000) as w:
        await w.core.say(POISON)
        for number in range(said := 60):
            await w.core.say(f"b{number}", BOB)
            await w.live(4.0)
        assert len(w.core.dead) == 1
        assert w.core.texts() == [EN.gave_up.format(deaths=len(w.core.dead[0].deaths))]
        await w.core.answered()
        assert w.core.texts(BOB) == [f"echo: b{number}" for number in range(said)]
        assert w.deaths <= 5
