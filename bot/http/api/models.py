"""The bodies of requests and answers in LangGraph's protocol. Unsupported options are rejected by name, never ignored;
the models of answers only describe what is sent."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

T = TypeVar("T")
StreamMode = Literal["values", "updates", "messages-tuple", "custom"]
Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
RunStatus = Literal["pending", "running", "error", "success", "timeout", "interrupted"]
MOST_METADATA = 16_000
"""Limit on the metadata, in bytes of JSON."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _said_modes(value: Any) -> Any:
    """Drop the empty mode that LangGraph's client sends where it is given none."""
    return value if value is None else [each for each in value if each != ""] or None


def small(value: T) -> T:
    """The metadata, if it is small enough. Raises ValueError."""
    # Python reads NaN and lone surrogates, which other readers could not: these are errors here.
    if len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode()) > MOST_METADATA:
        raise ValueError(f"is too large: at most {MOST_METADATA} bytes")
    return value


def _as_uuid(value: str) -> str:
    return str(uuid.UUID(value))


def _not_here(value: Any) -> Any:
    if value:
        raise ValueError("is not supported here")
    return None


def _has_its_own(value: Any) -> Any:
    if value:
        raise ValueError("the agent has tools of its own and cannot call the client's")
    return None


Modes = Annotated[list[StreamMode], BeforeValidator(_as_list)]
ModesAsked = Annotated[list[StreamMode] | None, BeforeValidator(_said_modes)]
Metadata = Annotated[dict[str, Any], AfterValidator(small)]
ThreadId = Annotated[str, AfterValidator(_as_uuid)]
Selected = Annotated[list[str], Field(max_length=100)]
"""Names of the members to send; each is looked up in everything that is found."""
Refused = Annotated[Any, AfterValidator(_not_here)]
"""An option that clients can send and that is not supported."""
Tools = Annotated[list[Any] | None, AfterValidator(_has_its_own)]


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class Checkpoint(Body):
    """A state of a thread, as reported with each. There are no subgraphs, whose states would have a checkpoint_ns."""

    checkpoint_id: str | None = Field(default=None, max_length=100)
    checkpoint_ns: Refused = None


class AtCheckpoint(Body):
    """A request that applies to the state of a thread at a checkpoint, not to its newest one."""

    checkpoint: Checkpoint | None = None
    checkpoint_id: str | None = Field(default=None, max_length=100)

    @property
    def at(self) -> str | None:
        return self.checkpoint_id or (self.checkpoint.checkpoint_id if self.checkpoint is not None else None) or None


class Config(Body):
    """A run's configuration, which is ignored: agents are configured by their operator."""

    configurable: dict[str, Any] = {}
    tags: list[str] = []
    recursion_limit: int | None = None


class Command(Body):
    """A command to a run. resume: answers what the thread waits for."""

    resume: Any = None
    update: Any = None
    goto: Any = None

    @field_validator("update", "goto")
    @classmethod
    def _not_here(cls, value: Any) -> Any:
        if value:  # LangGraph's RemoteGraph sends empty ones
            raise ValueError("is not supported here; resume is")
        return None


class RunCreate(AtCheckpoint):
    """A request for a run.

    on_disconnect: what happens to it when its stream is cut off. on_completion: what happens to a thread created for
    this run alone, some time after its end.
    """

    assistant_id: str = Field(max_length=200)
    input: dict[str, Any] | None = None
    command: Command | None = None
    metadata: Metadata = {}
    config: Config = Config()
    context: dict[str, Any] = {}
    stream_mode: Modes = ["values"]
    stream_resumable: bool = False
    stream_subgraphs: bool = False
    multitask_strategy: Strategy = "enqueue"
    if_not_exists: Literal["create", "reject"] = "reject"
    on_disconnect: Literal["cancel", "continue"] = "continue"
    on_completion: Literal["delete", "keep"] = "delete"
    interrupt_before: Refused = None
    interrupt_after: Refused = None
    webhook: Refused = None
    after_seconds: Refused = None
    feedback_keys: Any = None


class ThreadCreate(Body):
    thread_id: ThreadId | None = None
    metadata: Metadata = {}
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: Refused = None
    ttl: Refused = None


class ThreadUpdate(Body):
    metadata: Metadata = {}
    ttl: Refused = None


