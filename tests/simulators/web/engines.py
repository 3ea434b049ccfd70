"""Search engines as their clients see them: SearXNG, Tavily, DuckDuckGo's page; answers for site.Site."""

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
    """hits: (title, address, extract). status: other than 200 to fail. queries: what was asked for."""

    hits: list[tuple[str, str, str]] = field(default_factory=lambda: list(HITS))
    status: int = 200
    raw: bytes | None = None
    queries: list[dict[str, Any]] = field(default_factory=list)

    async def _refuse(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        write(writer, json.dumps(body), "application/json", self.status)


class SearxngEngine(Engine):
    """GET /search with format=json, as in docs.searxng.org; formats that are not allowed get 403."""

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
