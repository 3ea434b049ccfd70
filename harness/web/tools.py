"""The agent's web tools, web_search and web_fetch, according to the settings. Created and closed with the agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.text.frames import harmless, outside
from harness.text.plain import short_line
from harness.web.addresses import Refused, Rules, WebError
from harness.web.pages import Pages
from harness.web.search.several import Several, make_engines
from harness.web.sections import find_section, outline, sections_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from langchain_core.tools import BaseTool

    from harness.ports import Clock
    from harness.web.config import FetchSettings, WebSettings
    from harness.web.guard import Resolve, Route
    from harness.web.readable import Page
    from harness.web.search.port import Found
    from harness.web.search.several import Searched
    from harness.web.sections import Section
    from harness.web.sources import Sources


WEB_SEARCH = "web_search"
LONGEST_QUERY = 500
LONGEST_TITLE, LONGEST_URL, LONGEST_SNIPPET, LONGEST_DATE = 200, 500, 500, 20
WEB_FETCH = "web_fetch"
PART = 16_000
"""Characters of a page in one result, which also has notes and quotes."""
OUTLINE, OPENING = 6000, 4000
"""Characters of a long page's outline, and of its beginning after that."""
LEAST_SECTIONS = 3
"""A page with fewer sections is read by characters."""
LONGEST_SHOWN_URL = 1000


class Web:
    """The web tools. route: URL -> (proxy, CA file). hosts: reachable by commands in the sandbox, () for none, None for
    unknown. resolve: names to addresses, by default the system's. Raises ToolSetupError for an engine that is not
    available."""

    def __init__(
        self,
        settings: WebSettings,
        route: Callable[[str], Route],
        *,
        clock: Clock,
        sources: Sources,
        hosts: Sequence[str] | None = (),
        resolve: Resolve | None = None,
    ) -> None:
        self.tools: list[BaseTool] = []
        self.pages: Pages | None = None
        self._closing: list[Callable[[], Awaitable[None]]] = []
        rules = Rules(settings.fetch.allow)
        search = settings.search
        if search.is_on:
            several = Several(make_engines(search, route, clock), clock, search.timeout)
            self.tools.append(search_tool(several, rules, search.max_results))
            self._closing.append(several.close)
        if settings.fetch.enabled:
            pages = Pages(settings.fetch, rules, route, clock=clock, sources=sources, hosts=hosts, resolve=resolve)
            self.pages = pages
            self.tools.append(fetch_tool(pages, settings.fetch))
            self._closing.append(pages.close)

    async def close(self) -> None:
        """Close connections and processes; runs must have ended."""
        for close in self._closing:
            await close()


def fetch_tool(pages: Pages, settings: FetchSettings) -> BaseTool:
    """The tool web_fetch. Reading a page again is harmless, so it may be repeated."""

    @tool(WEB_FETCH)
    async def web_fetch(
        url: Annotated[str, "The address, with http:// or https://"],
        runtime: Runtime,
        section: Annotated[str, "For a long page: a section's number or title, as in its outline"] = "",
        start: Annotated[int, "Where to begin in a long page or its section, in characters"] = 0,
    ) -> Answer:
        """Read a page of the web, or a PDF, Word or Excel file there, as text, at most 16 000 characters at a time. A
        long page is given as an outline first: then read its sections. No logins."""
        if start < 0:
            return failed(runtime, WEB_FETCH, "start counts from 0.")
        try:
            page = await pages.page(url, scope_of(runtime))
        except WebError as error:
            return failed(runtime, WEB_FETCH, f"This page was not read. {error}")
        sections = sections_of(page.text) if page.is_prose else []
        if section.strip():
            return _section(runtime, page, sections, section, start)
        if not start and len(page.text) > PART and len(sections) >= LEAST_SECTIONS:
            return _outlined(runtime, page, sections, settings.max_mb)
        if start and start >= len(page.text):
            return failed(runtime, WEB_FETCH, f"The page ends before that: it has {len(page.text)} characters.")
        text = page.text[start : start + PART]
        return found(runtime, WEB_FETCH, _note(page, start, settings.max_mb), _headed(page, text))

    web_fetch.metadata = {IDEMPOTENT: True}
    return web_fetch


