"""Searching the knowledge: by words, by meaning if there is an embeddings endpoint, and in external services. The
rankings are merged."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from bot.store import knowledge
from bot.store.knowledge import EVERYBODYS, Scope
from bot.texts import DEFAULT, texts_for
from bot.usage.budgets import payer_of
from harness.errors import ToolSetupError
from harness.events import Usage
from harness.knowledge.port import Hit, KnowledgeFailed, Looked
from harness.knowledge.words import asked_words
from harness.web.search.merging import fused

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from bot.settings import Settings
    from bot.store import Store
    from bot.store.knowledge import DocumentRow, FoundPassage
    from bot.store.retrying import RetryingStore
    from bot.usage.report import Spending
    from harness.knowledge.config import KnowledgeSettings
    from harness.knowledge.embeddings import Embeddings
    from harness.knowledge.port import Asker, Bill
    from harness.knowledge.services import Service

log = logging.getLogger(__name__)
FOLDER, PAGE = "folder", "page"
"""Kinds of documents: a file of a configured folder, and the page at an address."""


class SpendingBill:
    """harness.knowledge.port.Bill: embeddings are counted like models, and limited by the same budgets."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending

    async def overdraft(self, asker: Asker) -> str:
        refused = await self._spending.budgets.refusal(payer_of(asker), texts_for(DEFAULT))
        return f"budgets.{refused[0]}" if refused is not None else ""

    async def charge(self, asker: Asker, model: str, tokens: int) -> None:
        used = Usage(run_id=asker.run_id, seq=0, model=model, input_tokens=tokens, output_tokens=0)
        await self._spending.meter.charge(used, payer_of(asker))


