"""Conversations, and the threads they point at. A thread belongs to one owner for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import bindparam, select, update

from bot.store.errors import StoreError
from bot.store.rekey import migrate_chat as migrate_chat
from bot.store.rows import ConversationRow
from bot.store.sql import chunks, insert
from bot.store.tables import conversations, threads

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy import Connection

# Built once: making a statement costs more than running it.
ONE = (
    select(conversations, threads.c.title)
    .join(threads, threads.c.thread_id == conversations.c.thread_id)
    .where(conversations.c.key == bindparam("name"))
)


class OwnerMismatch(StoreError):
    """A conversation is another owner's than it was; nobody is given its thread."""


def load(tx: Connection, key: str) -> ConversationRow | None:
    """The conversation, None if nobody has written there yet."""
    row = tx.execute(ONE, {"name": key}).first()
    if row is None:
        return None
    return ConversationRow(
        key=row.key, account=row.account, owner=row.owner, thread_id=row.thread_id, model=row.model, title=row.title
    )


def known(tx: Connection, keys: Iterable[str]) -> set[str]:
    """Those of the keys that belong to a conversation."""
    found = (tx.scalars(select(conversations.c.key).where(conversations.c.key.in_(part))) for part in chunks(keys))
    return {key for part in found for key in part}


def direct(tx: Connection, person: str) -> ConversationRow | None:
    """The person's own conversation with the bot, None if they never wrote to it."""
    key = tx.scalar(select(conversations.c.key).where(conversations.c.owner == person).limit(1))
    return None if key is None else load(tx, key)


def ensure(tx: Connection, key: str, account: str, owner: str, now: datetime) -> ConversationRow:
    """The conversation, begun with a new thread if need be. Raises OwnerMismatch when it is another owner's."""
    known = load(tx, key)
    if known is None:
        thread_id = _begin_thread(tx, key, owner, "", now)
        values = {"key": key, "account": account, "owner": owner, "thread_id": thread_id, "created_at": now}
        tx.execute(insert(tx, conversations), values)
        return ConversationRow(key=key, account=account, owner=owner, thread_id=thread_id, model=None, title="")
    if known.owner != owner:
        raise OwnerMismatch(f"conversation {key} is {known.owner}'s, not {owner}'s")
    return known


def new_thread(tx: Connection, key: str, title: str, now: datetime) -> ConversationRow:
    """Begin a new thread in an existing conversation; the old one stays its owner's. Raises LookupError."""
    known = _existing(tx, key)
    thread_id = _begin_thread(tx, key, known.owner, title, now)
    tx.execute(update(conversations).where(conversations.c.key == key).values(thread_id=thread_id))
    return _existing(tx, key)


def set_model(tx: Connection, key: str, model: str | None) -> None:
    """Choose a model for the conversation, None for the default."""
    tx.execute(update(conversations).where(conversations.c.key == key).values(model=model))


def _begin_thread(tx: Connection, key: str, owner: str, title: str, now: datetime) -> str:
    thread_id = uuid4().hex
    values = {"thread_id": thread_id, "conversation": key, "owner": owner, "title": title, "created_at": now}
    tx.execute(insert(tx, threads), values)
    return thread_id


def _existing(tx: Connection, key: str) -> ConversationRow:
    known = load(tx, key)
    if known is None:
        raise LookupError(f"no conversation {key}")
    return known
