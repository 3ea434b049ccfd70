"""Removal of one person's words from the tables: from events, other people's runs, replies and reminders; and of the
rest of a chat that they delete.

Each function may run again after a crash; long work is done in portions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, func, select, update

from bot.store.forgetting import (
    PORTION,
    SETTLED,
    SHOWN,
    DeletionKind,
    DeletionRow,
    Whose,
    ask_deletion,
    blank_input,
    blank_replies,
    is_of,
    store_event,
    without_others,
    without_quote_of,
    without_words,
)
from bot.store.identity import OWN_ACCOUNTS, direct_address
from bot.store.shown import WHOLE_CHAT, attached
from bot.store.sql import chunks, from_json
from bot.store.tables import (
    access,
    approval_grants,
    approvals,
    branches,
    conversations,
    inbox,
    outbox,
    runs,
    schedules,
    threads,
)
from channels.message import INBOUND_EVENT, Message, MessageEdited
from harness.context import UNREADABLE_INPUT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from channels.message import Address


ALL = 10_000
"""Most messages with files that are searched for one person on one account: the newest."""


def names_of(tx: Connection, whose: Whose) -> frozenset[str]:
    """The names of the person, as far as they are still known."""
    found = set(tx.scalars(select(schedules.c.name).where(schedules.c.person == whose.person)))
    found |= set(tx.scalars(select(access.c.display_name).where(access.c.subject_id == whose.person)))
    for context in tx.scalars(select(runs.c.context).where(runs.c.speaker == whose.person)):
        found.add(context.speaker.display_name)
    events = select(inbox.c.event).where(inbox.c.account == whose.account, inbox.c.event.contains(whose.native))
    for text in tx.scalars(events, execution_options={"yield_per": PORTION}):
        event = from_json(INBOUND_EVENT, text)
        message = event.message if isinstance(event, MessageEdited) else event
        if isinstance(message, Message) and is_of(message, whose):
            found.add(message.sender.display_name)
    return frozenset(name for name in (" ".join(each.split()) for each in found) if name)


def groups_of(tx: Connection, whose: Whose) -> set[str]:
    """The group chats in which the person spoke to the agent, as far as they are still known."""
    own = and_(runs.c.speaker == whose.person, runs.c.chat_kind != "dm")
    return set(tx.scalars(select(runs.c.chat).where(own).distinct()))


def direct_chats(tx: Connection, whose: Whose) -> set[str]:
    """The person's direct message chats with the bot."""
    own = and_(runs.c.speaker == whose.person, runs.c.chat_kind == "dm")
    found = set(tx.scalars(select(runs.c.chat).where(own).distinct()))
    keys = tx.scalars(select(conversations.c.key).where(conversations.c.owner == whose.person))
    found |= {direct_address(key).chat for key in keys}
    met = select(access.c.chat).where(access.c.subject_id == whose.person, access.c.chat.is_not(None))
    return found | {chat for chat in tx.scalars(met) if chat is not None}


def blank_events(tx: Connection, whose: Whose, until: datetime, after: int) -> int | None:
    """Process one portion of the account's settled events after that id: remove the words of the person's events, of
    other people's quotes of them, and of the replies to them. Returns the last id of the portion, None if it was
    empty."""
    query = select(inbox.c.id, inbox.c.event).where(
        inbox.c.account == whose.account, inbox.c.id > after, inbox.c.received_at <= until, SETTLED
    )
    rows = tx.execute(query.order_by(inbox.c.id).limit(PORTION)).all()
    mine = []
    for row in rows:
        event = from_json(INBOUND_EVENT, row.event)
        if event is None:
            if whose.native in row.event:  # its sender can no longer be determined
                mine.append(row.id)
                store_event(tx, row.id, None)
            continue
        changed = _without(event, whose)
        if is_of(event, whose):
            mine.append(row.id)
        if changed != event:
            store_event(tx, row.id, changed)
    blank_replies(tx, [f"{kind}:{row_id}" for row_id in mine for kind in ("event", "files", "due")])
    return rows[-1].id if rows else None


