"""The events that a run emits: typed, in order, without gaps.

`seq` starts at 1 for each run and continues after a resume. bot/ turns events into sentences for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter


class SubagentState(StrEnum):
    """State of a task that the lead agent delegated, so far or at the end."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class TodoStatus(StrEnum):
    """State of a step of a plan."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


class Outcome(StrEnum):
    """How a run that produced an answer ended. LIMITED: it reached a limit, and the model summed up."""

    SUCCESS = "success"
    LIMITED = "limited"


class FailureKind(StrEnum):
    """Why a run has no answer; each has one sentence in bot/texts. CONNECTION: it could not be made, or broke before
    the answer began; CUT: it broke in mid-answer. UNAVAILABLE: an internal error of the provider."""

    AUTH = "auth"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    CONTEXT_LENGTH = "context_length"
    CONTENT_FILTER = "content_filter"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    CUT = "cut"
    UNAVAILABLE = "unavailable"
    EMPTY = "empty"
    BAD_RESPONSE = "bad_response"
    BAD_REQUEST = "bad_request"
    BUDGET = "budget"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseEvent:
    run_id: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(BaseEvent):
    """More of the assistant's text. No other text is ever emitted in this event."""

    message_id: str
    text: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReset(BaseEvent):
    """Discard the text of this message: it will be sent again, if the message still exists."""

    message_id: str
    type: Literal["text_reset"] = "text_reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(BaseEvent):
    message_id: str
    text: str
    type: Literal["reasoning_delta"] = "reasoning_delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted(BaseEvent):
    """A tool call has begun. summary: one short line (the salient argument), without secrets. description: the model's
    own description of the call, for people; "" if it gives none."""

    call_id: str
    tool: str
    summary: str
    description: str = ""
    type: Literal["tool_started"] = "tool_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded(BaseEvent):
    call_id: str
    tool: str
    ok: bool
    type: Literal["tool_ended"] = "tool_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress(BaseEvent):
    """A tool has been running for so many seconds. line: the last line it printed, for people; one short line.

    At most one a second and call; worth showing, not worth keeping: the next one repeats all of it.
    """

    call_id: str
    tool: str
    seconds: int
    line: str
    type: Literal["tool_progress"] = "tool_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentStarted(BaseEvent):
    """The lead agent delegated a task with this call; it is pending. description: for people, one short line."""

    call_id: str
    subagent: str
    description: str
    type: Literal["subagent_started"] = "subagent_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentProgress(BaseEvent):
    """The task has been running for so many seconds. tool, summary, description: of the subagent's last call, "" before
    the first. trouble, delay, waited: of a model call that failed and is being retried, as in ModelRetrying; None
    otherwise.

    At most one a second and call, and like ToolProgress not worth keeping.
    """

    call_id: str
    seconds: int
    tool: str = ""
    summary: str = ""
    description: str = ""
    trouble: FailureKind | None = None
    delay: float = 0.0
    waited: float = 0.0
    type: Literal["subagent_progress"] = "subagent_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubagentEnded(BaseEvent):
    """A delegated task has ended after running for `seconds`. model_calls: their number; Usage reports their tokens."""

    call_id: str
    state: SubagentState
    seconds: int
    model_calls: int
    type: Literal["subagent_ended"] = "subagent_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class TodosChanged(BaseEvent):
    """The agent's new plan: (step, status), in order; each step is one line for people."""

    todos: tuple[tuple[str, TodoStatus], ...]
    type: Literal["todos_changed"] = "todos_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsEnded(BaseEvent):
    """A research has progressed and its state is saved: whatever happens, this run repeats none of it. count: of its
    steps that have ended."""

    count: int
    type: Literal["steps_ended"] = "steps_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFile:
    """A file for the person, as it was when the agent presented it.

    name: for display. path: in the sandbox. spooled: path of the copy, relative to the spool folder. size in bytes.
    kind: "image" only if every platform can display the content.
    """

    name: str
    path: str
    mime_type: str
    size: int
    kind: Literal["image", "file"]
    spooled: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReady(BaseEvent):
    """The agent presented a file. Presenting the same path again replaces the earlier file."""

    call_id: str
    file: ReadyFile
    type: Literal["file_ready"] = "file_ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetrying(BaseEvent):
    """A model call failed and is retried in `delay` seconds. waited: seconds since the first failure of the call.

    Repeated every few seconds of a long delay, with the same attempt.
    """

    kind: FailureKind
    attempt: int
    delay: float
    waited: float = 0.0
    type: Literal["model_retrying"] = "model_retrying"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(BaseEvent):
    """Something the person should know besides the answer. images_not_seen: the model has no vision. fallback: the
    model answered instead of the requested one. summarizing: the history is being summarized, until summarized or
    not_summarized follows."""

    kind: Literal["images_not_seen", "summarizing", "summarized", "not_summarized", "fallback"]
    model: str = ""
    instead_of: str = ""
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(BaseEvent):
    """The agent asks the person a question, which ends the run: Finished follows, with the same text.

    prompt_id: derived from the run, so that a repeat is the same question. options: answers offered as buttons, at most
    six; the next message answers it as well. expires_at: from then on no button works. personal: only the person that
    the run was for, or an administrator, may answer.
    """

    prompt_id: str
    text: str
    options: tuple[str, ...]
    expires_at: datetime
    personal: bool = False
    type: Literal["question"] = "question"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(BaseEvent):
    """A tool call needs a person's approval. Ends the run's events for now: the graph waits at its checkpoint, and
    `run` continues once there is a decision.

    prompt_id: derived from the run and the exact call, so that a repeat is the same request. call_id: of the call
    within its run. args_masked: the arguments for people, escaped and truncated. args_hash: of the exact arguments; the
    decision is valid for these only. requester: the person that the call is made for. reason: the rule's, or "".
    coverage: what an answer for the whole chat covers: "call:..." exactly this call, "tool:..." the tool with any
    arguments. expires_at: when an unanswered request is denied.
    """

    prompt_id: str
    call_id: str
    tool: str
    args_masked: str
    args_hash: str
    requester: str
    reason: str
    coverage: str
    expires_at: datetime
    type: Literal["approval_requested"] = "approval_requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(BaseEvent):
    """Tokens of one model call, as the provider counted them. flat: additional cost in billionths of the price's
    currency, for a picture or a recording."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    flat: int = 0
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(BaseEvent):
    """The run continues after a restart; attempt is 2 for the first resume."""

    attempt: int
    type: Literal["resumed"] = "resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a research has delivered. path: of its file in the sandbox, "" without one. skills: names of the available
    skills that make something else out of a report."""

    title: str
    path: str
    skills: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(BaseEvent):
    """The last event of a run with an answer: the last assistant message without tool calls.

    The cause of LIMITED is one of: calls, the limit of model calls; repeated, so many equal tool calls; budget, the
    name of the one that is used up; none of them, the model's own output limit. files: all that the run presented, in
    order, including before a restart. report: the one that the answer sums up, if the run was a research and made one.
    """

    outcome: Outcome
    text: str
    message_id: str
    calls: int | None = None
    repeated: int | None = None
    budget: str | None = None
    files: tuple[ReadyFile, ...] = ()
    report: Report | None = None
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(BaseEvent):
    """The last event of a run without an answer. detail_for_log and full_name, the model's name with the provider's
    name for it, are never shown in a chat."""

    kind: FailureKind
    model: str
    detail_for_log: str
    retry_after: float | None = None
    full_name: str = ""
    type: Literal["failed"] = "failed"


AnyRunEvent = (
    TextDelta
    | TextReset
    | ReasoningDelta
    | ToolStarted
    | ToolProgress
    | ToolEnded
    | SubagentStarted
    | SubagentProgress
    | SubagentEnded
    | TodosChanged
    | StepsEnded
    | FileReady
    | ModelRetrying
    | Notice
    | Question
    | ApprovalRequested
    | Usage
    | Resumed
    | Finished
    | Failed
)
RunEvent = Annotated[AnyRunEvent, Field(discriminator="type")]
RUN_EVENT: TypeAdapter[Any] = TypeAdapter(RunEvent)
"""Converts run events to JSON and back."""
