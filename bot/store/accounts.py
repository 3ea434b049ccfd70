"""The bot behind each account name, and changes to ids that are part of other ids: an account is renamed, or a group
gets a new chat id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, delete, func, select, update

from bot.store.errors import StoreError
from bot.store.identity import moved_key
from bot.store.knowledge_tables import knowledge_documents
from bot.store.memory_tables import memory_lists, memory_owners, memory_queue
from bot.store.rows import InboxState, RunState
from bot.store.sql import insert, to_json
from bot.store.tables import (
    access,
    accounts,
    approval_grants,
    approvals,
    conversations,
    deletions,
    inbox,
    inbox_keys,
    outbox,
    prompts,
    runs,
    schedules,
    threads,
    usage,
)
from channels.message import (
    INBOUND_EVENT,
    ButtonPressed,
    HookCalled,
    MembershipChanged,
    Message,
    MessageEdited,
    ScheduleDue,
)
from harness.context import UNREADABLE_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sqlalchemy import Column, Connection

    from channels.message import Address
    from harness.context import RunContext

CHOSEN = ("model", "agent", "skills_off", "timezone", "progress", "research_style", "voice")
"""Columns of a conversation that hold the settings people chose for it."""


class AccountConflict(StoreError):
    """An account and its bot contradict the records. kind "other_bot": `name` belongs to the bot `known` (platform:id).

    kind "renamed": this bot has always been the account `known`; use `antler account rename`.
    """

    def __init__(self, kind: Literal["other_bot", "renamed"], name: str, known: str) -> None:
        super().__init__(
            f"account {name} belongs to the bot {known}"
            if kind == "other_bot"
            else f"the bot of {name} is account {known}"
        )
        self.kind = kind
        self.name = name
        self.known = known


def bind(tx: Connection, name: str, platform: str, bot_id: str, now: datetime) -> None:
    """Record or confirm that account `name` is that bot. Raises AccountConflict."""
    row = tx.execute(select(accounts.c.platform, accounts.c.bot_id).where(accounts.c.name == name)).first()
    if row is not None:
        if (row.platform, row.bot_id) != (platform, bot_id):
            raise AccountConflict("other_bot", name, f"{row.platform}:{row.bot_id}")
        tx.execute(update(accounts).where(accounts.c.name == name).values(last_seen=now))
        return
    same_bot = select(accounts.c.name).where(accounts.c.platform == platform, accounts.c.bot_id == bot_id)
    other = tx.scalar(same_bot)
    if other is not None:
        raise AccountConflict("renamed", name, other)
    values = {"name": name, "platform": platform, "bot_id": bot_id, "first_seen": now, "last_seen": now}
    tx.execute(insert(tx, accounts), values)


ACTIVE = runs.c.state.in_((RunState.RUNNING, RunState.WAITING))
UNSETTLED = inbox.c.state.in_((InboxState.NEW, InboxState.ASSIGNED))
HOLD_ACCOUNT = (
    inbox.c.account, inbox_keys.c.account, conversations.c.account, runs.c.account, outbox.c.account,
    schedules.c.account, deletions.c.account,
)  # fmt: skip
HOLD_PREFIX = (
    conversations.c.key, threads.c.conversation, threads.c.owner, runs.c.conversation, runs.c.speaker,
    prompts.c.conversation, prompts.c.who, prompts.c.answered_by, access.c.subject_id, access.c.decided_by,
    approvals.c.conversation, approvals.c.requester, approvals.c.reason_from, approvals.c.decided_by,
    approval_grants.c.conversation, approval_grants.c.person, approval_grants.c.granted_by,
    memory_owners.c.owner, memory_lists.c.conversation, memory_lists.c.owner,
    memory_queue.c.owner, memory_queue.c.speaker, memory_queue.c.conversation,
    knowledge_documents.c.owner, knowledge_documents.c.added_by,
    usage.c.conversation, usage.c.speaker, schedules.c.conversation, schedules.c.person,
    deletions.c.subject, deletions.c.asked_by,
)  # fmt: skip
"""Columns whose values start with `account:`. conversations.owner follows threads.owner through its foreign key;
memories move together with their contents (bot/memory/keeper.py)."""


def migrate_chat(tx: Connection, account: str, old_chat: str, new_chat: str) -> None:
    """Move everything from a group's old chat id to the new one: conversations and what they own, runs, replies, open
    prompts, and waiting messages. A conversation that already exists under the new id continues the old one's thread,
    which holds the history."""
    for key in tx.scalars(select(conversations.c.key).where(conversations.c.account == account)).all():
        if (moved_to := moved_key(key, account, old_chat, new_chat)) is not None:
            _move_conversation(tx, key, moved_to)
    for table in (runs, outbox, schedules, deletions):
        tx.execute(update(table).where(table.c.account == account, table.c.chat == old_chat).values(chat=new_chat))
    # Message ids start over in the new chat.
    _set(tx, schedules.c.reply_to, (schedules.c.account == account) & (schedules.c.chat == new_chat), None)
    tx.execute(update(outbox).where(outbox.c.account == account, outbox.c.chat == new_chat).values(sent_after=None))

    def moved(address: Address) -> Address:
        return replace(address, chat=new_chat) if address.chat == old_chat else address

    tx.execute(update(accounts).where(accounts.c.name == account).values(moves=func.coalesce(accounts.c.moves, 0) + 1))
    waiting = (inbox.c.account == account) & (inbox.c.chat == old_chat) & UNSETTLED
    _rewrite_events(tx, waiting, lambda event: _with_address(event, moved))
    tx.execute(update(inbox).where(waiting).values(chat=new_chat))


MOVES = select(func.sum(accounts.c.moves))


def moves(tx: Connection) -> int:
    """Return how often a chat was given another id; when it changes, caches keyed by conversation are out of date."""
    return tx.scalar(MOVES) or 0


def rename(tx: Connection, old: str, new: str) -> None:
    """Rename an account, in every id that contains its name. Raises LookupError when the account does not exist,
    IntegrityError when the new name is taken."""
    if tx.execute(update(accounts).where(accounts.c.name == old).values(name=new)).rowcount == 0:
        raise LookupError(f"no account {old}")
    open_runs = (runs.c.account == old) & runs.c.ended_at.is_(None)
    _rewrite_contexts(tx, open_runs, lambda context: _renamed_context(context, old, new))
    _rewrite_events(tx, (inbox.c.account == old) & UNSETTLED, lambda event: _renamed_event(event, new))
    for column in HOLD_PREFIX:
        starts = func.substr(column, 1, len(old) + 1) == f"{old}:"
        _set(tx, column, starts, new + func.substr(column, len(old) + 1))
    for column in (*HOLD_ACCOUNT, access.c.account):
        _set(tx, column, column == old, new)


def _move_conversation(tx: Connection, old: str, new: str) -> None:
    taken = tx.scalar(select(conversations.c.key).where(conversations.c.key == new)) is not None
    _set(tx, threads.c.owner, threads.c.owner == old, new)
    _set(tx, threads.c.conversation, threads.c.conversation == old, new)
    if taken:
        source = tx.execute(select(conversations).where(conversations.c.key == old)).one()
        tx.execute(delete(conversations).where(conversations.c.key == old))
        chosen = {name: getattr(source, name) for name in CHOSEN}
        changes = {"thread_id": source.thread_id, "owner": source.owner}
        changes |= {name: value for name, value in chosen.items() if value is not None}
        tx.execute(update(conversations).where(conversations.c.key == new).values(changes))
        # Only one run of a conversation may be active; the second one waits and is resumed later.
        if tx.scalar(select(runs.c.seq).where(runs.c.conversation == new, ACTIVE)) is not None:
            second = update(runs).where(runs.c.conversation == old, ACTIVE)
            tx.execute(second.values(state=RunState.PENDING, suspended=True))
    else:
        _set(tx, conversations.c.key, conversations.c.key == old, new)

    def renamed(context: RunContext) -> RunContext:
        return replace(context, conversation=new, owner=new if context.owner == old else context.owner)

    _rewrite_contexts(tx, (runs.c.conversation == old) & runs.c.ended_at.is_(None), renamed)
    _set(tx, runs.c.conversation, runs.c.conversation == old, new)
    for column in (prompts.c.conversation, approvals.c.conversation, usage.c.conversation, schedules.c.conversation):
        _set(tx, column, column == old, new)
    _move_grants(tx, old, new)
    _move_memory(tx, old, new)


def _move_grants(tx: Connection, old: str, new: str) -> None:
    """Move the grants; those that exist under both keys are kept once."""
    known = select(approval_grants).where(approval_grants.c.conversation == new).subquery()
    same = (known.c.person == approval_grants.c.person) & (known.c.tool == approval_grants.c.tool)
    twice = select(known.c.id).where(same, known.c.coverage == approval_grants.c.coverage).exists()
    tx.execute(delete(approval_grants).where(approval_grants.c.conversation == old, twice))
    _set(tx, approval_grants.c.conversation, approval_grants.c.conversation == old, new)


def _move_memory(tx: Connection, old: str, new: str) -> None:
    """Keep the decisions about a group's memory, and its numbering, from the old id; the memory itself has moved."""
    for key in (memory_owners.c.owner, memory_lists.c.conversation):
        if tx.scalar(select(key).where(key == old)) is not None:
            tx.execute(delete(key.table).where(key == new))
            _set(tx, key, key == old, new)
    for column in (memory_lists.c.owner, memory_queue.c.owner, memory_queue.c.conversation):
        _set(tx, column, column == old, new)
    _set(tx, knowledge_documents.c.owner, knowledge_documents.c.owner == old, new)


