"""DuckDuckGo by the package ddgs, which reads its pages: no key, no promise, and soon enough of too many questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.files.helpers import HelperFailed, Helpers
from harness.web.errors import WebError
from harness.web.search.base import BUSY, DOWN, Found, results

if TYPE_CHECKING:
    from harness.web.config import SearchSettings
    from harness.web.guard import Route

HELPER = Path(__file__).with_name("duckduckgo_helper.py")
GRACE = 5.0
"""Seconds more than the request may take, for the process around it."""
REFUSALS = frozenset({202, 403, 418, 429})
"""How it answers programs that ask too often."""


class DuckDuckGo:
    """See base.SearchProvider."""

    def __init__(self, settings: SearchSettings, route: Route) -> None:
        proxy, ca_file = route
        self._seconds = settings.timeout
        self._question = {
            "region": settings.region.lower(),
            "proxy": proxy or "",
            "ca_file": str(ca_file) if ca_file is not None else "",
            "seconds": settings.timeout,
        }
        self._helpers = Helpers(HELPER)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        question = {**self._question, "query": query}
        try:
            answer = await self._helpers.call(question, b"", seconds=self._seconds + GRACE, whose=whose)
        except (TimeoutError, HelperFailed):
            raise WebError(DOWN) from None
        if answer.get("status") in REFUSALS:
            raise WebError(BUSY)
        if answer.get("status") != 200:
            raise WebError(DOWN)
        return results(answer, snippet="content")[:most]

    async def close(self) -> None:
        await self._helpers.close()
