"""The messages that a conversation of the gateway's own accounts shows. Its inbox and outbox rows are the only copy.

For these accounts both are kept as long as the conversation has a used thread, and blanked when a person is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from bot.store.identity import OWN_ACCOUNTS
from bot.store.sql import chunks, from_json
from bot.store.tables import branches, conversations, deletions, inbox, outbox, runs, threads
from channels.message import INBOUND_EVENT, OUTBOUND_MESSAGE, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, Row, Select, Table

    from channels.message import Attachment, OutboundMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A person's message, as it was committed."""

    message: Message
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A reply of the bot. message_ids: of its sent parts, in order. message: None while the reply is being generated.
    forgotten: its words were deleted."""

    message_ids: tuple[str, ...]
    message: OutboundMessage | None
    forgotten: bool
    reply_to: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A conversation in a list. touched_at: when the agent was last asked something in it, else when it began."""

    chat: str
    key: str
    thread_id: str
    title: str
    touched_at: datetime


def is_shown(table: Table) -> ColumnElement[bool]:
    """Whether a row of the inbox or the outbox is the only copy of what one of these conversations shows."""
    used = select(threads.c.thread_id).where(
        threads.c.conversation == table.c.account + ":" + table.c.chat, threads.c.touched_at.is_not(None)
    )
    return table.c.account.in_(sorted(OWN_ACCOUNTS)) & used.exists()


def listed(tx: Connection, account: str, owner: str, limit: int, before: datetime | None) -> list[Listed]:
    """Return an owner's conversations on an account, most recently used first. before: only those used earlier.
    Branches are included once complete."""
    unmade = select(branches.c.key).where(branches.c.key == conversations.c.key, branches.c.made_at.is_(None))
    query = _conversations().where(conversations.c.account == account, conversations.c.owner == owner, ~unmade.exists())
    if before is not None:
        query = query.where(before > LAST_USED)
    return [_listed(row) for row in tx.execute(query.order_by(LAST_USED.desc()).limit(limit))]


WHOLE_CHAT = "chat:"
"""Prefix of the ids of deletions that remove a whole conversation, thread by thread."""


def one(tx: Connection, key: str) -> Listed | None:
    """One conversation, None before its first message."""
    row = tx.execute(_conversations().where(conversations.c.key == key)).first()
    return None if row is None else _listed(row)


LAST_USED = func.coalesce(threads.c.touched_at, threads.c.created_at)


def _conversations() -> Select[Any]:
    there = threads.c.thread_id == conversations.c.thread_id
    leaving = select(deletions.c.id).where(
        deletions.c.done_at.is_(None),
        deletions.c.id.startswith(WHOLE_CHAT),
        deletions.c.account + ":" + deletions.c.chat == conversations.c.key,
    )
    columns = (conversations.c.key, conversations.c.thread_id, threads.c.title, conversations.c.created_at)
    return select(*columns, LAST_USED.label("touched_at")).join(threads, there).where(~leaving.exists())


def _listed(row: Row[Any]) -> Listed:
    return Listed(
        chat=row.key.partition(":")[2],
        key=row.key,
        thread_id=row.thread_id,
        title=row.title,
        touched_at=row.touched_at if row.touched_at is not None else row.created_at,
    )


def said(tx: Connection, account: str, chat: str, limit: int, before: datetime | None) -> list[Said]:
    """The newest messages of people, newest first, without forgotten ones."""
    there = (inbox.c.account == account) & (inbox.c.chat == chat) & inbox.c.platform_message_id.is_not(None)
    query = select(inbox.c.event, inbox.c.received_at).where(there)
    if before is not None:
        query = query.where(inbox.c.received_at < before)
    found = []
    for row in tx.execute(query.order_by(inbox.c.id.desc()).limit(limit)):
        event = from_json(INBOUND_EVENT, row.event)
        if isinstance(event, Message) and (event.text or event.attachments):
            found.append(Said(message=event, at=row.received_at))
    return found


def is_known(tx: Connection, account: str, chat: str, message_id: str) -> bool:
    """Whether a person's message with that id was committed."""
    there = (inbox.c.account == account) & (inbox.c.chat == chat) & (inbox.c.platform_message_id == message_id)
    return tx.execute(select(inbox.c.id).where(there).limit(1)).first() is not None


