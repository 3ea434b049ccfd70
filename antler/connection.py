"""Requests to a gateway: tried again where that cannot do anything twice, with the client's own errors."""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from antler.errors import RequestFailed, TooMany, Unavailable, Unreachable, refused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two tries; each pause is twice the one before."""
SILENCE = 45.0
"""Seconds without a byte after which a stream counts as lost: the gateway sends a sign of life each 15."""
_ID = re.compile(r"[A-Za-z0-9_.:-]+")


class Patience:
    """How long to try: so many seconds from the first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """There was an answer."""
        self._until: float | None = None
        self._pause = FIRST_PAUSE

    async def wait(self, error: Unreachable | RequestFailed) -> None:
        """Pause before the next try; raises the error where its time would be too late."""
        now, pause = asyncio.get_running_loop().time(), self._next()
        if self._until is None:
            self._until = now + self._seconds
        if isinstance(error, RequestFailed) and error.retry_after is not None:
            pause = max(pause, error.retry_after)
        if now + pause > self._until:
            raise error
        await asyncio.sleep(pause)

    async def pause(self) -> None:
        """Pause before another look at something."""
        await asyncio.sleep(self._next())

    def _next(self) -> float:
        pause, self._pause = self._pause * random.uniform(0.5, 1), min(2 * self._pause, LONGEST_PAUSE)
        return pause


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event. data: its JSON. id: "" where it has none."""

    event: str
    data: Any
    id: str


def part(name: str) -> str:
    """An id as a part of a path. Raises ValueError for one that would lead elsewhere."""
    if not _ID.fullmatch(name) or not name.strip("."):
        raise ValueError(f"{name!r} is no id")
    return name


class Connection:
    """retry_seconds: see Patience."""

    def __init__(self, http: httpx.AsyncClient, retry_seconds: float) -> None:
        self._http = http
        self.retry_seconds = retry_seconds

    async def ask(
        self, method: str, path: str, *, content: Callable[[], AsyncIterator[bytes]] | None = None, **request: Any
    ) -> httpx.Response:
        """Send a request, which may arrive twice, and return its answer. content: gives its body for each try. request:
        as httpx takes it. Raises RequestFailed, Unreachable."""
        patience = Patience(self.retry_seconds)
        while True:
            body = None if content is None else content()
            try:
                answer = await self._http.request(method, path, content=body, **request)
            except httpx.TransportError as error:
                await patience.wait(_unreachable(error))
                continue
            if answer.is_success:
                return answer
            failed = _refused(answer)
            if not isinstance(failed, TooMany | Unavailable):
                raise failed
            await patience.wait(failed)

    async def frames(self, path: str, params: Mapping[str, Any], last_event_id: str) -> AsyncGenerator[Frame, None]:
        """The events of a stream from behind that one on, until it ends. Raises RequestFailed, and Unreachable where it
        is cut off."""
        headers = {"Last-Event-ID": last_event_id, "Accept": "text/event-stream"}
        timeout = httpx.Timeout(SILENCE)
        try:
            async with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _refused(answer)
                async for frame in _read(answer.aiter_bytes()):
                    yield frame
        except httpx.TransportError as error:
            raise _unreachable(error) from error


async def _read(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Frame, None]:
    """The events of a body. Lines end with a line feed alone: other separators may stand in JSON as they are."""
    rest, event, event_id, data = b"", "", "", b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            match name:
                case b"event":
                    event = value.decode()
                case b"id":
                    event_id = value.decode()
                case b"data":
                    data += value
                case b"" if not line.strip() and (event or data):
                    yield Frame(event, json.loads(data or b"null"), event_id)
                    event, event_id, data = "", "", b""


def _refused(answer: httpx.Response) -> RequestFailed:
    try:
        body = answer.json()
    except ValueError:  # a proxy's page
        body = None
    return refused(answer.status_code, body, answer.headers.get("retry-after"))


def _unreachable(error: httpx.TransportError) -> Unreachable:
    return Unreachable(f"the gateway cannot be reached: {str(error) or type(error).__name__}")
