"""What the harness needs from outside, each with an in-memory implementation below the port.

bot/store implements them on the database; tests and `demo` use the in-memory ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import LiteralString

    from langgraph.checkpoint.base import CheckpointTuple

    from harness.context import (
        HistoryEntry,
        Removal,
        ResearchFiles,
        ResearchView,
        RunContext,
        RunInput,
        ThreadView,
        Titled,
        Unfinished,
    )
    from harness.events import AnyRunEvent, Usage
    from harness.memory.model import Exchange, Memory, Updated
    from harness.research.record import Research


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectKey:
    """One tool call of one run."""

    thread_id: str
    run_id: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """state "started": it may have happened; "done": it did, and `result` (JSON text) is what it returned."""

    state: Literal["started", "done"]
    result: str = ""


class EffectLog(Protocol):
    """The durable record that keeps a tool call from running twice. Each call commits before it returns; what
    `begin` is for may be done at once, for then no other process does it."""

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        """Record `started`; if the call was recorded before, change nothing and return that record."""

    async def done(self, key: EffectKey, result: str) -> None:
        """Record the result of a started call."""


class RunLedger(Protocol):
    """Counts that must survive a restart of the run."""

    async def model_called(self, run_id: str) -> int:
        """Count one more model call of the run; returns the count, this call included."""


@dataclass(frozen=True, slots=True)
class Overdraft:
    """A budget that is used up. name: of its key in the config. small: one more call, to sum up, can be afforded."""

    name: str
    small: bool


class Budget(Protocol):
    """What may still be spent, in tokens or money, by the person or chat that a run works for. What is spent is told by
    Usage events."""

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        """Asked before each model call of a run and of its subagents: the budget that forbids it, None: it is made."""


class Steering(Protocol):
    """What a person says while their run works, and that is to be heard in it."""

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        """Asked before each model call of a run: all of it since the run began, oldest first. What is given once is
        given again at every later call, also after a crash; what comes later waits for the next call, or for a turn of
        its own.

        more: False: only what was given before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line about a command of the agent's.

    event: "asked" before it runs, or is refused; "ended" after it ran (a call that a resume answers from its record is
    asked again and does not end again). verdict: pass, warn or block; rule and reason say why. ending, exit_code,
    seconds: of "ended" only.
    """

    at: datetime
    event: Literal["asked", "ended"]
    speaker: str
    conversation: str
    thread_id: str
    run_id: str
    call_id: str
    command: str
    verdict: str
    rule: str = ""
    reason: str = ""
    ending: str = ""
    exit_code: int | None = None
    seconds: float | None = None


class AuditLog(Protocol):
    """Keeps what the agent's shell was asked to do; only ever grows. Commands may hold secrets of their own."""

    async def append(self, entry: AuditEntry) -> None:
        """Write one entry. Raises OSError when that cannot be done: then the command does not run."""


class Fence(Protocol):
    """Who may write checkpoints, where several processes do (PostgreSQL)."""

    def __call__(self, thread_id: str) -> tuple[LiteralString, tuple[Any, ...]]:
        """A statement with its parameters, which gives a row while this process may write that thread, "": any, and
        locks what says so until the end of the transaction."""


class Clock(Protocol):
    """Time that tests can turn: now is aware UTC, monotonic and sleep are in seconds."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Head:
    """A thread's newest checkpoint. id: None for a new thread. saved: what the harness read of it."""

    id: str | None = None
    saved: CheckpointTuple | None = field(default=None, compare=False, repr=False)


