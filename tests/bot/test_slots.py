"""How many runs may work at once, while that number changes."""

from __future__ import annotations

import asyncio

from bot.runs.slots import Slots


async def taking(slots: Slots, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(slots.take()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def done(tasks: list[asyncio.Task[None]]) -> list[bool]:
    return [task.done() for task in tasks]


async def test_first_come_first_served() -> None:
    slots = Slots(1)
    tasks = await taking(slots, 3)
    assert (done(tasks), slots.free) == ([True, False, False], False)
    slots.give_back()
    await asyncio.sleep(0)
    assert done(tasks) == [True, True, False]
    slots.give_back()
    await asyncio.gather(*tasks)
    assert not slots.free
    slots.give_back()
    assert slots.free


async def test_more_of_them_let_in_who_waits_and_fewer_throw_nobody_out() -> None:
    slots = Slots(1)
    tasks = await taking(slots, 4)
    slots.resize(3)
    await asyncio.sleep(0)
    assert done(tasks) == [True, True, True, False]
    slots.resize(1)
    slots.give_back()
    slots.give_back()
    await asyncio.sleep(0)
    assert done(tasks) == [True, True, True, False]
    slots.give_back()
    await tasks[3]


async def test_one_who_leaves_the_line_takes_no_slot() -> None:
    slots = Slots(1)
    first, second, third = await taking(slots, 3)
    second.cancel()
    slots.give_back()
    await asyncio.gather(first, third)
    assert second.cancelled()


async def test_one_who_is_cancelled_with_the_slot_in_hand_passes_it_on() -> None:
    slots = Slots(1)
    first, second, third = await taking(slots, 3)
    slots.give_back()
    second.cancel()  # after it was given one, before it could run
    await asyncio.gather(first, third)
    assert second.cancelled()
    slots.give_back()
    assert slots.free


async def test_one_who_left_the_line_holds_nobody_up_when_all_are_free() -> None:
    slots = Slots(1)
    _, second = await taking(slots, 2)
    second.cancel()
    slots.give_back()
    third = slots.take()  # begun before the second could say that it left
    async with asyncio.timeout(5):
        await third
    assert second.cancelled()
