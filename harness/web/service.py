"""What an agent has of the web, by the settings: its tools and what they hold. Made and closed by runner.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.web.addresses import Rules
from harness.web.fetch import Fetcher
from harness.web.fetch_tool import fetch_tool
from harness.web.guard import GuardedTransport
from harness.web.readable import Reader
from harness.web.search.duckduckgo import DuckDuckGo
from harness.web.search.searxng import Searxng
from harness.web.search.tavily import URL, Tavily
from harness.web.search_tool import search_tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.tools import BaseTool

    from harness.web.config import SearchSettings, WebSettings
    from harness.web.guard import Resolve, Route
    from harness.web.search.base import SearchProvider

DUCKDUCKGO_URL = "https://html.duckduckgo.com/html/"


class Web:
    """route: URL -> (proxy, CA file). resolve: names to addresses, as the system does unless given."""

    def __init__(self, settings: WebSettings, route: Callable[[str], Route], resolve: Resolve | None = None) -> None:
        self.tools: list[BaseTool] = []
        self._closing: list[Callable[[], Awaitable[None]]] = []
        rules = Rules(settings.fetch.allow)
        provider = _provider(settings.search, route)
        if provider is not None:
            self.tools.append(search_tool(provider, rules, settings.search.max_results))
            self._closing.append(provider.close)
        if settings.fetch.enabled:
            transport, reader = GuardedTransport(rules, route, resolve), Reader()
            self.tools.append(fetch_tool(Fetcher(rules, transport), reader, settings.fetch))
            self._closing += [transport.aclose, reader.close]

    async def close(self) -> None:
        """Give back connections and processes; runs must have ended."""
        for close in self._closing:
            await close()


def _provider(settings: SearchSettings, route: Callable[[str], Route]) -> SearchProvider | None:
    match settings.provider:
        case "tavily":
            return Tavily(settings, route(settings.base_url or URL))
        case "searxng":
            return Searxng(settings, route(settings.base_url or ""))
        case "duckduckgo":
            return DuckDuckGo(settings, route(DUCKDUCKGO_URL))
        case _:
            return None
