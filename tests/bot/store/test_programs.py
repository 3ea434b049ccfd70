"""Threads of programs: which of them are new is known on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store import conversations, programs
from tests.bot.store.samples import NOW

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from bot.store import Store


async def test_a_thread_is_new_once(store: Store) -> None:
    row = programs.ProgramThread(key="api:1", person="p:1", name="1", created_at=NOW, updated_at=NOW)

    def unit(tx: Connection) -> list[bool]:
        conversations.ensure(tx, row.key, "api", row.person, NOW)
        return [programs.create(tx, row) for _ in range(2)]

    assert await store.write(unit) == [True, False]
