"""A SearXNG server's JSON API: GET /search?format=json (docs.searxng.org, Search API); `json` is in its formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.web.errors import WebError
from harness.web.search.base import DOWN, Found, results
from harness.web.search.client import ApiClient

if TYPE_CHECKING:
    from harness.web.config import SearchSettings
    from harness.web.guard import Route

NO_JSON = (
    "The search service does not answer programs. An operator has to look at web.search.base_url: the server needs "
    "json among its search.formats. Do not search again: answer with what you have, and say that you could not search."
)


class Searxng:
    """See base.SearchProvider."""

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
