"""Signals from nodes and middlewares to the runner, sent through LangGraph's custom stream.

The stream keeps them in order with the model's chunks. They never leave the harness: the runner turns them into events.
"""

from __future__ import annotations

from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langchain_core.messages import AIMessage

    from harness.context import RunContext
    from harness.events import AnyRunEvent
    from harness.graph.sandbox import RunSandbox
    from harness.guardrails.approvals import Approval, CallKey
    from harness.skills.library import SkillView


@dataclass(slots=True)
class Delegated:
    """The task that a subagent works on. key: of the `task` call within the run. model_calls: made by it so far."""

    key: str
    model_calls: int = 0


@dataclass(slots=True)
class Answering:
    """The model that currently answers this agent. model: its name, "" for the requested one. place: index of the first
    candidate that may be called; a run stays with the one that answered."""

    model: str = ""
    place: int = 0


@dataclass(slots=True)
class RunApprovals:
    """Approvals of one start of a run. decided: before this start. asking: requests made in this start."""

    decided: Mapping[CallKey, Approval] = field(default_factory=dict)
    asking: int = 0


async def _nothing_held() -> None:
    """The default: every write to the thread is immediate, or there is no thread."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """The graph's run-scoped context (`runtime.context`): who runs, and where, for middlewares and tools.

    delegated: for a subagent. depth: 0 for the lead agent, 1 for its subagents. skills: available ones. skill_limits:
    by skill name, the tools that the skills its lead agent follows leave. collections: searched by knowledge_search
    when the model names none, () for all. sent: path in the sandbox -> SHA-256, of files that people sent. settled:
    awaited before a tool acts; the thread has then stored what led to it. again: this is not the run's first start."""

    ctx: RunContext
    skills: SkillView
    sandbox: RunSandbox | None = None
    delegated: Delegated | None = None
    depth: int = 0
    approvals: RunApprovals = field(default_factory=RunApprovals)
    answering: Answering = field(default_factory=Answering)
    skill_limits: Mapping[str, frozenset[str]] = field(default_factory=dict)
    collections: tuple[str, ...] = ()
    sent: Mapping[str, str] = field(default_factory=dict)
    settled: Callable[[], Awaitable[None]] = _nothing_held
    again: bool = False

    def key(self, inner: str) -> str:
        """Make a key that is unique within this agent's thread unique within the run: subagents have separate keys."""
        return inner if self.delegated is None else f"{self.delegated.key}/{inner}"


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A model call begins; its text belongs to message_id."""

    message_id: str


@dataclass(frozen=True, slots=True)
class CallDropped:
    """The model call failed: the text sent so far is void."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The model call returned this message, in its stored form."""

    message: AIMessage


@dataclass(frozen=True, slots=True)
class Told:
    """An event for people that lacks only run_id and seq."""

    make: Callable[..., AnyRunEvent]


@dataclass(frozen=True, slots=True)
class ApprovalNeeded:
    """A call waits for a person. asked: JSON types, as stored in the graph's interrupt."""

    asked: Mapping[str, str]


Signal = CallStarted | CallDropped | CallEnded | Told | ApprovalNeeded


def scope_of(runtime: Any) -> RunScope:
    """The run's scope; raises TypeError when a graph is called without one."""
    scope = runtime.context
    if not isinstance(scope, RunScope):
        raise TypeError(f"the graph needs context=RunScope(...), got {type(scope).__name__}")
    return scope


class HasWriter(Protocol):
    """The part of LangGraph's Runtime and ToolRuntime that `tell` needs."""

    @property
    def stream_writer(self) -> Callable[[Any], None]: ...


def tell(runtime: HasWriter, signal: Signal) -> None:
    """Send a signal to the runner; does nothing if there is no stream."""
    runtime.stream_writer(signal)


def teller(runtime: HasWriter) -> Callable[[Signal], None]:
    """`tell` bound to a runtime, callable from any context: LangGraph finds the stream through the context."""
    context = copy_context()
    return lambda signal: context.run(tell, runtime, signal)
