"""Fetches one address: every redirect checked, size and time limited; for web_fetch and the like."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import httpx

from harness.files.slots import FairSlots
from harness.web.addresses import Refused, WebError
from harness.web.manners import MOST_ROBOTS, NotAsked

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from harness.web.addresses import Rules


MOST_REDIRECTS = 3
ACCEPTED = "gzip, deflate"
AT_ONCE = 16
CHUNK = 16 * 1024
READ_SECONDS = 15.0
"""Seconds without a byte; the whole request has its own limit."""
HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; Antler)",
    "Accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5",
    "Accept-Encoding": ACCEPTED,
}
_TOKEN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,79}"
_MEDIA_TYPE = re.compile(rf"\s*({_TOKEN}/{_TOKEN})\s*(?:;|$)", re.IGNORECASE | re.ASCII)
_CHARSET = re.compile(rf";\s*charset\s*=\s*\"?({_TOKEN})\"?\s*(?:;|$)", re.IGNORECASE | re.ASCII)
"""RFC 9110, section 8.3; anything else is ignored, since the model sees the value."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
ANSWERS = {
    401: "it requires a login, which web_fetch does not have. Use another source.",
    402: "it requires payment. Use another source.",
    403: "it does not let programs read it, or it requires a login. Use another source.",
    404: "there is no such page. Check the address, or search for it.",
    410: "the page is gone. Search for another source.",
    429: "it gets too many requests. Use another source, or try again later.",
    451: "it may not be shown here for legal reasons. Use another source.",
}
"""Meaning of responses that are not pages, and what to try."""

ROBOTS_SECONDS = 10.0
SLACK = 64 * 1024
"""Bytes by which a packed body may exceed its limit; only one made to waste time is larger packed than unpacked."""
HEADER = 2
"""Bytes needed to recognize a header."""
_PLAIN = frozenset({"", "identity"})
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
_ANY_HEADER = zlib.MAX_WBITS | 32
_NO_HEADER = -zlib.MAX_WBITS


class Answered(WebError):
    """The response is not a page."""

    def __init__(self, status: int) -> None:
        super().__init__(_answered(status))
        self.status = status


class BadEncoding(Exception):
    """The body is encoded in a way that was not requested, or is broken."""


