"""Requested deletions, each with a row so that a crash does not leave one half done; and the removal of a thread's
words from the tables, where ids, times and counts stay until they are pruned by age.

For one person's data elsewhere see personal.py. Each function may run again after a crash.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_, delete, func, literal, or_, select, update

from bot.store import conversations as conversation_rows
from bot.store.identity import OWN_ACCOUNTS, is_speakers, person_id
from bot.store.memory_tables import memory_queue
from bot.store.rows import InboxState, columns_of, value_of
from bot.store.runs import OPEN_STATES
from bot.store.sql import MICROSECOND, chunks, from_json, insert_new, to_json
from bot.store.tables import (
    access,
    approvals,
    branches,
    conversations,
    deletions,
    effects,
    inbox,
    outbox,
    prompts,
    run_events,
    runs,
    threads,
)
from channels.message import (
    INBOUND_EVENT,
    ButtonPressed,
    HookCalled,
    MembershipChanged,
    Message,
    MessageEdited,
    ScheduleDue,
    Unparsed,
)
from harness.context import UNREADABLE_CONTEXT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from channels.message import Address, Sender
    from harness.context import InputFile, RunContext, RunInput


BY_AGE = "age"
"""Takes the place of the requester when a thread is deleted because of its age."""


@dataclass(frozen=True, slots=True)
class Whose:
    """A person of one account. native: their id there. names: their names as they appear in other people's events;
    others may have the same name."""

    account: str
    native: str
    names: frozenset[str] = frozenset()

    @property
    def person(self) -> str:
        return person_id(self.account, self.native)


def without_words(event: Any) -> Any:
    """Return an event without its words and its sender's display name."""
    match event:
        case Message():
            return replace(
                event,
                text="",
                attachments=(),
                reply_to=None,
                sender=_nameless(event.sender),
                chat_title=_title(event),
                turn=None,
            )
        case MessageEdited():
            return replace(event, message=without_words(event.message))
        case ButtonPressed():
            return replace(event, sender=_nameless(event.sender))
        case MembershipChanged():
            return replace(event, sender=_nameless(event.sender), chat_title=_title(event))
        case ScheduleDue():
            return replace(event, sender=_nameless(event.sender), text="")
        case HookCalled():
            return replace(event, sender=_nameless(event.sender), prompt="", text="")
        case Unparsed():
            return replace(event, raw="", error="")
    return event


def is_of(event: Any, whose: Whose) -> bool:
    """Whether a person sent an event; for an unparsed event, whether it contains their id."""
    if isinstance(event, Unparsed):
        return whose.native in event.raw
    if isinstance(event, MessageEdited):
        return is_of(event.message, whose)
    sender = getattr(event, "sender", None)
    return sender is not None and sender.id == whose.native


def without_quote_of(event: Any, whose: Whose) -> Any:
    """Return someone else's event without its quote of the person."""
    if isinstance(event, MessageEdited):
        return replace(event, message=without_quote_of(event.message, whose))
    if isinstance(event, Message) and event.reply_to is not None and _called(event.reply_to.author, whose):
        return replace(event, reply_to=replace(event.reply_to, text="", author="", attachments=()))
    return event


def blank_input(run_input: RunInput) -> RunInput:
    """Return an input without its words. The message's id and its files' sizes stay, for the sender's quota."""
    files = tuple(_blank_file(file) for file in run_input.files)
    # Messages steered into the run have their own rows.
    blank = replace(run_input, text="", quote="", recalled="", background=(), people=(), files=files, steered=())
    return _without_files(replace(blank, collections=()))


def without_others(run_input: RunInput, whose: Whose, *, met: bool) -> RunInput:
    """Return someone else's input without the person's words. met: the person is known to have spoken in that chat;
    then all background is removed, as it does not identify its speakers reliably."""
    steered = tuple(without_others(each, whose, met=met) for each in run_input.steered)
    if met:
        return _without_files(replace(run_input, quote="", recalled="", background=(), people=(), steered=steered))
    kept = tuple(line for line in run_input.background if not _called(line.partition(":")[0], whose))
    people = tuple(name for name in run_input.people if not _called(name, whose))
    return replace(run_input, background=kept, people=people, steered=steered)


def _without_files(run_input: RunInput) -> RunInput:
    """Remove the list of the thread's files that a research was given, whoever sent them."""
    if run_input.research is None:
        return run_input
    return replace(run_input, research=replace(run_input.research, files=()))


def blank_context(context: RunContext) -> RunContext:
    return replace(context, speaker=replace(context.speaker, display_name=""), heading="")


