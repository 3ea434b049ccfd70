"""The store's values: what bot/ reads from the database. Columns are described in tables.py."""

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
    """The columns of a value: its fields, an address as the four that every table has for one."""
    columns = {name: getattr(value, name) for name in _names(type(value))}
    if "address" in columns:
        place: Address | None = columns.pop("address")
        columns |= {"chat": place and place.chat, "topic": place and place.topic, "chat_kind": place and place.kind}
        columns |= {"account": place.account} if place is not None else {}
    return columns


def value_of(kind: type[Value], row: Row[*tuple[Any, ...]], /, **others: Any) -> Value:
    """The value of a row, the reverse of `columns_of`. others: the fields that are not as the columns have them."""
    names = _names(kind)
    if "address" in names and "address" not in others:
        others["address"] = Address(account=row.account, chat=row.chat, topic=row.topic, kind=row.chat_kind)
    return kind(**{name: getattr(row, name) for name in names if name not in others}, **others)


class InboxState(StrEnum):
    """NEW: nobody decided yet. ASSIGNED: it belongs to a run. DONE: settled. DEAD: unreadable or given up."""

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
    """Why a run is stopped; kept in its row. ADMIN_: decided by an admin who did not ask."""

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
        """The agent is to forget the run."""
        return self in (StopReason.ROLLBACK, StopReason.ADMIN_ROLLBACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """event: the InboundEvent as JSON. id orders the inbox and is the message's identity everywhere else."""

    id: int
    account: str
    event: str
    received_at: datetime
    state: InboxState


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """key: account:chat[/topic][@speaker]. model: chosen by /models, agent: by /agent, None for the
    default. title: of the thread. skills_off: names of the skills that /skills turned off there. timezone: chosen by
    /timezone, progress: by /verbose, research_style: by /research style, voice: by /voice; None for the gateway's."""

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
    """A thread of a conversation, as /threads lists it. last_at: when something was said there last. messages: that
    are still known; first_input: what the first of them said."""

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
    stop: why it is being ended, as soon as somebody wants that. ahead: the greatest of those that wait goes first.
    deaths: the epochs of the processes that died while it was at work. rule: by which its first message was let in.
    place: how many runs of its conversation stood before it, as far as is known.
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
        """False for a run that another version stored in another form."""
        return self.context != UNREADABLE_CONTEXT and self.input != UNREADABLE_INPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One part of a reply.

    body: the reply's OutboundMessage as JSON, on part 0 only ("" elsewhere). message_id: None until a send is recorded.
    sent_after: an id that its platform message is certainly newer than.
    desired_rev and sent_rev: the part is up to date when they are equal. final: the reply will not change any more.
    numbered: its options are a numbered list, because the platform refused its buttons.
    epoch: of the process that intended the send, filled in by the store; a row of an earlier process without a
    message_id may have been sent or not.
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
    """A button that waits for a press. Button.data is "<id>:<option index>".

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