class ThreadPrune(Body):
    """Threads to delete. strategy: older states that are no longer needed are removed automatically."""

    thread_ids: list[str] = Field(max_length=100)
    strategy: Literal["delete"] = "delete"


class StateUpdate(AtCheckpoint):
    """A change of a thread. values: messages are added, replace those with their ids, or remove them (type `remove`).
    None: the thread returns to the checkpoint. as_node: after these nodes nothing is next, as between runs."""

    values: dict[str, Any] | None = None
    as_node: Literal["model", "__end__"] | None = None

    @model_validator(mode="after")
    def _says_what(self) -> StateUpdate:
        if set(self.values or {}) - {"messages"}:
            raise ValueError("values: only messages can be written")
        if self.messages is None and self.at is None:
            raise ValueError("values.messages or a checkpoint is missing")
        return self

    @property
    def messages(self) -> Any:
        """The messages to write, as they were sent; None for nothing."""
        return (self.values or {}).get("messages") or None


class ThreadSearch(Body):
    metadata: dict[str, Any] = {}
    values: dict[str, Any] = {}
    ids: list[str] | None = None
    status: ThreadStatus | None = None
    limit: int = Field(default=10, ge=1, le=100)
    offset: int = Field(default=0, ge=0)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: Selected | None = None
    extract: Refused = None


class HistoryRequest(Body):
    limit: int = Field(default=10, ge=1, le=100)
    before: str | dict[str, Any] | None = None
    checkpoint: Checkpoint | None = None
    metadata: Refused = None
    select: Selected | None = None

    @property
    def older_than(self) -> str | None:
        """The checkpoint that `before` names."""
        if not isinstance(self.before, dict):
            return self.before
        inner = self.before.get("configurable")
        found = self.before.get("checkpoint_id") or (inner.get("checkpoint_id") if isinstance(inner, dict) else None)
        return None if found is None else str(found)


class CheckpointRequest(Body):
    checkpoint: Checkpoint
    select: Selected | None = None


class AssistantSearch(Body):
    metadata: dict[str, Any] = {}
    graph_id: str | None = None
    name: str | None = None
    limit: int = Field(default=10, ge=1, le=1000)
    offset: int = Field(default=0, ge=0)


class CancelMany(Body):
    thread_id: ThreadId | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None


class InterruptTold(BaseModel):
    id: str
    value: dict[str, Any]


class CheckpointTold(BaseModel):
    thread_id: str
    checkpoint_ns: Literal[""]
    checkpoint_id: str
    checkpoint_map: None


class TaskTold(BaseModel):
    """The next step in a thread. id: of the run."""

    id: str
    name: str
    error: None
    interrupts: list[InterruptTold]
    checkpoint: None
    state: None
    result: None


class StateTold(BaseModel):
    """LangGraph's ThreadState; with `select`, only the selected members."""

    values: dict[str, Any] = {}
    next: list[str] = []
    tasks: list[TaskTold] = []
    interrupts: list[InterruptTold] = []
    metadata: dict[str, Any] = {}
    created_at: datetime | None = None
    checkpoint: CheckpointTold | None = None
    parent_checkpoint: CheckpointTold | None = None


class UpdatedTold(BaseModel):
    checkpoint: CheckpointTold
    configurable: CheckpointTold
    checkpoint_id: str


class ThreadTold(BaseModel):
    """LangGraph's Thread. interrupts: by the run that waits."""

    thread_id: uuid.UUID
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    status: ThreadStatus
    config: dict[str, Any]
    values: dict[str, Any] | None
    interrupts: dict[str, list[InterruptTold]]


class RunTold(BaseModel):
    """LangGraph's Run. cancel_reason: why it was ended early."""

    run_id: uuid.UUID
    thread_id: uuid.UUID
    assistant_id: str
    created_at: datetime
    updated_at: datetime
    status: RunStatus
    metadata: dict[str, Any]
    multitask_strategy: Strategy
    kwargs: dict[str, Any]
    cancel_reason: str | None


class AssistantTold(BaseModel):
    """LangGraph's Assistant."""

    assistant_id: str
    graph_id: str
    name: str
    description: str | None
    config: dict[str, Any]
    context: dict[str, Any]
    metadata: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
