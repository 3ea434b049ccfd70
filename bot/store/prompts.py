"""Questions to people: buttons that wait for a press, approvals of tool calls, and grants for a whole chat.

An answer counts once, from the person asked, and in time; an approval's answer is never changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, or_, select, update

from bot.store.rows import PromptRow, columns_of, value_of
from bot.store.sql import chunks, insert
from bot.store.tables import approval_grants, approvals, prompts
from harness.guardrails.approvals import ADMINS, ONCE, Approval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row
    from sqlalchemy.sql.dml import ReturningUpdate

    from harness.guardrails.approvals import CallKey


EVERYBODY = ""
MOST_GRANTS = 100
"""Most grants of one conversation; the oldest are dropped."""


def create(tx: Connection, row: PromptRow) -> None:
    """Record a question before its buttons are shown."""
    tx.execute(insert(tx, prompts), columns_of(row) | {"answered_at": None, "expired": False})


def ensure(tx: Connection, rows: Sequence[PromptRow]) -> None:
    """Like create, but questions that already exist (their ids are derived) stay unchanged."""
    if rows:
        values = [columns_of(row) | {"answered_at": None, "expired": False} for row in rows]
        tx.execute(insert(tx, prompts).on_conflict_do_nothing(index_elements=["id"]), values)


def set_options(tx: Connection, prompt_id: str, options: str) -> None:
    """Replace a prompt's options. options: JSON."""
    tx.execute(update(prompts).where(prompts.c.id == prompt_id).values(options=options))


def load(tx: Connection, prompt_id: str) -> PromptRow | None:
    """One prompt, answered or not."""
    row = tx.execute(select(prompts).where(prompts.c.id == prompt_id)).first()
    return None if row is None else value_of(PromptRow, row)


def answer(tx: Connection, prompt_id: str, who: str, answer: str, now: datetime) -> PromptRow | None:
    """Record an answer. None if it does not count: unknown prompt, already answered, expired, or for another person."""
    open_for = (
        (prompts.c.id == prompt_id)
        & prompts.c.answer.is_(None)
        & ~prompts.c.expired
        & (prompts.c.expires_at > now)
        & (prompts.c.who.is_(None) | (prompts.c.who == who))
    )
    taken = update(prompts).where(open_for).values(answer=answer, answered_by=who, answered_at=now)
    row = tx.execute(taken.returning(prompts)).first()
    return None if row is None else value_of(PromptRow, row)


