"""Conversations, and the threads that they reference. A thread never changes its owner."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from sqlalchemy import bindparam, func, select, union_all, update

from bot.store.accounts import migrate_chat as migrate_chat
from bot.store.errors import StoreError
from bot.store.identity import chat_id, direct_address, is_in_chat
from bot.store.rows import ConversationRow, ThreadRow, value_of
from bot.store.sql import chunks, insert
from bot.store.tables import access, conversations, outbox, runs, threads, usage
from channels.message import Address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from sqlalchemy import Connection

Choosable = Literal["model", "agent", "timezone", "progress", "research_style", "voice"]
"""A setting of a conversation."""

# Built once: building a statement costs more than running it.
ONE = (
    select(conversations, threads.c.title)
    .join(threads, threads.c.thread_id == conversations.c.thread_id)
    .where(conversations.c.key == bindparam("name"))
)


class OwnerMismatch(StoreError):
    """A conversation belongs to a different owner than expected; its thread is withheld."""


def load(tx: Connection, key: str) -> ConversationRow | None:
    """One conversation, None if nobody has written there yet."""
    row = tx.execute(ONE, {"name": key}).first()
    if row is None:
        return None
    return value_of(ConversationRow, row, skills_off=tuple(json.loads(row.skills_off or "[]")))


def known(tx: Connection, keys: Iterable[str]) -> set[str]:
    """The keys among these that belong to a conversation."""
    found = (tx.scalars(select(conversations.c.key).where(conversations.c.key.in_(part))) for part in chunks(keys))
    return {key for part in found for key in part}


def owners(tx: Connection, account: str) -> set[str]:
    return set(tx.scalars(select(conversations.c.owner).where(conversations.c.account == account)))


def direct(tx: Connection, person: str) -> ConversationRow | None:
    """The person's own conversation with the bot on their account, None if they never wrote to it there."""
    there = conversations.c.account == person.partition(":")[0]
    key = tx.scalar(select(conversations.c.key).where(conversations.c.owner == person, there).limit(1))
    return None if key is None else load(tx, key)


def place_of(tx: Connection, chat: str) -> Address | None:
    """The address of a person's own conversation `account:native id`, or of a chat `account:chat[/topic]`; None if no
    message to or from it, and no request for access, is known."""
    own = direct(tx, chat)
    account, _, native = chat.partition(":")
    # First literally, for platform ids that contain a key's separators; then as a key.
    for place in (Address(account=account, chat=native), direct_address(own.key if own is not None else chat)):
        there = [(each.c.account == account) & (each.c.chat == place.chat) for each in (outbox, runs)]
        kinds = union_all(*(select(t.c.chat_kind).where(at) for t, at in zip((outbox, runs), there, strict=True)))
        if (kind := tx.scalar(kinds.limit(1))) is not None:
            return replace(place, kind=kind)
    keys = tx.scalars(select(conversations.c.key).where(conversations.c.account == account))
    if own is not None or any(is_in_chat(key, chat_id(place)) for key in keys):
        return place
    asked = tx.execute(select(access).where(access.c.subject_id == chat)).first()
    if asked is None or (asked.subject_kind == "person" and asked.chat is None):
        return None
    return replace(place, kind="group") if asked.subject_kind == "group" else replace(place, chat=asked.chat)


def ensure(tx: Connection, key: str, account: str, owner: str, now: datetime) -> ConversationRow:
    """Return the conversation, created with a new thread if needed. Raises OwnerMismatch if it has another owner."""
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
    """Begin a new thread in an existing conversation; its owner keeps the old one. Raises LookupError."""
    known = _existing(tx, key)
    thread_id = _begin_thread(tx, key, known.owner, title, now)
    tx.execute(update(conversations).where(conversations.c.key == key).values(thread_id=thread_id))
    return _existing(tx, key)


def title_of(tx: Connection, thread_id: str) -> str:
    """The thread's title, "" while it has none."""
    return tx.scalar(select(threads.c.title).where(threads.c.thread_id == thread_id)) or ""


def rename_thread(tx: Connection, thread_id: str, title: str) -> None:
    tx.execute(update(threads).where(threads.c.thread_id == thread_id).values(title=title))


def name_thread(tx: Connection, thread_id: str, title: str) -> None:
    """Give a thread a title, unless it has one."""
    tx.execute(update(threads).where(threads.c.thread_id == thread_id, threads.c.title == "").values(title=title))


def threads_of(tx: Connection, conversation: ConversationRow, limit: int) -> list[ThreadRow]:
    """Return a conversation's current thread, and its owner's threads that were begun here and in which the agent was
    asked something; the `limit` most recent of these."""
    said = (
        select(runs.c.thread_id, func.max(runs.c.created_at), func.count(), func.min(runs.c.seq))
        .where(runs.c.conversation == conversation.key)
        .group_by(runs.c.thread_id)
    )
    known = {thread_id: rest for thread_id, *rest in tx.execute(said)}
    own = (threads.c.conversation == conversation.key) & (threads.c.owner == conversation.owner)
    found = []
    for thread in tx.execute(select(threads).where(own | (threads.c.thread_id == conversation.thread_id))):
        last_at, messages, first = known.get(thread.thread_id, (None, 0, None))
        current = thread.thread_id == conversation.thread_id
        if messages or current or _was_used(tx, thread.thread_id):
            found.append((last_at or thread.created_at, messages, first, thread))
    found.sort(key=lambda each: each[0], reverse=True)
    return [
        ThreadRow(
            thread_id=thread.thread_id,
            title=thread.title,
            last_at=last_at,
            messages=messages,
            first_input=tx.scalar(select(runs.c.input).where(runs.c.seq == first)) if first is not None else None,
        )
        for last_at, messages, first, thread in found[:limit]
    ]


def resume_thread(tx: Connection, key: str, thread_id: str) -> None:
    """Continue a thread that was begun in this conversation. Raises LookupError if it belongs to another one."""
    known = _existing(tx, key)
    own = (threads.c.thread_id == thread_id) & (threads.c.conversation == key) & (threads.c.owner == known.owner)
    if thread_id != known.thread_id and tx.scalar(select(threads.c.thread_id).where(own)) is None:
        raise LookupError(f"no thread {thread_id} of conversation {key}")
    tx.execute(update(conversations).where(conversations.c.key == key).values(thread_id=thread_id))


def _was_used(tx: Connection, thread_id: str) -> bool:
    """Whether a model was called in a thread, even if its runs are already pruned."""
    return tx.scalar(select(usage.c.id).where(usage.c.thread_id == thread_id).limit(1)) is not None


def choose(tx: Connection, key: str, what: Choosable, chosen: str | None) -> None:
    """Record a setting of the conversation, None for the default."""
    tx.execute(update(conversations).where(conversations.c.key == key).values({what: chosen}))


def set_skills_off(tx: Connection, key: str, names: Iterable[str]) -> None:
    """Record the names of all skills that are off in the conversation."""
    off = json.dumps(sorted(set(names)))
    tx.execute(update(conversations).where(conversations.c.key == key).values(skills_off=off))


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
