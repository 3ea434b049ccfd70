"""What each owner decided about their memory (on or off, what was forgotten), and the facts that /memory listed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, select

from bot.store.sql import chunks, insert, storable
from bot.store.tables import memory_lists, memory_owners

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class OwnerState:
    """Columns are described in tables.py."""

    off: bool = False
    changed: int = 0
    forgotten_at: datetime | None = None

    def had_forgotten(self, said_at: datetime) -> bool:
        """Whether what was said then is not to be learnt any more."""
        return self.forgotten_at is not None and said_at <= self.forgotten_at


TWO = select(memory_owners).where(memory_owners.c.owner.in_((bindparam("one"), bindparam("other"))))
"""Built once: it is asked at the end of every turn."""


def load(tx: Connection, owner: str) -> OwnerState:
    """What is decided; of an owner of whom nothing is known, the default."""
    return load_both(tx, owner, owner)[0]


def load_both(tx: Connection, owner: str, other: str) -> tuple[OwnerState, OwnerState]:
    """load, of two."""
    rows = tx.execute(TWO, {"one": owner, "other": other})
    states = {row.owner: OwnerState(row.off, row.changed, row.forgotten_at) for row in rows}
    return states.get(storable(owner), OwnerState()), states.get(storable(other), OwnerState())


def changed(tx: Connection, owner: str, *, off: bool | None = None, forgotten_at: datetime | None = None) -> OwnerState:
    """A person changed something. off: the switch, None: as it is. forgotten_at: now, where something was forgotten."""
    known = load(tx, owner)
    state = OwnerState(
        off=known.off if off is None else off,
        changed=known.changed + 1,
        forgotten_at=forgotten_at or known.forgotten_at,
    )
    values = {"off": state.off, "changed": state.changed, "forgotten_at": state.forgotten_at}
    _put(tx, memory_owners, {"owner": owner}, values)
    return state


def show(tx: Connection, conversation: str, owner: str, facts: Sequence[str], now: datetime) -> None:
    """Record the order in which facts were shown, in place of the last list there."""
    values = {"owner": owner, "facts": json.dumps(list(facts)), "shown_at": now}
    _put(tx, memory_lists, {"conversation": conversation}, values)


def shown(tx: Connection, conversation: str, owner: str) -> list[str] | None:
    """The ids of the owner's facts as they were shown there last; None: they were not."""
    own = (memory_lists.c.conversation == conversation) & (memory_lists.c.owner == owner)
    facts = tx.scalar(select(memory_lists.c.facts).where(own))
    return None if facts is None else [str(fact) for fact in json.loads(facts)]


def prune_lists(tx: Connection, before: datetime, limit: int = 5000) -> int:
    """Forget lists that were shown before that time, at most `limit`; returns how many."""
    old = select(memory_lists.c.conversation).where(memory_lists.c.shown_at < before).limit(limit)
    keys = list(tx.scalars(old))
    parts = (delete(memory_lists).where(memory_lists.c.conversation.in_(part)) for part in chunks(keys))
    return sum(tx.execute(part).rowcount for part in parts)


def _put(tx: Connection, table: Any, key: dict[str, Any], values: dict[str, Any]) -> None:
    put = insert(tx, table).values(key | values)
    tx.execute(put.on_conflict_do_update(index_elements=list(key), set_=values))
