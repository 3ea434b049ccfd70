"""Search for words in what a person may read: the titles of threads, and what was said in them.

The database has no full-text index. So only the newest rows are searched (MOST_CHATS, MOST_RUNS), and the database
filters out nearly all of them before any is read.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, and_, or_, select, type_coerce, union

from bot.store import overview, shown
from bot.store.branches import INHERITED
from bot.store.sql import chunks, from_json
from bot.store.tables import branches, inbox, outbox, run_events, runs, threads, usage
from channels.message import INBOUND_EVENT, OUTBOUND_MESSAGE, Message
from harness.events import RUN_EVENT, Finished, TextDelta

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from bot.store.overview import ThreadFacts
    from bot.store.shown import Listed

MOST_CHATS = 2000
"""Most chats of one person whose messages are searched; the most recently used ones."""
MOST_RUNS = 5000
"""Most runs that are searched, the newest ones."""
MOST_WORDS = 8
AT_ONCE = 200
AROUND = 60
"""Characters of an excerpt before the word."""
LONGEST_EXCERPT = 160


def words_of(text: str) -> tuple[str, ...]:
    """The words to search for, as they were typed; () if there are none."""
    return tuple(dict.fromkeys(text.split()))[:MOST_WORDS]


def has(text: str, words: Sequence[str]) -> bool:
    """Whether a text contains all of the words, anywhere and in any case."""
    folded = text.casefold()
    return all(word.casefold() in folded for word in words)


def chats(tx: Connection, account: str, owner: str, words: Sequence[str], limit: int) -> list[tuple[Listed, str]]:
    """Return an owner's conversations whose title, or one message of either side, contains all of the words, each with
    an excerpt; most recently used first."""
    known = shown.listed(tx, account, owner, MOST_CHATS, None)
    excerpts: dict[str, str] = {}
    for portion in chunks(known, AT_ONCE):
        if sum(each.chat in excerpts for each in known) >= limit:
            break
        excerpts |= {each.chat: "" for each in portion if has(each.title, words)}
        left = {each.key: each.chat for each in portion if each.chat not in excerpts}
        begun = ((left[key], text) for key, _, text in _begun_with(tx, branches.c.key.in_(left), words))
        for chat, text in chain(_said(tx, account, list(left.values()), words), begun):
            if chat not in excerpts and has(text, words):
                excerpts[chat] = excerpt(text, words)
    return [(each, excerpts[each.chat]) for each in known if each.chat in excerpts][:limit]


def _said(tx: Connection, account: str, names: Sequence[str], words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(chat, text) of messages that may contain the words, newest first: first people's messages, then the bot's."""
    there = and_(inbox.c.account == account, inbox.c.chat.in_(names), inbox.c.platform_message_id.is_not(None))
    query = select(inbox.c.chat, inbox.c.event).where(there, *_may_have(inbox.c.event, words))
    for row in tx.execute(query.order_by(inbox.c.id.desc())):
        event = from_json(INBOUND_EVENT, row.event)
        if isinstance(event, Message):
            yield row.chat, event.text
    there = and_(outbox.c.account == account, outbox.c.chat.in_(names), outbox.c.part == 0)
    answers = select(outbox.c.chat, outbox.c.body).where(there, *_may_have(outbox.c.body, words))
    for row in tx.execute(answers.order_by(outbox.c.created_at.desc())):
        message = from_json(OUTBOUND_MESSAGE, row.body)
        if message is not None:
            yield row.chat, message.text


