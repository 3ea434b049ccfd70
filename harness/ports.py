"""Ports: what the harness needs from outside, each with an in-memory implementation.

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
    """state "started": it may have happened; "done": it did, and `result` (JSON text) is its return value."""

    state: Literal["started", "done"]
    result: str = ""


class EffectLog(Protocol):
    """The durable record that prevents a tool call from running twice. Each call commits before it returns; the action
    that `begin` records may start right after it, since no other process will perform it."""

    async def begin(self, key: EffectKey, tool: str) -> Effect | None:
        """Record `started`; if the call is already recorded, change nothing and return that record."""

    async def done(self, key: EffectKey, result: str) -> None:
        """Record the result of a call that has begun."""


class RunLedger(Protocol):
    """Counts that must survive a restart of the run."""

    async def model_called(self, run_id: str) -> int:
        """Count one more model call of the run; returns the count, this call included."""


@dataclass(frozen=True, slots=True)
class Overdraft:
    """A budget that is used up. name: of its key in the config. small: one more call, for a summary, is affordable."""

    name: str
    small: bool


class Budget(Protocol):
    """What the person or chat that a run works for may still spend, in tokens or money. Usage events report what is
    spent."""

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        """The budget that forbids the next model call of a run or its subagents; None if it is allowed."""


class Steering(Protocol):
    """Messages that a person sends while their run is active, and that the run should take in."""

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        """All such messages since the run began, oldest first. Called before each model call of a run. A message that
        was returned once is returned again by every later call, also after a crash; later messages wait for the next
        call, or for a separate turn.

        more: False: only messages that were returned before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One entry about a command of the agent's.

    event: "asked" before it runs, or is refused; "ended" after it ran (a call that a resume answers from its record is
    asked again and does not end again). verdict: pass, warn or block; rule and reason explain it. ending, exit_code,
    seconds: only for "ended".
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
    """An append-only record of the commands given to the agent's shell. Commands may contain secrets."""

    async def append(self, entry: AuditEntry) -> None:
        """Append one entry. Raises OSError if it cannot be written: then the command does not run."""


class Fence(Protocol):
    """Decides which process may write checkpoints, if there are several (PostgreSQL)."""

    def __call__(self, thread_id: str) -> tuple[LiteralString, tuple[Any, ...]]:
        """A statement with its parameters that returns a row while this process may write that thread ("": any thread),
        and locks the rows that prove it until the end of the transaction."""


class Clock(Protocol):
    """Time that tests can control: now is aware UTC; monotonic and sleep are in seconds."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Head:
    """A thread's newest checkpoint. id: None for a new thread. saved: the checkpoint as the harness read it."""

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
        """Start the run, or continue from its newest checkpoint; ends with Finished or Failed.

        attempt: 2 for the first start after a restart. next_seq: one more than the run's last recorded event. head: the
        thread's, if it is already known. Cancelling the iteration stops the run (use contextlib.aclosing, so that
        leaving the loop does too); the thread is consistent again after the next `settle` or `run`.
        """

    def abandon(self, run_id: str) -> None:
        """End whatever a run that waits for a person keeps running: the run will not continue."""

    async def settle(self, thread_id: str, unfinished: Unfinished | None = None) -> None:
        """Make a thread that was stopped in mid-turn ready for new input: open tool calls get an honest result, and the
        part of an unfinished message that people have read stays there as the assistant's own words."""

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        """Restore the thread to that checkpoint, None: to an empty thread. Raises LookupError if it is gone."""

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        """Summarise the thread's history now, with this model only; returns the cost, if the provider reported it,
        without a run. Raises ModelFailure if the model gives no summary: then nothing has changed."""

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """The messages, oldest first; after a summarization only those still kept verbatim."""

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        """The thread at its newest checkpoints, newest first; [] for a new thread. at: only at this checkpoint. before:
        only checkpoints older than this one. Old checkpoints are not kept for long."""

    async def seed(self, thread_id: str, said: Sequence[HistoryEntry]) -> None:
        """Begin a new thread with messages from elsewhere."""

    async def change(self, thread_id: str, changes: Sequence[HistoryEntry | Removal], *, at: str | None = None) -> None:
        """Add messages, replace those with a known id, and remove others, in this order, in a thread without an active
        run. at: apply them to its state at that checkpoint, which replaces the newest one. Raises LookupError if that
        no longer exists, UnfitChange."""

    async def fork(
        self, thread_id: str, fork_id: str, *, before: str = "", through: str = "", checkpoint_id: str | None = None
    ) -> bool:
        """Begin the new thread `fork_id` with the contents of another one, including tool results: up to just before
        the person's message with the id `before`, or to the end of the ended run `through`; everything without either.
        checkpoint_id: where the thread stood before that message, in case its history no longer contains it. False:
        that state is not kept; then nothing was written. The other thread stays as it is, and may be active."""

    async def research(self, thread_id: str) -> ResearchView | None:
        """The thread's newest research; None if there was none."""

    async def research_record(self, thread_id: str) -> Research | None:
        """The full record of the thread's newest research; None if there was none."""

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        """The thread's newest research as files for a person; None if it has no plan."""

    async def forget(self, thread_id: str) -> None:
        """Delete everything stored for the thread."""

    async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
        """Keep only the thread's newest state and these checkpoints. First these are made self-contained, safely even
        while it is active; drop: then the others are deleted, once nothing runs in it and earlier readers have
        finished."""

    async def scrub(self) -> None:
        """Remove what was forgotten from the database's files too."""

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        """A short title for a thread that begins with this exchange; None if the model gives none."""

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        """The changes that these turns make to their owner's memory, by the configured model; None if it fails. Nothing
        is stored. The demo model learns nothing."""

    async def head(self, thread_id: str) -> Head:
        """The thread's newest checkpoint."""

    async def retire(self) -> None:
        """Once its work has ended, release everything except the threads, which another process has taken over."""

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


class TracedCall(Protocol):
    """A model or tool call in progress. said: returns its result, called only if contents are exported."""

    def answered(
        self, said: Callable[[], str], *, input_tokens: int = 0, output_tokens: int = 0, failed: bool = False
    ) -> None: ...


class Tracing(Protocol):
    """A tracer of runs. The block inside `call` is the call; if it raises, the call has failed. given: returns what is
    sent to the model or tool, called only if contents are exported."""

    def call(
        self, run_id: str, kind: Literal["chat", "execute_tool"], name: str, given: Callable[[], str]
    ) -> AbstractContextManager[TracedCall]: ...
