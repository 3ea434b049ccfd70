"""Vectors of passages, made in the background: payers take turns, within their budgets."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from bot.store import knowledge
from harness.knowledge.port import KnowledgeFailed

if TYPE_CHECKING:
    from array import array
    from collections.abc import Awaitable, Callable, Sequence

    from bot.store import Store
    from bot.store.retrying import RetryingStore
    from harness.knowledge.embeddings import Embeddings
    from harness.knowledge.port import Asker

log = logging.getLogger(__name__)


class Vectors:
    """Makes vectors. endpoint: returns the currently configured embeddings endpoint, or None."""

    def __init__(self, store: RetryingStore | Store, endpoint: Callable[[], Awaitable[Embeddings | None]]) -> None:
        self._store = store
        self._endpoint = endpoint
        self._making = asyncio.Lock()

    async def make(self) -> str:
        """Make the missing vectors; returns why some are still missing, "" if none is."""
        held: dict[Asker, str] = {}
        async with self._making:
            while (endpoint := await self._endpoint()) is not None:
                lacking = await self._store.read(lambda tx, model=endpoint.name: knowledge.lacking_vectors(tx, model))  # type: ignore[misc]
                payers = [payer for payer in lacking if payer not in held]
                if not payers:
                    break
                try:
                    held |= await self._make_for(payers, endpoint)
                except KnowledgeFailed as failure:
                    return str(failure)
        keys = ", ".join(sorted(set(held.values())))
        return f"passages without vectors, because budgets are used up: {keys}" if held else ""

    async def _make_for(self, payers: Sequence[Asker], endpoint: Embeddings) -> dict[Asker, str]:
        """Request vectors for each in turn, until the settings change; returns payer -> key of an exhausted budget."""
        held: dict[Asker, str] = {}
        last = dict.fromkeys(payers, 0)
        while last and await self._endpoint() is endpoint:
            for payer, after in list(last.items()):
                rows = await self._without_vector(endpoint, payer, after)
                try:
                    await self._embed(endpoint, rows, payer)
                except KnowledgeFailed as failure:
                    if not failure.budget:
                        raise
                    held[payer], rows = failure.budget, []
                if rows:
                    last[payer] = rows[-1][0]
                else:
                    del last[payer]
        return held

    async def _without_vector(self, endpoint: Embeddings, payer: Asker, after: int) -> list[tuple[int, str]]:
        model, limit = endpoint.name, endpoint.at_once
        return await self._store.read(lambda tx: knowledge.without_vector(tx, model, payer, after, limit))

    async def _embed(self, endpoint: Embeddings, rows: Sequence[tuple[int, str]], payer: Asker) -> None:
        """Make vectors. Texts refused together are retried in halves; a single refused text gets no vector. Raises
        KnowledgeFailed."""
        vectors: Sequence[array[float] | None]
        try:
            vectors = await endpoint.vectors([text for _, text in rows], payer)
        except KnowledgeFailed as failure:
            if not failure.refused:
                raise
            if len(rows) > 1:
                half = len(rows) // 2
                await self._embed(endpoint, rows[:half], payer)
                return await self._embed(endpoint, rows[half:], payer)
            log.warning("a passage of the knowledge got no vector: %s", failure)
            vectors = [None]
        made = [(known, vector) for (known, _), vector in zip(rows, vectors, strict=True)]
        if made:
            await self._store.write(lambda tx: knowledge.set_vectors(tx, endpoint.name, made))
