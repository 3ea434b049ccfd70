"""Tavily's search API: POST /search with a bearer key (docs.tavily.com, API reference, Search)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.web.errors import WebError
from harness.web.search.base import BUSY, DOWN, Found, refused_key, results
from harness.web.search.client import ApiClient

if TYPE_CHECKING:
    from harness.web.config import SearchSettings
    from harness.web.guard import Route

URL = "https://api.tavily.com"
PLAN_SPENT = frozenset({432, 433})
"""The plan's, or the key's own, limit of the month is reached."""
MOST_QUERY = 400
"""Characters; the API refuses longer ones."""


class Tavily:
    """See base.SearchProvider."""

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
