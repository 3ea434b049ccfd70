"""A simulated website, and names that mean what a test says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from harness.web.addresses import Rules
from harness.web.fetch import Fetched, Fetcher
from harness.web.guard import GuardedTransport
from harness.web.sources import occurs, pages_read, texts_of
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.web.sources import Sources


async def read_as(sources: Sources, url: str, run_id: str = "r1") -> list[str] | None:
    """What a run of thread-1 has read at an address; None where it has not read it."""
    pages = [page for page in await pages_read(sources, "thread-1", [run_id]) if page.is_at(url)]
    texts = await texts_of(sources, pages)
    return [text for page in pages for text in page.texts(texts)] if pages else None


async def stands(sources: Sources, url: str, words: str) -> bool:
    """Whether words stand in what run r1 of thread-1 has read at an address."""
    return any(occurs(words, text) for text in await read_as(sources, url) or ())


@dataclass
class Names:
    """A resolver: what a name means, question by question; its last meaning stays. asked: the questions."""

    meanings: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        meanings = self.meanings.get(host)
        if meanings is None:
            return [host] if host[0].isdigit() else []
        return meanings.pop(0) if len(meanings) > 1 else meanings[0]


@dataclass
class Guarded:
    """A fetcher in front of a site."""

    names: Names
    fetcher: Fetcher
    transport: GuardedTransport

    async def get(self, url: str, *, most_bytes: int = 1_000_000, seconds: float = 20) -> Fetched:
        return await self.fetcher.get(url, most=lambda kind: most_bytes, seconds=seconds, whose="ann")


@dataclass
class Guards:
    """Makes guarded fetchers, and closes them."""

    made: list[Guarded] = field(default_factory=list)

    def __call__(
        self, *allow: str, proxy: str | None = None, ca_file: Path | None = None, **meanings: list[list[str]]
    ) -> Guarded:
        names = Names({name.replace("_", "."): list(values) for name, values in meanings.items()})
        rules = Rules(allow)
        transport = GuardedTransport(rules, lambda url: (proxy, ca_file), names)
        self.made.append(Guarded(names, Fetcher(rules, transport), transport))
        return self.made[-1]


@pytest.fixture
async def guards() -> AsyncIterator[Guards]:
    guards = Guards()
    yield guards
    for each in guards.made:
        await each.transport.aclose()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().serve() as site:
        yield site


@pytest.fixture
async def guarded(guards: Guards, site: Site) -> Guarded:
    """One that may read the site, as site.test and by its address."""
    return guards(f"127.0.0.1:{site.port}", site_test=[["127.0.0.1"]])
