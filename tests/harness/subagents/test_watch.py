"""What is known of a subagent while it works: the text so far, and what people are told of it and when."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk

from harness.events import FailureKind, ModelRetrying, SubagentProgress, ToolStarted
from harness.graph.signals import CallDropped, CallEnded, CallStarted, Told
from harness.graph.turn import MODEL_NODE
from harness.subagents.pool import Watch
from tests.harness.support import HeldClock, calls

if TYPE_CHECKING:
    from harness.events import AnyRunEvent


class Followed:
    """A watch, and the events that it told."""

    def __init__(self) -> None:
        self.clock = HeldClock()
        self.events: list[AnyRunEvent] = []
        self.heard = asyncio.Event()
        self.watch = Watch("r1", "call-0", self.clock, self._tell)

    def _tell(self, told: Told) -> None:
        self.events.append(told.make(run_id="r1", seq=len(self.events) + 1))
        self.heard.set()

    def chunk(self, text: str) -> None:
        self.watch.saw("messages", (AIMessageChunk(content=text), {"langgraph_node": MODEL_NODE}))

    def signal(self, payload: Any) -> None:
        self.watch.saw("custom", payload)

    def begins(self, tool: str, summary: str) -> None:
        self.signal(Told(partial(ToolStarted, call_id="inner", tool=tool, summary=summary)))

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            await self.clock.tick(1)
            await asyncio.sleep(0)

    @property
    def progress(self) -> list[tuple[int, str]]:
        return [
            (event.seconds, f"{event.tool}: {event.summary}" if event.summary else event.tool)
            for event in self.events
            if isinstance(event, SubagentProgress)
        ]


def test_the_text_is_that_of_the_message_in_the_making() -> None:
    it = Followed()
    it.signal(CallStarted("m1"))
    it.chunk("I found ")
    it.chunk("two")
    assert it.watch.text == "I found two"
    assert it.events == [], "it is none of the lead agent's"


def test_what_was_said_before_a_tool_stays_until_there_is_more() -> None:
    it = Followed()
    it.signal(CallStarted("m1"))
    it.chunk("Let me look.")
    it.signal(CallEnded(calls(("ls", {}), text="Let me look.")))
    assert it.watch.text == "Let me look."
    it.signal(CallStarted("m2"))
    it.chunk("Two files")
    assert it.watch.text == "Two files"
    it.signal(CallEnded(AIMessage("Two files.")))
    assert it.watch.answer is not None


def test_text_of_a_failed_attempt_is_void() -> None:
    it = Followed()
    it.signal(CallStarted("m1"))
    it.chunk("garbage")
    it.signal(CallDropped())
    assert it.watch.text == ""


async def test_progress_is_told_when_something_new_is_done_and_every_five_seconds() -> None:
    it = Followed()
    async with it.watch.telling():
        await it.heard.wait()
        assert it.progress == [(0, "")]
        it.begins("bash", "make test")
        it.begins("ls", "src")
        await it.seconds(1)
        assert it.progress[1:] == [(1, "ls: src")], "at most one a second, of the newest"
        await it.seconds(4)
        assert len(it.progress) == 2
        await it.seconds(1)
        assert it.progress[2:] == [(6, "ls: src")]
    assert it.watch.seconds == 6


async def test_it_is_told_that_the_model_is_asked_once_more_until_it_answers() -> None:
    it = Followed()

    def waits() -> list[tuple[float, float] | None]:
        told = [event for event in it.events if isinstance(event, SubagentProgress)]
        return [(event.delay, event.waited) if event.trouble is FailureKind.OVERLOADED else None for event in told]

    def fails(waited: float) -> None:
        again = partial(ModelRetrying, kind=FailureKind.OVERLOADED, attempt=1)
        it.signal(Told(partial(again, delay=4.0, waited=waited)))

    async with it.watch.telling():
        await it.heard.wait()
        fails(0.0)
        await it.seconds(1)
        fails(4.0)
        await it.seconds(1)
        assert waits() == [None, (4.0, 0.0), (4.0, 4.0)]
        it.signal(CallStarted("m1"))
        await it.seconds(1)
        assert len(waits()) == 3, "asked once more, it has not answered yet"
        it.chunk("Two files")
        await it.seconds(1)
        assert waits()[3:] == [None]
        fails(0.0)
        await it.seconds(1)
        it.signal(CallEnded(calls(("ls", {}))))
        await it.seconds(1)
        assert waits()[4:] == [(4.0, 0.0), None]