def _without(event: Any, whose: Whose) -> Any:
    return without_words(event) if is_of(event, whose) else without_quote_of(event, whose)


def under_way(tx: Connection, whose: Whose, met: Collection[str], until: datetime) -> bool:
    """Whether unfinished events or other people's runs from before `until` still contain words of the person."""
    events = select(inbox.c.event).where(inbox.c.account == whose.account, inbox.c.received_at <= until, ~SETTLED)
    for text in tx.scalars(events):
        event = from_json(INBOUND_EVENT, text)
        if event is not None and _without(event, whose) != event:
            return True
    working = select(runs.c.chat, runs.c.input).where(
        _others(whose), runs.c.ended_at.is_(None), runs.c.created_at <= until
    )
    return any(without_others(row.input, whose, met=row.chat in met) != row.input for row in tx.execute(working))


def _others(whose: Whose) -> ColumnElement[bool]:
    """Whether a run belongs to another person in a group."""
    return and_(runs.c.account == whose.account, runs.c.speaker != whose.person, runs.c.chat_kind != "dm")


def blank_others(tx: Connection, whose: Whose, met: Collection[str], after: int) -> int | None:
    """Remove the person's words from one portion of the inputs of other people's ended group runs after that seq. met:
    the chats in which the person spoke. Returns the last seq of the portion, None if it was empty."""
    query = select(runs.c.seq, runs.c.chat, runs.c.input).where(
        _others(whose), runs.c.ended_at.is_not(None), runs.c.seq > after
    )
    rows = tx.execute(query.order_by(runs.c.seq).limit(PORTION)).all()
    for row in rows:
        # An unreadable input may contain their words.
        unreadable = row.input == UNREADABLE_INPUT
        changed = blank_input(row.input) if unreadable else without_others(row.input, whose, met=row.chat in met)
        if changed != row.input:
            tx.execute(update(runs).where(runs.c.seq == row.seq).values(input=changed))
    return rows[-1].seq if rows else None


def blank_chat(tx: Connection, account: str, chats: Iterable[str], until: datetime, told_in: str | None) -> None:
    """Blank what the bot said in these chats until then. told_in: the reply that shows the deletion's progress."""
    for part in chunks(chats):
        there = and_(_direct(account, part), outbox.c.created_at <= until, SHOWN)
        if told_in is not None:
            there = and_(there, outbox.c.reply_key != told_in)
        tx.execute(update(outbox).where(there, outbox.c.body != "").values(body=""))


def still_to_say(tx: Connection, account: str, chats: Iterable[str], until: datetime, told_in: str | None) -> int:
    """Count the replies created until then that are not delivered yet."""
    count = 0
    for part in chunks(chats):
        there = and_(_direct(account, part), outbox.c.created_at <= until, ~SHOWN)
        if told_in is not None:
            there = and_(there, outbox.c.reply_key != told_in)
        count += tx.scalar(select(func.count(outbox.c.reply_key.distinct())).where(there)) or 0
    return count


def _direct(account: str, chats: Collection[str]) -> ColumnElement[bool]:
    return and_(outbox.c.account == account, outbox.c.chat_kind == "dm", outbox.c.chat.in_(chats))


def blank_titles(tx: Connection, run_ids: Sequence[str]) -> None:
    """Remove the titles of group threads whose first run is one of these: titles are made from its message."""
    for part in chunks(run_ids):
        mine = select(runs.c.thread_id).where(runs.c.run_id.in_(part))
        firsts = select(func.min(runs.c.seq)).where(runs.c.thread_id.in_(mine)).group_by(runs.c.thread_id)
        named = select(runs.c.thread_id).where(runs.c.seq.in_(firsts), runs.c.run_id.in_(part))
        tx.execute(update(threads).where(threads.c.thread_id.in_(named)).values(title=""))


