"""web_search: asks the search provider that the operator chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.web.errors import Refused, WebError
from harness.web.results import found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from langchain_core.tools import BaseTool

    from harness.web.addresses import Rules
    from harness.web.search.base import Found, SearchProvider

WEB_SEARCH = "web_search"
LONGEST_QUERY = 500
LONGEST_TITLE, LONGEST_URL, LONGEST_SNIPPET = 200, 500, 500


def search_tool(provider: SearchProvider, rules: Rules, most: int) -> BaseTool:
    """For harness/web/service.py. rules: results that lead anywhere else are left out. most: results of a search."""

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
