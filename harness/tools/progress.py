"""What people see of a long command while it runs: how long already, and its last line. Used by shell.py."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from harness.events import ToolProgress
from harness.graph.signals import Told, tell
from harness.text.lines import one_line, plain_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.graph.results import Runtime
    from harness.ports import Clock

EVERY = 1.0
"""Seconds between two events at least."""
QUIET = 5.0
"""Seconds after which the time is told even though nothing new was printed."""
KEPT = 500


class Progress:
    """The end of what a command printed. feed: its on_output."""

    def __init__(self) -> None:
        self._end = ""

    def feed(self, text: str) -> None:
        self._end = (self._end + text[-KEPT:])[-KEPT:]

    @property
    def line(self) -> str:
        """The last line with something in it."""
        lines = plain_text(self._end).split("\n")
        return next((one_line(line) for line in reversed(lines) if line.strip()), "")


@asynccontextmanager
async def telling_progress(runtime: Runtime, tool: str, clock: Clock) -> AsyncIterator[Progress]:
    """While the block runs, ToolProgress events are told, the first after EVERY seconds."""
    progress = Progress()
    teller = asyncio.create_task(_tell(runtime, tool, clock, progress), name=f"progress of {tool}")
    try:
        yield progress
    finally:
        teller.cancel()
        await asyncio.wait({teller})


async def _tell(runtime: Runtime, tool: str, clock: Clock, progress: Progress) -> None:
    begun = told_at = clock.monotonic()
    told = ""
    while True:
        await clock.sleep(EVERY)
        now, line = clock.monotonic(), progress.line
        if line == told and now - told_at < QUIET:
            continue
        told, told_at = line, now
        event = partial(
            ToolProgress, call_id=runtime.tool_call_id or "", tool=tool, seconds=round(now - begun), line=line
        )
        tell(runtime, Told(event))
