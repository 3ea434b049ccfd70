"""schedule: what the model reads, what is made of its calls, and what a scheduled turn may not do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from harness.context import RunInput, Speaker
from harness.scheduling.schedules import MemorySchedules, Schedule, Scheduling
from harness.scheduling.tool import NOT_A_PERSON, NOT_BY_ITSELF, SCHEDULE, schedule_tool
from harness.subagents.config import SubagentsSettings
from harness.subagents.kinds import subagent_kinds
from harness.text.frames import CONTEXT
from tests.harness import support
from tests.harness.support import Bench, Script, calls, collect, finished, results, said

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from harness.context import RunContext
    from harness.scheduling.when import When

ZONE = "Europe/Berlin"
answers, context = partial(support.answers, timezone=ZONE), partial(support.context, timezone=ZONE)
STRETCH = {"action": "create", "text": "stretch", "in_minutes": 5}


@pytest.fixture
def kept(bench: Bench) -> MemorySchedules:
    schedules = MemorySchedules(bench.clock, limit=3)
    bench.scheduling = Scheduling(schedules=schedules)
    return schedules


def schedule(**args: Any) -> AIMessage:
    return calls((SCHEDULE, args))


async def answer(bench: Bench, script: Script, ctx: RunContext, **args: Any) -> str:
    """What the model reads of one call in a run with that context."""
    script.steps = [schedule(**args), "done"]
    async with bench.open() as harness:
        finished(await collect(harness, ctx, said(f"go {ctx.run_id}")))
    return str(results(script)[-1].content)


async def test_once_in_some_minutes(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    (told,) = await answers(bench, script, schedule(**STRETCH))
    assert told == (
        "Scheduled as s1. It is due on Saturday 2025-03-01 13:05 CET. Now it is Saturday 2025-03-01 13:00 CET."
    )
    (made,) = await kept.own(context("other"))
    assert (made.text, made.when.kind, made.when.timezone) == ("stretch", "once", "Europe/Berlin")


async def test_a_time_of_the_persons_own_clock(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    (told,) = await answers(bench, script, schedule(action="create", text="x", at="2025-04-01T09:00"))
    assert "It is due on Tuesday 2025-04-01 09:00 CEST." in told


async def test_again_and_again_tells_the_next_times(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    (told,) = await answers(bench, script, schedule(action="create", text="stand-up", cron="0 9 * * MON-FRI"))
    assert (
        "due on Monday 2025-03-03 09:00 CET, Tuesday 2025-03-04 09:00 CET, Wednesday 2025-03-05 09:00 CET, and so on"
        in told
    )


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"text": "x"}, "exactly one of at, in_minutes and cron"),
        ({"text": "x", "in_minutes": 5, "cron": "0 9 * * *"}, "exactly one of"),
        ({"in_minutes": 5}, "Give the text"),
        ({"text": " \x00 ", "in_minutes": 5}, "Give the text"),
        ({"text": "x" * 1001, "in_minutes": 5}, "too long"),
        ({"text": "x", "cron": "* * * * *"}, "at least 15 minutes"),
        ({"text": "x", "at": "yesterday"}, "is not a valid time"),
    ],
)
async def test_what_cannot_be_scheduled_says_why(
    bench: Bench, script: Script, kept: MemorySchedules, args: dict[str, Any], why: str
) -> None:
    (told,) = await answers(bench, script, schedule(action="create", **args))
    assert told.startswith("Nothing was scheduled.")
    assert why in told
    assert results(script)[-1].status == "error"
    assert await kept.own(context("other")) == []


async def test_there_is_a_limit(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    rounds = [calls((SCHEDULE, STRETCH), ids=[f"c{number}"]) for number in range(4)]
    told = await answers(bench, script, *rounds)
    assert [text.startswith("Scheduled") for text in told] == [True, True, True, False]
    assert "This person has 3 scheduled already" in told[-1]


async def test_what_is_scheduled_is_listed_and_cancelled(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    told = await answers(
        bench,
        script,
        calls((SCHEDULE, {"action": "create", "text": "line\nline", "cron": "0 9 * * *"}), ids=["a"]),
        calls((SCHEDULE, {"action": "list"}), ids=["b"]),
        calls((SCHEDULE, {"action": "cancel", "id": "nothing"}), ids=["c"]),
        calls((SCHEDULE, {"action": "cancel", "id": " s1 "}), ids=["d"]),
        calls((SCHEDULE, {"action": "list"}), ids=["e"]),
    )
    assert told[1] == "s1: 2025-03-02 09:00 CET, cron 0 9 * * *: line line"
    assert told[2] == "This person has nothing here with the id 'nothing'; see list."
    assert told[3] == "s1 is cancelled: line\nline"
    assert told[4] == "Nothing is scheduled here for this person."


async def test_another_person_of_the_chat_sees_nothing_of_it(
    bench: Bench, script: Script, kept: MemorySchedules
) -> None:
    await answers(bench, script, schedule(**STRETCH))
    bob = Speaker(id="telegram:2", display_name="Bob")
    listed = await answer(bench, script, context("r2", speaker=bob), action="list")
    assert listed == "Nothing is scheduled here for this person."
    assert "nothing here" in await answer(bench, script, context("r3", speaker=bob), action="cancel", id="s1")
    assert len(await kept.own(context("other"))) == 1


async def test_a_scheduled_turn_makes_no_schedules_but_ends_them(
    bench: Bench, script: Script, kept: MemorySchedules
) -> None:
    await answers(bench, script, schedule(**STRETCH))
    assert await answer(bench, script, context("r2", schedule="s1"), **STRETCH) == NOT_BY_ITSELF
    assert "s1: " in await answer(bench, script, context("r3", schedule="s1"), action="list")
    assert "s1 is cancelled" in await answer(bench, script, context("r4", schedule="s1"), action="cancel", id="s1")


async def test_who_is_no_person_has_no_schedules(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    anonymous = Speaker(id="telegram:-5", display_name="The group", is_person=False)
    assert await answer(bench, script, context("r1", speaker=anonymous), **STRETCH) == NOT_A_PERSON


async def test_the_model_is_told_what_began_the_turn(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    async with bench.open() as harness:
        await collect(harness, context("r1", schedule="s1"), RunInput(message_id="m1", text="stretch"))
        await collect(harness, context("r2"), said("hello"))
    scheduled, written = (str(request[-1].content) for request in script.requests)
    assert scheduled.startswith(f"stretch\n\n<{CONTEXT}>")
    assert "occasion: a schedule that the speaker made earlier is due" in scheduled
    assert "occasion" not in written


@dataclass
class DyingSchedules(MemorySchedules):
    """The process dies between the commit and what is known of it."""

    made: list[str] = field(default_factory=list)
    committed: asyncio.Event = field(default_factory=asyncio.Event)

    async def create(self, ctx: RunContext, call: str, text: str, when: When) -> Schedule:
        made = await MemorySchedules.create(self, ctx, call, text, when)
        self.made.append(made.id)
        if not self.committed.is_set():
            self.committed.set()
            await asyncio.Future()
        return made


async def test_a_call_in_flight_at_a_crash_is_made_again_and_makes_one(bench: Bench, script: Script) -> None:
    kept = DyingSchedules(bench.clock)
    bench.scheduling = Scheduling(schedules=kept)
    script.steps = [schedule(**STRETCH), "done"]
    async with bench.open() as harness:
        run = asyncio.create_task(collect(harness, context("r1"), said("go")))
        await asyncio.wait_for(kept.committed.wait(), 20)
        run.cancel()
        await asyncio.wait({run})
    async with bench.open() as harness:
        events = await collect(harness, context("r1"), said("go"), attempt=2)
    assert finished(events).text == "done"
    assert str(results(script)[-1].content).startswith("Scheduled as s1.")
    assert kept.made == ["s1", "s1"]
    assert len(await kept.own(context("r1"))) == 1


async def test_the_tool_has_no_target(bench: Bench, script: Script, kept: MemorySchedules) -> None:
    """Where it is said, and for whom, is not the model's to choose."""
    made = schedule_tool(Scheduling(schedules=kept), bench.clock)
    assert set(made.args) == {"action", "text", "at", "in_minutes", "cron", "id"}


def test_no_subagent_has_it() -> None:
    for kind in subagent_kinds(SubagentsSettings(), bash=True).values():
        assert not kind.allows(SCHEDULE)