def _section(runtime: Runtime, page: Page, sections: list[Section], wanted: str, start: int) -> ToolMessage:
    chosen = find_section(sections, wanted)
    if chosen is None:
        if not sections:
            return failed(runtime, WEB_FETCH, "The page has no sections. Use start instead.")
        there = outline(sections, OUTLINE)
        return found(runtime, WEB_FETCH, "The page has no such section. It has:", there, status="error")
    text = page.text[chosen.start : chosen.end]
    if start and start >= len(text):
        return failed(runtime, WEB_FETCH, f"The section ends before that: it has {len(text)} characters.")
    end = min(start + PART, len(text))
    note = f"section {chosen.number} of {sections[-1].number}"
    if start or end < len(text):
        note += f", characters {start} to {end} of {len(text)}"
    if end < len(text):
        note += f'; to read on, call web_fetch again with section="{chosen.number}" and start={end}'
    return found(runtime, WEB_FETCH, f"[{note}]", _headed(page, text[start:end]))


def _outlined(runtime: Runtime, page: Page, sections: list[Section], max_mb: float) -> ToolMessage:
    """The outline of a long page, and its beginning."""
    note = (
        f"[a long page of {len(page.text)} characters: its outline, with the characters of each section, and its first "
        f"{OPENING} characters; to read a section, call web_fetch again with its number as section"
    )
    note += f"; {_missing(max_mb)}]" if page.cut else "]"
    return found(
        runtime, WEB_FETCH, note, _headed(page, f"{outline(sections, OUTLINE)}\n\n---\n\n{page.text[:OPENING]}")
    )


def _note(page: Page, start: int, max_mb: float) -> str:
    end, length = min(start + PART, len(page.text)), len(page.text)
    parts = []
    if start or end < length:
        parts.append(f"characters {start} to {end} of {length}")
    if end < length:
        parts.append(f"to read on, call web_fetch again with start={end}")
    if page.cut:
        parts.append(_missing(max_mb))
    return f"[{'; '.join(parts)}]" if parts else "[the whole page]"


def _missing(max_mb: float) -> str:
    return f"only the first {max_mb:g} MB of the page were read; its end is missing"


def _headed(page: Page, text: str) -> str:
    head = f"url: {page.url[:LONGEST_SHOWN_URL]}\n"
    return f"{head}title: {page.title}\n\n{text}" if page.title else f"{head}\n{text}"


def search_tool(engines: Several, rules: Rules, most: int) -> BaseTool:
    """The tool web_search. rules: results with other addresses are left out. most: results of a search."""

    @tool(WEB_SEARCH)
    async def web_search(query: Annotated[str, "A few words to search for"], runtime: Runtime) -> Answer:
        """Search the web. Returns titles, addresses and short extracts; an extract is no proof of what a page says."""
        words = " ".join(query.split())
        if not words or len(words) > LONGEST_QUERY:
            return failed(runtime, WEB_SEARCH, f"Search for a few words, at most {LONGEST_QUERY} characters.")
        try:
            searched = await engines.search(words, most, scope_of(runtime).ctx.speaker.id)
        except WebError as error:
            return failed(runtime, WEB_SEARCH, str(error))
        usable = [each for each in searched.found if _is_usable(each, rules)]
        if not usable:
            told = "Nothing was found. Try other or fewer words."
            return done(runtime, WEB_SEARCH, f"{told} {_without(searched)}".rstrip())
        heading = "1 result" if len(usable) == 1 else f"{len(usable)} results"
        heading = "; ".join(filter(None, (heading, _without(searched))))
        return found(runtime, WEB_SEARCH, f"[{heading}]", _shown(usable))

    web_search.metadata = {IDEMPOTENT: True}
    return web_search


def _without(searched: Searched) -> str:
    """The services that gave nothing, and why."""
    return "; ".join(f"{name} {reason}" for name, reason in searched.failed)


def _is_usable(result: Found, rules: Rules) -> bool:
    try:
        return len(result.url) <= LONGEST_URL and bool(rules.url(result.url))
    except Refused:
        return False


def _shown(results: Iterable[Found]) -> str:
    return "\n\n".join(
        f"{number}. {short_line(each.title, LONGEST_TITLE) or 'no title'}\n{each.url}\n{_dated(each)}"
        for number, each in enumerate(results, 1)
    )


def _dated(result: Found) -> str:
    date, snippet = short_line(result.date, LONGEST_DATE), short_line(result.snippet, LONGEST_SNIPPET)
    return f"({date}) {snippet}" if date else snippet


def found(
    runtime: Runtime, tool: str, note: str, text: str, status: Literal["success", "error"] = "success"
) -> ToolMessage:
    """A tool's result. note: Antler's own line before it. text: of strangers."""
    content = f"{harmless(note)}\n{outside(text)}"
    return ToolMessage(content, tool_call_id=runtime.tool_call_id or "", name=tool, status=status)
