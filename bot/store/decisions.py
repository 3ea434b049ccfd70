"""Decisions about a message, reconstructed from its rows in the inbox, the runs, their events and the outbox.

Every query uses a key or an index, and only `event_of_quote` reads what people or the agent said.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, or_, select

from bot.store.tables import access, approvals, inbox, outbox, run_events, runs, usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    AnyRow = Row[*tuple[Any, ...]]

TOLD = ("tool_ended", "model_retrying", "notice", "resumed", "failed")
"""Types of events that record decisions or outcomes; only kinds and names are read from them."""

SEARCHED = 200
"""Newest messages of a chat, and as many replies, that are searched for a quote."""
TELLING = 12
"""Fewest letters and digits for a part of a message to identify it."""
AFTER_ID = ("/", "|")
"""Separators after a platform's own id in stored ids, followed by what else the adapter must know (Feishu, WeCom)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run. models: calls by the model that answered. tools: calls by name and success. retries: by kind of failure.
    asked: approvals as (tool, decision or None, by whom, seconds until it was decided)."""

    run_id: str
    conversation: str
    speaker: str
    model: str
    state: str
    detail: str
    rule: str
    place: int | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    slot_wait: int | None
    first_words: int | None
    starts: int
    models: Counter[str]
    tools: Counter[tuple[str, bool]]
    retries: Counter[str]
    fallbacks: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str | None, str | None, float | None], ...]
    shown_at: datetime | None
    abandoned: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """One event. reason: why it is settled. run_id: of the run that answers it, or None."""

    event_id: int
    account: str
    chat: str | None
    kind: str
    received_at: datetime
    state: str
    reason: str
    run_id: str | None


def event(tx: Connection, event_id: int) -> MessageFacts | None:
    row = tx.execute(select(inbox).where(inbox.c.id == event_id)).first()
    if row is None:
        return None
    return MessageFacts(
        event_id=row.id,
        account=row.account,
        chat=row.chat,
        kind=str(json.loads(row.event).get("type", "")),
        received_at=row.received_at,
        state=row.state,
        reason=row.reason or "",
        run_id=row.run_id,
    )


def event_of(tx: Connection, account: str, chat: str, message_id: str) -> int | None:
    """The event of a person's message, or the first event that the bot's message answers."""
    here = (inbox.c.account == account) & (inbox.c.chat == chat) & _is(inbox.c.platform_message_id, message_id)
    found: int | None = tx.scalar(select(inbox.c.id).where(here).order_by(inbox.c.id).limit(1))
    if found is not None:
        return found
    ours = (outbox.c.account == account) & (outbox.c.chat == chat) & _is(outbox.c.message_id, message_id)
    key = tx.scalar(select(outbox.c.reply_key).where(ours).limit(1))
    return event_of_reply(tx, key) if key is not None else None


def event_anywhere(tx: Connection, account: str, message_id: str, handle: str = "") -> int | None:
    """Like event_of, but searching all chats of the account. handle: only chats that had this public name at that
    time."""
    theirs = select(inbox.c.id).where(inbox.c.account == account, _is(inbox.c.platform_message_id, message_id))
    ours = select(outbox.c.reply_key).where(outbox.c.account == account, _is(outbox.c.message_id, message_id))
    found = [*tx.scalars(theirs.order_by(inbox.c.id)), *(event_of_reply(tx, key) for key in tx.scalars(ours))]
    return next((each for each in found if each is not None and (not handle or _handle(tx, each) == handle)), None)


def event_of_quote(tx: Connection, account: str, chat: str, quoted: str) -> int | None:
    """The newest event of a chat that contains a quote, or whose answer does: for platforms that report only the words
    of a quoted message. The words are compared here and not passed on."""
    wanted = _bare(quoted)
    here = (inbox.c.account == account) & (inbox.c.chat == chat) & inbox.c.platform_message_id.is_not(None)
    said = select(inbox.c.id, inbox.c.event).where(here).order_by(inbox.c.id.desc()).limit(SEARCHED)
    for event_id, body in tx.execute(said):
        if _says(_bare(str(_message(body).get("text", ""))), wanted):
            return int(event_id)
    there = (outbox.c.account == account) & (outbox.c.chat == chat) & (outbox.c.part == 0)
    shown = select(outbox.c.reply_key, outbox.c.body).where(there).order_by(outbox.c.created_at.desc()).limit(SEARCHED)
    for key, body in tx.execute(shown):
        text = str(json.loads(body).get("text", "")) if body else ""
        if _says(_bare(text), wanted) and (found := event_of_reply(tx, key)) is not None:
            return found
    return None


def _is(column: ColumnElement[str | None], message_id: str) -> ColumnElement[bool]:
    """Whether a stored id matches this platform id."""
    more = (column.startswith(message_id + after, autoescape=True) for after in AFTER_ID)
    return or_(column == message_id, *more)


def _message(body: str) -> dict[str, Any]:
    """The message of an event; for an edit, the edited message."""
    found = json.loads(body)
    inner = found.get("message")
    return inner if isinstance(inner, dict) else found


def _handle(tx: Connection, event_id: int) -> str:
    body = tx.scalar(select(inbox.c.event).where(inbox.c.id == event_id))
    return str(_message(body).get("chat_handle", "")) if body else ""


def _bare(text: str) -> str:
    """Return the text's letters and digits, which do not depend on how the text is rendered."""
    return re.sub(r"[\W_]+", "", text).casefold()


