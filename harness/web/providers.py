"""The search providers that an operator can choose: Tavily, SearXNG and DuckDuckGo, and what they share.

Their addresses are the operator's, and so trusted: no guard, but limits and the proxy.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from harness.files.helpers import HelperFailed, Helpers
from harness.files.slots import FairSlots
from harness.web.addresses import WebError
from harness.web.pools import PacedBackend, PoolTransport

if TYPE_CHECKING:
    from harness.web.config import SearchSettings
    from harness.web.guard import Route


LONGEST_ANSWER = 2_000_000
"""Bytes of a provider's answer."""
log = logging.getLogger(__name__)
AT_ONCE = 16
URL = "https://api.tavily.com"
PLAN_SPENT = frozenset({432, 433})
"""The plan's, or the key's own, limit of the month is reached."""
MOST_QUERY = 400
"""Characters; the API refuses longer ones."""
NO_JSON = (
    "The search service does not answer programs. An operator has to look at web.search.base_url: the server needs "
    "json among its search.formats. Do not search again: answer with what you have, and say that you could not search."
)

HELPER = Path(__file__).with_name("duckduckgo_helper.py")
GRACE = 5.0
"""Seconds more than the request may take, for the process around it."""
REFUSALS = frozenset({202, 403, 418, 429})
"""How it answers programs that ask too often."""

BUSY = (
    "The search service gets too many requests now. Do not search again in this turn: answer with what you have, and "
    "say that you could not search."
)
DOWN = "The search service cannot be reached now. Answer with what you have, and say that you could not search."


@dataclass(frozen=True, slots=True)
class Found:
    """One result, as the provider gave it."""

    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    """One of the providers, ready to be asked."""

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        """The best results, at most `most`. whose: the person's for whom it is, so that many searches of one person
        do not hold up those of others. Raises WebError, whose text is for the model."""
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


def refused_key(key: str) -> WebError:
    """The provider does not accept us: only an operator can help."""
    return WebError(
        f"The search service refuses Antler's key. An operator has to look at {key}. Do not search again: answer with "
        "what you have, and say that you could not search."
    )


def results(answer: Any, *, snippet: str) -> list[Found]:
    """The list `results` of a JSON answer; what is not as it should be in it is left out. snippet: its key.

    Raises WebError when there is no such list.
    """
    listed = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise WebError("The search service gave an answer that cannot be understood. Answer with what you have.")
    return [
        Found(_text(each.get("title")), _text(each.get("url")), _text(each.get(snippet)))
        for each in listed
        if isinstance(each, dict)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """data: the JSON of an answer 200, else None."""

    status: int
    data: Any


class ApiClient:
    """One server. seconds: for a whole request, once its turn has come."""

    def __init__(self, route: Route, seconds: float) -> None:
        proxy, ca_file = route
        self._seconds = seconds
        self._room = FairSlots(AT_ONCE)
        self._client = httpx.AsyncClient(
            transport=PoolTransport(proxy, ca_file, PacedBackend()),
            trust_env=False,
            follow_redirects=False,
            timeout=seconds,
            headers={"User-Agent": "Antler", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def ask(self, request: httpx.Request, whose: str) -> Answer:
        """429 and failures are told as WebError; other statuses are for the caller to name."""
        try:
            async with self._room.slot(whose), asyncio.timeout(self._seconds):
                return await self._asked(request)
        except (TimeoutError, httpx.TransportError) as error:
            log.warning("a search failed: %s", type(error).__name__)
            raise WebError(DOWN) from None

    async def _asked(self, request: httpx.Request) -> Answer:
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code == 429:
                raise WebError(BUSY)
            if response.status_code != 200:
                log.warning("the search service answered %d", response.status_code)
                return Answer(response.status_code, None)
            body = bytearray()
            async for data in response.aiter_raw():
                body += data
                if len(body) > LONGEST_ANSWER:
                    raise WebError("The search service's answer is too long. Search for something narrower.")
            return Answer(200, _parsed(bytes(body)))
        finally:
            await response.aclose()

    def build(self, method: str, url: str, **more: Any) -> httpx.Request:
        return self._client.build_request(method, url, **more)

    async def close(self) -> None:
        await self._client.aclose()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


class Tavily:
    """Tavily's search API: POST /search with a bearer key (docs.tavily.com, API reference, Search)."""

    def __init__(self, settings: SearchSettings, route: Route) -> None:
        assert settings.api_key is not None
        self._key = settings.api_key.get_secret_value()
        self._url = (settings.base_url or URL).rstrip("/") + "/search"
        self._country = settings.region.lower()
        self._api = ApiClient(route, settings.timeout)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        asked: dict[str, object] = {"query": query[:MOST_QUERY], "max_results": most, "search_depth": "basic"}
        if self._country:
            asked["country"] = self._country
        headers = {"Authorization": f"Bearer {self._key}"}
        answer = await self._api.ask(self._api.build("POST", self._url, json=asked, headers=headers), whose)
        match answer.status:
            case 200:
                return results(answer.data, snippet="content")[:most]
            case 401 | 403:
                raise refused_key("web.search.api_key")
            case status if status in PLAN_SPENT:
                raise WebError(BUSY)
            case 400 | 422:
                raise WebError("The search service does not understand this. Search with a few plain words.")
            case _:
                raise WebError(DOWN)

    async def close(self) -> None:
        await self._api.close()


class Searxng:
    """A SearXNG server's JSON API, GET /search?format=json; its settings need `json` among the formats."""

    def __init__(self, settings: SearchSettings, route: Route) -> None:
        assert settings.base_url is not None
        self._url = settings.base_url.rstrip("/") + "/search"
        self._language = settings.region
        self._api = ApiClient(route, settings.timeout)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        asked = {"q": query, "format": "json", "categories": "general", "safesearch": "1"}
        if self._language:
            asked["language"] = self._language
        answer = await self._api.ask(self._api.build("GET", self._url, params=asked), whose)
        match answer.status:
            case 200:
                return results(answer.data, snippet="content")[:most]
            case 401 | 403:
                raise WebError(NO_JSON)
            case _:
                raise WebError(DOWN)

    async def close(self) -> None:
        await self._api.close()


class DuckDuckGo:
    """DuckDuckGo through the package ddgs, which reads its pages: no key, no guarantee, and limits that come soon."""

    def __init__(self, settings: SearchSettings, route: Route) -> None:
        proxy, ca_file = route
        self._seconds = settings.timeout
        self._question = {
            "region": settings.region.lower(),
            "proxy": proxy or "",
            "ca_file": str(ca_file) if ca_file is not None else "",
            "seconds": settings.timeout,
        }
        self._helpers = Helpers(HELPER)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        question = {**self._question, "query": query}
        try:
            answer = await self._helpers.call(question, b"", seconds=self._seconds + GRACE, whose=whose)
        except (TimeoutError, HelperFailed):
            raise WebError(DOWN) from None
        if answer.get("status") in REFUSALS:
            raise WebError(BUSY)
        if answer.get("status") != 200:
            raise WebError(DOWN)
        return results(answer, snippet="content")[:most]

    async def close(self) -> None:
        await self._helpers.close()
