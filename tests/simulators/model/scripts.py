"""The simulated model's reaction to a request: a list of steps.

`server` looks a script up for the last user message; `directives` writes scripts from that message's own text; tests
register others through `client`. Everything here is plain data that also travels as JSON over the control endpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Text, sent in `pieces` chunks, `delay_ms` milliseconds apart."""

    text: str
    pieces: int = 8
    delay_ms: float = 0.0
    type: Literal["say"] = "say"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """`count` short words, `delay_ms` milliseconds apart."""

    count: int = 20
    delay_ms: float = 0.0
    type: Literal["tokens"] = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Reasoning text, in the field that vendors call reasoning_content."""

    text: str
    type: Literal["reason"] = "reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The model's refusal, in the field of that name."""

    text: str = "I can't help with that."
    type: Literal["refuse"] = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One call of a tool; the arguments are JSON text, so that a script can also send broken ones."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Tool calls of one round. The steps after it answer the request that brings their results."""

    calls: tuple[ToolUse, ...]
    type: Literal["call"] = "call"


@dataclass(frozen=True, slots=True, kw_only=True)
class TellResults:
    """An answer that quotes the results of this turn's tool calls."""

    type: Literal["tell_results"] = "tell_results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """An answer that quotes the first sentence with these words from the results of this turn's tool calls."""

    words: str
    type: Literal["quote"] = "quote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A step that fails the request; `times` limits it to the first so many requests of the same conversation."""

    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Fault):
    """An HTTP error with an OpenAI-like body. retry_after: seconds for the Retry-After header."""

    status: int
    retry_after: float | None = None
    code: str | None = None
    message: str = ""
    type: Literal["status"] = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLength(Fault):
    """400 context_length_exceeded unless the request has fewer than `messages` messages."""

    messages: int = 0
    type: Literal["context"] = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang(Fault):
    """Silence until the client goes away; before any other step not even the response's head is sent."""

    type: Literal["hang"] = "hang"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(Fault):
    """The connection is reset."""

    type: Literal["reset"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(Fault):
    """The response ends regularly on the wire, but without a finish reason and without [DONE]."""

    type: Literal["cut"] = "cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage(Fault):
    """An event that is not JSON; without streaming, a body that is not JSON."""

    type: Literal["garbage"] = "garbage"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamError(Fault):
    """An error object as an event of the stream, as providers send it when they fail in the middle of an answer."""

    code: str = "server_error"
    message: str = "The server had an error while processing your request."
    type: Literal["stream_error"] = "stream_error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Silence for some seconds; before any other step not even the response's head is sent."""

    seconds: float
    type: Literal["wait"] = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Wait until the control endpoint releases this name. A name stays released until the next reset."""

    name: str
    type: Literal["pause"] = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End with this finish reason ("stop" and "tool_calls" are the defaults and need no step)."""

    reason: str
    type: Literal["finish"] = "finish"


AnyFault = Status | ContextLength | Hang | Reset | Cut | Garbage | StreamError
Step = Annotated[
    Say
    | Tokens
    | Reason
    | Refuse
    | Call
    | TellResults
    | Quote
    | Status
    | ContextLength
    | Hang
    | Reset
    | Cut
    | Garbage
    | StreamError
    | Wait
    | Pause
    | Finish,
    Field(discriminator="type"),
]


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in order; each `Call` ends one request, and the rest belongs to the next."""

    steps: tuple[Step, ...] = field(default_factory=tuple)

    def round(self, number: int) -> tuple[Step, ...]:
        """The steps of the request that follows `number` rounds of tool calls; past the last: TellResults."""
        rounds: list[tuple[Step, ...]] = []
        current: list[Step] = []
        for step in self.steps:
            current.append(step)
            if isinstance(step, Call):
                rounds.append(tuple(current))
                current = []
        rounds.append(tuple(current) if current or not rounds else (TellResults(),))
        return rounds[min(number, len(rounds) - 1)]


SCRIPT: TypeAdapter[Script] = TypeAdapter(Script)
STEPS: TypeAdapter[Any] = TypeAdapter(tuple[Step, ...])
