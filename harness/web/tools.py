"""The agent's tools for the web, web_search and web_fetch, by the settings. Made and closed with the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.text.frames import harmless, outside
from harness.web.addresses import Refused, Rules, WebError
from harness.web.fetch import Fetcher
from harness.web.guard import GuardedTransport
from harness.web.providers import URL, DuckDuckGo, Searxng, Tavily
from harness.web.readable import Reader, is_readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from langchain_core.tools import BaseTool

    from harness.web.config import FetchSettings, SearchSettings, WebSettings
    from harness.web.guard import Resolve, Route
    from harness.web.providers import Found, SearchProvider
    from harness.web.readable import Page


WEB_SEARCH = "web_search"
LONGEST_QUERY = 500
LONGEST_TITLE, LONGEST_URL, LONGEST_SNIPPET = 200, 500, 500
WEB_FETCH = "web_fetch"
PART = 16_000
"""Characters of a page in one result, which has notes and quotes as well."""
LONGEST_SHOWN_URL = 1000
MEGABYTE = 1_000_000

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


def fetch_tool(fetcher: Fetcher, reader: Reader, settings: FetchSettings) -> BaseTool:
    """The tool web_fetch. Reading a page again harms nobody, so it may be repeated."""

    @tool(WEB_FETCH)
    async def web_fetch(
        url: Annotated[str, "The address, with http:// or https://"],
        runtime: Runtime,
        start: Annotated[int, "Where in a long page to begin, in characters"] = 0,
    ) -> Answer:
        """Read a page of the web as text, at most 16 000 characters at a time. No logins, no scripts, no files."""
        if start < 0:
            return failed(runtime, WEB_FETCH, "start counts from 0.")
        most_bytes, whose = int(settings.max_mb * MEGABYTE), scope_of(runtime).ctx.speaker.id
        try:
            fetched = await fetcher.get(
                url.strip(), most_bytes=most_bytes, seconds=settings.timeout, wanted=is_readable, whose=whose
            )
            page = await reader.page(fetched, whose)
        except WebError as error:
            return failed(runtime, WEB_FETCH, f"This page was not read. {error}")
        if start and start >= len(page.text):
            return failed(runtime, WEB_FETCH, f"The page ends before that: it has {len(page.text)} characters.")
        text = page.text[start : start + PART]
        if (fetched_by := scope_of(runtime).fetched) is not None:
            await fetched_by(page.url, page.title, text)
        return found(runtime, WEB_FETCH, _note(page, start, settings.max_mb), _headed(page, text))

    web_fetch.metadata = {IDEMPOTENT: True}
    return web_fetch


def _note(page: Page, start: int, max_mb: float) -> str:
    end, length = min(start + PART, len(page.text)), len(page.text)
    parts = []
    if start or end < length:
        parts.append(f"characters {start} to {end} of {length}")
    if end < length:
        parts.append(f"to read on, call web_fetch again with start={end}")
    if page.cut:
        parts.append(f"the page is larger than the {max_mb:g} MB that are read; its end is missing")
    return f"[{'; '.join(parts)}]" if parts else "[the whole page]"


def _headed(page: Page, text: str) -> str:
    head = f"url: {page.url[:LONGEST_SHOWN_URL]}\n"
    return f"{head}title: {page.title}\n\n{text}" if page.title else f"{head}\n{text}"


def search_tool(provider: SearchProvider, rules: Rules, most: int) -> BaseTool:
    """The tool web_search. rules: results that lead anywhere else are left out. most: results of a search."""

    @tool(WEB_SEARCH)
    async def web_search(query: Annotated[str, "A few words to search for"], runtime: Runtime) -> Answer:
        """Search the web. Gives titles, addresses and short extracts; an extract is no proof of what a page says."""
        words = " ".join(query.split())
        if not words or len(words) > LONGEST_QUERY:
            return failed(runtime, WEB_SEARCH, f"Search for a few words, at most {LONGEST_QUERY} characters.")
        try:
            listed = await provider.search(words, most, scope_of(runtime).ctx.speaker.id)
        except WebError as error:
            return failed(runtime, WEB_SEARCH, str(error))
        usable = [each for each in listed if _is_usable(each, rules)]
        if not usable:
            return done(runtime, WEB_SEARCH, "Nothing was found. Try other or fewer words.")
        heading = "[1 result]" if len(usable) == 1 else f"[{len(usable)} results]"
        return found(runtime, WEB_SEARCH, heading, _shown(usable))

    web_search.metadata = {IDEMPOTENT: True}
    return web_search


def _is_usable(result: Found, rules: Rules) -> bool:
    try:
        return len(result.url) <= LONGEST_URL and bool(rules.url(result.url))
    except Refused:
        return False


def _shown(results: Iterable[Found]) -> str:
    return "\n\n".join(
        f"{number}. {_cut(each.title, LONGEST_TITLE) or 'no title'}\n{each.url}\n{_cut(each.snippet, LONGEST_SNIPPET)}"
        for number, each in enumerate(results, 1)
    )


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def found(runtime: Runtime, tool: str, note: str, text: str) -> ToolMessage:
    """A tool's result. note: Antler's own line in front. text: of strangers."""
    return ToolMessage(f"{harmless(note)}\n{outside(text)}", tool_call_id=runtime.tool_call_id or "", name=tool)
