"""HTTP for providers whose address the operator gave: trusted, so no guard, but limits and the proxy."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpcore
import httpx

from harness.files.slots import FairSlots
from harness.web.errors import WebError
from harness.web.pools import PoolTransport
from harness.web.search.base import BUSY, DOWN, LONGEST_ANSWER

if TYPE_CHECKING:
    from harness.web.guard import Route

log = logging.getLogger(__name__)

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """data: the JSON of an answer 200, else None."""

    status: int
    data: Any


class ApiClient:
    """One server. seconds: for a whole request, once its turn has come."""

    def __init__(self, route: Route, seconds: float) -> None:
        proxy, ca_file = route
        self._seconds = seconds
        self._room = FairSlots(AT_ONCE)
        self._client = httpx.AsyncClient(
            transport=PoolTransport(proxy, ca_file, httpcore.AnyIOBackend()),
            trust_env=False,
            follow_redirects=False,
            timeout=seconds,
            headers={"User-Agent": "Antler", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def ask(self, request: httpx.Request, whose: str) -> Answer:
        """429 and failures are told as WebError; other statuses are for the caller to name."""
        try:
            async with self._room.slot(whose), asyncio.timeout(self._seconds):
                return await self._asked(request)
        except (TimeoutError, httpx.TransportError) as error:
            log.warning("a search failed: %s", type(error).__name__)
            raise WebError(DOWN) from None

    async def _asked(self, request: httpx.Request) -> Answer:
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code == 429:
                raise WebError(BUSY)
            if response.status_code != 200:
                log.warning("the search service answered %d", response.status_code)
                return Answer(response.status_code, None)
            body = bytearray()
            async for data in response.aiter_raw():
                body += data
                if len(body) > LONGEST_ANSWER:
                    raise WebError("The search service's answer is too long. Search for something narrower.")
            return Answer(200, _parsed(bytes(body)))
        finally:
            await response.aclose()

    def build(self, method: str, url: str, **more: Any) -> httpx.Request:
        return self._client.build_request(method, url, **more)

    async def close(self) -> None:
        await self._client.aclose()


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
