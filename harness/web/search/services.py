"""Search services and servers that answer in JSON: SearXNG, Tavily, Brave, Serper, Exa, Jina."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.web.search.port import NO_MORE, ApiEngine, SearchFailed, listed, plain, results

if TYPE_CHECKING:
    import httpx

    from harness.web.search.port import Answer, Found


class Searxng(ApiEngine):
    """A SearXNG server's JSON API, GET /search?format=json (docs.searxng.org, Search API). region: a language."""

    PATH = "/search"
    MOST_QUERY = 500

    def request(self, query: str, most: int) -> httpx.Request:
        asked = {"q": query, "format": "json", "categories": "general", "safesearch": "1"}
        if self.region:
            asked["language"] = self.region
        return self.api.build("GET", self.url, params=asked)

    def found(self, answer: Answer) -> list[Found]:
        return results(listed(answer.parsed(), "results"), date="publishedDate")

    def refused(self, status: int) -> SearchFailed:
        if status in (401, 403):
            return SearchFailed(
                f"does not answer programs. An operator has to check {self.place}.base_url: the server needs json "
                "among its search.formats",
                NO_MORE,
            )
        return super().refused(status)


class Tavily(ApiEngine):
    """Tavily's search API, POST /search with a bearer key (docs.tavily.com, API reference). region: a country."""

    URL, PATH = "https://api.tavily.com", "/search"
    SPENT = frozenset({402, 432, 433})

    def request(self, query: str, most: int) -> httpx.Request:
        asked: dict[str, object] = {"query": query, "max_results": most, "search_depth": "basic"}
        if self.region:
            asked["country"] = self.region
        return self.api.build("POST", self.url, json=asked, headers={"Authorization": f"Bearer {self.key}"})

    def found(self, answer: Answer) -> list[Found]:
        return results(listed(answer.parsed(), "results"), date="published_date")


class Brave(ApiEngine):
    """Brave's web search, GET /res/v1/web/search with a subscription token (api-dashboard.search.brave.com). region: a
    country of two letters. A query has 400 characters and 50 words at most."""

    URL, PATH = "https://api.search.brave.com", "/res/v1/web/search"
    MOST_WORDS = 50

    def request(self, query: str, most: int) -> httpx.Request:
        words = " ".join(query.split()[: self.MOST_WORDS])
        asked = {"q": words, "count": str(most), "text_decorations": "false", "result_filter": "web"}
        if self.region:
            asked["country"] = self.region.upper()
        return self.api.build("GET", self.url, params=asked, headers={"X-Subscription-Token": self.key})

    def found(self, answer: Answer) -> list[Found]:
        data = answer.parsed()
        if isinstance(data, dict) and data.get("type") == "search" and "web" not in data:
            return []  # its way of saying that there are no results
        return results(listed(data, "web", "results"), snippet="description", date="page_age")

    def refused(self, status: int) -> SearchFailed:
        """See ApiEngine. Both an unknown token and an unacceptable query give 422."""
        if status == 422:
            return SearchFailed(f"rejects the query, or the key: an operator may check {self.place}.api_key", NO_MORE)
        return super().refused(status)


class Serper(ApiEngine):
    """Google's results by serper.dev, POST /search with a key. region: a country of two letters."""

    URL, PATH = "https://google.serper.dev", "/search"

    def request(self, query: str, most: int) -> httpx.Request:
        asked: dict[str, object] = {"q": query, "num": most}
        if self.region:
            asked["gl"] = self.region
        return self.api.build("POST", self.url, json=asked, headers={"X-API-KEY": self.key})

    def found(self, answer: Answer) -> list[Found]:
        """See ApiEngine. Dates are in words, such as "2 days ago", and so omitted."""
        return results(listed(answer.parsed(), "organic"), url="link", snippet="snippet")

    def refused(self, status: int) -> SearchFailed:
        """See ApiEngine. A key without credit gives 400 as well."""
        if status == 400:
            return SearchFailed(f"rejects the query, or has no credit left for {self.place}.api_key", NO_MORE)
        return super().refused(status)


class Exa(ApiEngine):
    """Exa's search, POST /search with a key and highlights (exa.ai/docs, API reference). region: a country of two
    letters."""

    URL, PATH = "https://api.exa.ai", "/search"
    HIGHLIGHT = 500
    """Characters of a page's extract."""

    def request(self, query: str, most: int) -> httpx.Request:
        contents = {"highlights": {"maxCharacters": self.HIGHLIGHT}}
        asked: dict[str, object] = {"query": query, "numResults": most, "type": "auto", "contents": contents}
        if self.region:
            asked["userLocation"] = self.region.upper()
        return self.api.build("POST", self.url, json=asked, headers={"x-api-key": self.key})

    def found(self, answer: Answer) -> list[Found]:
        found = []
        for each in listed(answer.parsed(), "results"):
            marked = each.get("highlights")
            parts = marked if isinstance(marked, list) and marked else [each.get("text")]
            entry = {**each, "content": " … ".join(filter(None, map(plain, parts)))}
            found += results([entry], date="publishedDate")
        return found


class Jina(ApiEngine):
    """Jina's search, POST / with a bearer key and no page contents (jina.ai/reader). region: a country of two letters.
    A search without results gives 422."""

    URL, PATH = "https://s.jina.ai", "/"

    def request(self, query: str, most: int) -> httpx.Request:
        asked: dict[str, object] = {"q": query, "num": most}
        if self.region:
            asked["gl"] = self.region
        headers = {"Authorization": f"Bearer {self.key}", "X-Respond-With": "no-content"}
        return self.api.build("POST", self.url, json=asked, headers=headers)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        answer = await self.api.ask(self.request(query[: self.MOST_QUERY], most), whose)
        if answer.status == 422:
            return []
        if answer.status != 200:
            raise self.refused(answer.status)
        return self.found(answer)[:most]

    def found(self, answer: Answer) -> list[Found]:
        entries = listed(answer.parsed(), "data")
        told = ({**each, "content": each.get("description") or each.get("content")} for each in entries)
        return results(told, date="publishedTime")
