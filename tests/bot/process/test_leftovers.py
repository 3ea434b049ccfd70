"""What a stop left behind is named in one line; what was there before, or is on its way out, is not."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

from bot.process import app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest


async def said(caplog: pytest.LogCaptureFixture, before: app.Belongings, data_dir: Path) -> list[str]:
    """The lines of a report. In a task of its own: the test's is not the gateway's."""
    caplog.clear()
    await app.report(before, data_dir)
    return [record.getMessage() for record in caplog.records if record.name == app.log.name]


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


async def test_a_clean_stop_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as standing:
        before = app.belongings()
        await asyncio.to_thread(tmp_path.exists)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        writer.close()
        server.close()
        await server.wait_closed()
        assert [number async for number in numbers()] == [1, 2]
        assert standing.fileno() in {number for number, _ in before.handles}
        assert await said(caplog, before, tmp_path) == []


async def test_a_thread_that_is_just_ending_is_not_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, ends = app.belongings(), threading.Event()
    threading.Thread(target=lambda: ends.wait(20)).start()
    threading.Timer(0.2, ends.set).start()
    assert await said(caplog, before, tmp_path) == []


async def test_everything_that_is_left_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, over, ours = app.belongings(), threading.Event(), (tmp_path / "half.bin").open("wb")
    stays = asyncio.create_task(asyncio.sleep(3600), name="gateway:forgotten")
    thread = threading.Thread(target=over.wait, name="busy")
    thread.start()
    generator = numbers()
    await anext(generator)
    listener = socket.create_server(("127.0.0.1", 0))
    caller = socket.create_connection(listener.getsockname())
    try:
        (line,) = await said(caplog, before, tmp_path)
        port = listener.getsockname()[1]
        for thing in (
            "task gateway:forgotten",
            "thread busy",
            "generator numbers",
            f"connection to 127.0.0.1:{port}",
            "socket",
            "file half.bin",
        ):
            assert thing in line.removeprefix("left behind: ").split("; ")
    finally:
        over.set()
        thread.join()
        stays.cancel()
        await generator.aclose()  # type: ignore[attr-defined]  # it is an async generator
        for opened in (listener, caller, ours):
            opened.close()


async def test_the_line_stays_short(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = app.belongings()
    left = [asyncio.create_task(asyncio.sleep(3600), name=f"{number:03}") for number in range(30)]
    (line,) = await said(caplog, before, tmp_path)
    assert line.endswith("task 019 and 10 more")
    for task in left:
        task.cancel()
