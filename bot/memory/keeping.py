"""Where memories are kept, as the settings choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.memory.keeper import MemoryKeeper
from bot.store.memories import StoreMemories
from harness.memory.store import FileMemoryStore

if TYPE_CHECKING:
    from bot.settings import Settings
    from bot.store import Store
    from bot.store.retrying import RetryingStore
    from harness.memory.store import MemoryStore

USERS = "users"
"""The folder below data_dir for what belongs to persons and groups."""


def make_keeper(settings: Settings, store: RetryingStore | Store) -> MemoryKeeper:
    """A keeper of the memories where the settings choose to have them."""
    return MemoryKeeper(make_kept(settings, store), store, settings.memory)


def make_kept(settings: Settings, store: RetryingStore | Store) -> MemoryStore:
    """Where the memories are."""
    if settings.memories_in_database:
        return StoreMemories(store, store.clock)
    return FileMemoryStore(settings.data_dir / USERS)


async def rename_owners(kept: MemoryStore, old: str, new: str) -> None:
    """An account has another name, and with it the owners of memories and those on whose words their facts rest. Raises
    MemoryUnavailable."""

    def renamed(identity: str) -> str:
        return f"{new}{identity.removeprefix(old)}" if identity.startswith(f"{old}:") else identity

    for stored in await kept.owners():
        if stored.owner.startswith(f"{old}:"):
            memory = await kept.load(stored.owner)
            facts = tuple(fact.model_copy(update={"said_by": renamed(fact.said_by)}) for fact in memory.facts)
            await kept.save(renamed(stored.owner), memory.model_copy(update={"facts": facts}))
            await kept.delete(stored.owner)
