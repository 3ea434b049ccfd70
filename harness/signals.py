"""What nodes and middlewares tell the runner while the graph runs, through LangGraph's custom stream.

The stream keeps these in order with the model's chunks. They never leave the harness: the runner makes events of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from langchain_core.messages import AIMessage

    from harness.context import RunContext
    from harness.events import FileReady, ModelRetrying, Notice, ToolEnded, ToolProgress, ToolStarted, Usage
    from harness.sandboxes import RunSandbox


@dataclass(frozen=True, slots=True)
class RunScope:
    """The graph's run-scoped context (`runtime.context`): who runs, and where, for middlewares and tools."""

    ctx: RunContext
    sandbox: RunSandbox | None = None


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

    make: Callable[..., Usage | Notice | ModelRetrying | ToolStarted | ToolProgress | ToolEnded | FileReady]


Signal = CallStarted | CallDropped | CallEnded | Told


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
