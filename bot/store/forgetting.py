"""Deletions that were asked for, a row each so that no crash ends one half way; and what takes the words of threads out
of the tables, where ids, times and counts stay until their age.

What belongs to one person elsewhere: personal.py. Each function may run again after a crash.
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
"""Nobody asked for it: the thread had become too old."""


@dataclass(frozen=True, slots=True)
class Whose:
    """A person of one account. native: their id there. names: what they were called, as it stands in the events of
    others, who may have the same name."""

    account: str
    native: str
    names: frozenset[str] = frozenset()

    @property
    def person(self) -> str:
        return person_id(self.account, self.native)


def without_words(event: Any) -> Any:
    """An event without what was said in it, and by whom it was said in words."""
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
    """Whether a person sent an event; of one that could not be read, whether it names their id."""
    if isinstance(event, Unparsed):
        return whose.native in event.raw
    if isinstance(event, MessageEdited):
        return is_of(event.message, whose)
    sender = getattr(event, "sender", None)
    return sender is not None and sender.id == whose.native


def without_quote_of(event: Any, whose: Whose) -> Any:
    """Another's event without what it quotes of the person."""
    if isinstance(event, MessageEdited):
        return replace(event, message=without_quote_of(event.message, whose))
    if isinstance(event, Message) and event.reply_to is not None and _called(event.reply_to.author, whose):
        return replace(event, reply_to=replace(event.reply_to, text="", author="", attachments=()))
    return event


def blank_input(run_input: RunInput) -> RunInput:
    """What is left: the message's id, and how large its files were, for the quota of who sent them."""
    files = tuple(_blank_file(file) for file in run_input.files)
    # What was said during the run has a row of its own.
    blank = replace(run_input, text="", quote="", background=(), people=(), files=files, steered=(), collections=())
    return _without_files(blank)


def without_others(run_input: RunInput, whose: Whose, *, met: bool) -> RunInput:
    """Another's input without what the person said there. met: in a chat where they are known to have spoken: there
    all that others said goes, for it does not tell well who they were."""
    steered = tuple(without_others(each, whose, met=met) for each in run_input.steered)
    if met:
        return _without_files(replace(run_input, quote="", background=(), people=(), steered=steered))
    kept = tuple(line for line in run_input.background if not _called(line.partition(":")[0], whose))
    people = tuple(name for name in run_input.people if not _called(name, whose))
    return replace(run_input, background=kept, people=people, steered=steered)


def _without_files(run_input: RunInput) -> RunInput:
    """Take out the files of the thread that a research was told of, whoever sent them."""
    if run_input.research is None:
        return run_input
    return replace(run_input, research=replace(run_input.research, files=()))


def blank_context(context: RunContext) -> RunContext:
    return replace(context, speaker=replace(context.speaker, display_name=""), heading="")


def _blank_file(file: InputFile) -> InputFile:
    # Of a path that nobody can read back: two runs with the same file still show that.
    path = Path(hashlib.sha256(str(file.path).encode("utf-8", "surrogatepass")).hexdigest()[:32])
    return replace(file, path=path, name="", text_path=None, note="", voice=None, sha256="", text_sha256="")


def _nameless(sender: Sender) -> Sender:
    return replace(sender, display_name="")


def _title(event: Message | MembershipChanged) -> str:
    """A group's is not one person's."""
    return "" if event.address.kind == "dm" else event.chat_title


def _called(name: str, whose: Whose) -> bool:
    return " ".join(name.split()) in whose.names


PORTION = 200
"""Rows of one unit, so that others are served in between."""
SETTLED = inbox.c.state.in_((InboxState.DONE, InboxState.DEAD))
SHOWN = or_(outbox.c.delivered_at.is_not(None), outbox.c.abandoned.is_not(None))
LAST_TOUCHED = func.coalesce(threads.c.touched_at, threads.c.created_at)
NOWHERE = ""
"""The conversation of a thread that is to be deleted: /threads does not list it, nothing goes on in it."""
AT_WORK = select(runs.c.run_id).where(runs.c.thread_id == threads.c.thread_id, runs.c.state.in_(OPEN_STATES))
AT_REST = and_(threads.c.conversation != NOWHERE, ~AT_WORK.exists())


# Threads are let go before they are deleted.


def let_go(tx: Connection, key: str, until: datetime, now: datetime, only: str | None = None) -> list[str]:
    """No run begins any more in the threads that were begun in a conversation until then, or in this one of them; if
    the current one is among them the conversation gets a new one. Returns their ids."""
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
    """The threads that are let go of a person: of their direct messages, and those that only they speak in."""
    gone = select(threads.c.thread_id, threads.c.owner).where(threads.c.conversation == NOWHERE)
    return [thread for thread, owner in tx.execute(gone) if owner == whose.person or is_speakers(owner, whose.person)]


