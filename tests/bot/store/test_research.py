"""The pages that a research read: in memory and on the database alike, and gone with their thread."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.clock import SystemClock
from bot.store import forgetting
from bot.store.research import StoreSources
from bot.store.retrying import RetryingStore
from harness.research.sources import MemorySources
from tests.bot.store.samples import NOW

if TYPE_CHECKING:
    from bot.store import Store
    from harness.research.sources import Sources

ADDRESS = "https://a.example/page"


@pytest.fixture(params=["memory", "store"])
def sources(request: pytest.FixtureRequest, store: Store) -> Sources:
    if request.param == "memory":
        return MemorySources()
    return StoreSources(RetryingStore(store, SystemClock()), "t1", "r1")


async def test_a_page_is_kept_as_it_was_read(sources: Sources) -> None:
    await sources.add(ADDRESS, "A \ud800 title", "Words of the page.", NOW)
    (source,) = await sources.get()
    assert (source.address, source.texts, source.fetched_at) == (ADDRESS, ("Words of the page.",), NOW)


async def test_parts_of_a_page_are_one_source_and_each_is_kept_once(sources: Sources) -> None:
    await sources.add(ADDRESS, "T", "one", NOW)
    await sources.add(f"{ADDRESS}/#part", "T", "two", NOW + timedelta(seconds=1))
    await sources.add(ADDRESS, "T", "one", NOW + timedelta(seconds=2))
    (source,) = await sources.get()
    assert source.texts == ("one", "two")
    assert source.fetched_at == NOW


async def test_they_come_in_the_order_in_which_they_were_fetched(sources: Sources) -> None:
    for number in (3, 1, 2):
        await sources.add(f"https://a.example/{number}", "T", "x", NOW + timedelta(seconds=4 - number))
    assert [source.address[-1] for source in await sources.get()] == ["3", "2", "1"]


async def test_it_tells_whether_words_stand_in_a_page(sources: Sources) -> None:
    await sources.add(ADDRESS, "T", "The tower was painted green.", NOW)
    assert await sources.contains(ADDRESS, "tower was  PAINTED")
    assert not await sources.contains(ADDRESS, "painted red")
    assert not await sources.contains("https://b.example", "tower was painted")


async def test_another_research_of_the_thread_has_its_own(store: Store) -> None:
    retrying = RetryingStore(store, SystemClock())
    await StoreSources(retrying, "t1", "r1").add(ADDRESS, "T", "x", NOW)
    assert await StoreSources(retrying, "t1", "r2").get() == ()
    assert await StoreSources(retrying, "t2", "r1").get() == ()


async def test_they_go_with_their_thread(store: Store) -> None:
    retrying = RetryingStore(store, SystemClock())
    for thread in ("t1", "t2"):
        await StoreSources(retrying, thread, "r1").add(ADDRESS, "T", "x", NOW)
    await store.write(lambda tx: forgetting.delete_thread(tx, "t1"))
    assert await StoreSources(retrying, "t1", "r1").get() == ()
    assert len(await StoreSources(retrying, "t2", "r1").get()) == 1
