"""The subagents of one lead agent: each is an asyncio task in this process with a graph, a slot and a time limit.

Called by the tool `task`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import var_child_runnable_config

from harness.errors import ModelFailure
from harness.events import (
    FileReady,
    ModelRetrying,
    ReasoningDelta,
    SubagentEnded,
    SubagentProgress,
    SubagentStarted,
    TextDelta,
    TextReset,
    ToolStarted,
    Usage,
)
from harness.events import SubagentState as State
from harness.graph.messages import CALLS, LOOP, answer_text, cut_by
from harness.graph.signals import CallEnded, Delegated, RunScope, Told
from harness.graph.state import PROMOTED
from harness.graph.turn import Turn
from harness.subagents.kinds import task_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from harness.events import AnyRunEvent, SubagentState
    from harness.files.slots import FairSlots
    from harness.graph.state import Graph
    from harness.ports import Clock
    from harness.subagents.kinds import Kind


log = logging.getLogger(__name__)
RECURSION_LIMIT = 1_000_000
"""LangGraph's limit, which counts nodes: set out of the way, since the kind's max_turns counts what costs."""
CANCEL_SECONDS = 0.8
"""How long a stopped subagent may take to end. One that does not is abandoned: nothing waits for it."""

NOTHING: Mapping[str, Any] = {}
EVERY = 1.0
"""Minimum seconds between two events."""
QUIET = 5.0
"""Seconds after which the time is reported even if nothing new was done."""


class Watch:
    """Observes a subagent. call_id: of the `task` call. tell: sends an event to the lead agent's stream.

    Only these of the subagent's events are passed to its parent: its cost, files for the person, its actions, and that
    it waits for its model.
    """

    def __init__(self, run_id: str, call_id: str, clock: Clock, tell: Callable[[Told], None]) -> None:
        self._turn = Turn(run_id, 1)
        self._call_id = call_id
        self._clock = clock
        self._tell = tell
        self._call = self._trouble = NOTHING
        self._text = ""
        self._said = ""
        self._began: float | None = None

    @property
    def answer(self) -> AIMessage | None:
        """The newest complete message."""
        return self._turn.answer

    @property
    def text(self) -> str:
        """The answer so far: from the message in progress, else from the newest one with text."""
        return (self._text.strip() or self._said).strip()

    @property
    def seconds(self) -> int:
        """Seconds since its work began; 0 while it waits."""
        return round(self._clock.monotonic() - self._began) if self._began is not None else 0

    def started(self, subagent: str, description: str) -> None:
        self._say(SubagentStarted, subagent=subagent, description=description)

    def ended(self, state: SubagentState, model_calls: int) -> None:
        self._say(SubagentEnded, state=state, seconds=self.seconds, model_calls=model_calls)

    def saw(self, mode: str, payload: Any) -> None:
        """Process one item of the subagent's stream."""
        if isinstance(payload, CallEnded):
            self._said = answer_text(payload.message) or self._said
        for event in self._turn.events(mode, payload):
            self._follow(event)
        if isinstance(payload, CallEnded):
            self._text, self._trouble = "", NOTHING

    def _follow(self, event: AnyRunEvent) -> None:
        match event:
            case TextDelta():
                self._text += event.text
                self._trouble = NOTHING
            case ReasoningDelta():
                self._trouble = NOTHING
            case ModelRetrying():
                self._trouble = {"trouble": event.kind, "delay": event.delay, "waited": event.waited}
            case TextReset():
                self._text = ""
            case ToolStarted():
                self._call = {"tool": event.tool, "summary": event.summary, "description": event.description}
            case Usage() | FileReady():
                self._tell(Told(partial(replace, event)))
            case _:
                pass

    @asynccontextmanager
    async def telling(self) -> AsyncIterator[None]:
        """Report progress while the block, the subagent's work, runs."""
        self._began = self._clock.monotonic()
        teller = asyncio.create_task(self._progress(), name=f"progress of subagent {self._call_id}")
        try:
            yield
        finally:
            teller.cancel()
            await asyncio.wait({teller})

    async def _progress(self) -> None:
        told, told_at = NOTHING, self._clock.monotonic()
        self._say(SubagentProgress, seconds=0)
        while True:
            await self._clock.sleep(EVERY)
            now, doing = self._clock.monotonic(), {**self._call, **self._trouble}
            if doing != told or now - told_at >= QUIET:
                told, told_at = doing, now
                self._say(SubagentProgress, seconds=self.seconds, **doing)

    def _say(self, make: Callable[..., AnyRunEvent], **fields: Any) -> None:
        self._tell(Told(partial(make, call_id=self._call_id, **fields)))


