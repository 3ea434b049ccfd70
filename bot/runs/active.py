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
"""Seconds between two ages of what stands still: half of what it may stand without one."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """concurrent: runs that work at once; seconds: the longest that one may take."""

    concurrent: int
    seconds: float

    @classmethod
    def of(cls, limits: LimitSettings) -> RunLimits:
        return cls(limits.concurrent_runs, limits.run_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What others do at a run's turns. on_start: written with its start, given the number of its next event. on_end:
    each is given the run, its ending and what the agent said, before that is committed, and says what else comes of it.
    on_dead_letter: told of a run that is given up, because it brought the process down again and again.
    """

    on_start: Callable[[Connection, RunRow, int], None] | None
    on_end: Sequence[Callable[[RunRow, Ending, str], Aftermath]]
    on_dead_letter: Callable[[RunRow], None]


@dataclass(slots=True, kw_only=True)
class ActiveRun:
    """A run that this process works on. `view` is what /status reads.

    asking_changed: called when `asking` has changed. take_in: makes what was said meanwhile a part of `row`. reply:
    None until it is opened. worked: seconds of its time that are used up; waiting for a person is not counted. asking:
    what it waits for a person to decide; decided: set when something of that was. rests: it does nothing until then.
    held: it is to begin again as soon as this is set. slot_wait, first_words: seconds that it waited for a slot, and
    from its beginning until its answer had words; None before. tokens: read and written in this process. stream: for
    who follows it, None where nobody can. intent: of its first message, to be committed with its start. starting: that
    is being written, and committed even if it is stopped.
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
        """Nothing of its answer was seen, it has done nothing, and no voice message is being transcribed for it: from
        its beginning again nobody would notice anything, and nothing would be paid twice but the model's start."""
        heard = all(file.voice is None or file.voice.listened for file in self.row.input.files)
        return heard and not self.view.seen and self.stop_reason is None

    def tell(self, event: AnyRunEvent) -> None:
        """Hand an event to who follows the run."""
        if self.stream is not None:
            self.stream.tell(event)

    def show(self, status: str | None = None) -> None:
        """Bring the reply up to date. status: replaces the one that is shown."""
        if status is not None:
            self.view.status = status
        if self.reply is not None:
            draft = self.view.draft(self.texts, self.clock.monotonic())
            self.reply.show(below(self.context.heading, draft))

    async def show_signs(self) -> None:
        """Keep the age of what stands still up to date, until cancelled. What waits for a person needs none."""
        while True:
            await self.clock.sleep(SIGNS_EVERY)
            if not self.asking:
                self.show()


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


TOOLS_APART = 200
"""Tools that are counted each by itself: a model may call what there is not, and names are not to grow without end."""


@dataclass(slots=True)
class RunCounts:
    """What runs did since the start. endings: by account and state. tools: calls that ended, by tool and "ok" or
    "failed"."""

    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    tools: Counter[tuple[str, str]] = field(default_factory=Counter)
    first_words: Durations = field(default_factory=Durations)
    slot_waits: Durations = field(default_factory=Durations)

    def saw(self, active: ActiveRun, event: AnyRunEvent) -> None:
        """Count what the run told."""
        match event:
            case TextDelta() if active.first_words is None and active.row.attempt <= 1:
                active.first_words = active.clock.monotonic() - active.began
                self.first_words.add(active.first_words)
            case Usage():
                active.tokens += event.input_tokens + event.output_tokens
            case ToolEnded():
                called = (event.tool, "ok" if event.ok else "failed")
                known = called in self.tools or len(self.tools) < TOOLS_APART
                self.tools[called if known else ("other", called[1])] += 1


class ActiveRuns(dict[str, ActiveRun]):
    """The active runs, by id. Tells the agent what is said to a run that works: it is the harness's `Steering`."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = RunCounts()

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        """Everything that the run has heard, what waits for it included. It is kept in the run's row, so that a resumed
        run knows it too."""
        active = self.get(ctx.run_id)
        if active is None:
            return ()
        if more:
            await active.take_in(active)
        return active.row.input.steered
