"""What nodes and middlewares tell the runner while the graph runs, through LangGraph's custom stream.

The stream keeps these in order with the model's chunks. They never leave the harness: the runner makes events of them.
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
    """What one subagent works for. key: of the call of `task`, within the run. model_calls: that it has made."""

    key: str
    model_calls: int = 0


@dataclass(slots=True)
class Answering:
    """The model that answers this agent now. model: its name, "" for the one that was asked for. place: that of the
    first fallback that may be asked, which stays the same once one has answered."""

    model: str = ""
    place: int = 0


@dataclass(slots=True)
class RunApprovals:
    """Approvals of one start of a run. decided: before it. asking: requests that it makes itself."""

    decided: Mapping[CallKey, Approval] = field(default_factory=dict)
    asking: int = 0


async def _nothing_held() -> None:
    """Default: whatever is written of the thread is written at once, or there is no thread."""


@dataclass(frozen=True, slots=True)
class RunScope:
    """The graph's run-scoped context (`runtime.context`): who runs, and where, for middlewares and tools.

    delegated: of a subagent. depth: 0 for the lead agent, 1 for its subagents. skills: that it has. skill_limits: what
    those that its lead agent follows leave of the tools, by their names. collections: that knowledge_search searches
    where the model names none, () for all. sent: path in the sandbox -> SHA-256, of files that people sent. settled:
    awaited before a tool acts; the thread holds what led to it then. again: it is not the first start of the run."""

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
        """What is unique within this agent's thread, made unique within the run: subagents have keys of their own."""
        return inner if self.delegated is None else f"{self.delegated.key}/{inner}"


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A model call begins; its text belongs to message_id."""

    message_id: str


@dataclass(frozen=True, slots=True)
class CallDropped:
    """The model call failed: what was told of its text is void."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The model call gave this message, as it will be stored."""

    message: AIMessage


@dataclass(frozen=True, slots=True)
class Told:
    """An event for people that lacks only run_id and seq."""

    make: Callable[..., AnyRunEvent]


@dataclass(frozen=True, slots=True)
class ApprovalNeeded:
    """A call waits for a person. asked: JSON types, as they are kept at the graph's interrupt."""

    asked: Mapping[str, str]


Signal = CallStarted | CallDropped | CallEnded | Told | ApprovalNeeded


def scope_of(runtime: Any) -> RunScope:
    """The run's scope; raises TypeError when a graph is called without one."""
    scope = runtime.context
    if not isinstance(scope, RunScope):
        raise TypeError(f"the graph needs context=RunScope(...), got {type(scope).__name__}")
    return scope


class HasWriter(Protocol):
    """LangGraph's Runtime and ToolRuntime, as far as telling goes."""

    @property
    def stream_writer(self) -> Callable[[Any], None]: ...


def tell(runtime: HasWriter, signal: Signal) -> None:
    """Hand a signal to the runner; does nothing when nobody streams."""
    runtime.stream_writer(signal)


def teller(runtime: HasWriter) -> Callable[[Signal], None]:
    """`tell` for a runtime, from wherever it is called: LangGraph knows the stream by the context."""
    context = copy_context()
    return lambda signal: context.run(tell, runtime, signal)
