"""The outbox: one row per part of a reply, its intent committed before the first send."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, case, delete, func, select, update

from bot.store.rows import OutboxRow, columns_of, value_of
from bot.store.shown import is_shown
from bot.store.sql import Bulk, chunks, insert_new
from bot.store.tables import instance, outbox, runs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection
    from sqlalchemy.dialects import postgresql, sqlite

    from channels.message import Address

# Built once: building a statement costs more than running it.
EPOCH = select(instance.c.epoch).scalar_subquery()
STANDING = select(outbox.c.final, outbox.c.body).where(outbox.c.reply_key == bindparam("k"), outbox.c.part == 0)
PARTS = select(outbox).where(outbox.c.reply_key == bindparam("reply_key")).order_by(outbox.c.part)
THIS_PART = (outbox.c.reply_key == bindparam("k")) & (outbox.c.part == bindparam("p"))
MARK_SENT = update(outbox).where(THIS_PART).values(message_id=bindparam("message"), sent_rev=bindparam("rev"))
THIS_REPLY = outbox.c.reply_key == bindparam("k")
FINALIZE = (
    update(outbox)
    .where(THIS_REPLY)
    .values(
        desired_rev=outbox.c.desired_rev + 1,
        final=True,
        delivered_at=None,
        abandoned=None,
        body=case((outbox.c.part == 0, bindparam("text", type_=outbox.c.body.type)), else_=outbox.c.body),
    )
)
FINALIZE_UNSENT = FINALIZE.values(
    sent_rev=0, sent_after=bindparam("after"), created_at=bindparam("at", type_=outbox.c.created_at.type)
)
DELIVERED = update(outbox).where(THIS_REPLY).values(delivered_at=bindparam("at"))
DELIVERED_REV = DELIVERED.where(outbox.c.desired_rev <= bindparam("rev"))
LOOKED_BACK = 50
"""Most earlier runs of a conversation that `overtaken` considers."""
RETIRED = -2
"""The sent_rev of a part whose message is to be removed because another part replaces it."""
RETIRE = update(outbox).where(THIS_PART).values(sent_rev=RETIRED)
MARK_SHOWN = update(outbox).where(THIS_PART, outbox.c.sent_rev < bindparam("rev")).values(sent_rev=bindparam("rev"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownReply:
    """A reply that is visible in a chat. body: its OutboundMessage as JSON, empty for most drafts. numbered: as in
    OutboxRow."""

    reply_key: str
    body: str
    numbered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A part that was sent. message_id: the platform's id of it. rev: the revision that it shows."""

    reply_key: str
    part: int
    message_id: str
    rev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A part that was edited and now shows this revision."""

    reply_key: str
    part: int
    rev: int


def _record_sent(tx: Connection, rows: Sequence[Sent]) -> list[None]:
    values = [{"k": row.reply_key, "p": row.part, "message": row.message_id, "rev": row.rev} for row in rows]
    tx.execute(MARK_SENT, values)
    return [None] * len(rows)


def _record_shown(tx: Connection, rows: Sequence[Shown]) -> list[None]:
    values = [{"k": row.reply_key, "p": row.part, "rev": row.rev} for row in rows]
    tx.execute(MARK_SHOWN, values)
    return [None] * len(rows)


RECORD_SENT: Bulk[Sent, None] = Bulk("record sent", _record_sent)
RECORD_SHOWN: Bulk[Shown, None] = Bulk("record shown", _record_shown)


def intend(tx: Connection, rows: Sequence[OutboxRow]) -> None:
    """Record the intent to send these parts; existing parts stay unchanged."""
    tx.execute(_intention(tx.dialect.name), [columns_of(row) for row in rows])


@cache
def _intention(dialect: str) -> sqlite.Insert | postgresql.Insert:
    # The stored epoch is this process's: the writer has just compared them.
    return insert_new(dialect, outbox).values(epoch=EPOCH)


def finalize(
    tx: Connection,
    reply_key: str,
    address: Address,
    reply_to: str | None,
    sent_after: str | None,
    body: str,
    now: datetime,
    idem_key_0: str,
    *,
    unsent: bool = False,
) -> None:
    """Make `body` (OutboundMessage as JSON) the reply's final state. unsent: nothing of it was sent yet despite an
    intent: the intent is renewed as of now, so that a message found after a crash is this state and not a draft.

    Creates part 0 if nothing was intended yet. Every part must be shown again, unless the reply was already final with
    the same body: then nothing changes. A delivered or abandoned reply with a new body is to be delivered again.
    """
    standing = tx.execute(STANDING, {"k": reply_key}).first()
    if standing is None:
        first = OutboxRow(
            reply_key=reply_key,
            part=0,
            idem_key=idem_key_0,
            address=address,
            reply_to=reply_to,
            sent_after=sent_after,
            message_id=None,
            body=body,
            desired_rev=1,
            sent_rev=0,
            final=True,
            created_at=now,
        )
        intend(tx, [first])
    elif not (standing.final and standing.body == body):
        as_new = {"after": sent_after, "at": now} if unsent else {}
        tx.execute(FINALIZE_UNSENT if unsent else FINALIZE, {"k": reply_key, "text": body, **as_new})


def load(tx: Connection, reply_key: str) -> list[OutboxRow]:
    """The reply's parts in order."""
    return [value_of(OutboxRow, row) for row in tx.execute(PARTS, {"reply_key": reply_key})]