@dataclass(frozen=True, slots=True)
class Worker:
    """A kind's graph. model: the configured name."""

    graph: Graph
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One call of `task`. scope: of the lead agent. key: of the call, within the run. promoted: the tools that the
    thread has found. tell: sends events to the lead agent's stream."""

    kind: Kind
    description: str
    prompt: str
    scope: RunScope
    key: str
    call_id: str
    promoted: Sequence[str]
    tell: Callable[[Told], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a task. text: the answer; partial unless the state is COMPLETED. detail: why it failed, for the
    model. cut: it had to answer early, having used up its model calls or repeated itself. failure: of its model, if
    that ended it."""

    state: State
    text: str
    seconds: int
    model_calls: int
    detail: str = ""
    cut: bool = False
    failure: ModelFailure | None = None


class SubagentPool:
    """kinds: by name. build: builds a kind's worker, raises ModelFailure. slots: of the process."""

    def __init__(
        self, kinds: Mapping[str, Kind], build: Callable[[Kind], Worker], slots: FairSlots, clock: Clock
    ) -> None:
        self.kinds = kinds
        self._build = build
        self._slots = slots
        self._clock = clock
        self._workers: dict[str, Worker] = {}
        self._left_behind: set[asyncio.Task[None]] = set()

    async def perform(self, order: Order) -> Report:
        """Wait for a slot, do the task, and report it. Cancelling it stops the subagent; raises nothing else."""
        watch = Watch(order.scope.ctx.run_id, order.call_id, self._clock, order.tell)
        work = Delegated(order.key)
        watch.started(order.kind.name, order.description)
        state, error = State.CANCELLED, None
        try:
            async with self._slots.slot(order.scope.ctx.speaker.id), watch.telling():
                state, error = await self._supervised(order, work, watch)
        finally:
            watch.ended(state, work.model_calls)
        return _report(state, error, watch, work)

    async def _supervised(self, order: Order, work: Delegated, watch: Watch) -> tuple[State, BaseException | None]:
        """Run the subagent; ends on time, with or without its cooperation: when it is done, at its time limit, or when
        cancelled. Returns the error that it failed with, too."""
        worker = asyncio.create_task(
            self._work(order, work, watch),
            name=f"subagent:{order.scope.ctx.run_id}:{order.key}",
            context=_own_context(),
        )
        limit = asyncio.create_task(self._clock.sleep(order.kind.timeout_seconds), name=f"limit of {worker.get_name()}")
        try:
            await asyncio.wait({worker, limit}, return_when=asyncio.FIRST_COMPLETED)
            timed_out = not worker.done()
        finally:
            limit.cancel()
            await self._ended(worker)
        if timed_out:
            return State.TIMED_OUT, None
        if worker.cancelled():
            return State.CANCELLED, None
        error = worker.exception()
        _log(error, order.scope.ctx.run_id)
        return (State.COMPLETED if error is None else State.FAILED), error

    async def _ended(self, worker: asyncio.Task[None]) -> None:
        if worker.done():
            return
        self._left_behind.add(worker)
        worker.add_done_callback(self._forget)
        worker.cancel()
        await asyncio.wait({worker}, timeout=CANCEL_SECONDS)
        if not worker.done():
            log.error("a cancelled subagent does not end and is abandoned: %s", worker.get_name())

    def _forget(self, worker: asyncio.Task[None]) -> None:
        self._left_behind.discard(worker)
        if not worker.cancelled() and (error := worker.exception()) is not None:
            log.warning("a cancelled subagent failed", exc_info=error)

    async def _work(self, order: Order, work: Delegated, watch: Watch) -> None:
        worker = self._worker(order.kind)
        scope = _scope(order.scope, work, worker.model)
        stream: Any = worker.graph.astream(
            {"messages": [task_message(order.prompt, self._clock.now())], PROMOTED: list(order.promoted)},
            {"recursion_limit": RECURSION_LIMIT},
            context=scope,
            stream_mode=["messages", "custom"],
        )
        async with aclosing(stream):
            async for mode, payload in stream:
                watch.saw(mode, payload)

    def _worker(self, kind: Kind) -> Worker:
        worker = self._workers.get(kind.name)
        if worker is None:
            worker = self._workers[kind.name] = self._build(kind)
        return worker


def _own_context() -> contextvars.Context:
    """A context without LangGraph's: none of the subagent's text, callbacks and checkpoints can get into the lead
    agent's stream or thread."""
    context = contextvars.copy_context()
    context.run(var_child_runnable_config.set, None)
    return context


def _scope(parent: RunScope, work: Delegated, model: str) -> RunScope:
    sandbox = parent.sandbox.branch() if parent.sandbox is not None else None
    ctx, depth, limits = replace(parent.ctx, model=model), parent.depth + 1, parent.skill_limits
    named, sent = parent.collections, parent.sent
    return RunScope(ctx, parent.skills, sandbox, work, depth, skill_limits=limits, collections=named, sent=sent)


def _log(error: BaseException | None, run_id: str) -> None:
    match error:
        case None:
            pass
        case ModelFailure():
            log.warning("a subagent of run %s failed: %s", run_id, error)
        case _:
            log.error("a subagent of run %s failed for an unexpected reason", run_id, exc_info=error)


def _explained(error: BaseException | None) -> str:
    """Why a task failed, in a clause for the model; "" if it did not."""
    match error:
        case None:
            return ""
        case ModelFailure():
            return f"its model {error.model} could not answer ({error.kind.value})"
        case _:
            return f"an internal error ended it ({type(error).__name__})"


def _report(state: State, error: BaseException | None, watch: Watch, work: Delegated) -> Report:
    answer, text, cut = watch.answer, watch.text, False
    if state is State.COMPLETED and isinstance(answer, AIMessage):
        text = answer_text(answer).strip()
        cut = cut_by(answer, CALLS) is not None or cut_by(answer, LOOP) is not None
    return Report(
        state=state,
        text=text,
        seconds=watch.seconds,
        model_calls=work.model_calls,
        detail=_explained(error),
        cut=cut,
        failure=error if isinstance(error, ModelFailure) else None,
    )