def _set(tx: Connection, column: Column[Any], where: ColumnElement[bool], value: object) -> None:
    tx.execute(update(column.table).where(where).values({column.name: value}))


def _rewrite_contexts(tx: Connection, where: ColumnElement[bool], change: Callable[[RunContext], RunContext]) -> None:
    for run_id, context in list(tx.execute(select(runs.c.run_id, runs.c.context).where(where))):
        if context != UNREADABLE_CONTEXT:
            tx.execute(update(runs).where(runs.c.run_id == run_id).values(context=change(context)))


def _rewrite_events(tx: Connection, where: ColumnElement[bool], change: Callable[[Any], Any]) -> None:
    for row_id, text in list(tx.execute(select(inbox.c.id, inbox.c.event).where(where))):
        event = to_json(INBOUND_EVENT, change(INBOUND_EVENT.validate_json(text)))
        tx.execute(update(inbox).where(inbox.c.id == row_id).values(event=event))


def _with_address(event: Any, change: Callable[[Address], Address]) -> Any:
    if isinstance(event, Message | ButtonPressed | MembershipChanged | ScheduleDue | HookCalled):
        return replace(event, address=change(event.address))
    if isinstance(event, MessageEdited):
        return replace(event, message=_with_address(event.message, change))
    return event


def _renamed_event(event: Any, new: str) -> Any:
    if isinstance(event, MessageEdited):
        event = replace(event, message=_renamed_event(event.message, new))
    return replace(_with_address(event, lambda address: replace(address, account=new)), account=new)


def _renamed_context(context: RunContext, old: str, new: str) -> RunContext:
    def renamed(identity: str) -> str:
        return new + identity[len(old) :] if identity.startswith(f"{old}:") else identity

    return replace(
        context,
        account=new,
        conversation=renamed(context.conversation),
        owner=renamed(context.owner),
        speaker=replace(context.speaker, id=renamed(context.speaker.id)),
    )
