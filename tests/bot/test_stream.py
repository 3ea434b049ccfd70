"""The stream of one run's events: no reader slows it down, and one that fell behind is told."""

from __future__ import annotations

import asyncio

from bot.runs.stream import Gap, StreamBridge
from harness.events import TextDelta


def event(seq: int) -> TextDelta:
    return TextDelta(run_id="r", seq=seq, message_id="a", text=str(seq))


async def collect(bridge: StreamBridge, ready: asyncio.Event, out: list[object]) -> None:
    reading = bridge.read()
    first = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    ready.set()
    out.append(await first)
    out.extend([item async for item in reading])


async def reader(bridge: StreamBridge) -> tuple[asyncio.Task[None], list[object]]:
    ready, out = asyncio.Event(), []  # type: ignore[var-annotated]
    task = asyncio.create_task(collect(bridge, ready, out))
    await ready.wait()
    return task, out


async def test_every_reader_gets_everything_in_order() -> None:
    bridge = StreamBridge()
    readers = [await reader(bridge) for _ in range(3)]
    for seq in range(1, 20):
        bridge.publish(event(seq))
        await asyncio.sleep(0)
    bridge.close()
    for task, out in readers:
        await asyncio.wait_for(task, 5)
        assert out == [event(seq) for seq in range(1, 20)]


async def test_a_slow_reader_is_told_of_the_gap_and_goes_on() -> None:
    bridge = StreamBridge(capacity=4)
    task, out = await reader(bridge)
    for seq in range(1, 11):
        bridge.publish(event(seq))
    bridge.close()
    await asyncio.wait_for(task, 5)
    assert out == [Gap(6), event(7), event(8), event(9), event(10)]


async def test_after_the_end_a_new_reader_has_nothing_to_wait_for() -> None:
    bridge = StreamBridge()
    bridge.publish(event(1))
    bridge.close()
    bridge.close()
    assert [item async for item in bridge.read()] == []


async def test_a_reader_that_left_costs_nothing() -> None:
    bridge = StreamBridge(capacity=2)
    task, _ = await reader(bridge)
    task.cancel()
    await asyncio.wait({task})
    await asyncio.sleep(0)
    for seq in range(100):
        bridge.publish(event(seq))
    assert not bridge._readers
