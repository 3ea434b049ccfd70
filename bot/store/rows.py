"""Values that bot/ reads from the database. Columns are described in tables.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from channels.message import Address
from harness.context import UNREADABLE_CONTEXT, UNREADABLE_INPUT

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Row

    from harness.context import Progress, RunContext, RunInput

Value = TypeVar("Value")


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def columns_of(value: Any) -> dict[str, Any]:
    """Return the columns of a value: its fields, with an address split into the four columns that hold it."""
    columns = {name: getattr(value, name) for name in _names(type(value))}
    if "address" in columns:
        place: Address | None = columns.pop("address")
        columns |= {"chat": place and place.chat, "topic": place and place.topic, "chat_kind": place and place.kind}
        columns |= {"account": place.account} if place is not None else {}
    return columns


def value_of(kind: type[Value], row: Row[*tuple[Any, ...]], /, **others: Any) -> Value:
    """Return the value of a row, the reverse of `columns_of`. others: fields that differ from their columns."""
    names = _names(kind)
    if "address" in names and "address" not in others:
        others["address"] = Address(account=row.account, chat=row.chat, topic=row.topic, kind=row.chat_kind)
    return kind(**{name: getattr(row, name) for name in names if name not in others}, **others)


class InboxState(StrEnum):
    """NEW: undecided. ASSIGNED: belongs to a run. DONE: settled. DEAD: unreadable or abandoned."""

    NEW = "new"
    ASSIGNED = "assigned"
    DONE = "done"
    DEAD = "dead"


class RunState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"
    LIMITED = "limited"

    @property
    def ended(self) -> bool:
        return self not in (RunState.PENDING, RunState.RUNNING, RunState.WAITING)


class StopReason(StrEnum):
    """Why a run is stopped; stored in its row. ADMIN_: decided by an admin other than the requester."""

    STOPPED = "stopped"
    NEW_THREAD = "new_thread"
    SUSPENDED = "suspended"
    NEW_MESSAGE = "new_message"
    ADMIN_MESSAGE = "admin_message"
    ROLLBACK = "rollback"
    ADMIN_ROLLBACK = "admin_rollback"
    RUN_NOW = "run_now"
    REVOKED = "revoked"
    FORGOTTEN = "forgotten"

    @property
    def rewinds(self) -> bool:
        """Whether the agent must forget the run."""
        return self in (StopReason.ROLLBACK, StopReason.ADMIN_ROLLBACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """An event. event: the InboundEvent as JSON. id: orders the inbox and identifies the message everywhere else."""

    id: int
    account: str
    event: str
    received_at: datetime
    state: InboxState


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """A conversation. key: account:chat[/topic][@speaker]. title: of its thread. skills_off: names of the skills that
    /skills turned off there. model (/models), agent (/agent): None for the default. timezone (/timezone), progress
    (/verbose), research_style (/research style), voice (/voice): None for the gateway's setting."""

    key: str
    account: str
    owner: str
    thread_id: str
    model: str | None
    title: str
    agent: str | None = None
    skills_off: tuple[str, ...] = ()
    timezone: str | None = None
    progress: Progress | None = None
    research_style: str | None = None
    voice: Literal["on", "off"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread of a conversation, as /threads lists it. last_at: time of the last message. messages: how many are still
    known; first_input: the first of them."""

    thread_id: str
    title: str
    last_at: datetime
    messages: int
    first_input: RunInput | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One turn of the agent. address: where it answers.

    inbox_ids: the messages that it answers. reply_key: its reply in the outbox. head: the newest checkpoint when the
    run was last started; attempt counts starts without a new checkpoint. epoch: of the process that runs it.
    stop: why it is being ended, set once that is requested. ahead: among waiting runs the greatest value goes first.
    deaths: the epochs of the processes that died while it was running. rule: the access rule that admitted its first
    message. place: how many runs of its conversation were ahead of it, if known.
    """

    run_id: str
    thread_id: str
    conversation: str
    speaker: str
    inbox_ids: tuple[int, ...]
    reply_key: str
    address: Address
    reply_to: str | None
    state: RunState = RunState.PENDING
    context: RunContext
    input: RunInput
    base_checkpoint_id: str | None = None
    head: str | None = None
    attempt: int = 0
    epoch: int
    model_calls: int = 0
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stop: str | None = None
    ahead: int | None = None
    deaths: tuple[int, ...] = ()
    rule: str = ""
    place: int | None = None

    @property
    def is_readable(self) -> bool:
        """Whether this version can read the run; False if another version stored it in another form."""
        return self.context != UNREADABLE_CONTEXT and self.input != UNREADABLE_INPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One part of a reply.

    body: the reply's OutboundMessage as JSON, on part 0 only ("" elsewhere). message_id: None until a send is recorded.
    sent_after: an id that is certainly older than its platform message.
    desired_rev and sent_rev: the part is up to date when they are equal. final: the reply will not change any more.
    numbered: its options are a numbered list, because the platform rejected its buttons.
    epoch: of the process that intended the send, set by the store; a row of an earlier process without a message_id may
    or may not have been sent.
    """

    reply_key: str
    part: int
    idem_key: str
    address: Address
    reply_to: str | None
    sent_after: str | None
    message_id: str | None
    body: str
    desired_rev: int
    sent_rev: int
    final: bool
    numbered: bool = False
    created_at: datetime
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """A question whose buttons wait for a press. Button.data is "<id>:<option index>".

    kind: what to do with the answer. options: JSON. who: the person who may answer, None for anyone allowed here.
    """

    id: str
    kind: str
    conversation: str
    run_id: str | None = None
    who: str | None = None
    options: str
    args_hash: str | None = None
    message_id: str | None = None
    expires_at: datetime
    answer: str | None = None
    answered_by: str | None = None