def answered(tx: Connection, account: str, chat: str, limit: int, before: datetime | None) -> list[Answered]:
    """The newest replies sent to a chat, newest first, without forgotten ones."""
    there = (outbox.c.account == account) & (outbox.c.chat == chat)
    first = select(outbox.c.reply_key, outbox.c.created_at).where(there, outbox.c.part == 0)
    if before is not None:
        first = first.where(outbox.c.created_at < before)
    newest = first.order_by(outbox.c.created_at.desc(), outbox.c.reply_key).limit(limit).subquery()
    rows = tx.execute(
        select(outbox).where(there, outbox.c.reply_key.in_(select(newest.c.reply_key))).order_by(outbox.c.part)
    )
    parts: dict[str, list[Any]] = {}
    for row in rows:
        parts.setdefault(row.reply_key, []).append(row)
    found = [_answered(each) for each in parts.values()]
    there_now = [each for each in found if each.message_ids and not each.forgotten]
    return sorted(there_now, key=lambda each: each.at, reverse=True)


def reply_of(tx: Connection, account: str, chat: str, message_id: str) -> Answered | None:
    """The reply that contains a given message of the bot."""
    there = (outbox.c.account == account) & (outbox.c.chat == chat)
    at = tx.scalar(select(outbox.c.reply_key).where(there, outbox.c.message_id == message_id).limit(1))
    if at is None:
        return None
    return _answered(list(tx.execute(select(outbox).where(outbox.c.reply_key == at).order_by(outbox.c.part))))


def _answered(rows: Sequence[Any]) -> Answered:
    """Build a reply. rows: its parts in order."""
    first = rows[0]
    return Answered(
        message_ids=tuple(row.message_id for row in rows if row.message_id is not None and row.sent_rev >= 0),
        message=from_json(OUTBOUND_MESSAGE, first.body) if first.body else None,
        forgotten=not first.body and (first.final or first.abandoned is not None),
        reply_to=first.reply_to,
        at=first.created_at,
    )


def attached(tx: Connection, account: str, owner: str, limit: int) -> list[tuple[str, Attachment, datetime]]:
    """(chat, file, time) of the files that an owner sent in their conversations on an account; from the newest messages
    with files, newest first."""
    own = select(conversations.c.key).where(conversations.c.account == account, conversations.c.owner == owner)
    there = (inbox.c.account == account) & (account + ":" + inbox.c.chat).in_(own)
    query = select(inbox.c.chat, inbox.c.event, inbox.c.received_at).where(
        there, inbox.c.platform_message_id.is_not(None), inbox.c.event.contains('"attachments":[{')
    )
    found = []
    for chat, body, at in tx.execute(query.order_by(inbox.c.id.desc()).limit(limit)):
        event = from_json(INBOUND_EVENT, body)
        if isinstance(event, Message):
            found += [(chat, file, at) for file in event.attachments]
    return found


def presented(tx: Connection, account: str, owner: str, limit: int) -> list[tuple[str, Answered]]:
    """(chat, reply) of the newest replies with files in an owner's conversations on an account, newest first."""
    own = select(conversations.c.key).where(conversations.c.account == account, conversations.c.owner == owner)
    first = (outbox.c.account == account) & (account + ":" + outbox.c.chat).in_(own) & (outbox.c.part == 0)
    query = select(outbox.c.reply_key, outbox.c.chat).where(first, outbox.c.body.contains('"files":[{'))
    keys = {key: chat for key, chat in tx.execute(query.order_by(outbox.c.created_at.desc()).limit(limit))}
    parts: dict[str, list[Any]] = {key: [] for key in keys}
    for row in tx.execute(select(outbox).where(outbox.c.reply_key.in_(keys)).order_by(outbox.c.part)):
        parts[row.reply_key].append(row)
    return [(keys[key], _answered(rows)) for key, rows in parts.items()]


def kept_files(tx: Connection, names: Iterable[str]) -> set[str]:
    """Which of these folders of spooled files the chats of the gateway's own accounts still show: those of stored runs,
    of replies to commands, and of branches."""
    own, there = sorted(OWN_ACCOUNTS), (outbox.c.reply_key == runs.c.reply_key) & (outbox.c.body != "")
    kept: set[str] = set()
    for part in chunks(names):
        replies = select(outbox.c.reply_key).where(
            outbox.c.reply_key.in_(part), outbox.c.account.in_(own), outbox.c.body != ""
        )
        of_runs = select(runs.c.run_id).join(outbox, there).where(runs.c.run_id.in_(part), runs.c.account.in_(own))
        of_branches = select(branches.c.thread_id).where(branches.c.thread_id.in_(part))
        kept.update(name for query in (replies, of_runs, of_branches) for name in tx.scalars(query))
    return kept