def undelivered(tx: Connection) -> list[OutboxRow]:
    """All parts of replies that are neither delivered nor abandoned, including drafts, oldest reply first: a run's
    reply is as old as the run, whether or not a notice was sent while its message waited."""
    unfinished = select(outbox.c.reply_key).where(outbox.c.delivered_at.is_(None), outbox.c.abandoned.is_(None))
    rows = [value_of(OutboxRow, row) for row in tx.execute(select(outbox).where(outbox.c.reply_key.in_(unfinished)))]
    begun: dict[str, datetime] = {}
    for row in rows:
        begun[row.reply_key] = min(row.created_at, begun.get(row.reply_key, row.created_at))
    asked = select(runs.c.run_id, runs.c.created_at, runs.c.seq).where(runs.c.run_id.in_(unfinished))
    opened = {run.run_id: (run.created_at, run.seq) for run in tx.execute(asked)}
    return sorted(rows, key=lambda row: (opened.get(row.reply_key, (begun[row.reply_key], 0)), row.reply_key, row.part))


def open_keys(tx: Connection) -> set[str]:
    """The keys of replies that are neither delivered nor abandoned."""
    unfinished = select(outbox.c.reply_key).where(outbox.c.delivered_at.is_(None), outbox.c.abandoned.is_(None))
    return set(tx.scalars(unfinished))


def keys_below(tx: Connection, stem: str) -> set[str]:
    """The reply keys that begin with `stem:`."""
    return set(tx.scalars(select(outbox.c.reply_key).where(outbox.c.reply_key.between(f"{stem}:", f"{stem};"))))


def delivered(tx: Connection, reply_key: str, now: datetime, rev: int | None = None) -> None:
    """Mark a reply as fully delivered; does nothing if its state is newer than the shown `rev`."""
    if rev is None:
        tx.execute(DELIVERED, {"k": reply_key, "at": now})
    else:
        tx.execute(DELIVERED_REV, {"k": reply_key, "at": now, "rev": rev})


def abandon(tx: Connection, reply_key: str, reason: str) -> None:
    """Abandon the reply; `reason` says why (the chat is gone, the content was rejected)."""
    tx.execute(update(outbox).where(outbox.c.reply_key == reply_key).values(abandoned=reason))


def mark_unsent(tx: Connection, reply_key: str, part: int) -> None:
    """Mark a part of which nothing was sent so far: a message found from now on is not an earlier draft."""
    tx.execute(MARK_SHOWN.where(outbox.c.message_id.is_(None)), {"k": reply_key, "p": part, "rev": 0})


def clear_message(tx: Connection, reply_key: str, part: int) -> None:
    """Mark a part to be sent again because its platform message was deleted."""
    shown = case((outbox.c.sent_rev == RETIRED, RETIRED), else_=0)
    changes = {"message_id": None, "sent_rev": shown, "epoch": EPOCH}
    tx.execute(update(outbox).where(outbox.c.reply_key == reply_key, outbox.c.part == part).values(changes))


def retire(tx: Connection, parts: Sequence[int], instead: OutboxRow) -> None:
    """Retire parts of a reply: their messages are removed once the part intended here has replaced them."""
    tx.execute(RETIRE, [{"k": instead.reply_key, "p": part} for part in parts])
    intend(tx, [instead])


def mark_numbered(tx: Connection, reply_key: str) -> None:
    """Mark a reply whose options are shown as a numbered list, because the platform rejected its buttons."""
    tx.execute(update(outbox).where(outbox.c.reply_key == reply_key).values(numbered=True))


