"""What an agent's process may print, message or not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from acp.schema import PermissionOption, ToolCallUpdate

from harness.acp.session import MOST_HELD, MOST_MESSAGES, MOST_PERMISSIONS, Session, _Pipe


async def test_messages_are_put_together_and_a_line_without_an_end_is_the_end_of_them() -> None:
    pipe = _Pipe(cast("Any", None), "/io/1")  # nothing is sent
    for part in ('@antler /work\nhello, a banner\n{"id"', ': 1}\n{"id', '": 2}\n'):
        pipe._heard(part)
    assert await pipe.folder == "/work"
    assert [await pipe.receive(), await pipe.receive()] == [{"id": 1}, {"id": 2}]
    for _ in range(MOST_HELD // 1_000_000 + 1):
        pipe._heard("x" * 1_000_000)
    assert await asyncio.wait_for(pipe.receive(), 5) is None
    assert sum(map(len, pipe._line)) < MOST_HELD


async def test_what_was_handled_counts_no_more() -> None:
    pipe = _Pipe(cast("Any", None), "/io/1")
    for _ in range(3):
        pipe._heard('junk\n{"id": 1}\n')
        assert await pipe.receive() == {"id": 1}
    assert pipe._held == 0


async def test_a_flood_of_messages_ends_them_and_holds_up_nobody() -> None:
    """Whatever runs in the sandbox can write to the agent's output."""
    pipe = _Pipe(cast("Any", None), "/io/1")
    for _ in range(MOST_MESSAGES // 1000 + 2):
        pipe._heard('{"method": "unknown"}\n' * 1000)
    assert pipe._received.qsize() < MOST_MESSAGES + 2000
    assert await asyncio.wait_for(pipe.receive(), 5) is None

    pipe = _Pipe(cast("Any", None), "/io/1")
    pipe._heard("junk\n" * 1000)
    receiving = asyncio.create_task(pipe.receive())
    await asyncio.sleep(0)
    assert pipe._received.qsize() >= 999, "others get their turn after each line"
    receiving.cancel()


async def test_only_so_many_permissions_wait() -> None:
    settings, provider = cast("Any", None), cast("Any", None)
    session = Session(settings=settings, name="a", thread_id="t", prompt="", provider=provider)
    call, option = ToolCallUpdate(tool_call_id="a"), PermissionOption(option_id="y", name="Yes", kind="allow_once")
    asking = [asyncio.create_task(session.request_permission("s", call, [option])) for _ in range(MOST_PERMISSIONS + 1)]
    done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result().outcome.outcome for task in done] == ["cancelled"]
    for task in waiting:
        task.cancel()
