"""DuckDuckGo through the package ddgs, which scrapes its pages: no key, no guarantee, and low limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.files.helpers import HelperFailed, Helpers
from harness.web.search.port import Found, busy, down, listed, results

if TYPE_CHECKING:
    from harness.web.search.config import EngineSettings
    from harness.web.search.port import Reach

URL = "https://html.duckduckgo.com/html/"
HELPER = Path(__file__).with_name("duckduckgo_helper.py")
GRACE = 5.0
"""Extra seconds, beyond the request's limit, for the process around it."""
REFUSALS = frozenset({202, 403, 418, 429})
"""Its responses to programs that ask too often."""


class DuckDuckGo:
    """region: as in de-de."""

    def __init__(self, settings: EngineSettings, reach: Reach) -> None:
        proxy, ca_file = reach.route(URL)
        self._seconds = reach.seconds
        self._question = {
            "region": settings.region.lower(),
            "proxy": proxy or "",
            "ca_file": str(ca_file) if ca_file is not None else "",
            "seconds": reach.seconds,
        }
        self._helpers = Helpers(HELPER)

    async def search(self, query: str, most: int, whose: str) -> list[Found]:
        question = {**self._question, "query": query}
        try:
            answer = await self._helpers.call(question, b"", seconds=self._seconds + GRACE, whose=whose)
        except (TimeoutError, HelperFailed):
            raise down() from None
        if answer.get("status") in REFUSALS:
            raise busy()
        if answer.get("status") != 200:
            raise down()
        return results(listed(answer, "results"))[:most]

    async def close(self) -> None:
        await self._helpers.close()