def prune(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Delete prompts that expired before that time, at most `limit`; return how many."""
    old = select(prompts.c.id).where(prompts.c.expires_at < before).order_by(prompts.c.expires_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(prompts).where(prompts.c.id.in_(part))).rowcount for part in chunks(ids))


# Approvals: tool calls that need a person's decision.


class Decided(StrEnum):
    """ONCE and CHAT allow the call; the others deny it. EXPIRED: there was no answer. STOPPED: the run was ended."""

    ONCE = "once"
    CHAT = "chat"
    DENY = "deny"
    EXPIRED = "expired"
    STOPPED = "stopped"

    @property
    def allows(self) -> bool:
        return self in (Decided.ONCE, Decided.CHAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """One call that needs a decision. Columns are described in tables.py."""

    prompt_id: str
    run_id: str
    call_id: str
    args_hash: str
    conversation: str
    requester: str
    tool: str
    shown: str
    why: str
    coverage: str
    asked_at: datetime
    expires_at: datetime
    reason_from: str | None = None
    decision: Decided | None = None
    reason: str = ""
    decided_by: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the call needs approval each time, whatever is granted for the chat."""
        return self.coverage.partition(":")[0] in (ONCE, ADMINS)

    @property
    def admins_only(self) -> bool:
        """Whether only an administrator can allow the call."""
        return self.coverage.partition(":")[0] == ADMINS


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """A grant for a whole chat. person: the person whose runs it covers, EVERYBODY for all runs there."""

    id: int
    person: str
    tool: str
    coverage: str
    shown: str
    granted_by: str
    granted_at: datetime


_OPEN = approvals.c.decision.is_(None)
# Built once: the last one is executed at the end of every run.
_CLOSE = (
    update(approvals)
    .where(_OPEN)
    .values(
        decision=bindparam("made"), decided_by=bindparam("by"), decided_at=bindparam("at"), reason=bindparam("said")
    )
    .returning(approvals)
)
_CLOSE_IN_TIME = _CLOSE.where(approvals.c.prompt_id == bindparam("prompt"), approvals.c.expires_at > bindparam("at"))
_CLOSE_OF_RUN = _CLOSE.where(approvals.c.run_id == bindparam("run"))
_CLOSE_LATE = _CLOSE_OF_RUN.where(approvals.c.expires_at <= bindparam("at"))


def ask_approvals(tx: Connection, rows: Sequence[tuple[ApprovalRow, PromptRow]]) -> list[ApprovalRow]:
    """Record requests for approval, with the prompts of their buttons; return those that were new."""
    known = set(
        tx.scalars(select(approvals.c.prompt_id).where(approvals.c.prompt_id.in_([r.prompt_id for r, _ in rows])))
    )
    fresh = [(row, prompt) for row, prompt in rows if row.prompt_id not in known]
    if fresh:
        tx.execute(insert(tx, approvals), [columns_of(row) | {"decided_at": None} for row, _ in fresh])
        ensure(tx, [prompt for _, prompt in fresh])
    return [row for row, _ in fresh]


def load_approval(tx: Connection, prompt_id: str) -> ApprovalRow | None:
    row = tx.execute(select(approvals).where(approvals.c.prompt_id == prompt_id)).first()
    return None if row is None else _approval(row)


def open_approvals(tx: Connection, run_id: str) -> list[ApprovalRow]:
    """The open approvals of a run, in the order in which they were requested."""
    query = select(approvals).where(approvals.c.run_id == run_id, _OPEN)
    return [_approval(row) for row in tx.execute(query.order_by(approvals.c.asked_at, approvals.c.prompt_id))]


def decide(
    tx: Connection,
    prompt_id: str,
    decision: Decided,
    by: str,
    now: datetime,
    *,
    reason: str = "",
    for_all: bool = False,
) -> ApprovalRow | None:
    """Record a person's answer. None if it does not count: already decided, or too late. for_all: a grant for the whole
    chat covers everybody there, otherwise the requester's runs. The caller checks who may answer."""
    row = _close(tx, _CLOSE_IN_TIME, {"prompt": prompt_id}, decision, by, now, reason)
    if not row:
        return None
    if decision is Decided.CHAT:
        _grant(tx, row[0], by, now, EVERYBODY if for_all else row[0].requester)
    return row[0]


def expire_approvals(tx: Connection, run_id: str, now: datetime) -> list[ApprovalRow]:
    """Deny approvals that were not answered in time; each is returned once."""
    return _close(tx, _CLOSE_LATE, {"run": run_id}, Decided.EXPIRED, None, now, "")


def stop_approvals(tx: Connection, run_id: str, now: datetime) -> list[ApprovalRow]:
    """Deny the open approvals of a run that ends; each is returned once."""
    return _close(tx, _CLOSE_OF_RUN, {"run": run_id}, Decided.STOPPED, None, now, "")


def await_reason(tx: Connection, prompt_id: str, person: str, now: datetime) -> ApprovalRow | None:
    """Treat the person's next message as a denial with that reason. None if the approval is no longer open."""
    open_ = (approvals.c.prompt_id == prompt_id) & _OPEN & (approvals.c.expires_at > now)
    row = tx.execute(update(approvals).where(open_).values(reason_from=person).returning(approvals)).first()
    return None if row is None else _approval(row)


def decisions(tx: Connection, run_id: str) -> dict[CallKey, Approval]:
    query = select(approvals).where(approvals.c.run_id == run_id, approvals.c.decision.is_not(None))
    made = [_approval(row) for row in tx.execute(query)]
    return {(row.call_id, row.args_hash): Approval(_allows(row), row.reason) for row in made}


def count_approvals(tx: Connection, run_id: str, conversation: str, since: datetime) -> tuple[int, int]:
    """Count the approvals requested: by this run, and in this conversation since then."""
    count = select(func.count()).select_from(approvals)
    recent = count.where(approvals.c.conversation == conversation, approvals.c.asked_at >= since)
    return tx.scalar(count.where(approvals.c.run_id == run_id)) or 0, tx.scalar(recent) or 0


# Grants for a whole chat.


def granted(tx: Connection, conversation: str, person: str, tool: str, coverage: str) -> bool:
    """Whether a grant allows a person's runs that call there without asking."""
    theirs = or_(approval_grants.c.person == EVERYBODY, approval_grants.c.person == person)
    same = (approval_grants.c.tool == tool) & (approval_grants.c.coverage == coverage)
    found = select(approval_grants.c.id).where(approval_grants.c.conversation == conversation, theirs, same).limit(1)
    return tx.scalar(found) is not None


def grants(tx: Connection, conversation: str) -> list[GrantRow]:
    """All grants of a conversation, oldest first."""
    query = select(approval_grants).where(approval_grants.c.conversation == conversation)
    found = tx.execute(query.order_by(approval_grants.c.id))
    return [value_of(GrantRow, row) for row in found]


def revoke_grants(tx: Connection, conversation: str, ids: Sequence[int]) -> int:
    """Revoke grants; return how many existed."""
    there = approval_grants.c.conversation == conversation
    return sum(
        tx.execute(delete(approval_grants).where(there, approval_grants.c.id.in_(part))).rowcount
        for part in chunks(ids)
    )


def _close(
    tx: Connection,
    closing: ReturningUpdate[Any],
    which: Mapping[str, str],
    decision: Decided,
    by: str | None,
    now: datetime,
    reason: str,
) -> list[ApprovalRow]:
    closed = tx.execute(closing, {**which, "made": decision, "by": by, "at": now, "said": reason})
    rows = sorted((_approval(row) for row in closed), key=lambda row: (row.asked_at, row.prompt_id))
    if rows:
        answered = prompts.c.id.in_([row.prompt_id for row in rows])
        answer = {"answer": decision, "answered_by": by, "answered_at": now}
        tx.execute(update(prompts).where(answered).values(answer))
    return rows


def _grant(tx: Connection, row: ApprovalRow, by: str, now: datetime, person: str) -> None:
    values = {
        "conversation": row.conversation,
        "person": person,
        "tool": row.tool,
        "coverage": row.coverage,
        "shown": row.shown,
        "granted_by": by,
        "granted_at": now,
    }
    keys = ["conversation", "person", "tool", "coverage"]
    tx.execute(insert(tx, approval_grants).on_conflict_do_nothing(index_elements=keys), values)
    known = [grant.id for grant in grants(tx, row.conversation)]
    revoke_grants(tx, row.conversation, known[:-MOST_GRANTS])


def _allows(row: ApprovalRow) -> bool:
    return row.decision is not None and row.decision.allows


def _approval(row: Row[*tuple[Any, ...]]) -> ApprovalRow:
    return value_of(ApprovalRow, row, decision=None if row.decision is None else Decided(row.decision))