def newest_ids(tx: Connection, account: str, limit: int) -> list[tuple[str, str]]:
    """(chat, platform id) of the most recently delivered messages, and of those that were the newest before them.

    Sorted by epoch before time, because the machine's clock may have been set back since.
    """
    query = select(outbox.c.chat, outbox.c.message_id, outbox.c.sent_after)
    delivered = (outbox.c.account == account) & outbox.c.delivered_at.is_not(None)
    rows = tx.execute(query.where(delivered).order_by(outbox.c.epoch.desc(), outbox.c.delivered_at.desc()).limit(limit))
    return [(chat, message_id) for chat, *known in rows for message_id in known if message_id is not None]


def reply_of(tx: Connection, account: str, chat: str, message_id: str) -> str | None:
    """The key of the reply to which a message of the bot belongs."""
    ours = (outbox.c.account == account) & (outbox.c.chat == chat) & (outbox.c.message_id == message_id)
    return tx.scalar(select(outbox.c.reply_key).where(ours).limit(1))


def others_answer(tx: Connection, reply_key: str, address: Address, reply_to: str) -> bool:
    """Whether a message of another reply answers, or may answer, the same message."""
    place = (outbox.c.account == address.account) & (outbox.c.chat == address.chat)
    others = select(outbox.c.part).where(place, outbox.c.reply_to == reply_to, outbox.c.reply_key != reply_key)
    return tx.scalar(others.limit(1)) is not None


def overtaken(tx: Connection, reply_key: str) -> set[int]:
    """The parts of a run's reply whose messages are above the answer to an earlier message of its conversation: that
    answer began later, or was sent again."""
    this = select(runs.c.conversation, runs.c.seq).where(runs.c.run_id == reply_key).subquery()
    before = (runs.c.conversation == this.c.conversation) & (runs.c.seq < this.c.seq)
    earlier = select(runs.c.reply_key).where(before).order_by(runs.c.seq.desc()).limit(LOOKED_BACK)
    stands = outbox.c.message_id.is_not(None) & (outbox.c.sent_rev != RETIRED)
    begun = select(func.min(outbox.c.created_at).label("at")).where(
        outbox.c.reply_key.in_(earlier), outbox.c.final, stands
    )
    last = select(func.max(begun.group_by(outbox.c.reply_key).subquery().c.at)).scalar_subquery()
    own = (outbox.c.reply_key == reply_key) & stands
    return set(tx.scalars(select(outbox.c.part).where(own, outbox.c.created_at < last)))


def is_sending(tx: Connection, account: str, chat: str) -> bool:
    """Whether that chat may contain a message of the bot whose id is not known yet."""
    there = (outbox.c.account == account) & (outbox.c.chat == chat) & outbox.c.message_id.is_(None)
    under_way = there & outbox.c.delivered_at.is_(None) & outbox.c.abandoned.is_(None)
    return tx.scalar(select(outbox.c.part).where(under_way).limit(1)) is not None


def newest_replies(tx: Connection, address: Address, limit: int) -> list[ShownReply]:
    """The replies visible in a chat's topic, newest first."""
    place = (
        (outbox.c.account == address.account)
        & (outbox.c.chat == address.chat)
        & outbox.c.topic.is_not_distinct_from(address.topic)
    )
    # A reply's newest message determines its position.
    sent = select(outbox.c.reply_key, func.max(outbox.c.created_at).label("at"))
    sent_at = sent.where(place, outbox.c.message_id.is_not(None)).group_by(outbox.c.reply_key).subquery()
    query = (
        select(outbox.c.reply_key, outbox.c.body, outbox.c.numbered)
        .join(sent_at, sent_at.c.reply_key == outbox.c.reply_key)
        .where(outbox.c.part == 0)
        .order_by(sent_at.c.at.desc())
        .limit(limit)
    )
    return [value_of(ShownReply, row) for row in tx.execute(query)]


def old(tx: Connection, before: datetime, limit: int) -> list[str]:
    """The keys of replies delivered before that time, or abandoned and begun before it; at most `limit`."""
    at, gone = outbox.c.delivered_at, ~is_shown(outbox)
    delivered = select(outbox.c.reply_key).where(at < before, gone).order_by(at).limit(limit)
    given_up = at.is_(None) & outbox.c.abandoned.is_not(None) & (outbox.c.created_at < before)
    abandoned = select(outbox.c.reply_key).where(given_up, gone).limit(limit)
    return list({*tx.scalars(delivered), *tx.scalars(abandoned)})[:limit]


def remove(tx: Connection, keys: Sequence[str]) -> None:
    """Delete replies, except those that are to be delivered again."""
    settled = outbox.c.delivered_at.is_not(None) | outbox.c.abandoned.is_not(None)
    for part in chunks(keys):
        tx.execute(delete(outbox).where(outbox.c.reply_key.in_(part), settled))
