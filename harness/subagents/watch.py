"""Follows one subagent while it works: what it has said so far, and what is told of it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.events import (
    FileReady,
    SubagentEnded,
    SubagentProgress,
    SubagentStarted,
    TextDelta,
    TextReset,
    ToolStarted,
    Usage,
)
from harness.graph.messages import answer_text
from harness.graph.signals import CallEnded, Told
from harness.graph.turn import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from langchain_core.messages import AIMessage

    from harness.events import SubagentState
    from harness.ports import AnyRunEvent, Clock

EVERY = 1.0
"""Seconds between two events at least."""
QUIET = 5.0
"""Seconds after which the time is told even though nothing new was done."""


class Watch:
    """call_id: of the call of `task`. tell: hands an event to the lead agent's stream.

    Of the subagent's events only these go on to its parent: what it costs, files for the person, and what it does.
    """

    def __init__(self, run_id: str, call_id: str, clock: Clock, tell: Callable[[Told], None]) -> None:
        self._turn = Turn(run_id, 1)
        self._call_id = call_id
        self._clock = clock
        self._tell = tell
        self._line = ""
        self._text = ""
        self._said = ""
        self._began: float | None = None

    @property
    def answer(self) -> AIMessage | None:
        """The newest whole message."""
        return self._turn.answer

    @property
    def text(self) -> str:
        """What there is of an answer: of the message in the making, else of the newest that said something."""
        return (self._text.strip() or self._said).strip()

    @property
    def seconds(self) -> int:
        """Since its work began; 0 while it waits."""
        return round(self._clock.monotonic() - self._began) if self._began is not None else 0

    def started(self, subagent: str, description: str) -> None:
        self._say(SubagentStarted, subagent=subagent, description=description)

    def ended(self, state: SubagentState, model_calls: int) -> None:
        self._say(SubagentEnded, state=state, seconds=self.seconds, model_calls=model_calls)

    def saw(self, mode: str, payload: Any) -> None:
        """One item of the subagent's stream."""
        if isinstance(payload, CallEnded):
            self._said = answer_text(payload.message) or self._said
        for event in self._turn.events(mode, payload):
            self._follow(event)

    def _follow(self, event: AnyRunEvent) -> None:
        match event:
            case TextDelta():
                self._text += event.text
            case TextReset():
                self._text = ""
            case ToolStarted():
                self._line = f"{event.tool}: {event.summary}" if event.summary else event.tool
            case Usage() | FileReady():
                self._tell(Told(partial(replace, event)))
            case _:
                pass

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """While the block runs, which is the subagent's work, its progress is told."""
        self._began = self._clock.monotonic()
        teller = asyncio.create_task(self._progress(), name=f"progress of subagent {self._call_id}")
        try:
            yield
        finally:
            teller.cancel()
            await asyncio.wait({teller})

    async def _progress(self) -> None:
        told, told_at = "", self._clock.monotonic()
        self._say(SubagentProgress, seconds=0, line="")
        while True:
            await self._clock.sleep(EVERY)
            now, line = self._clock.monotonic(), self._line
            if line != told or now - told_at >= QUIET:
                told, told_at = line, now
                self._say(SubagentProgress, seconds=self.seconds, line=line)

    def _say(self, make: Callable[..., AnyRunEvent], **fields: Any) -> None:
        self._tell(Told(partial(make, call_id=self._call_id, **fields)))
