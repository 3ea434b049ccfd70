"""Each search engine over its own wire: what it is asked, how its answer is read, and what its failures mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from harness.web.addresses import WebError
from harness.web.config import WebSettings
from harness.web.search.config import ENGINES, WITH_KEY, EngineSettings, SearchSettings
from harness.web.search.port import SearchFailed
from harness.web.search.several import engine_class
from tests.harness.support import TurnedClock
from tests.harness.web.engines import ANN, PLACE, SIMULATORS, duckduckgo, engine, reach
from tests.simulators.web.engines import HITS
from tests.simulators.web.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from harness.web.search.port import Found

QUERY = "green lighthouse"
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "searxng": (
        "de",
        {"q": QUERY, "format": "json", "categories": "general", "safesearch": "1", "language": "de"},
    ),
    "tavily": ("Germany", {"query": QUERY, "max_results": 2, "search_depth": "basic", "country": "germany"}),
    "brave": (
        "de",
        {"q": QUERY, "count": "2", "text_decorations": "false", "result_filter": "web", "country": "DE"},
    ),
    "serper": ("DE", {"q": QUERY, "num": 2, "gl": "de"}),
    "exa": (
        "de",
        {
            "query": QUERY,
            "numResults": 2,
            "type": "auto",
            "contents": {"highlights": {"maxCharacters": 500}},
            "userLocation": "DE",
        },
    ),
    "jina": ("de", {"q": QUERY, "num": 2, "gl": "de", "respond-with": "no-content"}),
    "arxiv": (
        "",
        {"search_query": "all:green AND all:lighthouse", "start": "0", "max_results": "2", "sortBy": "relevance"},
    ),
    "wikipedia": ("de", {"q": QUERY, "limit": "2"}),
}
"""Engine -> region, and what the simulator is asked with it."""
DATED = {"brave", "exa", "arxiv"}


def told(found: list[Found]) -> list[tuple[str, str, str]]:
    return [(each.title, each.url, each.snippet) for each in found]


def test_every_engine_has_a_simulator() -> None:
    assert ENGINES.keys() == SIMULATORS.keys() | {"duckduckgo"}
    assert ASKED.keys() == SIMULATORS.keys()


@pytest.mark.parametrize("use", SIMULATORS)
async def test_it_is_asked_as_its_api_says(use: str) -> None:
    region, asked = ASKED[use]
    async with engine(use, region=region) as (made, simulator):
        found = await made.search(QUERY, 2, ANN)
        if use == "wikipedia":  # tells names, of which addresses are made
            assert [(each.title, each.snippet) for each in found] == [(title, text) for title, _, text in HITS[:2]]
            assert found[0].url.endswith("/wiki/The_lighthouse_of_Antlerby")
        else:
            assert told(found) == HITS[:2]
        assert [each.date for each in found] == (["2025-01-15"] * 2 if use in DATED else ["", ""])
        assert simulator.queries == [asked]


@pytest.mark.parametrize("use", SIMULATORS)
async def test_nothing_found_is_no_failure(use: str) -> None:
    async with engine(use) as (made, simulator):
        simulator.hits = []
        assert await made.search(QUERY, 5, ANN) == []


@pytest.mark.parametrize("use", sorted(WITH_KEY))
async def test_a_key_that_is_refused_is_named_by_its_place(use: str) -> None:
    async with engine(use, api_key="wrong-key") as (made, _):
        with pytest.raises(SearchFailed, match=r"web\.search\.engines\[0\]\.api_key") as refused:
            await made.search(QUERY, 2, ANN)
        assert "wrong-key" not in str(refused.value)


@pytest.mark.parametrize("status", [429, 500, 502, 302])
@pytest.mark.parametrize("use", SIMULATORS)
async def test_trouble_is_told(use: str, status: int) -> None:
    async with engine(use) as (made, simulator):
        simulator.status = status
        with pytest.raises(SearchFailed, match="say that you could not search") as failed:
            await made.search(QUERY, 2, ANN)
        assert failed.value.reason == ("is getting too many requests" if status == 429 else "cannot be reached now")


@pytest.mark.parametrize(("use", "status"), [("tavily", 432), ("serper", 400), ("jina", 402), ("exa", 402)])
async def test_an_account_without_credit(use: str, status: int) -> None:
    async with engine(use) as (made, simulator):
        simulator.status = status
        with pytest.raises(SearchFailed, match=r"no credit left for .*web\.search\.engines\[0\]\.api_key"):
            await made.search(QUERY, 2, ANN)


async def test_a_searxng_that_answers_no_programs() -> None:
    async with engine("searxng") as (made, simulator):
        simulator.formats = frozenset({"html"})
        with pytest.raises(SearchFailed, match=r"\.base_url: the server needs json"):
            await made.search(QUERY, 2, ANN)


async def test_arxiv_waits_between_queries_and_reads_no_entities() -> None:
    clock = TurnedClock()
    async with engine("arxiv", clock) as (made, simulator):
        for _ in range(3):
            await made.search(QUERY, 2, ANN)
        assert clock.slept == [3.0, 3.0]
        simulator.wrong = True
        with pytest.raises(SearchFailed, match="does not understand"):
            await made.search(QUERY, 2, ANN)
        bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><feed xmlns="http://www.w3.org/2005/Atom"/>'
        for raw in (bomb.encode(), b"<html></html>", b"<feed", b""):
            simulator.raw = raw
            with pytest.raises(SearchFailed):
                await made.search(QUERY, 2, ANN)


async def test_duckduckgo_is_asked_by_its_package(tmp_path: Path) -> None:
    async with duckduckgo(tmp_path, region="de-de") as (made, simulator):
        assert told(await made.search(QUERY, 2, ANN)) == HITS[:2]
        assert simulator.queries == [{"q": QUERY, "l": "de-de"}]
        simulator.hits = []
        assert await made.search("nothing of the kind", 2, ANN) == []
        for status in (202, 403, 429):
            simulator.status = status
            with pytest.raises(WebError, match="too many requests"):
                await made.search("x", 2, ANN)
        simulator.status, simulator.suspicious = 200, True
        with pytest.raises(WebError, match="too many requests"):
            await made.search("x", 2, ANN)
        simulator.status, simulator.suspicious = 500, False
        with pytest.raises(WebError, match="cannot be reached"):
            await made.search("x", 2, ANN)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"results": 3}', b"[" * 100_000, b"\xff\xfe"])
@pytest.mark.parametrize("use", SIMULATORS)
async def test_answers_that_mean_nothing(use: str, raw: bytes) -> None:
    async with engine(use) as (made, simulator):
        simulator.raw = raw
        with pytest.raises(SearchFailed, match="unreadable response"):
            await made.search("x", 2, ANN)


async def test_answers_that_are_partly_wrong_or_too_long() -> None:
    async with engine("searxng") as (made, simulator):
        simulator.raw = (
            b'{"results": [3, {"title": 4, "url": "https://a.example/", "content": "<b>x</b> &amp; y"}, {}]}'
        )
        assert told(await made.search("x", 5, ANN)) == [("", "https://a.example/", "x & y"), ("", "", "")]
        simulator.raw = b'{"results": [' + b" " * 3_000_000 + b"]}"
        with pytest.raises(WebError, match="too long"):
            await made.search("x", 5, ANN)


async def test_a_server_that_is_not_there_or_says_nothing() -> None:
    kind = engine_class("searxng", PLACE)
    gone = kind(EngineSettings(use="searxng", base_url="http://127.0.0.1:9"), reach(0.3))
    with pytest.raises(WebError, match="cannot be reached"):
        await gone.search("x", 2, ANN)
    await gone.close()
    async with Site().serve() as site:
        silent = kind(EngineSettings(use="searxng", base_url=site.url("/silent")), reach(0.3))
        with pytest.raises(WebError, match="cannot be reached"):
            await silent.search("x", 2, ANN)
        await silent.close()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        *(({"provider": use}, f"{use} also needs api_key") for use in sorted(WITH_KEY)),
        *(({"engines": [{"use": use}]}, f"{use} also needs api_key") for use in sorted(WITH_KEY)),
        ({"provider": "tavily", "api_key": ""}, "tavily also needs api_key"),
        ({"provider": "searxng"}, "searxng also needs base_url"),
        ({"engines": [{"use": "searxng"}]}, "searxng also needs base_url"),
        ({"provider": "google"}, "provider"),
        ({"engines": [{"use": "google"}]}, "should be one of duckduckgo, "),
        ({"engines": [{"use": "wikipedia", "options": {"a": 1}}]}, "takes no options"),
        ({"max_results": 0}, "max_results"),
    ],
)
def test_settings_that_cannot_work(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SearchSettings(**values)


def test_nothing_is_on_by_default() -> None:
    assert not WebSettings().is_on
    assert WebSettings(search=SearchSettings(engines=(EngineSettings(use="wikipedia"),))).is_on