class Searcher:
    """Searches collections. settings: the current ones; the clients of endpoints and services are recreated when they
    have changed. bill: pays for embeddings."""

    def __init__(self, settings: Settings, store: RetryingStore | Store, bill: Bill) -> None:
        self.settings = settings
        self._store = store
        self._bill = bill
        self._embeddings: Embeddings | None = None
        self._services: tuple[Service, ...] = ()
        self._opened_for: KnowledgeSettings | None = None
        self._opening = asyncio.Lock()

    async def search(self, query: str, asker: Asker, collections: Sequence[str] = ()) -> Looked:
        """See harness.knowledge.port.KnowledgeBase."""
        await self._open()
        owners = self._owners(asker)
        names = await self._names(owners)
        asked, unknown = named(collections, names)
        if collections and not asked:
            return Looked(collections=tuple(names), unknown=unknown)
        scope = Scope(owners, tuple(asked) if collections else None)
        services = [service for service in self._services if not collections or service.name in asked]
        missing: list[str] = []
        here, elsewhere = await asyncio.gather(
            self._own_rankings(query, scope, asker, missing),
            asyncio.gather(*(self._elsewhere(service, query, asker, missing) for service in services)),
        )
        rankings = [*here, *elsewhere]
        found = {hit.key: hit for ranking in rankings for hit in ranking}
        best = fused([[hit.key for hit in ranking] for ranking in rankings], self.settings.knowledge.results)
        hits = tuple(found[key] for key in best)
        return Looked(hits=hits, collections=tuple(names), unknown=unknown, missing=tuple(missing))

    async def names(self, asker: Asker) -> list[str]:
        """The collections that exist for the asker."""
        await self._open()
        return await self._names(self._owners(asker))

    def _owners(self, asker: Asker) -> tuple[str, ...]:
        own = bool(asker.owner) and (self.settings.knowledge.groups or not asker.is_group)
        return (EVERYBODYS, asker.owner) if own else (EVERYBODYS,)

    async def _names(self, owners: tuple[str, ...]) -> list[str]:
        there = await self._store.read(lambda tx: knowledge.collections(tx, owners))
        return sorted({*there, *(service.name for service in self._services)})

    async def endpoint(self) -> Embeddings | None:
        """The currently configured embeddings endpoint, or None."""
        await self._open()
        return self._embeddings

    async def _own_rankings(self, query: str, scope: Scope, asker: Asker, missing: list[str]) -> list[list[Hit]]:
        """The rankings by words and by vectors."""
        words = asked_words(query)
        rankings = [await self._store.read(lambda tx: knowledge.by_words(tx, words, scope))]
        if (endpoint := self._embeddings) is not None:
            try:
                (vector,) = await endpoint.vectors([query], asker)
                rankings.append(await self._nearest(vector, endpoint.name, scope))
            except KnowledgeFailed as failure:
                log.warning("searched only by words: %s", failure)
                why = _used_up(failure) or "the embeddings endpoint is not working now"
                missing.append(f"by meaning, since {why}")
        ids = list(dict.fromkeys(known for ranking in rankings for known in ranking))
        passages = await self._store.read(lambda tx: knowledge.passages(tx, ids, scope))
        hits = {each.id: self._hit(each) for each in passages}
        return [[hits[known] for known in ranking if known in hits] for ranking in rankings]

    async def _nearest(self, vector: array[float], model: str, scope: Scope) -> list[int]:
        """The nearest passages, compared by the database if it can, else in portions in a thread of the store."""
        known = await self._store.read(lambda tx: knowledge.by_vector(tx, vector, model, scope))
        if known is not None:
            return known
        best: list[tuple[float, int]] = []
        after: int | None = 0
        while after is not None:
            portion, after = await self._store.read(
                lambda tx, after=after: knowledge.nearest_after(tx, after, vector, model, scope)  # type: ignore[misc]
            )
            best = sorted([*best, *portion])[: knowledge.MOST_RANKED]
        return [passage for _, passage in best]

    def _hit(self, found: FoundPassage) -> Hit:
        row = found.document
        return Hit(
            key=f"{found.id}",
            collection=row.collection,
            name=row.place,
            title=row.title,
            text=found.text,
            page=found.page,
            heading=found.heading,
            url=self._url(row),
        )

    def _url(self, row: DocumentRow) -> str:
        """The address at which people can open a document, "" if unknown."""
        if row.kind == PAGE:
            return row.place
        folder = next((each for each in self.settings.knowledge.folders if each.name == row.collection), None)
        if row.kind != FOLDER or folder is None or folder.url is None:
            return ""
        return f"{folder.url.rstrip('/')}/{quote(row.place)}"

    async def _elsewhere(self, service: Service, query: str, asker: Asker, missing: list[str]) -> list[Hit]:
        try:
            return await service.search(query, self.settings.knowledge.results, asker)
        except KnowledgeFailed as failure:
            log.warning("knowledge %s was not searched: %s", service.name, failure)
            why = _used_up(failure)
            missing.append(
                f"{service.name}, since {why}" if why else f"{service.name}, which is not answering properly now"
            )
            return []

    # External clients: created for the current settings at the first search.

    async def _open(self) -> None:
        async with self._opening:
            settings, route = self.settings.knowledge, self.settings.network_route
            if self._opened_for == settings:
                return
            await self.close()
            if settings.embeddings is not None:
                from harness.knowledge.embeddings import Embeddings  # imports an HTTP client

                self._embeddings = Embeddings(settings.embeddings, route, "knowledge.embeddings", self._bill)
            if settings.services:
                from harness.knowledge.services import make_services

                try:
                    self._services = make_services(settings, route, self._bill)
                except ToolSetupError as error:  # from an operator's own class; everything else works
                    log.error("the services are not searched: %s", error)
            self._opened_for = settings

    async def close(self) -> None:
        """Release connections."""
        endpoint, services = self._embeddings, self._services
        self._embeddings, self._services, self._opened_for = None, (), None
        if endpoint is not None:
            await endpoint.close()
        for service in services:
            with suppress(Exception):  # an operator's own service may raise anything
                await service.close()


def _used_up(failure: KnowledgeFailed) -> str:
    return f"the budget {failure.budget} is used up" if failure.budget else ""


def named(asked: Sequence[str], names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The names that are meant, in any case, and the requested ones that do not exist."""
    known: dict[str, list[str]] = {}
    for name in names:
        known.setdefault(name.casefold(), []).append(name)
    folded = [each.strip() for each in asked if each.strip()]
    meant = [name for each in folded for name in known.get(each.casefold(), ())]
    return meant, tuple(each for each in folded if each.casefold() not in known)
