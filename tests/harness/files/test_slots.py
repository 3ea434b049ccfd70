"""Whose subagents work: as many as there are slots, and nobody's many hold back another's one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files.slots import FairSlots

if TYPE_CHECKING:
    from collections.abc import Sequence


class Work:
    """Subagents that work until they are told to end."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.working: list[str] = []
        self.order: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, *names: str) -> None:
        """Names such as ann-1: the speaker is what is before the dash."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._work(name))
        await settled()

    async def _work(self, name: str) -> None:
        async with self.slots.slot(name.partition("-")[0]):
            self.working.append(name)
            self.order.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.working.remove(name)

    async def end(self, *names: str) -> None:
        for name in names:
            self._ends[name].set()
        await settled()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await settled()

    async def end_all(self) -> None:
        while any(not task.done() for task in self.tasks.values()):
            await self.end(*self._ends)


async def settled() -> None:
    """Whatever can happen has happened: no task of these waits for more than a few turns of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


def names(speaker: str, count: int) -> list[str]:
    return [f"{speaker}-{number}" for number in range(count)]


async def test_one_speakers_thirty_do_not_hold_back_anothers_one() -> None:
    work = Work(FairSlots(8))
    await work.begin(*names("ann", 30))
    assert len(work.working) == 4, "half of the slots stay for others"
    await work.begin("bob-0")
    assert "bob-0" in work.working
    await work.end_all()


async def test_with_all_slots_taken_the_next_free_one_goes_to_who_has_none() -> None:
    work = Work(FairSlots(4))
    await work.begin(*names("ann", 10), *names("bob", 10), "eve-0")
    assert work.working == ["ann-0", "ann-1", "bob-0", "bob-1"]
    await work.end("ann-0")
    assert work.working == ["ann-1", "bob-0", "bob-1", "eve-0"]
    await work.end_all()


async def test_speakers_of_equal_shares_take_turns() -> None:
    work = Work(FairSlots(2))
    await work.begin(*names("ann", 4), *names("bob", 4))
    for _ in range(3):
        await work.end(*work.working)
    assert work.order == ["ann-0", "bob-0", "ann-1", "bob-1", "ann-2", "bob-2", "ann-3", "bob-3"]
    await work.end_all()


async def test_a_single_slot_is_everybodys() -> None:
    work = Work(FairSlots(1))
    await work.begin("ann-0", "ann-1", "bob-0")
    await work.end("ann-0")
    assert work.working == ["bob-0"], "ann has had her turn"
    await work.end_all()


async def test_who_is_cancelled_while_waiting_or_working_leaves_no_gap() -> None:
    work = Work(FairSlots(2))
    await work.begin("ann-0", "bob-0", "ann-1", "ann-2", "bob-1")
    assert work.slots.waiting == 3
    await work.cancel("ann-1", "bob-0")
    assert work.working == ["ann-0", "bob-1"]
    await work.cancel("ann-0")
    assert work.working == ["bob-1", "ann-2"]
    await work.end_all()
    assert (work.slots.held, work.slots.waiting) == (0, 0)


async def test_a_turn_that_comes_in_the_moment_of_the_cancellation_is_passed_on() -> None:
    work = Work(FairSlots(1))
    await work.begin("ann-0", "bob-0", "eve-0")
    work._ends["ann-0"].set()
    await asyncio.sleep(0)  # ann's slot is given to bob, who has not run yet
    await work.cancel("bob-0")
    assert work.working == ["eve-0"]
    await work.end_all()
    assert (work.slots.held, work.slots.waiting) == (0, 0)


async def test_more_slots_let_in_who_waits_and_fewer_throw_nobody_out() -> None:
    slots = FairSlots(1, share=1)
    work = Work(slots)
    await work.begin(*names("ann", 5))
    assert (work.working, slots.free) == (["ann-0"], False)
    slots.resize(3, share=3)
    await settled()
    assert work.working == ["ann-0", "ann-1", "ann-2"]
    slots.resize(1, share=1)
    await work.end("ann-0", "ann-1")
    assert work.working == ["ann-2"]
    await work.end("ann-2")
    assert work.working == ["ann-3"]
    await work.cancel("ann-4")
    await work.end("ann-3")
    assert (slots.free, slots.held, slots.waiting) == (True, 0, 0)


@pytest.mark.parametrize("most", [1, 2, 3, 8])
@given(steps=st.lists(st.tuples(st.sampled_from("bec"), st.sampled_from("abcd")), max_size=40))
def test_slots_are_never_lost_nor_shared(most: int, steps: Sequence[tuple[str, str]]) -> None:
    async def play() -> None:
        slots = FairSlots(most)
        async with AsyncExitStack() as stack:
            work = Work(slots)
            stack.push_async_callback(work.end_all)
            for number, (what, speaker) in enumerate(steps):
                mine = [name for name, each in work.tasks.items() if name[0] == speaker and not each.done()]
                if what == "b":
                    await work.begin(f"{speaker}-{number}")
                elif mine:
                    await (work.end if what == "e" else work.cancel)(mine[0])
                assert slots.held == len(work.working) <= most
                shares = [sum(name[0] == who for name in work.working) for who in "abcd"]
                assert max(shares) <= (most + 1) // 2
                alive = [name for name, each in work.tasks.items() if not each.done()]
                able = [n for n in alive if n not in work.working and shares["abcd".index(n[0])] < (most + 1) // 2]
                assert slots.held == most or not able, "nobody waits who could work"
        assert (slots.held, slots.waiting) == (0, 0)

    asyncio.run(play())