def conversations_of(tx: Connection, whose: Whose) -> list[str]:
    """The keys of a person's own conversations, on the page and the API too."""
    there = conversations.c.account.in_(sorted({whose.account, *OWN_ACCOUNTS}))
    query = select(conversations.c.key, conversations.c.owner).where(there)
    return [key for key, owner in tx.execute(query) if owner == whose.person or is_speakers(key, whose.person)]


def is_group(tx: Connection, whose: Whose) -> bool:
    """Whether that is no person's id but a group's, as far as it is known: people spoke to the agent in it, or it was
    let in or shut out as one."""
    there = and_(runs.c.account == whose.account, runs.c.chat == whose.native, runs.c.chat_kind != "dm")
    listed = and_(access.c.subject_id == whose.person, access.c.subject_kind == "group")
    return any(tx.execute(select(literal(1)).where(each).limit(1)).first() for each in (there, listed))


def place_of(tx: Connection, thread_id: str) -> str | None:
    """The conversation that a thread was begun in, None: there is no such thread, or it is let go already."""
    return tx.scalar(select(threads.c.conversation).where(threads.c.thread_id == thread_id)) or None


def working(tx: Connection, thread_ids: Collection[str], whose: Whose | None, until: datetime) -> dict[str, str]:
    """The runs that have not ended, of these threads, or that the person asked for until then: their conversations."""
    wanted: list[ColumnElement[bool]] = [runs.c.thread_id.in_(part) for part in chunks(thread_ids)]
    if whose is not None:
        wanted.append(and_(runs.c.speaker == whose.person, runs.c.created_at <= until))
    if not wanted:
        return {}
    query = select(runs.c.run_id, runs.c.conversation).where(runs.c.state.in_(OPEN_STATES), or_(*wanted))
    return {run_id: conversation for run_id, conversation in tx.execute(query)}


def untouched(tx: Connection, before: datetime, limit: int = 100) -> list[tuple[str, str]]:
    """(thread, conversation) of threads that were not used since then, and that wait for nothing."""
    query = select(threads.c.thread_id, threads.c.conversation).where(_untouched(before))
    found = tx.execute(query.order_by(LAST_TOUCHED).limit(limit))
    return [(thread_id, conversation) for thread_id, conversation in found]


def is_untouched(tx: Connection, thread_id: str, before: datetime) -> bool:
    """Whether it is one of these."""
    query = select(threads.c.thread_id).where(threads.c.thread_id == thread_id, _untouched(before))
    return tx.scalar(query) is not None


def idle(tx: Connection, before: datetime, after: datetime | None) -> Sequence[Row[*tuple[Any, ...]]]:
    """The first 100 of these that were used after a time, and that are not condensed."""
    query = select(threads).where(AT_REST, threads.c.condensed_at.is_(None), threads.c.touched_at < before)
    query = query if after is None else query.where(threads.c.touched_at > after)
    return tx.execute(query.order_by(threads.c.touched_at).limit(100)).all()


def condensed(tx: Connection, thread_id: str, before: datetime, now: datetime) -> None:
    """Unless it was used since then."""
    still = update(threads).where(threads.c.thread_id == thread_id, threads.c.touched_at < before)
    tx.execute(still.values(condensed_at=now))


def _untouched(before: datetime) -> ColumnElement[bool]:
    # One that /new began and nobody used holds nothing, and its conversation would only get another such.
    empty = select(conversations.c.key).where(
        conversations.c.thread_id == threads.c.thread_id, threads.c.touched_at.is_(None)
    )
    return and_(before > LAST_TOUCHED, AT_REST, ~empty.exists())


# What belongs to runs.


def runs_of_thread(tx: Connection, thread_id: str) -> list[str]:
    return list(tx.scalars(select(runs.c.run_id).where(runs.c.thread_id == thread_id)))


def runs_of_person(tx: Connection, whose: Whose, until: datetime) -> list[str]:
    ended = and_(runs.c.speaker == whose.person, runs.c.created_at <= until, runs.c.ended_at.is_not(None))
    return list(tx.scalars(select(runs.c.run_id).where(ended)))


