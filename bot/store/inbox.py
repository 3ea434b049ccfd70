"""The inbox: every event once, committed before it is acknowledged to its platform."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select, update

from bot.store.errors import StoreError
from bot.store.rows import InboxRow, InboxState, value_of
from bot.store.shown import is_shown
from bot.store.sql import Bulk, chunks, insert, insert_numbered, storable, to_json
from bot.store.tables import inbox, inbox_keys
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from channels.message import ChatMigrated

    AnyEvent = (
        Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | ScheduleDue | HookCalled | Unparsed
    )

Key = tuple[str, str]
SCANNED = 10_000
COLUMNS = (inbox.c.id, inbox.c.account, inbox.c.event, inbox.c.received_at, inbox.c.state)
# Built once: building a statement costs more than running it.
THESE = inbox.c.id.in_(bindparam("ids", expanding=True))
SETTLE = update(inbox).where(THESE).values(state=bindparam("now"), reason=bindparam("why"))
FREE = (inbox.c.state == InboxState.NEW) | (
    (inbox.c.state == InboxState.ASSIGNED) & (inbox.c.run_id == bindparam("run"))
)
ASSIGN = update(inbox).where(THESE, FREE).values(state=InboxState.ASSIGNED, run_id=bindparam("run"))
KNOWN_KEYS = select(inbox_keys.c.key, inbox_keys.c.inbox_id).where(
    inbox_keys.c.account == bindparam("account"), inbox_keys.c.key.in_(bindparam("keys", expanding=True))
)


class AlreadyAssigned(StoreError):
    """An event cannot be assigned to a run: it does not exist, is settled, or belongs to another run."""


def _add(tx: Connection, events: Sequence[AnyEvent]) -> list[InboxRow | None]:
    keys = [[(event.account, storable(key)) for key in event.dedupe_keys] for event in events]
    known: dict[Key, int] = _known(tx, {key for own in keys for key in own})
    stored = dict(known)
    fresh: list[int] = []  # positions in `events`; until they have ids, key -> -1 - position represents them
    for position, own in enumerate(keys):
        first = next((known[key] for key in own if key in known), None)
        if first is None:
            fresh.append(position)
            first = -1 - position
        known.update({key: first for key in own if key not in known})
    values = [_values(events[position]) for position in fresh]
    ids = insert_numbered(tx, inbox.c.id, values) if values else []
    id_of = {-1 - position: row_id for position, row_id in zip(fresh, ids, strict=True)}
    new_keys = [
        {"account": account, "key": key, "inbox_id": id_of.get(row, row)}
        for (account, key), row in known.items()
        if (account, key) not in stored
    ]
    if new_keys:
        tx.execute(insert(tx, inbox_keys), new_keys)
    rows: list[InboxRow | None] = [None] * len(events)
    for position, row_id, made in zip(fresh, ids, values, strict=True):
        rows[position] = InboxRow(
            id=row_id,
            account=made["account"],
            event=made["event"],
            received_at=made["received_at"],
            state=InboxState(made["state"]),
        )
    return rows


ADD_EVENTS: Bulk[AnyEvent, InboxRow | None] = Bulk("add events", _add)
"""Store events; None for a duplicate. An event is a duplicate if any of its keys is known; its other keys become known
too. Unparsed events are stored as dead."""


def unsettled(tx: Connection) -> list[InboxRow]:
    """Events that nothing has been decided about yet, in order of arrival."""
    query = select(*COLUMNS).where(inbox.c.state == InboxState.NEW).order_by(inbox.c.id)
    return [_row(row) for row in tx.execute(query)]


def oldest_new(tx: Connection) -> datetime | None:
    """When the oldest undecided event arrived."""
    query = select(inbox.c.received_at).where(inbox.c.state == InboxState.NEW).order_by(inbox.c.id).limit(1)
    return tx.scalar(query)


def still_new(tx: Connection, event: AnyEvent) -> InboxRow | None:
    """The row of an event that is stored and still undecided; None for any other."""
    known = _known(tx, {(event.account, storable(key)) for key in event.dedupe_keys})
    return next((row for row in load(tx, set(known.values())) if row.state is InboxState.NEW), None)


def is_known(tx: Connection, event: AnyEvent) -> bool:
    """Whether an event would be a duplicate."""
    return bool(_known(tx, {(event.account, storable(key)) for key in event.dedupe_keys}))


def load(tx: Connection, ids: Iterable[int]) -> list[InboxRow]:
    """The existing rows with these ids, in order of arrival."""
    rows = [row for part in chunks(ids) for row in tx.execute(select(*COLUMNS).where(inbox.c.id.in_(part)))]
    return sorted((_row(row) for row in rows), key=lambda row: row.id)


def at_message(tx: Connection, account: str, chat: str, message_id: str) -> InboxRow | None:
    """The event of a platform's message, or None if it is no longer kept."""
    here = (inbox.c.account == account) & (inbox.c.chat == chat) & (inbox.c.platform_message_id == message_id)
    row = tx.execute(select(inbox).where(here).order_by(inbox.c.id.desc()).limit(1)).first()
    return None if row is None else _row(row)


