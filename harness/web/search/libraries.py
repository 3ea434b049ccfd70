"""Open libraries as search engines: arXiv's papers, and Wikipedia or any other MediaWiki."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from harness.web.manners import Crowded, Pace
from harness.web.search.port import ApiEngine, Found, busy, confused, listed, plain, text_of

if TYPE_CHECKING:
    import httpx

    from harness.web.search.config import EngineSettings
    from harness.web.search.port import Answer, Reach

_ATOM = "{http://www.w3.org/2005/Atom}"
_WORD = re.compile(r"\w+(?:[-'.]\w+)*")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*")


class Arxiv(ApiEngine):
    """arXiv's query API, GET /api/query, an Atom feed (info.arxiv.org/help/api). All words must occur. The API asks for
    three seconds between two queries."""

    URL, PATH = "https://export.arxiv.org", "/api/query"
    ACCEPT = "application/atom+xml"
    SECONDS_BETWEEN = 3.0
    MOST_WORDS = 20

    def __init__(self, settings: EngineSettings, reach: Reach) -> None:
        super().__init__(settings, reach)
        self._pace = Pace(self.SECONDS_BETWEEN, reach.seconds, reach.clock)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        try:
            await self._pace.turn("arxiv")
        except Crowded:
            raise busy() from None
        return await super().search(query, most, whose)

    def request(self, query: str, most: int) -> httpx.Request:
        words = _WORD.findall(query)[: self.MOST_WORDS]
        asked = " AND ".join(f"all:{word}" for word in words) or "all:"
        params = {"search_query": asked, "start": "0", "max_results": str(most), "sortBy": "relevance"}
        return self.api.build("GET", self.url, params=params)

    def found(self, answer: Answer) -> list[Found]:
        """The results. Its errors have status 200, as an entry whose id leads to the API's documentation of errors."""
        if b"<!DOCTYPE" in answer.body or b"<!ENTITY" in answer.body:
            raise confused()  # a feed has none, and entities can be made to expand without end
        try:
            feed = ElementTree.fromstring(answer.body)
        except ElementTree.ParseError:
            raise confused() from None
        if feed.tag != f"{_ATOM}feed":
            raise confused()
        entries = [
            Found(_told(entry, "title"), _told(entry, "id"), _told(entry, "summary"), _told(entry, "published")[:10])
            for entry in feed.iter(f"{_ATOM}entry")
        ]
        if any("/api/errors" in entry.url for entry in entries):
            raise self.refused(400)
        return entries


def _told(entry: ElementTree.Element, name: str) -> str:
    return " ".join((entry.findtext(f"{_ATOM}{name}") or "").split())


class Wikipedia(ApiEngine):
    """A MediaWiki's page search, GET /w/rest.php/v1/search/page (mediawiki.org, API:REST API). region: a language of
    Wikipedia. base_url: another wiki with the same paths."""

    PATH = "/w/rest.php/v1/search/page"

    def home(self) -> str:
        language = self.region if _LANGUAGE.fullmatch(self.region) else "en"
        return f"https://{language}.wikipedia.org"

    def request(self, query: str, most: int) -> httpx.Request:
        return self.api.build("GET", self.url, params={"q": query, "limit": str(most)})

    def found(self, answer: Answer) -> list[Found]:
        parts = urlsplit(self.url)
        wiki = f"{parts.scheme}://{parts.netloc}/wiki/"
        return [
            Found(
                plain(page.get("title")),
                wiki + quote(text_of(page.get("key")), safe="/:()',!*@"),
                ": ".join(filter(None, (plain(page.get("description")), plain(page.get("excerpt"))))),
            )
            for page in listed(answer.parsed(), "pages")
        ]
