"""Several engines at once: one list of all, each page once; what is down is told and fails nothing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import ToolSetupError
from harness.web.addresses import WebError
from harness.web.search.config import EngineSettings, SearchSettings
from harness.web.search.merging import merged, normalized
from harness.web.search.port import Found
from harness.web.search.several import PAUSE_SECONDS, Several, make_engines
from tests.harness.support import TurnedClock
from tests.harness.web.engines import ANN, SIMULATORS, settings_of
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.web.search.port import Reach

HERE = "tests.harness.web.test_search_merging"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/x", "http://a.example/x/"),
        ("https://www.a.example/x", "https://A.example:443/x#part"),
        ("https://a.example/x?b=2&a=1", "https://a.example/x?a=1&b=2&utm_source=mail&gclid=1"),
        ("https://a.example/%7Ex", "https://a.example/~x"),
        ("https://a.example/ä", "https://a.example/%C3%A4"),
    ],
)
def test_addresses_of_the_same_page(one: str, other: str) -> None:
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/x", "https://a.example/X"),
        ("https://a.example/?id=1", "https://a.example/?id=2"),
        ("https://a.example:8080/", "https://a.example/"),
        ("https://a.example/", "https://b.a.example/"),
        ("http://[::1", "http://[::2"),
    ],
)
def test_addresses_of_different_pages(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


@given(st.text(max_size=60))
def test_any_text_has_a_form(text: str) -> None:
    for url in (text, f"https://{text}", f"https://a.example/{text}"):
        assert isinstance(normalized(url), str)


pages = st.builds(
    "https://{}{}/{}".format,
    st.sampled_from(["", "www."]),
    st.sampled_from(["a.example", "b.example"]),
    st.integers(0, 9),
)
results = st.builds(Found, st.sampled_from(["", "title"]), pages, st.sampled_from(["", "words"]))
lists = st.lists(st.lists(results, max_size=8), max_size=4)


@given(lists, st.integers(1, 10))
def test_merged_lists(given_lists: list[list[Found]], most: int) -> None:
    found = merged(given_lists, most)
    keys = [normalized(each.url) for each in found]
    everything = [each for one in given_lists for each in one]
    assert len(set(keys)) == len(keys) <= most
    assert {each.url for each in found} <= {each.url for each in everything}
    assert len(found) == min(most, len({normalized(each.url) for each in everything}))
    assert merged(given_lists, most + 1)[:most] == found
    for each, key in zip(found, keys, strict=True):
        same = [other for other in everything if normalized(other.url) == key]
        firsts = _first_of_each(given_lists, key)
        assert bool(each.title) == any(other.title for other in firsts)
        assert each.url in {other.url for other in same}


def _first_of_each(given_lists: Sequence[Sequence[Found]], key: str) -> list[Found]:
    found = (next((each for each in one if normalized(each.url) == key), None) for one in given_lists)
    return [each for each in found if each is not None]


@given(lists)
def test_a_page_that_all_have_first_is_first(given_lists: list[list[Found]]) -> None:
    best = Found("best", "https://best.example/", "x")
    found = merged([[best, *one] for one in given_lists] or [[best]], 5)
    assert found[0].url == best.url


@given(st.lists(results, max_size=8))
def test_one_list_keeps_its_order(one: list[Found]) -> None:
    seen: dict[str, Found] = {}
    for each in one:
        seen.setdefault(normalized(each.url), each)
    assert merged([one], 20) == list(seen.values())


class World:
    """Simulators of engines, all asked by one Several."""

    def __init__(self, several: Several, simulators: dict[str, Any], clock: TurnedClock) -> None:
        self.several, self.simulators, self.clock = several, simulators, clock

    async def search(self) -> tuple[list[str], dict[str, str]]:
        searched = await self.several.search("lighthouse", 10, ANN)
        return [each.url for each in searched.found], dict(searched.failed)


async def world(stack: AsyncExitStack, *uses: str, own: Sequence[EngineSettings] = ()) -> World:
    simulators, settings, clock = {}, [], TurnedClock()
    for use in uses:
        simulators[use] = simulator = SIMULATORS[use]()
        site = await stack.enter_async_context(Site(own=simulator.answers()).serve())  # type: ignore[attr-defined]
        settings.append(settings_of(use, site))
    search = SearchSettings(engines=(*settings, *own), timeout=5)
    several = Several(make_engines(search, lambda url: (None, None), clock), clock, search.timeout)
    stack.push_async_callback(several.close)
    return World(several, simulators, clock)


async def test_several_are_asked_at_once_and_merged() -> None:
    async with AsyncExitStack() as stack:
        here = await world(stack, "searxng", "brave", "tavily")
        one, two, three = "https://a.example/1", "https://a.example/2", "https://a.example/3"
        here.simulators["searxng"].hits = [("1", one, ""), ("2", two, "")]
        here.simulators["brave"].hits = [("3", three, "x"), ("2", f"{two}?utm_source=brave", "x")]
        here.simulators["tavily"].hits = [("2", two, "y")]
        assert await here.search() == ([two, one, three], {})


async def test_one_that_is_down_is_told_left_alone_and_asked_again() -> None:
    async with AsyncExitStack() as stack:
        here = await world(stack, "searxng", "brave")
        here.simulators["brave"].status = 500
        found, failed = await here.search()
        assert len(found) == 3
        assert failed == {"brave": "cannot be reached now"}
        here.simulators["brave"].status = 200
        asked = len(here.simulators["brave"].queries)
        _, failed = await here.search()
        assert failed == {"brave": "failed a moment ago"}
        assert len(here.simulators["brave"].queries) == asked
        here.clock.advance(PAUSE_SECONDS)
        assert (await here.search())[1] == {}


async def test_all_that_are_down_fail_the_search_and_are_asked_again_at_once() -> None:
    async with AsyncExitStack() as stack:
        here = await world(stack, "searxng", "brave")
        here.simulators["searxng"].status, here.simulators["brave"].status = 429, 500
        with pytest.raises(WebError) as failed:
            await here.search()
        assert str(failed.value).startswith(
            "No search service answered: searxng is getting too many requests; brave cannot be reached now. "
        )
        here.simulators["searxng"].status = here.simulators["brave"].status = 200
        assert len((await here.search())[0]) == 3


class Company:
    """An engine of an operator's own. options: url: its one result; failing: it raises whatever."""

    def __init__(self, settings: EngineSettings, reach: Reach) -> None:
        self._options = settings.options
        self._place = reach.place

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        if self._options.get("failing"):
            raise RuntimeError("boom")
        return [Found(query, self._options["url"], self._place)][:most]

    async def close(self) -> None:
        """Nothing is held."""


class NoEngine:
    """It cannot search."""


async def test_an_own_engine_by_its_class_path() -> None:
    own = [
        EngineSettings(use=f"{HERE}:Company", options={"url": "https://intra.example/"}),
        EngineSettings(use=f"{HERE}:Company", options={"failing": True}),
    ]
    async with AsyncExitStack() as stack:
        here = await world(stack, "searxng", own=own)
        found, failed = await here.search()
        assert "https://intra.example/" in found
        assert failed == {"Company 2": "failed"}


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("no_such_module:Engine", "cannot be imported"),
        (f"{HERE}:Nothing", "has no Nothing"),
        (f"{HERE}:NoEngine", "is not a search engine"),
    ],
)
def test_what_cannot_be_had_is_told_by_its_key(use: str, told: str) -> None:
    settings = SearchSettings(provider="wikipedia", engines=(EngineSettings(use="arxiv"), EngineSettings(use=use)))
    with pytest.raises(ToolSetupError, match=told) as failed:
        make_engines(settings, lambda url: (None, None), TurnedClock())
    assert str(failed.value).startswith("web.search.engines[1].use: ")