def _begun_with(tx: Connection, where: ColumnElement[bool], words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(conversation, thread, text) of branches' inherited messages that may contain the words, newest branch first."""
    there = (where, branches.c.made_at.is_not(None), *_may_have(branches.c.messages, words))
    query = select(branches.c.key, branches.c.thread_id, branches.c.messages).where(*there)
    for row in tx.execute(query.order_by(branches.c.created_at.desc()).limit(MOST_CHATS)):
        for each in from_json(INHERITED, row.messages) or ():
            yield row.key, row.thread_id, str(each.entry.get("text", ""))


def threads_with(tx: Connection, person: str | None, words: Sequence[str], limit: int) -> list[tuple[ThreadFacts, str]]:
    """Return threads whose title, or a message that is still stored, contains all of the words, each with an excerpt.

    person: search only their threads, and in groups their messages to the agent and its answers; None: search all.
    """
    found: dict[str, str] = {}
    for row in tx.execute(_titled(person)):
        if has(row.title, words):
            found.setdefault(row.thread_id, "")
    own = select(threads.c.thread_id).where(threads.c.conversation != "")
    own = own if person is None else own.where(threads.c.owner == person)
    for _, thread_id, text in _begun_with(tx, branches.c.thread_id.in_(own), words):
        if thread_id not in found and has(text, words):
            found[thread_id] = excerpt(text, words)
    for portion in chunks(tx.execute(_newest_runs(person)).all(), AT_ONCE):
        if len(found) >= limit:
            break
        for thread_id, text in _exchanged(tx, portion, words, everything=person is None):
            if thread_id not in found and has(text, words):
                found[thread_id] = excerpt(text, words)
    facts = []
    for thread_id, told in list(found.items())[:limit]:
        known = overview.thread(tx, thread_id)
        if known is not None and person is not None and known.owner != person:
            known = overview.thread(tx, thread_id, person)
        if known is not None:
            facts.append((known, told))
    return sorted(facts, key=lambda each: each[0].last_at, reverse=True)


def _titled(person: str | None) -> Select[Any]:
    query = select(threads.c.thread_id, threads.c.title).where(
        threads.c.title != "", threads.c.conversation != "", threads.c.touched_at.is_not(None)
    )
    if person is not None:
        query = query.where(threads.c.owner == person)
    return query.order_by(threads.c.touched_at.desc()).limit(MOST_CHATS)


def _newest_runs(person: str | None) -> Select[Any]:
    """Select (run_id, thread_id, own), newest first. own: the person owns the thread and may read all of it."""
    there = and_(threads.c.conversation == runs.c.conversation, threads.c.thread_id == runs.c.thread_id)
    query = select(runs.c.run_id, runs.c.thread_id, (threads.c.owner == person).label("own")).join(threads, there)
    query = query.where(threads.c.conversation != "")
    if person is not None:
        # Their runs are found through their usage, which is indexed by person; no other person's rows are read.
        asked = select(usage.c.run_id).where(usage.c.speaker == person)
        own = select(threads.c.conversation).where(threads.c.owner == person)
        theirs = union(asked, select(runs.c.run_id).where(runs.c.conversation.in_(own)))
        query = query.where(runs.c.run_id.in_(theirs), or_(threads.c.owner == person, runs.c.speaker == person))
    return query.order_by(runs.c.seq.desc()).limit(MOST_RUNS)


def _exchanged(
    tx: Connection, portion: Sequence[Row[Any]], words: Sequence[str], *, everything: bool
) -> Iterator[tuple[str, str]]:
    """(thread, text) that may contain the words: people's messages, then answers. everything: include, for all threads
    and not only for own ones, messages sent while the run worked and the agent's text before its answer."""
    whole = {row.run_id: everything or bool(row.own) for row in portion}
    where = {row.run_id: row.thread_id for row in portion}
    said = select(runs.c.run_id, runs.c.input).where(
        runs.c.run_id.in_(whole), *_may_have(type_coerce(runs.c.input, Text), words)
    )
    for row in tx.execute(said.order_by(runs.c.seq.desc())):
        for given in (row.input, *(row.input.steered if whole[row.run_id] else ())):
            yield where[row.run_id], given.words
    told = select(run_events.c.run_id, run_events.c.body).where(
        run_events.c.run_id.in_(whole),
        run_events.c.type.in_(("text_delta", "finished")),
        *_may_have(run_events.c.body, words),
    )
    for row in tx.execute(told):
        event = RUN_EVENT.validate_json(row.body)
        if isinstance(event, Finished) or (isinstance(event, TextDelta) and whole[row.run_id]):
            yield where[row.run_id], event.text


def _may_have(column: ColumnElement[str], words: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return conditions for rows whose JSON may contain all of the words. SQLite folds the case only of a to z, so
    other words are searched for as typed, in lower case, in upper case and capitalized."""
    return [or_(*(column.icontains(_as_json(each), autoescape=True) for each in _cases(word))) for word in words]


def _cases(word: str) -> Iterable[str]:
    return (word,) if word.isascii() else dict.fromkeys((word, word.lower(), word.upper(), word.capitalize()))


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def excerpt(text: str, words: Sequence[str]) -> str:
    """Return a one-line excerpt of the text around the first of the words."""
    line = " ".join(text.split())
    places = [line.casefold().find(word.casefold()) for word in words]
    begin = max(0, min((place for place in places if place >= 0), default=0) - AROUND)
    cut = line[begin : begin + LONGEST_EXCERPT]
    return ("…" if begin else "") + cut + ("…" if begin + LONGEST_EXCERPT < len(line) else "")
