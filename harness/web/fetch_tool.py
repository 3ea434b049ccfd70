"""web_fetch: reads a page of the web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, failed
from harness.graph.signals import scope_of
from harness.web.errors import WebError
from harness.web.readable import is_readable
from harness.web.results import found

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from harness.web.config import FetchSettings
    from harness.web.fetch import Fetcher
    from harness.web.readable import Page, Reader

WEB_FETCH = "web_fetch"
PART = 16_000
"""Characters of a page in one result, which has its notes and quotes besides."""
LONGEST_SHOWN_URL = 1000
MEGABYTE = 1_000_000


def fetch_tool(fetcher: Fetcher, reader: Reader, settings: FetchSettings) -> BaseTool:
    """For harness/web/service.py. Reading a page again harms nobody, so it may be repeated."""

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