class Body:
    """A response body, decoded. limit: of the bytes kept. full: there are more, which are omitted."""

    def __init__(self, encoding: str, limit: int) -> None:
        """Begin a body. Raises BadEncoding."""
        if encoding not in _PLAIN | _PACKED:
            raise BadEncoding(encoding)
        self.kept = bytearray()
        self.full = False
        self._limit = limit
        self._packed = encoding in _PACKED
        self._taken = 0
        self._begun = False
        self._headless = False
        self._held = b""
        self._unpacker = zlib.decompressobj(_ANY_HEADER)

    def feed(self, data: bytes) -> None:
        """Add received bytes. Raises BadEncoding."""
        self._taken += len(data)
        if self._packed and self._taken > self._limit + SLACK:
            raise BadEncoding("compressed larger than decompressed")
        if self._packed and not self._begun:
            data = self._held + data
            self._begun = len(data) >= HEADER
            if not self._begun:
                self._held = data
                return
        while data and not self.full:
            # One byte more than is kept, so that a body of exactly the limit does not count as cut.
            room = self._limit - len(self.kept) + 1
            if self._packed:
                found, data = self._unpacked(data, room)
            else:
                found, data = data[:room], b""
            self.kept += found
            if len(self.kept) > self._limit:
                del self.kept[self._limit :]
                self.full = True

    def _unpacked(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        """The decoded data, and the remaining input: a next part, since an encoded body may have several."""
        if self._unpacker.eof:
            self._unpacker = zlib.decompressobj(_NO_HEADER if self._headless else _ANY_HEADER)
        try:
            return self._unpacker.decompress(data, room), self._unpacker.unused_data
        except zlib.error as error:
            if self.kept or self._headless:
                raise BadEncoding("broken") from error
        # Some servers send deflate without its header.
        self._headless, self._unpacker = True, zlib.decompressobj(_NO_HEADER)
        return self._unpacked(data, room)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A fetched address. url: after redirects. kind: its media type, in lower case; "" if not given, like charset.

    body: None if the kind was not wanted: then nothing of it was read. size: as announced, None if it was not. cut:
    there is more of it.
    """

    url: str
    kind: str
    charset: str
    body: bytes | None
    size: int | None
    cut: bool


Most = Callable[[str], int]
"""Media type -> number of bytes to read; 0: it is not worth reading."""


class Fetcher:
    """Use it with a guard.GuardedTransport with the same rules, which the caller closes. before: awaited before every
    page request, including redirects; it may wait, and raise WebError."""

    def __init__(
        self,
        rules: Rules,
        transport: httpx.AsyncBaseTransport,
        before: Callable[[httpx.URL], Awaitable[None]] | None = None,
    ) -> None:
        self._rules = rules
        self._transport = transport
        self._room = FairSlots(AT_ONCE)
        self._before = before

    async def get(self, url: str, *, most: Most, seconds: float, whose: str) -> Fetched:
        """Fetch an address. seconds: in total, without the waits of `before`. whose: the person it is done for: one
        person's slow pages do not hold up those of others. Raises WebError."""
        try:
            async with self._room.slot(whose), asyncio.timeout(seconds) as limit:
                return await self._followed(self._rules.url(url), most, partial(self._turn, limit))
        except TimeoutError:
            raise WebError(f"It took more than {seconds:g} seconds. Use another source, or try again later.") from None
        except BadEncoding:
            raise WebError("The response is compressed in a way that cannot be read. Use another source.") from None
        except httpx.TransportError as error:
            raise WebError(_explained(error)) from None

    async def _turn(self, limit: asyncio.Timeout, url: httpx.URL) -> None:
        """Wait until the page may be requested, while its time limit is paused."""
        if self._before is None:
            return
        loop, ends = asyncio.get_running_loop(), limit.when()
        began = loop.time()
        limit.reschedule(None)
        await self._before(url)
        if ends is not None:
            limit.reschedule(ends + loop.time() - began)

    async def robots(self, url: str) -> str:
        """The text of a host's /robots.txt; "" if it has none. Raises WebError if that cannot be determined now, which
        forbids everything (RFC 9309, 2.3.1)."""
        try:
            async with asyncio.timeout(ROBOTS_SECONDS):
                found = await self._followed(self._rules.url(url), lambda kind: MOST_ROBOTS, None)
        except Answered as answered:
            if answered.status < 500:
                return ""
            raise NotAsked(f"Its robots.txt cannot be read now: {answered}") from None
        except WebError:
            return ""  # it leads nowhere, or inside: treated as missing; the page's own address is checked anyway
        except TimeoutError:
            raise NotAsked("Its robots.txt took too long to load. Use another source.") from None
        return (found.body or b"").decode("utf-8", "replace")

    async def _followed(
        self, url: httpx.URL, most: Most, before: Callable[[httpx.URL], Awaitable[None]] | None
    ) -> Fetched:
        for _ in range(MOST_REDIRECTS + 1):
            if before is not None:
                await before(url)
            # No client and no cookies: nothing from one host is ever sent to another.
            timeout = httpx.Timeout(READ_SECONDS).as_dict()
            request = httpx.Request("GET", url, headers=HEADERS, extensions={"timeout": timeout})
            response = await self._transport.handle_async_request(request)
            try:
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or not location:
                    return await _read(url, response, most)
                url = self._next(url, location)
            finally:
                await response.aclose()
        raise WebError(f"It redirects more than {MOST_REDIRECTS} times. Use another source.")

    def _next(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            target = str(url.join(location))
        except (httpx.InvalidURL, ValueError):
            raise WebError("It redirects to something that is not an address. Use another source.") from None
        try:
            return self._rules.url(target)
        except Refused as refused:
            raise Refused(f"It redirects to an address that may not be fetched: {refused}") from None


async def _read(url: httpx.URL, response: httpx.Response, most: Most) -> Fetched:
    if response.status_code != 200:
        raise Answered(response.status_code)
    kind, charset = _media_type(response.headers.get("content-type", ""))
    length = response.headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None
    if not (most_bytes := most(kind)):
        return Fetched(url=str(url), kind=kind, charset=charset, body=None, size=size, cut=False)
    body = Body(response.headers.get("content-encoding", "").strip().lower(), most_bytes)
    async for data in response.aiter_raw(CHUNK):
        body.feed(data)
        if body.full:
            break
    return Fetched(url=str(url), kind=kind, charset=charset, body=bytes(body.kept), size=size, cut=body.full)


def _media_type(text: str) -> tuple[str, str]:
    text = text[:300]
    kind, charset = _MEDIA_TYPE.match(text), _CHARSET.search(text)
    return kind[1].lower() if kind else "", charset[1].lower() if charset else ""


def _answered(status: int) -> str:
    if status in ANSWERS:
        return f"It answered {status}: {ANSWERS[status]}"
    if status >= 500:
        return f"It answered {status}: it has a server error. Use another source, or try again later."
    return f"It answered {status}, which is not a page. Use another source."


def _explained(error: httpx.TransportError) -> str:
    match error:
        case httpx.ProxyError():
            return "The proxy here does not let it through. Use another source."
        case httpx.ConnectTimeout() | httpx.ConnectError():
            return "It cannot be reached. Check the address, or use another source."
        case httpx.TimeoutException():
            return "It stopped answering. Use another source, or try again later."
        case _:
            return "The connection broke, or the response was not HTTP. Use another source, or try again later."
