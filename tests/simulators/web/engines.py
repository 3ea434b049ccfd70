"""Search engines and a reader service as seen by their clients; answers for site.Site."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from tests.simulators.web.site import Answer, Asked, write

if TYPE_CHECKING:
    import asyncio

HITS = [
    ("The lighthouse of Antlerby", "https://lighthouse.example.org/history", "It was painted green in 1911."),
    ("Lighthouses of the coast", "https://coast.example.org/list?page=2", "All of them, with their heights."),
    ("Antlerby", "https://wiki.example.org/Antlerby", "A town with a lighthouse."),
]


CHALLENGE = "<html><body><div class='anomaly-modal'>Select all squares with a duck</div></body></html>"


@dataclass
class Engine:
    """A search engine. hits: (title, address, extract). status: not 200 to fail. queries: those received."""

    hits: list[tuple[str, str, str]] = field(default_factory=lambda: list(HITS))
    status: int = 200
    raw: bytes | None = None
    queries: list[dict[str, Any]] = field(default_factory=list)

    async def _refuse(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        write(writer, json.dumps(body), "application/json", self.status)


class SearxngEngine(Engine):
    """GET /search with format=json, as in docs.searxng.org; disallowed formats get 403."""

    formats: frozenset[str] = frozenset({"html", "json"})

    def answers(self) -> dict[str, Answer]:
        return {"/search": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.queries.append(asked.query)
        if asked.query.get("format") not in self.formats:
            return write(writer, "forbidden", status=403)
        if self.status != 200:
            return await self._refuse(writer, {})
        results = [
            {"title": title, "url": url, "content": text, "engine": "simulated", "score": 1.0, "category": "general"}
            for title, url, text in self.hits
        ]
        found = {"query": asked.query["q"], "number_of_results": 0, "results": results, "unresponsive_engines": []}
        write(writer, self.raw if self.raw is not None else json.dumps(found), "application/json")
        return None


class TavilyEngine(Engine):
    """POST /search with a bearer key and JSON, as in docs.tavily.com; errors as {"detail": {"error": ...}}."""

    key: str = "tvly-simulated"

    def answers(self) -> dict[str, Answer]:
        return {"/search": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "POST" or asked.headers.get("authorization") != f"Bearer {self.key}":
            error = {"detail": {"error": "Unauthorized: missing or invalid API key."}}
            return write(writer, json.dumps(error), "application/json", 401)
        query = json.loads(asked.body)
        self.queries.append(query)
        if self.status != 200:
            return await self._refuse(writer, {"detail": {"error": "no"}})
        results = [
            {"title": title, "url": url, "content": text, "score": 0.9, "raw_content": None}
            for title, url, text in self.hits[: query["max_results"]]
        ]
        found = {"query": query["query"], "answer": None, "images": [], "results": results, "response_time": 0.1}
        write(writer, self.raw if self.raw is not None else json.dumps(found), "application/json")
        return None


class DuckDuckGoEngine(Engine):
    """POST /html/ with a form; a page of results, an empty one, or a challenge (status 202; or 200 with suspicious)."""

    suspicious: bool = False

    def answers(self) -> dict[str, Answer]:
        return {"/html/": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.queries.append({name: values[0] for name, values in parse_qs(asked.body.decode()).items()})
        if self.status == 202 or self.suspicious:
            return write(writer, CHALLENGE, status=self.status)
        if self.status != 200:
            return write(writer, "no", status=self.status)
        results = "".join(
            f'<div class="links_main links_deep result__body"><h2 class="result__title"><a href="{escape(url)}">'
            f'{escape(title)}</a></h2><a class="result__snippet" href="{escape(url)}">{escape(text)}</a></div>'
            for title, url, text in self.hits
        )
        write(writer, f"<html><body><div id='links'>{results}</div></body></html>")
        return None


def _answer(writer: asyncio.StreamWriter, engine: Engine, found: dict[str, Any]) -> None:
    write(writer, engine.raw if engine.raw is not None else json.dumps(found), "application/json")


class BraveEngine(Engine):
    """GET /res/v1/web/search with X-Subscription-Token, as in api-dashboard.search.brave.com; an unknown
    token gets 422."""

    key: str = "BSA-simulated"

    def answers(self) -> dict[str, Answer]:
        return {"/res/v1/web/search": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.headers.get("x-subscription-token") != self.key:
            error = {"code": "SUBSCRIPTION_TOKEN_INVALID", "detail": "The provided subscription token is invalid."}
            told = {"type": "ErrorResponse", "error": {**error, "status": 422}, "time": 1}
            return write(writer, json.dumps(told), "application/json", 422)
        self.queries.append(asked.query)
        if self.status != 200:
            return await self._refuse(writer, {"type": "ErrorResponse"})
        found: dict[str, Any] = {"type": "search", "query": {"original": asked.query["q"], "is_navigational": False}}
        if self.hits:
            results = [
                {
                    "title": title,
                    "url": url,
                    "is_source_local": False,
                    "description": text,
                    "page_age": "2025-01-15T00:00:00",
                    "profile": {"name": "Simulated", "url": url},
                    "language": "en",
                    "family_friendly": True,
                    "type": "search_result",
                    "subtype": "generic",
                    "extra_snippets": [],
                }
                for title, url, text in self.hits[: int(asked.query["count"])]
            ]
            found["web"] = {"type": "search", "results": results, "family_friendly": True}
        return _answer(writer, self, found)


class SerperEngine(Engine):
    """POST /search with X-API-KEY, as google.serper.dev answers; an unknown key gets 403."""

    key: str = "serper-simulated"

    def answers(self) -> dict[str, Answer]:
        return {"/search": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "POST" or asked.headers.get("x-api-key") != self.key:
            told = {"message": "Unauthorized.", "statusCode": 403}
            return write(writer, json.dumps(told), "application/json", 403)
        query = json.loads(asked.body)
        self.queries.append(query)
        if self.status != 200:
            return await self._refuse(writer, {"message": "Not enough credits", "statusCode": self.status})
        organic = [
            {"title": title, "link": url, "snippet": text, "date": "2 days ago", "position": place}
            for place, (title, url, text) in enumerate(self.hits[: query["num"]], 1)
        ]
        asked_for = {"q": query["q"], "type": "search", "num": query["num"], "engine": "google"}
        return _answer(writer, self, {"searchParameters": asked_for, "organic": organic, "credits": 1})


class ExaEngine(Engine):
    """POST /search with x-api-key, as in exa.ai/docs."""

    key: str = "exa-simulated"

    def answers(self) -> dict[str, Answer]:
        return {"/search": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "POST" or asked.headers.get("x-api-key") != self.key:
            told = {"requestId": "r", "error": "Invalid API key", "tag": "INVALID_API_KEY"}
            return write(writer, json.dumps(told), "application/json", 401)
        query = json.loads(asked.body)
        self.queries.append(query)
        if self.status != 200:
            return await self._refuse(writer, {"requestId": "r", "error": "no"})
        results = [
            {
                "id": url,
                "title": title,
                "url": url,
                "publishedDate": "2025-01-15T00:00:00.000Z",
                "author": "",
                "highlights": [text],
                "highlightScores": [0.5],
            }
            for title, url, text in self.hits[: query["numResults"]]
        ]
        found = {"requestId": "r", "resolvedSearchType": "neural", "results": results, "costDollars": {"total": 0.005}}
        return _answer(writer, self, found)


class JinaEngine(Engine):
    """POST / with a bearer key, as s.jina.ai answers to Accept: application/json; no results give 422."""

    key: str = "jina_simulated"

    def answers(self) -> dict[str, Answer]:
        return {"/": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "POST" or asked.headers.get("authorization") != f"Bearer {self.key}":
            told = {"data": None, "code": 401, "name": "AuthenticationFailedError", "status": 40103}
            return write(writer, json.dumps(told), "application/json", 401)
        query = json.loads(asked.body)
        self.queries.append(query | {"respond-with": asked.headers.get("x-respond-with", "")})
        if self.status != 200:
            return await self._refuse(writer, {"data": None, "code": self.status})
        if not self.hits:
            told = {"data": None, "code": 422, "name": "AssertionFailureError", "status": 42206}
            return write(writer, json.dumps(told), "application/json", 422)
        data = [
            {"title": title, "url": url, "description": text, "date": "Jan 15, 2025", "usage": {"tokens": 1000}}
            for title, url, text in self.hits[: query["num"]]
        ]
        return _answer(writer, self, {"code": 200, "status": 20000, "data": data, "meta": {"usage": {"tokens": 10000}}})


class ArxivEngine(Engine):
    """GET /api/query, an Atom feed, as in arXiv's API User's Manual; errors are entries of a feed."""

    wrong: bool = False

    def answers(self) -> dict[str, Answer]:
        return {"/api/query": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.queries.append(asked.query)
        if self.status != 200:
            return write(writer, "no", status=self.status)
        entries = "".join(
            f"<entry><id>{escape(url)}</id><updated>2025-01-16T00:00:00Z</updated>"
            f"<published>2025-01-15T00:00:00Z</published><title>{escape(title)}</title>"
            f"<summary>  {escape(text)}\n</summary><author><name>A. Keeper</name></author>"
            f'<link href="{escape(url)}" rel="alternate" type="text/html"/></entry>'
            for title, url, text in self.hits[: int(asked.query["max_results"])]
        )
        if self.wrong:
            entries = (
                "<entry><id>http://arxiv.org/api/errors#incorrect_id_format_for_1234</id><title>Error</title>"
                "<summary>incorrect id format for 1234</summary></entry>"
            )
        feed = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
            f'<title type="html">ArXiv Query</title><id>http://arxiv.org/api/1</id>{entries}</feed>'
        )
        return write(writer, self.raw if self.raw is not None else feed, "application/atom+xml; charset=UTF-8")


class WikipediaEngine(Engine):
    """GET /w/rest.php/v1/search/page, as in mediawiki.org's REST API reference; of an address only the key is given."""

    def answers(self) -> dict[str, Answer]:
        return {"/w/rest.php/v1/search/page": self._search}

    async def _search(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.queries.append(asked.query)
        if self.status != 200:
            return await self._refuse(writer, {"httpCode": self.status})
        found = [
            {
                "id": number,
                "key": title.replace(" ", "_"),
                "title": title,
                "excerpt": f'<span class="searchmatch">{text[:3]}</span>{escape(text[3:])}',
                "matched_title": None,
                "description": None,
                "thumbnail": None,
            }
            for number, (title, _, text) in enumerate(self.hits[: int(asked.query["limit"])])
        ]
        return _answer(writer, self, {"pages": found})


@dataclass
class ReaderEngine(Engine):
    """GET /https://..., the path being a page's address, as r.jina.ai answers to Accept: text/plain. pages: address ->
    (title, text)."""

    pages: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def read(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Answer any path, since the paths are addresses."""
        url = asked.target.removeprefix("/")
        self.queries.append({"url": url, "key": asked.headers.get("authorization", "")})
        if self.status != 200 or url not in self.pages:
            return write(writer, "no", status=422 if self.status == 200 else self.status)
        title, text = self.pages[url]
        body = f"Title: {title}\n\nURL Source: {url}\n\nMarkdown Content:\n{text}"
        return write(writer, body, "text/plain; charset=utf-8")