def _says(said: str, quoted: str) -> bool:
    """Whether a quote matches a message: all of it, or enough of it to identify it."""
    if min(len(said), len(quoted)) < TELLING:
        return bool(quoted) and said == quoted
    return said in quoted or quoted in said


def event_of_reply(tx: Connection, reply_key: str) -> int | None:
    """The first event that a reply answers: a run's reply has the run's id, the gateway's own name the event."""
    kind, _, number = reply_key.partition(":")
    if kind in ("event", "files") and number.isdecimal():
        return int(number)
    ids = tx.scalar(select(runs.c.inbox_ids).where(runs.c.run_id == reply_key))
    return ids[0] if ids else None


def run(tx: Connection, run_id: str) -> RunFacts | None:
    row = tx.execute(select(runs).where(runs.c.run_id == run_id)).first()
    if row is None:
        return None
    told = tx.execute(
        select(run_events.c.type, run_events.c.body)
        .where(run_events.c.run_id == run_id, run_events.c.type.in_(TOLD))
        .order_by(run_events.c.seq)
    )
    events = [(kind, json.loads(body)) for kind, body in told]
    called = tx.execute(select(usage.c.model).where(usage.c.thread_id == row.thread_id, usage.c.run_id == run_id))
    reply = tx.execute(select(outbox).where(outbox.c.reply_key == row.reply_key, outbox.c.part == 0)).first()
    asked = tx.execute(select(approvals).where(approvals.c.run_id == run_id).order_by(approvals.c.asked_at)).all()
    return RunFacts(
        run_id=run_id,
        conversation=row.conversation,
        speaker=row.speaker,
        model=row.context.model,
        state=row.state,
        detail=row.detail or "",
        rule=row.rule,
        place=row.place,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        slot_wait=row.slot_wait,
        first_words=row.first_words,
        starts=1 + sum(kind == "resumed" for kind, _ in events),
        models=Counter(model for (model,) in called),
        tools=Counter((body["tool"], body["ok"]) for kind, body in events if kind == "tool_ended"),
        retries=_retries(events),
        fallbacks=tuple(
            (body["model"], body["instead_of"])
            for kind, body in events
            if kind == "notice" and body["kind"] == "fallback"
        ),
        asked=tuple((each.tool, each.decision, each.decided_by, _seconds(each)) for each in asked),
        shown_at=reply.delivered_at if reply is not None else None,
        abandoned=(reply.abandoned or "") if reply is not None else "",
    )


def _seconds(asked: AnyRow) -> float | None:
    return None if asked.decided_at is None else (asked.decided_at - asked.asked_at).total_seconds()


def _retries(events: Sequence[tuple[str, Any]]) -> Counter[str]:
    """Count each retry once: a long pause is reported several times."""
    tries = [(body["kind"], body["attempt"]) for kind, body in events if kind == "model_retrying"]
    return Counter(
        kind for (kind, attempt), before in zip(tries, [None, *tries], strict=False) if (kind, attempt) != before
    )


def let_in(tx: Connection, person: str) -> tuple[str, str, datetime | None] | None:
    """The latest decision on a person's access: the state, by whom, when."""
    query = select(access).where(access.c.subject_kind == "person", access.c.subject_id == person)
    row = tx.execute(query).first()
    return None if row is None else (row.state, row.decided_by or "", row.decided_at)