def _blank_file(file: InputFile) -> InputFile:
    # A hash of the path reveals nothing, but two runs with the same file still show that.
    path = Path(hashlib.sha256(str(file.path).encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return replace(file, path=path, name="", text_path=None, note="", voice=None, sha256="", text_sha256="")


def _nameless(sender: Sender) -> Sender:
    return replace(sender, display_name="")


def _title(event: Message | MembershipChanged) -> str:
    """The chat title; empty for a direct message. A group's title is not personal data."""
    return "" if event.address.kind == "dm" else event.chat_title


def _called(name: str, whose: Whose) -> bool:
    return " ".join(name.split()) in whose.names


PORTION = 200
"""Rows per unit of work, so that other units get their turn in between."""
SETTLED = inbox.c.state.in_((InboxState.DONE, InboxState.DEAD))
SHOWN = or_(outbox.c.delivered_at.is_not(None), outbox.c.abandoned.is_not(None))
LAST_TOUCHED = func.coalesce(threads.c.touched_at, threads.c.created_at)
NOWHERE = ""
"""The conversation of a thread that is to be deleted: /threads does not list it, and no run continues it."""
AT_WORK = select(runs.c.run_id).where(runs.c.thread_id == threads.c.thread_id, runs.c.state.in_(OPEN_STATES))
AT_REST = and_(threads.c.conversation != NOWHERE, ~AT_WORK.exists())


# Threads are detached from their conversation before they are deleted.


def let_go(tx: Connection, key: str, until: datetime, now: datetime, only: str | None = None) -> list[str]:
    """Detach the threads created in a conversation until then, or only the thread `only`, so that no new run begins in
    them; if the current thread is among them, the conversation gets a new one. Returns their ids."""
    known = conversation_rows.load(tx, key)
    if known is None:
        return []
    mine = or_(threads.c.conversation == key, threads.c.thread_id == known.thread_id)
    mine = and_(mine, threads.c.owner == known.owner, threads.c.created_at <= until)
    if only is not None:
        mine = and_(mine, threads.c.thread_id == only)
    ids = list(tx.scalars(select(threads.c.thread_id).where(mine)))
    if known.thread_id in ids:
        conversation_rows.new_thread(tx, key, "", max(now, until + MICROSECOND))
    for part in chunks(ids):
        tx.execute(update(threads).where(threads.c.thread_id.in_(part)).values(conversation=NOWHERE))
    return ids


def let_go_of(tx: Connection, whose: Whose) -> list[str]:
    """The detached threads of a person: from their direct messages, and those that only they speak in."""
    gone = select(threads.c.thread_id, threads.c.owner).where(threads.c.conversation == NOWHERE)
    return [thread for thread, owner in tx.execute(gone) if owner == whose.person or is_speakers(owner, whose.person)]


def conversations_of(tx: Connection, whose: Whose) -> list[str]:
    """The keys of a person's own conversations, including those on the web page and the API."""
    there = conversations.c.account.in_(sorted({whose.account, *OWN_ACCOUNTS}))
    query = select(conversations.c.key, conversations.c.owner).where(there)
    return [key for key, owner in tx.execute(query) if owner == whose.person or is_speakers(key, whose.person)]


def is_group(tx: Connection, whose: Whose) -> bool:
    """Whether the id is known to be a group's, not a person's: people spoke to the agent in it, or it was allowed or
    blocked as a group."""
    there = and_(runs.c.account == whose.account, runs.c.chat == whose.native, runs.c.chat_kind != "dm")
    listed = and_(access.c.subject_id == whose.person, access.c.subject_kind == "group")
    return any(tx.execute(select(literal(1)).where(each).limit(1)).first() for each in (there, listed))


def place_of(tx: Connection, thread_id: str) -> str | None:
    """The conversation in which a thread was created; None if the thread does not exist or is already detached."""
    return tx.scalar(select(threads.c.conversation).where(threads.c.thread_id == thread_id)) or None


def working(tx: Connection, thread_ids: Collection[str], whose: Whose | None, until: datetime) -> dict[str, str]:
    """Map unfinished runs to their conversations: runs of these threads, or requested by the person until then."""
    wanted: list[ColumnElement[bool]] = [runs.c.thread_id.in_(part) for part in chunks(thread_ids)]
    if whose is not None:
        wanted.append(and_(runs.c.speaker == whose.person, runs.c.created_at <= until))
    if not wanted:
        return {}
    query = select(runs.c.run_id, runs.c.conversation).where(runs.c.state.in_(OPEN_STATES), or_(*wanted))
    return {run_id: conversation for run_id, conversation in tx.execute(query)}


def untouched(tx: Connection, before: datetime, limit: int = 100) -> list[tuple[str, str]]:
    """(thread, conversation) of threads that have not been used since then and have no open runs."""
    query = select(threads.c.thread_id, threads.c.conversation).where(_untouched(before))
    found = tx.execute(query.order_by(LAST_TOUCHED).limit(limit))
    return [(thread_id, conversation) for thread_id, conversation in found]


def is_untouched(tx: Connection, thread_id: str, before: datetime) -> bool:
    """Whether a thread has not been used since then and has no open runs."""
    query = select(threads.c.thread_id).where(threads.c.thread_id == thread_id, _untouched(before))
    return tx.scalar(query) is not None


def idle(tx: Connection, before: datetime, after: datetime | None) -> Sequence[Row[*tuple[Any, ...]]]:
    """The first 100 uncondensed threads without open runs that were last used after `after` and before `before`."""
    query = select(threads).where(AT_REST, threads.c.condensed_at.is_(None), threads.c.touched_at < before)
    query = query if after is None else query.where(threads.c.touched_at > after)
    return tx.execute(query.order_by(threads.c.touched_at).limit(100)).all()


def condensed(tx: Connection, thread_id: str, before: datetime, now: datetime) -> None:
    """Mark a thread as condensed, unless it has been used since then."""
    still = update(threads).where(threads.c.thread_id == thread_id, threads.c.touched_at < before)
    tx.execute(still.values(condensed_at=now))


def _untouched(before: datetime) -> ColumnElement[bool]:
    # An unused thread from /new is empty, and its conversation would only get another empty one.
    empty = select(conversations.c.key).where(
        conversations.c.thread_id == threads.c.thread_id, threads.c.touched_at.is_(None)
    )
    return and_(before > LAST_TOUCHED, AT_REST, ~empty.exists())


# Data of runs.


def runs_of_thread(tx: Connection, thread_id: str) -> list[str]:
    return list(tx.scalars(select(runs.c.run_id).where(runs.c.thread_id == thread_id)))


def runs_of_person(tx: Connection, whose: Whose, until: datetime) -> list[str]:
    ended = and_(runs.c.speaker == whose.person, runs.c.created_at <= until, runs.c.ended_at.is_not(None))
    return list(tx.scalars(select(runs.c.run_id).where(ended)))


def blank_runs(tx: Connection, run_ids: Sequence[str]) -> int:
    """Remove the words from ended runs and their data; return how many runs still had some. At most PORTION runs.

    Effects of tools become started, with an unknown outcome: a thread that stays may still query them.
    """
    these = runs.c.run_id.in_(run_ids)
    rows = list(tx.execute(select(runs.c.run_id, runs.c.context, runs.c.input, runs.c.reply_key).where(these)))
    first = sum(_blank_run(tx, row) for row in rows)
    shown = [str(row.reply_key) for row in rows]
    asked = tx.scalars(select(approvals.c.prompt_id).where(approvals.c.run_id.in_(run_ids)))
    shown += list(asked)
    for table in (run_events, approvals, prompts):
        tx.execute(delete(table).where(table.c.run_id.in_(run_ids)))
    tx.execute(update(effects).where(effects.c.run_id.in_(run_ids)).values(state="started", result=""))
    answered = and_(inbox.c.run_id.in_(run_ids), SETTLED)
    for row in tx.execute(select(inbox.c.id, inbox.c.event).where(answered)).all():
        event = from_json(INBOUND_EVENT, row.event)
        store_event(tx, row.id, None if event is None else without_words(event))
    blank_replies(tx, shown)
    return first


def _blank_run(tx: Connection, row: Row[*tuple[Any, ...]]) -> bool:
    context, run_input = blank_context(row.context), blank_input(row.input)
    # An unreadable context may contain words all the same.
    if row.context == UNREADABLE_CONTEXT or (context, run_input) != (row.context, row.input):
        tx.execute(update(runs).where(runs.c.run_id == row.run_id).values(context=context, input=run_input))
    return not row.input.is_blank


def delete_thread(tx: Connection, thread_id: str) -> bool:
    """Delete a thread whose runs are blank; False if it did not exist or was never used."""
    for table in (branches, effects, memory_queue):
        tx.execute(delete(table).where(table.c.thread_id == thread_id))
    gone = delete(threads).where(threads.c.thread_id == thread_id).returning(threads.c.touched_at)
    return tx.scalar(gone) is not None


def blank_place(tx: Connection, row: DeletionRow) -> None:
    """Blank earlier replies in the chat where a deletion was requested: lists of threads contain their titles."""
    if row.address is None:
        return
    there = and_(
        outbox.c.account == row.account, outbox.c.chat == row.address.chat, outbox.c.created_at <= row.asked_at
    )
    there = and_(there, SHOWN, outbox.c.body != "", outbox.c.reply_key != (row.reply_key or ""))
    tx.execute(update(outbox).where(there).values(body=""))


def blank_replies(tx: Connection, reply_keys: Sequence[str]) -> None:
    """Remove the words of replies that were delivered or abandoned."""
    for part in chunks(reply_keys):
        tx.execute(update(outbox).where(outbox.c.reply_key.in_(part), SHOWN, outbox.c.body != "").values(body=""))


def undelivered(tx: Connection, run_ids: Sequence[str]) -> int:
    """Count the replies of these runs that are not delivered yet."""
    return sum(
        tx.scalar(
            select(func.count(outbox.c.reply_key.distinct()))
            .join(runs, runs.c.reply_key == outbox.c.reply_key)
            .where(runs.c.run_id.in_(part), ~SHOWN)
        )
        or 0
        for part in chunks(run_ids)
    )


def store_event(tx: Connection, row_id: int, event: Any | None) -> None:
    """Replace a stored event. None: it cannot be read, so only its row is kept, until it and its keys are pruned by
    age."""
    values: dict[str, str | None] = {"event": "" if event is None else to_json(INBOUND_EVENT, event)}
    if event is None:
        values["platform_message_id"] = None  # it no longer counts as a message: its content was unreadable
    if event is None or isinstance(event, Unparsed):
        values["reason"] = ""  # it may quote what could not be read
    tx.execute(update(inbox).where(inbox.c.id == row_id).values(values))


class DeletionKind(StrEnum):
    """THREAD: one thread. PERSON: all data of a person, as defined in docs/privacy.md."""

    THREAD = "thread"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRow:
    """A deletion, as described in tables.py. address, reply_key: of the reply that shows its progress, or None."""

    id: str
    kind: DeletionKind
    subject: str
    account: str
    asked_by: str
    asked_at: datetime
    address: Address | None = None
    reply_key: str | None = None
    language: str = ""
    done_at: datetime | None = None


def ask_deletion(tx: Connection, row: DeletionRow) -> None:
    """Record a deletion, once."""
    tx.execute(insert_new(tx.dialect.name, deletions), columns_of(row) | {"counts": "{}"})


def unfinished_deletions(tx: Connection) -> list[DeletionRow]:
    """Deletions that are not finished, oldest first."""
    query = select(deletions).where(deletions.c.done_at.is_(None)).order_by(deletions.c.asked_at, deletions.c.id)
    return [_deletion(row) for row in tx.execute(query)]


def deletes_since(tx: Connection, owner: str, thread_ids: Collection[str], since: datetime) -> bool:
    """Whether data of this owner or of these threads is being deleted, or was deleted since then."""
    recent = or_(deletions.c.done_at.is_(None), deletions.c.done_at >= since)
    return any(
        subject in thread_ids if kind == DeletionKind.THREAD else subject == owner or is_speakers(owner, subject)
        for kind, subject in tx.execute(select(deletions.c.kind, deletions.c.subject).where(recent))
    )


def count_deleted(tx: Connection, deletion_id: str, **more: int) -> None:
    """Add to the counts of what was deleted, by kind."""
    known = deleted_so_far(tx, deletion_id)
    for name, count in more.items():
        known[name] = known.get(name, 0) + count
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(counts=json.dumps(known)))


def deleted_so_far(tx: Connection, deletion_id: str) -> dict[str, int]:
    """The counts of what was deleted so far, by kind."""
    found = tx.scalar(select(deletions.c.counts).where(deletions.c.id == deletion_id))
    known: dict[str, int] = json.loads(found or "{}")
    return known


def finish_deletion(tx: Connection, deletion_id: str, now: datetime) -> None:
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(done_at=now))


def prune_deletions(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Delete the rows of deletions finished before that time, at most `limit`; return how many."""
    old = select(deletions.c.id).where(deletions.c.done_at < before).order_by(deletions.c.done_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(deletions).where(deletions.c.id.in_(part))).rowcount for part in chunks(ids))


def _deletion(row: Row[*tuple[Any, ...]]) -> DeletionRow:
    nowhere = {"address": None} if row.chat is None else {}
    return value_of(DeletionRow, row, kind=DeletionKind(row.kind), **nowhere)
