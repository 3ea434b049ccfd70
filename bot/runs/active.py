"""The runs that this process works on."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bot.clock import Durations
from bot.runs.render import RunView, below
from bot.store.runs import Waits
from harness.events import TextDelta, ToolEnded, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.delivery import Reply
    from bot.runs.endings import Aftermath, Ending
    from bot.runs.following import RunStream
    from bot.settings.sections import LimitSettings
    from bot.store.prompts import ApprovalRow
    from bot.store.rows import OutboxRow, RunRow, StopReason
    from bot.texts.catalogue import Texts
    from bot.usage.meter import EventRecord
    from channels.base import Clock
    from harness.context import RunContext, RunInput
    from harness.events import AnyRunEvent


SIGNS_EVERY = 7.5
"""Seconds between two updates of the age of an unchanged draft: half of the time that it may go without one."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits on runs. concurrent: how many may work concurrently; seconds: the longest that one may take."""

    concurrent: int
    seconds: float

    @classmethod
    def of(cls, limits: LimitSettings) -> RunLimits:
        return cls(limits.concurrent_runs, limits.run_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Hooks into the life of a run. on_start: runs in the transaction of its start, given the number of its next event.
    on_end: each is given the run, its ending and the agent's text before they are committed, and returns further
    effects. on_dead_letter: called for a run that is abandoned because it repeatedly brought the process down.
    """

    on_start: Callable[[Connection, RunRow, int], None] | None
    on_end: Sequence[Callable[[RunRow, Ending, str], Aftermath]]
    on_dead_letter: Callable[[RunRow], None]


@dataclass(slots=True, kw_only=True)
class ActiveRun:
    """A run that this process works on. `view` is what /status reads.

    asking_changed: called when `asking` has changed. take_in: adds newly sent messages to `row`. reply: None until it
    is opened. worked: seconds of its time that are used up; waiting for a person is not counted. asking: the requests
    that it waits for a person to decide; decided: set when one of them was decided. rests: idle until then. held: if
    any, set when the run may begin again. slot_wait, first_words: seconds that it waited for a slot, and from its
    first start to the first text of its answer; None before. tokens: input and output tokens in this process. stream:
    for followers; None where it cannot be followed. intent: of its first message, committed with its start. starting:
    the start is being written, and is committed even if the run is stopped.
    """

    row: RunRow
    context: RunContext
    texts: Texts
    clock: Clock
    began: float
    record: EventRecord
    asking_changed: Callable[[], None]
    take_in: Callable[[ActiveRun], Awaitable[None]]
    reply: Reply | None = None
    view: RunView = field(default_factory=RunView)
    stop_reason: StopReason | None = None
    worker: asyncio.Task[Ending] | None = None
    worked: float = 0.0
    asking: tuple[ApprovalRow, ...] = ()
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    rests: bool = False
    held: asyncio.Event | None = None
    slot_wait: float | None = None
    first_words: float | None = None
    tokens: int = 0
    stream: RunStream | None = None
    intent: OutboxRow | None = None
    starting: bool = False

    @property
    def waits(self) -> Waits:
        return Waits(_milliseconds(self.slot_wait), _milliseconds(self.first_words))

    @property
    def unseen(self) -> bool:
        """Whether its answer is still unseen, it has done nothing, and no voice message is being transcribed for it: it
        could start over unnoticed, and only the beginning of the model call would be paid for twice."""
        heard = all(file.voice is None or file.voice.listened for file in self.row.input.files)
        return heard and not self.view.seen and self.stop_reason is None

    def tell(self, event: AnyRunEvent) -> None:
        """Pass an event to the run's followers."""
        if self.stream is not None:
            self.stream.tell(event)

    def show(self, status: str | None = None) -> None:
        """Update the reply. status: replaces the one that is shown."""
        if status is not None:
            self.view.status = status
        if self.reply is not None:
            draft = self.view.draft(self.texts, self.clock.monotonic())
            self.reply.show(below(self.context.heading, draft))

    async def show_signs(self) -> None:
        """Keep the age of an unchanged draft up to date, until cancelled. None is shown while waiting for a person."""
        while True:
            await self.clock.sleep(SIGNS_EVERY)
            if not self.asking:
                self.show()


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


TOOLS_APART = 200
"""Number of tools that are counted separately: a model may call tools that do not exist, so the names are bounded."""


@dataclass(slots=True)
class RunCounts:
    """Statistics of runs since the process start. endings: by account and state. tools: calls that ended, by tool and
    "ok" or "failed"."""

    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    first_words: Durations = field(default_factory=Durations)
    slot_waits: Durations = field(default_factory=Durations)

    def saw(self, active: ActiveRun, event: AnyRunEvent) -> None:
        """Count an event of the run."""
        match event:
            case TextDelta() if active.first_words is None and active.row.attempt <= 1:
                now = active.clock.now()  # the store has the start and the end by this clock
                active.first_words = max(0.0, (now - (active.row.started_at or now)).total_seconds())
                self.first_words.add(active.first_words)
            case Usage():
                active.tokens += event.input_tokens + event.output_tokens
            case ToolEnded():
                called = (event.tool, "ok" if event.ok else "failed")
                known = called in self.tools or len(self.tools) < TOOLS_APART
                self.tools[called if known else ("other", called[1])] += 1


class ActiveRuns(dict[str, ActiveRun]):
    """The active runs, by id. As the harness's `Steering`, it gives the agent the messages sent to a working run."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = RunCounts()

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        """All messages that the run has taken in, including those waiting for it. They are kept in the run's row, so
        that a resumed run has them too."""
        active = self.get(ctx.run_id)
        if active is None:
            return ()
        if more:
            await active.take_in(active)
        return active.row.input.steered
