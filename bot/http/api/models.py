"""The bodies of requests in LangGraph's protocol. What cannot be done here is refused by name, never passed over."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

StreamMode = Literal["values", "updates", "messages-tuple", "custom"]
Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
RunStatus = Literal["pending", "running", "error", "success", "timeout", "interrupted"]
MOST_METADATA = 16_000
"""Characters of metadata, as JSON."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _is_small(value: dict[str, Any]) -> dict[str, Any]:
    if len(repr(value)) > MOST_METADATA:
        raise ValueError(f"is too large: at most {MOST_METADATA} characters")
    return value


def _as_uuid(value: str) -> str:
    return str(uuid.UUID(value))


Modes = Annotated[list[StreamMode], BeforeValidator(_as_list)]
Metadata = Annotated[dict[str, Any], AfterValidator(_is_small)]
ThreadId = Annotated[str, AfterValidator(_as_uuid)]


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class Config(Body):
    """A run's configuration, which is passed over: agents are set up by their operator."""

    configurable: dict[str, Any] = {}
    tags: list[str] = []
    recursion_limit: int | None = None


class Command(Body):
    """resume: answers what the thread waits for."""

    resume: Any = None
    update: Any = None
    goto: Any = None

    @field_validator("update", "goto")
    @classmethod
    def _not_here(cls, value: Any) -> Any:
        if value is not None:
            raise ValueError("cannot be done here; resume can")
        return value


class RunCreate(Body):
    """A run that is asked for.

    on_disconnect: what becomes of it when its stream is cut off.
    on_completion: what becomes of a thread that was made for this run alone, a while after its end.
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
    interrupt_before: Any = None
    interrupt_after: Any = None
    webhook: str | None = None
    checkpoint: Any = None
    checkpoint_id: str | None = None
    after_seconds: float | None = None
    feedback_keys: Any = None

    @field_validator("interrupt_before", "interrupt_after", "webhook", "checkpoint", "checkpoint_id", "after_seconds")
    @classmethod
    def _not_here(cls, value: Any) -> Any:
        if value:
            raise ValueError("cannot be asked for here")
        return None


class ThreadCreate(Body):
    thread_id: ThreadId | None = None
    metadata: Metadata = {}
    if_exists: Literal["raise", "do_nothing"] = "raise"
    supersteps: Any = None
    ttl: Any = None

    @field_validator("supersteps", "ttl")
    @classmethod
    def _not_here(cls, value: Any) -> Any:
        if value:
            raise ValueError("cannot be asked for here")
        return None


class ThreadUpdate(Body):
    metadata: Metadata = {}


class ThreadSearch(Body):
    metadata: dict[str, Any] = {}
    values: dict[str, Any] = {}
    ids: list[str] | None = None
    status: ThreadStatus | None = None
    limit: int = Field(default=10, ge=1, le=100)
    offset: int = Field(default=0, ge=0)
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] = "updated_at"
    sort_order: Literal["asc", "desc"] = "desc"
    select: list[str] | None = None


class HistoryRequest(Body):
    limit: int = Field(default=10, ge=1, le=100)
    before: Any = None
    checkpoint: Any = None
    metadata: Any = None


class CheckpointRequest(Body):
    checkpoint: dict[str, Any]


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