class Harness(Protocol):
    """The agent, as bot/ sees it."""

    def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """Start the run, or go on where its newest checkpoint stands; ends with Finished or Failed.

        attempt: 2 for the first start after a restart. next_seq: one more than the run's last recorded event. head:
        the thread's, where it is known already.
        Cancelling the iteration stops the run (use contextlib.aclosing, so that leaving the loop does too); the thread
        is consistent again after the next `settle` or `run`.
        """

    def abandon(self, run_id: str) -> None:
        """A run that waits for a person ends without going on: what it keeps at work meanwhile is ended."""

    async def settle(self, thread_id: str, unfinished: Unfinished | None = None) -> None:
        """Make a thread that was stopped in mid-turn ready for new input: open tool calls get an honest result, and
        what people have read of the message in the making stays there as the assistant's own words."""

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        """Make the thread what it was at that checkpoint, None: before anything. Raises LookupError when it is gone."""

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        """Summarise the thread's history now, by this model and no other; returns what that cost, of no run, where the
        provider told it. Raises ModelFailure where that model gives no summary: then nothing has changed."""

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """What was said, oldest first; after a summarization only what is still kept verbatim."""

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        """The thread at its newest checkpoints, newest first; [] for a new thread. at: at this checkpoint alone.
        before: those older than this checkpoint. Older ones are not kept for long."""

    async def seed(self, thread_id: str, said: Sequence[HistoryEntry]) -> None:
        """Begin a new thread with what was said elsewhere."""

    async def change(self, thread_id: str, changes: Sequence[HistoryEntry | Removal], *, at: str | None = None) -> None:
        """Add messages, replace those with a known id, and take others out, in this order, in a thread in which nothing
        runs. at: in its state at that checkpoint, which takes the place of the newest one. Raises LookupError when that
        is gone, UnfitChange."""

    async def fork(
        self, thread_id: str, fork_id: str, *, before: str = "", through: str = "", checkpoint_id: str | None = None
    ) -> bool:
        """Begin the new thread `fork_id` with what another one held, tools' results and all: up to before the person's
        message of that id, or to the end of that run, which works no more; all of it without either. checkpoint_id:
        where the thread was before that message, for where it is not in its history any more. False: it is not kept;
        then nothing was written. The other thread stays as it is, and may be at work."""

    async def research(self, thread_id: str) -> ResearchView | None:
        """The thread's newest research; None where there was none."""

    async def research_record(self, thread_id: str) -> Research | None:
        """All that is recorded of the thread's newest research; None where there was none."""

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        """The thread's newest research, for a person to keep; None where there was no plan of one."""

    async def forget(self, thread_id: str) -> None:
        """Delete everything kept of the thread."""

    async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
        """Keep nothing but the thread's newest state and these checkpoints. First they get what they need, while it may
        be at work; drop: then the others go, when nothing runs in it and all who read it before that have done so."""

    async def scrub(self) -> None:
        """What was forgotten is not to be found in the files of its database any more either."""

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        """A short title for a thread that begins with this exchange; None when that model gives none."""

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        """What these turns change in their owner's memory, by the model that the settings name; None when that fails.
        Nothing is stored. The demo model learns nothing."""

    async def head(self, thread_id: str) -> Head:
        """The thread's newest checkpoint."""

    async def retire(self) -> None:
        """Once its work has ended, give back all but the threads, which another one has taken over."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class MemoryEffectLog:
    """EffectLog in memory."""

    records: dict[EffectKey, Effect] = field(default_factory=dict)

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        known = self.records.get(key)
        if known is None:
            self.records[key] = Effect(state="started")
        return known

    async def done(self, key: EffectKey, result: str) -> None:
        self.records[key] = Effect(state="done", result=result)


@dataclass(slots=True)
class MemoryAuditLog:
    """AuditLog in memory, of the newest entries."""

    entries: deque[AuditEntry] = field(default_factory=lambda: deque(maxlen=1000))

    async def append(self, entry: AuditEntry) -> None:
        self.entries.append(entry)


@dataclass(slots=True)
class MemoryRunLedger:
    """RunLedger in memory."""

    counts: dict[str, int] = field(default_factory=dict)

    async def model_called(self, run_id: str) -> int:
        self.counts[run_id] = self.counts.get(run_id, 0) + 1
        return self.counts[run_id]


@dataclass(slots=True)
class MemoryBudget:
    """Budget in memory: so many calls of each run are affordable, None for any number. A further one is a small
    overdraft, more are not."""

    calls: int | None = None
    asked: dict[str, int] = field(default_factory=dict)

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        count = self.asked[ctx.run_id] = self.asked.get(ctx.run_id, 0) + 1
        if self.calls is None or count <= self.calls:
            return None
        return Overdraft("run.calls", small=count == self.calls + 1)


@dataclass(slots=True)
class MemorySteering:
    """Steering in memory. waiting: what was said to a run and is heard at its next call."""

    waiting: dict[str, list[RunInput]] = field(default_factory=dict)
    heard: dict[str, list[RunInput]] = field(default_factory=dict)

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        heard = self.heard.setdefault(ctx.run_id, [])
        if more:
            heard += self.waiting.pop(ctx.run_id, [])
        return tuple(heard)


class TracedCall(Protocol):
    """A call of a model or a tool that is being made. said: gives what came of it, asked only where words are sent."""

    def answered(
        self, said: Callable[[], str], *, input_tokens: int = 0, output_tokens: int = 0, failed: bool = False
    ) -> None: ...


class Tracing(Protocol):
    """Who traces runs. The block that `call` surrounds is the call; what raises in it has failed. given: gives what is
    sent to the model or the tool, asked only where words are sent."""

    def call(
        self, run_id: str, kind: Literal["chat", "execute_tool"], name: str, given: Callable[[], str]
    ) -> AbstractContextManager[TracedCall]: ...
