"""An untrustworthy website: pages, redirects anywhere, and every kind of bad answer.

A raw server, so that it can break HTTP in ways that a library would prevent. It speaks TLS if it is given a context,
and accepts a proxy's requests, whose targets are whole URLs.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.simulators.web import pages

if TYPE_CHECKING:
    import ssl

PACE = 0.02
"""Seconds between two pieces of an answer that never ends."""
MOST_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. target: as in the request line. headers: names in lower case. reader: the data that follows."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader = field(repr=False)

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}


Answer = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Site:
    """The site. own: paths that a test answers itself; rest: all others, instead of ANSWERS. asked: all requests so
    far. connections: their number so far."""

    own: dict[str, Answer] = field(default_factory=dict)
    rest: Answer | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @asynccontextmanager
    async def serve(
        self, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Site]:
        server = await asyncio.start_server(self._handle, address, port, ssl=tls, limit=MOST_HEAD)
        self.port = int(server.sockets[0].getsockname()[1])
        try:
            yield self
        finally:
            server.close()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            asked = await _read(reader)
            self.asked.append(asked)
            usual = self.rest or ANSWERS.get("/" + asked.path.split("/")[1], _nothing)
            answer = self.own.get(asked.path, usual)
            await answer(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client disconnected, which most of these answers aim for
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, target, headers, body, reader)


def write(
    writer: asyncio.StreamWriter,
    body: bytes | str,
    kind: str = "text/html; charset=utf-8",
    status: int = 200,
    **more: str,
) -> None:
    """Write a whole answer. more: headers, with _ for -."""
    data = body.encode() if isinstance(body, str) else body
    head = {"Content-Type": kind, "Content-Length": str(len(data)), "Connection": "close"}
    head |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"HTTP/1.1 {status} Simulated", *(f"{name}: {value}" for name, value in head.items() if value), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1") + data)


def page(text: str, kind: str = "text/html; charset=utf-8", encoding: str = "") -> Answer:
    """An answer that is always this text."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        write(writer, text, kind, Content_Encoding=encoding)

    return answer


async def _nothing(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, "nothing here", status=404)


async def _status(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, "no", status=int(asked.path.rpartition("/")[2]))


async def _redirect(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, "", status=int(asked.query.get("status", "302")), Location=asked.query["to"], Set_Cookie="a=b")


async def _chain(asked: Asked, writer: asyncio.StreamWriter) -> None:
    left = int(asked.path.rpartition("/")[2])
    if left:
        write(writer, "", status=301, Location=f"/chain/{left - 1}")
    else:
        write(writer, pages.ARTICLE)


async def _loop(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, "", status=302, Location="/loop")


async def _bomb(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Send a gigabyte of zeros compressed to a megabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    write(writer, "", "text/plain", Content_Encoding="gzip", Content_Length="", Transfer_Encoding="chunked")
    for _ in range(1024):
        await _chunk(writer, packer.compress(bytes(1 << 20)))
    await _chunk(writer, packer.flush())
    writer.write(b"0\r\n\r\n")


async def _huge(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Send ten gigabytes, as fast as they are read."""
    write(writer, "", "text/plain", Content_Length=str(10 << 30))
    while not writer.is_closing():
        writer.write(b"x" * 65536)
        await writer.drain()


async def _drip(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, "", "text/plain", Content_Length="1000000")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(PACE)


async def _informational(asked: Asked, writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(PACE)


async def _silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
    await asked.reader.read()  # until the client disconnects


async def _headers(asked: Asked, writer: asyncio.StreamWriter) -> None:
    lines = "".join(f"X-{number}: {'y' * 20}\r\n" for number in range(10_000))
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{lines}\r\n".encode())


async def _garbage(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01 this is no HTTP\r\n\r\n")


async def _gzip(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, gzip.compress(pages.ARTICLE.encode()), Content_Encoding="gzip")


async def _deflate(asked: Asked, writer: asyncio.StreamWriter) -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    write(writer, packer.compress(pages.ARTICLE.encode()) + packer.flush(), Content_Encoding="deflate")


async def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()


ANSWERS: dict[str, Answer] = {
    "/": page(pages.ARTICLE),
    "/article": page(pages.ARTICLE),
    "/injection": page(pages.INJECTION),
    "/long": page(pages.long_article(400)),
    "/handbook": page(pages.HANDBOOK),
    "/slow": page(pages.HARD_WORK),
    "/script": page("<html><head><title>App</title></head><body><script>render()</script></body></html>"),
    "/json": page('{"answer": 42}', "application/json"),
    "/text": page("plain words", "text/plain"),
    "/untold": page(pages.ARTICLE, ""),
    "/untold-binary": page("\0\1\2\3", ""),
    "/pdf": page("%PDF-1.7 " + "x" * 60_000, "application/pdf"),
    "/picture": page("GIF89a", "image/gif"),
    "/archive": page("PK", "application/zip"),
    "/brotli": page("xxxx", encoding="br"),
    "/broken-gzip": page("no gzip", encoding="gzip"),
    "/status": _status,
    "/redirect": _redirect,
    "/chain": _chain,
    "/loop": _loop,
    "/bomb": _bomb,
    "/huge": _huge,
    "/drip": _drip,
    "/informational": _informational,
    "/silent": _silent,
    "/headers": _headers,
    "/garbage": _garbage,
    "/gzip": _gzip,
    "/deflate": _deflate,
}
