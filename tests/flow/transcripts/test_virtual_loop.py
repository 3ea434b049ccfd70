"""The loop that plays run in: time passes only when nothing else can, and a dead side reaches nothing."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from tests.flow.transcripts.virtual_loop import START, VirtualLoop, side, virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")
MUCH = 4 * 1024 * 1024
"""Bytes that no socket takes at once."""


def in_virtual_time(work: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        with virtual_time(loop):
            return runner.run(work(loop))


def test_an_hour_passes_at_once_and_what_is_due_happens_in_order() -> None:
    async def work(loop: VirtualLoop) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        async def later(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time() - START))

        await asyncio.gather(later("hour", 3600), later("second", 1))
        assert time.monotonic() == loop.time()
        return seen

    assert in_virtual_time(work) == [("second", 1.0), ("hour", 3600.0)]


def test_no_time_passes_while_bytes_travel_or_a_thread_works() -> None:
    async def work(loop: VirtualLoop) -> float:
        hasty = loop.call_later(0.001, lambda: None)  # what a loop in a hurry would jump to
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x" * MUCH)
        assert len(await reader.readexactly(MUCH)) == MUCH
        await asyncio.to_thread(threading.Event().wait, 0.05)
        with ThreadPoolExecutor(1) as pool:
            await asyncio.wrap_future(pool.submit(threading.Event().wait, 0.05))
        hasty.cancel()
        writer.close()
        await loop.settle()
        server.close()
        return loop.time()

    assert in_virtual_time(work) == START


def test_a_dead_side_reaches_neither_sockets_nor_threads() -> None:
    async def work(loop: VirtualLoop) -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        _, writer = await _on_side_one(asyncio.open_connection(*address))
        loop.kill(1)
        await loop.settle()
        assert writer.is_closing()
        with pytest.raises(ConnectionRefusedError):
            await _on_side_one(asyncio.open_connection(*address))
        with pytest.raises(TimeoutError):
            await _on_side_one(asyncio.wait_for(asyncio.to_thread(int), 60))
        await asyncio.to_thread(int)
        server.close()

    in_virtual_time(work)


async def _on_side_one(work: Awaitable[T]) -> T:
    async def awaited() -> T:
        return await work

    context = contextvars.copy_context()
    context.run(side.set, 1)
    return await asyncio.get_running_loop().create_task(awaited(), context=context)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()
