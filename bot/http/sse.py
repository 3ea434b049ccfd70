"""Server-sent events: numbered changes as they occur, and a sign of life while there are none."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi.responses import StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000


EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")} | {"retry": {"type": "integer"}},
    "description": "One of the stream's events; data is JSON",
}
"""OpenAPI's description of a stream."""


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


def event(kind: str, data: Any, number: str = "") -> str:
    """One event of a stream. data: JSON types."""
    lines = [f"id: {number}"] if number else []
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return "\n".join([*lines, f"event: {kind}", f"data: {text}", "", ""])


def stream(
    events: AsyncGenerator[str, None], still: Callable[[], bool], closing: asyncio.Event, *, retry: bool
) -> StreamingResponse:
    """An answer of these events (see `event`), with a comment after HEARTBEAT_SECONDS without one. The generator is
    closed when the reader is gone.

    still: whether the reader may continue; checked before each event and comment. closing: set when the listener ends.
    retry: readers are told when to reconnect; some clients mistake that for an event.
    """
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return EventStream(_alive(events, still, closing, retry=retry), headers=headers)


async def _alive(
    events: AsyncGenerator[str, None], still: Callable[[], bool], closing: asyncio.Event, *, retry: bool
) -> AsyncIterator[str]:
    over = asyncio.create_task(closing.wait(), name="stream over")
    coming: asyncio.Task[str] | None = None
    async with aclosing(events):
        try:
            if retry:
                yield f"retry: {RETRY_MILLISECONDS}\n\n"
            while True:
                coming = coming or asyncio.create_task(anext(events), name="next event")
                await asyncio.wait({coming, over}, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if over.done() or not still():
                    return
                if not coming.done():
                    yield ": alive\n\n"
                    continue
                try:
                    text = coming.result()
                except StopAsyncIteration:
                    return
                coming = None
                yield text
        finally:
            left = [task for task in (over, coming) if task is not None]
            for task in left:
                task.cancel()
            while not all(task.done() for task in left):
                # A reader that is gone cancels this repeatedly; the generator is still closed after it.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait(left)
