"""What an agent's process may print, message or not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from harness.acp.session import LONGEST_LINE, _Pipe


async def test_messages_are_put_together_and_a_line_without_an_end_is_the_end_of_them() -> None:
    pipe = _Pipe(cast("Any", None), "/io/1")  # nothing is sent
    for part in ('@antler /work\nhello, a banner\n{"id"', ': 1}\n{"id', '": 2}\n'):
        pipe._heard(part)
    assert await pipe.folder == "/work"
    assert [await pipe.receive(), await pipe.receive()] == [{"id": 1}, {"id": 2}]
    for _ in range(LONGEST_LINE // 1_000_000 + 1):
        pipe._heard("x" * 1_000_000)
    assert await asyncio.wait_for(pipe.receive(), 5) is None
    assert pipe._held < LONGEST_LINE