def drop_reminders(tx: Connection, whose: Whose, until: datetime) -> int:
    """Delete all schedules that the person created until then, everywhere; return how many."""
    theirs = and_(schedules.c.person == whose.person, schedules.c.created_at <= until)
    return tx.execute(delete(schedules).where(theirs)).rowcount


def drop_grants(tx: Connection, whose: Whose, keys: Iterable[str], until: datetime) -> None:
    """Delete the grants made until then to the person, or in these conversations of theirs, and the reasons for their
    denials."""
    before = approval_grants.c.granted_at <= until
    tx.execute(delete(approval_grants).where(approval_grants.c.person == whose.person, before))
    reasons = update(approvals).where(approvals.c.decided_by == whose.person, approvals.c.asked_at <= until)
    tx.execute(reasons.values(reason=""))
    for part in chunks(keys):
        tx.execute(delete(approval_grants).where(approval_grants.c.conversation.in_(part), before))


# A chat of the gateway's own accounts.


def ask_deletion_of_chat(tx: Connection, address: Address, by: str, now: datetime) -> list[DeletionRow]:
    """Request the deletion of a whole conversation, which is no longer listed from now on. Returns the deletions to
    begin, none if the conversation does not exist."""
    there = threads.c.conversation == f"{address.account}:{address.chat}"
    rows = [
        DeletionRow(
            id=f"{WHOLE_CHAT}{thread_id}",
            kind=DeletionKind.THREAD,
            subject=thread_id,
            account=address.account,
            asked_by=by,
            asked_at=now,
            address=address,
        )
        for thread_id in tx.scalars(select(threads.c.thread_id).where(there).order_by(threads.c.created_at))
    ]
    for row in rows:
        ask_deletion(tx, row)
    return rows


def uploads_of_chat(tx: Connection, address: Address, owner: str, until: datetime) -> list[str]:
    """References of the files that an owner sent in this chat until then, except those that later messages or other
    existing chats still use."""
    brought = [
        ((account, chat), file.ref, at)
        for account in sorted(OWN_ACCOUNTS)
        for chat, file, at in attached(tx, account, owner, ALL)
    ]
    place = (address.account, address.chat)
    here = {ref for chat, ref, at in brought if chat == place and at <= until}
    here -= {ref for chat, ref, at in brought if chat != place or at > until}
    key = f"{address.account}:{address.chat}"
    own = select(branches.c.messages).join(threads, threads.c.thread_id == branches.c.thread_id)
    for messages in tx.scalars(own.where(threads.c.owner == owner, branches.c.key != key)) if here else ():
        here = {ref for ref in here if ref not in messages}
    return sorted(here)


def clear_chat(tx: Connection, row: DeletionRow) -> str | None:
    """Delete the rest of a conversation whose threads were deleted, including messages outside turns, unless it is used
    again. Returns its key if it is gone; None otherwise, and for other kinds of deletions."""
    if row.address is None or not row.id.startswith(WHOLE_CHAT):
        return None
    chat = row.address.chat
    key, here = f"{row.account}:{chat}", (inbox.c.account == row.account) & (inbox.c.chat == chat)
    used = select(threads.c.thread_id).where(threads.c.conversation == key, threads.c.touched_at.is_not(None))
    again = select(inbox.c.id).where(here, inbox.c.received_at > row.asked_at)
    before = select(inbox.c.id, inbox.c.event).where(here, SETTLED, inbox.c.received_at <= row.asked_at)
    for event_row in tx.execute(before).all():
        event = from_json(INBOUND_EVENT, event_row.event)
        store_event(tx, event_row.id, None if event is None else without_words(event))
    if any(tx.execute(each.limit(1)).first() is not None for each in (used, again)):
        return None
    tx.execute(delete(conversations).where(conversations.c.key == key))
    tx.execute(delete(threads).where(threads.c.conversation == key))
    return key
