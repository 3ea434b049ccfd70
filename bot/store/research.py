"""The pages that researches read, kept with their thread: harness.research.sources on the database."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import select

from bot.store.sql import insert_new
from bot.store.tables import research_sources
from harness.research.sources import Source, canonical, occurs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.store.retrying import RetryingStore


class StoreSources:
    """harness.research.sources.Sources of one research."""

    def __init__(self, store: RetryingStore, thread_id: str, research_id: str) -> None:
        self._store = store
        self._thread_id = thread_id
        self._research_id = research_id

    async def add(self, address: str, title: str, text: str, fetched_at: datetime) -> None:
        """Record a page, or a further part of it, once."""
        part = hashlib.sha256(f"{canonical(address)}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
        values = {
            "thread_id": self._thread_id,
            "research_id": self._research_id,
            "part": part,
            "address": address,
            "title": title,
            "text": text,
            "fetched_at": fetched_at,
        }
        await self._store.write(lambda tx: tx.execute(insert_new(tx.dialect.name, research_sources), values))

    async def get(self) -> Sequence[Source]:
        """All pages, in the order in which they were first fetched."""
        return await self._store.read(self._read)

    async def contains(self, address: str, words: str) -> bool:
        """Whether the page was fetched and these words occur in what was read of it."""
        key = canonical(address)
        return any(occurs(words, source.texts) for source in await self.get() if canonical(source.address) == key)

    def _read(self, tx: Connection) -> Sequence[Source]:
        rows = research_sources.c
        query = select(rows.address, rows.title, rows.text, rows.fetched_at).where(
            rows.thread_id == self._thread_id, rows.research_id == self._research_id
        )
        pages: dict[str, Source] = {}
        for row in tx.execute(query.order_by(rows.fetched_at, rows.part)):
            known = pages.get(canonical(row.address))
            pages[canonical(row.address)] = Source(
                address=row.address if known is None else known.address,
                title=row.title if known is None else known.title,
                texts=(row.text,) if known is None else (*known.texts, row.text),
                fetched_at=row.fetched_at if known is None else known.fetched_at,
            )
        return tuple(pages.values())