def edits_since(tx: Connection, first: InboxRow, chat: str) -> list[Message]:
    """The edited messages of a chat that arrived after this event, in their order."""
    here = (inbox.c.account == first.account) & (inbox.c.chat == chat) & inbox.c.platform_message_id.is_(None)
    events = tx.scalars(select(inbox.c.event).where(here, inbox.c.id > first.id).order_by(inbox.c.id))
    known = (INBOUND_EVENT.validate_json(event) for event in events)
    return [event.message for event in known if isinstance(event, MessageEdited) and not event.recalled]


def newest_ids(tx: Connection, account: str, limit: int) -> list[tuple[str, str]]:
    """(chat, platform id) of the newest messages that people sent."""
    query = (
        select(inbox.c.chat, inbox.c.platform_message_id)
        .where(inbox.c.account == account, inbox.c.platform_message_id.is_not(None))
        .order_by(inbox.c.id.desc())
        .limit(limit)
    )
    return [(chat, message_id) for chat, message_id in tx.execute(query)]


def newest_messages(tx: Connection, account: str, since: datetime) -> list[Message]:
    """The newest message of each chat and topic that was received since then, newest first.

    Reads only the newest SCANNED messages, which bounds the cost for an account with a very long history.
    """
    query = (
        select(inbox.c.event)
        .where(inbox.c.account == account, inbox.c.platform_message_id.is_not(None), inbox.c.received_at >= since)
        .order_by(inbox.c.id.desc())
        .limit(SCANNED)
    )
    found: dict[tuple[str, str | None], Message] = {}
    for event in tx.scalars(query, execution_options={"yield_per": 500}):
        address = json.loads(event)["address"]
        place = address["chat"], address["topic"]
        if place not in found:
            message = INBOUND_EVENT.validate_json(event)
            assert isinstance(message, Message)
            found[place] = message
    return list(found.values())


def replace_event(tx: Connection, row_id: int, event: AnyEvent) -> None:
    """Replace an event by its new version (an edited message); its place in the queue stays."""
    tx.execute(update(inbox).where(inbox.c.id == row_id).values(event=to_json(INBOUND_EVENT, event)))


def settle(tx: Connection, ids: Iterable[int], state: InboxState, reason: str | None = None) -> None:
    """Set the state (DONE or DEAD) and the reason."""
    for part in chunks(ids):
        tx.execute(SETTLE, {"ids": part, "now": state, "why": reason})


def assign(tx: Connection, ids: Iterable[int], run_id: str) -> None:
    """Assign NEW events to a run; those that it already has stay. Raises AlreadyAssigned for any other."""
    for part in chunks(set(ids)):
        if tx.execute(ASSIGN, {"ids": part, "run": run_id}).rowcount != len(part):
            raise AlreadyAssigned(f"not all of {sorted(part)} were free for run {run_id}")


def old(tx: Connection, before: datetime, limit: int) -> list[int]:
    """Done and dead events received before that time, oldest first, at most `limit`.

    A platform may redeliver an event for a day (Bot API, "Getting updates"), so `before` must lie further back.
    """
    # Not as a list of the wanted states: their index would make the database scan all that is kept.
    settled = inbox.c.state.not_in((InboxState.NEW, InboxState.ASSIGNED)) & ~is_shown(inbox)
    query = select(inbox.c.id).where(inbox.c.received_at < before, settled)
    return list(tx.scalars(query.order_by(inbox.c.received_at).limit(limit)))


def remove(tx: Connection, ids: Sequence[int]) -> None:
    """Delete events, and their keys."""
    for part in chunks(ids):
        tx.execute(delete(inbox_keys).where(inbox_keys.c.inbox_id.in_(part)))
        tx.execute(delete(inbox).where(inbox.c.id.in_(part)))


def _known(tx: Connection, keys: set[Key]) -> dict[Key, int]:
    by_account: dict[str, list[str]] = {}
    for account, key in keys:
        by_account.setdefault(account, []).append(key)
    known: dict[Key, int] = {}
    for account, names in by_account.items():
        for part in chunks(names):
            found = tx.execute(KNOWN_KEYS, {"account": account, "keys": part})
            known.update({(account, key): row_id for key, row_id in found})
    return known


def _values(event: AnyEvent) -> dict[str, Any]:
    return {
        "account": event.account,
        "chat": _chat(event),
        "platform_message_id": event.platform_message_id if isinstance(event, Message) else None,
        "event": to_json(INBOUND_EVENT, event),
        "received_at": event.received_at,
        "state": InboxState.DEAD if isinstance(event, Unparsed) else InboxState.NEW,
        "reason": event.error if isinstance(event, Unparsed) else None,
    }


def _chat(event: AnyEvent) -> str | None:
    if isinstance(event, MessageEdited):
        return event.message.address.chat
    if isinstance(event, Message | ButtonPressed | MembershipChanged | ScheduleDue | HookCalled):
        return event.address.chat
    return None


def _row(row: Row[*tuple[Any, ...]]) -> InboxRow:
    return value_of(InboxRow, row, state=InboxState(row.state))
