"""Server-sent events: numbered changes as they come, and a sign of life where none do."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000


def event(kind: str, data: Any, number: str = "") -> str:
    """One event of a stream. data: JSON types."""
    lines = [f"id: {number}"] if number else []
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return "\n".join([*lines, f"event: {kind}", f"data: {text}", "", ""])


def stream(
    events: AsyncGenerator[str, None], every: float = HEARTBEAT_SECONDS, *, retry: bool = True
) -> StreamingResponse:
    """An answer of these events (see `event`), with a comment where there is none for so many seconds. The generator is
    closed when the reader is gone. retry: readers are told when to come back; some clients take that for an event."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_alive(events, every, retry=retry), media_type="text/event-stream", headers=headers)


async def _alive(events: AsyncGenerator[str, None], every: float, *, retry: bool) -> AsyncIterator[str]:
    if retry:
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
    async with aclosing(events):
        coming: asyncio.Task[str] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(anext(events), name="next event")
                done, _ = await asyncio.wait({coming}, timeout=every)
                if not done:
                    yield ": alive\n\n"
                    continue
                try:
                    text = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield text
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
