"""The port of search engines, and what those with an HTTP API share: a bounded client and their kinds of failure.

Their addresses are the operator's, and so trusted: no guard, but limits and the proxy.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from harness.files.slots import FairSlots
from harness.web.addresses import WebError
from harness.web.pools import PacedBackend, PoolTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from harness.ports import Clock
    from harness.web.guard import Route
    from harness.web.search.config import EngineSettings

log = logging.getLogger(__name__)
LONGEST_ANSWER = 2_000_000
"""Bytes of an engine's response."""
LONGEST_TEXT = 5000
"""Characters of a title or an extract that are read."""
AT_ONCE = 16
ANSWER = "Answer with what you have, and say that you could not search."
NO_MORE = "Do not search again in this turn: answer with what you have, and say that you could not search."
_TAG = re.compile(r"<[^<>]*>")


class SearchFailed(WebError):
    """An engine gave nothing. reason: follows its name, as in "cannot be reached now"; text and advice are for the
    model."""

    def __init__(self, reason: str, advice: str = ANSWER) -> None:
        super().__init__(f"The search service {reason}. {advice}")
        self.reason = reason


def busy() -> SearchFailed:
    return SearchFailed("is getting too many requests", NO_MORE)


def down() -> SearchFailed:
    return SearchFailed("cannot be reached now")


def confused() -> SearchFailed:
    return SearchFailed("returned an unreadable response")


@dataclass(frozen=True, slots=True)
class Found:
    """One result, as the engine gave it. date: of publication, if known, else ""."""

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How an engine reaches its server. route: URL -> (proxy URL or None for direct, file of extra CAs or None).
    seconds: for one search. place: the key of its settings in the config, for errors."""

    route: Callable[[str], Route]
    seconds: float
    place: str
    clock: Clock


class SearchEngine(Protocol):
    """One engine, ready for queries. Its classes are instantiated with (settings, reach)."""

    def __init__(self, settings: EngineSettings, reach: Reach) -> None: ...

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        """The best results, best first, at most `most`. whose: the person it is for; one person's many searches do not
        hold up those of others. Raises WebError, preferably SearchFailed, whose text is for the model."""
        ...

    async def close(self) -> None:
        """Release its resources."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. body: for status 200, else b""."""

    status: int
    body: bytes

    def parsed(self) -> Any:
        """The body as JSON; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class ApiClient:
    """One server. seconds: for a whole request, once its turn has come."""

    def __init__(self, route: Route, seconds: float, accept: str = "application/json") -> None:
        proxy, ca_file = route
        self._seconds = seconds
        self._room = FairSlots(AT_ONCE)
        self._client = httpx.AsyncClient(
            transport=PoolTransport(proxy, ca_file, PacedBackend()),
            trust_env=False,
            follow_redirects=False,
            timeout=seconds,
            headers={"User-Agent": "Antler", "Accept": accept, "Accept-Encoding": "identity"},
        )

    async def ask(self, request: httpx.Request, whose: str, longest: int = LONGEST_ANSWER) -> Answer:
        """Send a request. Status 429 and failures raise SearchFailed; other statuses are left to the caller. longest:
        bytes of a response that are accepted."""
        try:
            async with self._room.slot(whose), asyncio.timeout(self._seconds):
                return await self._asked(request, longest)
        except (TimeoutError, httpx.TransportError) as error:
            log.warning("%s not reached: %s", request.url.host, type(error).__name__)
            raise down() from None

    async def _asked(self, request: httpx.Request, longest: int) -> Answer:
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code == 429:
                raise busy()
            if response.status_code != 200:
                log.warning("%s answered %d", request.url.host, response.status_code)
                return Answer(response.status_code, b"")
            body = bytearray()
            async for data in response.aiter_raw():
                body += data
                if len(body) > longest:
                    reason = f"returned a response that is too long (more than {longest / 1_000_000:g} MB)"
                    raise SearchFailed(reason, "Search for something narrower.")
            return Answer(200, bytes(body))
        finally:
            await response.aclose()

    def build(self, method: str, url: str, **more: Any) -> httpx.Request:
        return self._client.build_request(method, url, **more)

    async def close(self) -> None:
        await self._client.aclose()


class ApiEngine:
    """An engine with one API address. A subclass defines how it is queried, how its response is read, and what its
    statuses mean beyond those of most services."""

    URL = ""
    PATH = ""
    ACCEPT = "application/json"
    MOST_QUERY = 400
    """Characters; a longer query is truncated."""
    SPENT: frozenset[int] = frozenset({402})
    """Statuses for used-up credit."""

    def __init__(self, settings: EngineSettings, reach: Reach) -> None:
        self.key = settings.api_key.get_secret_value() if settings.api_key is not None else ""
        self.region = settings.region.lower()
        self.options = settings.options
        self.url = (settings.base_url or self.home()).rstrip("/") + self.PATH
        self.place = reach.place
        self.api = ApiClient(reach.route(self.url), reach.seconds, self.ACCEPT)

    def home(self) -> str:
        """The server's address unless the settings name another."""
        return self.URL

    def request(self, query: str, most: int) -> httpx.Request:
        raise NotImplementedError

    def found(self, answer: Answer) -> list[Found]:
        """The results. Raises SearchFailed for an invalid response."""
        raise NotImplementedError

    def refused(self, status: int) -> SearchFailed:
        """The failure for a status other than 200 and 429."""
        if status in (401, 403):
            return SearchFailed(f"rejects Antler's key: an operator has to check {self.place}.api_key", NO_MORE)
        if status in self.SPENT:
            return SearchFailed(f"has no credit left for the key in {self.place}.api_key", NO_MORE)
        if status in (400, 422):
            return SearchFailed("does not understand this", "Search with a few plain words.")
        return down()

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        answer = await self.api.ask(self.request(query[: self.MOST_QUERY], most), whose)
        if answer.status != 200:
            raise self.refused(answer.status)
        return self.found(answer)[:most]

    async def close(self) -> None:
        await self.api.close()


def listed(data: Any, *path: str) -> list[dict[str, Any]]:
    """The list of objects at a path in a JSON response; other items are omitted. Raises SearchFailed if there is no
    such list."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    if not isinstance(data, list):
        raise confused()
    return [each for each in data if isinstance(each, dict)]


def results(
    entries: Iterable[dict[str, Any]], *, url: str = "url", snippet: str = "content", date: str = ""
) -> list[Found]:
    """Found entries. url, snippet, date: names of their keys."""
    return [
        Found(plain(each.get("title")), text_of(each.get(url)), plain(each.get(snippet)), text_of(each.get(date))[:10])
        for each in entries
    ]


def text_of(value: Any) -> str:
    """A text in a response; "" for anything else."""
    return value if isinstance(value, str) else ""


def plain(value: Any) -> str:
    """A text in a response, without markup."""
    return html.unescape(_TAG.sub("", text_of(value)[:LONGEST_TEXT]))
