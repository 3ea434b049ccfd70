"""The event loop of a gateway and of a worker: asyncio's own, without wake-ups by its own tasks."""

from __future__ import annotations

import asyncio
import os
import selectors
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on an EventLoop."""
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        return runner.run(main)


class EventLoop(asyncio.SelectorEventLoop):
    """Treats `call_soon_threadsafe` from one of its own tasks like `call_soon`.

    LangGraph passes on each piece of an answer in that way, at the cost of a byte that is written to wake the loop and
    read in its next iteration. While a task runs, the loop is awake.
    """

    def __init__(self) -> None:
        # An ordinary user's commands share its number of epoll watches (epoll(7)) and could take all; poll needs none.
        super().__init__(selectors.PollSelector() if os.geteuid() else None)

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        # Signal handlers run in this thread as well, possibly while the loop waits: then there is no current task.
        if asyncio._get_running_loop() is self and asyncio.current_task(self) is not None:
            return self.call_soon(callback, *args, context=context)
        return super().call_soon_threadsafe(callback, *args, context=context)