def blank_runs(tx: Connection, run_ids: Sequence[str]) -> int:
    """Take the words out of ended runs and of what belongs to them; returns how many still had some. At most PORTION.

    What a tool did counts as begun, with an unknown outcome: the thread, where it stays, may still ask for it.
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
    # A context that cannot be read may hold words all the same.
    if row.context == UNREADABLE_CONTEXT or (context, run_input) != (row.context, row.input):
        tx.execute(update(runs).where(runs.c.run_id == row.run_id).values(context=context, input=run_input))
    return not row.input.is_blank


def delete_thread(tx: Connection, thread_id: str) -> bool:
    """The thread itself, whose runs are blank; False when it was gone, or nobody had used it."""
    for table in (branches, effects, memory_queue):
        tx.execute(delete(table).where(table.c.thread_id == thread_id))
    gone = delete(threads).where(threads.c.thread_id == thread_id).returning(threads.c.touched_at)
    return tx.scalar(gone) is not None


def blank_place(tx: Connection, row: DeletionRow) -> None:
    """What the bot had said until then in the chat where a deletion was asked for: lists of threads name them."""
    if row.address is None:
        return
    there = and_(
        outbox.c.account == row.account, outbox.c.chat == row.address.chat, outbox.c.created_at <= row.asked_at
    )
    there = and_(there, SHOWN, outbox.c.body != "", outbox.c.reply_key != (row.reply_key or ""))
    tx.execute(update(outbox).where(there).values(body=""))


def blank_replies(tx: Connection, reply_keys: Sequence[str]) -> None:
    """The words of replies that were delivered, or given up."""
    for part in chunks(reply_keys):
        tx.execute(update(outbox).where(outbox.c.reply_key.in_(part), SHOWN, outbox.c.body != "").values(body=""))


def undelivered(tx: Connection, run_ids: Sequence[str]) -> int:
    """How many of these runs have an answer that is not delivered yet."""
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
    """Put an event in the place of what it was. None: it cannot be read, so nothing is left of it but its row, with
    which its keys go at their age."""
    values: dict[str, str | None] = {"event": "" if event is None else to_json(INBOUND_EVENT, event)}
    if event is None:
        values["platform_message_id"] = None  # it counts as no message: nobody could read what it says
    if event is None or isinstance(event, Unparsed):
        values["reason"] = ""  # it may tell what could not be read
    tx.execute(update(inbox).where(inbox.c.id == row_id).values(values))


class DeletionKind(StrEnum):
    """THREAD: one thread. PERSON: everything of a person, as far as docs/privacy.md says."""

    THREAD = "thread"
    PERSON = "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRow:
    """Columns are described in tables.py. address and reply_key: of the reply that tells how it goes, None for none."""

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
    """Record it, once."""
    tx.execute(insert_new(tx.dialect.name, deletions), columns_of(row) | {"counts": "{}"})


def unfinished_deletions(tx: Connection) -> list[DeletionRow]:
    """What is still to be done, oldest first."""
    query = select(deletions).where(deletions.c.done_at.is_(None)).order_by(deletions.c.asked_at, deletions.c.id)
    return [_deletion(row) for row in tx.execute(query)]


def deletes_since(tx: Connection, owner: str, thread_ids: Collection[str], since: datetime) -> bool:
    """Whether something of this owner or of these threads is being deleted, or was since then."""
    recent = or_(deletions.c.done_at.is_(None), deletions.c.done_at >= since)
    return any(
        subject in thread_ids if kind == DeletionKind.THREAD else subject == owner or is_speakers(owner, subject)
        for kind, subject in tx.execute(select(deletions.c.kind, deletions.c.subject).where(recent))
    )


def count_deleted(tx: Connection, deletion_id: str, **more: int) -> None:
    """So much more was deleted, by the kind of what it was."""
    known = deleted_so_far(tx, deletion_id)
    for name, count in more.items():
        known[name] = known.get(name, 0) + count
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(counts=json.dumps(known)))


def deleted_so_far(tx: Connection, deletion_id: str) -> dict[str, int]:
    """How much was deleted so far, by the kind of what it was."""
    found = tx.scalar(select(deletions.c.counts).where(deletions.c.id == deletion_id))
    known: dict[str, int] = json.loads(found or "{}")
    return known


def finish_deletion(tx: Connection, deletion_id: str, now: datetime) -> None:
    """All of it is gone."""
    tx.execute(update(deletions).where(deletions.c.id == deletion_id).values(done_at=now))


def prune_deletions(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget those that were done before that time, at most `limit`; returns how many."""
    old = select(deletions.c.id).where(deletions.c.done_at < before).order_by(deletions.c.done_at).limit(limit)
    ids = list(tx.scalars(old))
    return sum(tx.execute(delete(deletions).where(deletions.c.id.in_(part))).rowcount for part in chunks(ids))


def _deletion(row: Row[*tuple[Any, ...]]) -> DeletionRow:
    nowhere = {"address": None} if row.chat is None else {}
    return value_of(DeletionRow, row, kind=DeletionKind(row.kind), **nowhere)
