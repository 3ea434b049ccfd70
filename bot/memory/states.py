"""What persons decided of their memories (on or off, what was forgotten), asked with every turn; for book.py."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from bot.store import memory_owners

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from bot.store import Store
    from bot.store.memory_owners import OwnerState
    from bot.store.retrying import PatientStore

REMEMBERED = 4096
"""Owners of whom it is known without asking the store."""


class OwnerStates:
    """Changed within the lock of the owner."""

    def __init__(self, store: PatientStore | Store) -> None:
        self._store = store
        self._known: OrderedDict[str, OwnerState] = OrderedDict()

    async def of(self, owner: str) -> OwnerState:
        known = self._known.get(owner)
        if known is None:
            known = await self._store.read(lambda tx: memory_owners.load(tx, owner))
            self._note(owner, known)
        return known

    async def decide(
        self,
        owner: str,
        also: Callable[[Connection], int] | None = None,
        *,
        off: bool | None = None,
        forgets: bool = False,
    ) -> int:
        """Record that a person changed something, `also` in the same transaction; returns what that returned.
        forgets: nothing that was said before is learnt any more. off: the switch, None: as it is."""
        forgotten_at = self._store.clock.now() if forgets else None

        def unit(tx: Connection) -> tuple[OwnerState, int]:
            count = also(tx) if also is not None else 0
            return memory_owners.changed(tx, owner, off=off, forgotten_at=forgotten_at), count

        state, count = await self._store.write(unit)
        self._note(owner, state)
        return count

    def clear(self) -> None:
        """Ask the store again: owners have other ids."""
        self._known.clear()

    def _note(self, owner: str, state: OwnerState) -> None:
        self._known[owner] = state
        self._known.move_to_end(owner)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
