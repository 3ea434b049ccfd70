"""Memories in the database: harness.memory's `MemoryStore`, for gateways on PostgreSQL, or where it is chosen."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError
from sqlalchemy import delete, select, update

from bot.store.errors import StoreError
from bot.store.identity import folder_name
from bot.store.sql import insert
from bot.store.tables import memories
from harness.memory.model import Memory, from_json
from harness.memory.port import MemoryUnavailable, StoredMemory

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime
    from typing import TypeVar

    from sqlalchemy import Connection

    from bot.store import Store
    from bot.store.retrying import PatientStore
    from channels.base import Clock

    T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryBody:
    """A memory as it is stored: its JSON, and the one that it replaced."""

    body: str
    last_good: str | None


class StoreMemories:
    """The `MemoryStore` of harness.memory. A broken memory stays in its row, out of the way, until it is deleted."""

    def __init__(self, store: PatientStore | Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def load(self, owner: str) -> Memory:
        """The owner's memory, empty where there is none; from the last good copy where it cannot be read."""
        found = await _or_unavailable(self._store.read(lambda tx: load(tx, owner)))
        if found is None:
            return Memory()
        memory = _read(found.body)
        return memory if memory is not None else await self._recover(owner, found)

    async def save(self, owner: str, memory: Memory) -> None:
        """Put the owner's memory in the place of the old one."""
        body, now = memory.to_json(), self._clock.now()
        await _or_unavailable(self._store.write(lambda tx: save(tx, owner, body, now)))

    async def delete(self, owner: str) -> bool:
        """Delete the owner's memory; returns whether there was one."""
        gone = delete(memories).where(memories.c.owner == owner)
        return await _or_unavailable(self._store.write(lambda tx: tx.execute(gone).rowcount > 0))

    async def owners(self) -> list[StoredMemory]:
        """All owners of whom a memory is kept, and how large it is."""
        return await _or_unavailable(self._store.read(owners))

    async def _recover(self, owner: str, found: MemoryBody) -> Memory:
        """The last good copy takes the broken one's place."""
        memory = _read(found.last_good) if found.last_good is not None else None
        good = memory or Memory()
        log.error(
            "the memory %s cannot be read: it is set aside, and %s is used",
            folder_name(owner),
            "the one before it" if memory is not None else "an empty one",
        )
        body = good.to_json()
        await _or_unavailable(self._store.write(lambda tx: set_aside(tx, owner, found.body, body)))
        return good


def load(tx: Connection, owner: str) -> MemoryBody | None:
    """What is stored of an owner."""
    row = tx.execute(select(memories.c.body, memories.c.last_good).where(memories.c.owner == owner)).first()
    return None if row is None else MemoryBody(row.body, row.last_good)


def save(tx: Connection, owner: str, body: str, now: datetime) -> None:
    """Store it; what it replaces is the last good copy."""
    known = load(tx, owner)
    if known is None:
        values = {"owner": owner, "body": body, "last_good": None, "broken": None, "updated_at": now}
        tx.execute(insert(tx, memories), values)
        return
    values = {"body": body, "last_good": known.body, "updated_at": now}
    tx.execute(update(memories).where(memories.c.owner == owner).values(values))


def set_aside(tx: Connection, owner: str, broken: str, body: str) -> None:
    """`body` takes the place of one that cannot be read, unless somebody wrote another meanwhile."""
    same = (memories.c.owner == owner) & (memories.c.body == broken)
    tx.execute(update(memories).where(same).values(body=body, broken=broken, last_good=None))


def owners(tx: Connection) -> list[StoredMemory]:
    """The owners of whom a memory is kept."""
    rows = tx.execute(select(memories.c.owner, memories.c.body, memories.c.updated_at).order_by(memories.c.owner))
    return [StoredMemory(owner=row.owner, size=len(row.body.encode()), updated_at=row.updated_at) for row in rows]


def _read(body: str) -> Memory | None:
    try:
        return from_json(body)
    except ValidationError:
        return None


async def _or_unavailable(work: Awaitable[T]) -> T:
    try:
        return await work
    except StoreError as error:
        raise MemoryUnavailable(str(error)) from error
