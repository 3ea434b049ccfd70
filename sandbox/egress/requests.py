"""Requests of commands to the proxy: one request, or a tunnel for TLS, only to the host that it names.

No further request is forwarded, and none whose end servers might determine differently: its rest could reach a host
that was not checked.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

LONGEST_HEAD = 32 * 1024
CHUNK = 64 * 1024
UNRECOGNIZED_NAME = bytes([21, 3, 1, 0, 2, 2, 112])
"""The TLS alert unrecognized_name."""
_REQUEST_LINE = re.compile(r"([A-Z]{3,20}) (\S+) HTTP/1\.[01]")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PORT = re.compile(r"[0-9]{1,5}")
_LENGTH = re.compile(r"[0-9]{1,18}")
_MOST_TRAILERS = 100
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_OWN_HEADERS = frozenset({"connection", "host", "keep-alive", "upgrade"})


class Refused(Exception):
    """A refused request. status: of the answer. The text is for the command."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """A request. forward: first data for the host; empty for a tunnel. length: of the body; None: it is chunked."""

    host: str
    port: int
    forward: bytes
    length: int | None = 0

    @property
    def is_tunnel(self) -> bool:
        return not self.forward


def parsed(head: bytes) -> Request:
    """Parse a request's head. Raises Refused."""
    lines = head.decode("latin-1").split("\r\n")
    if any(sign in line for line in lines for sign in "\r\n"):
        raise Refused("400 Bad Request", "lines must end with CR LF")
    found = _REQUEST_LINE.fullmatch(lines[0])
    if found is None:
        raise Refused("400 Bad Request", "this is an HTTP proxy")
    method, target = found.groups()
    headers = [_header(line) for line in lines[1:-2]]
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        if not _PORT.fullmatch(port):
            raise Refused("400 Bad Request", "CONNECT needs host:port")
        return Request(host.lower(), int(port), b"")
    try:
        url = urlsplit(target)
        port_number = url.port or 80
    except ValueError as error:
        raise Refused("400 Bad Request", "invalid URL") from error
    if url.scheme != "http" or url.hostname is None or "@" in url.netloc:
        raise Refused("400 Bad Request", "only http:// URLs and CONNECT are supported")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [f"{name}: {value}" for name, value in headers if not _is_own(name.lower())]
    first = [f"{method} {path} HTTP/1.1", f"Host: {url.netloc}", *kept, "Connection: close", "", ""]
    return Request(url.hostname, port_number, "\r\n".join(first).encode("latin-1"), _length(headers))


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or _NAME.fullmatch(name) is None or "\0" in value:
        raise Refused("400 Bad Request", "a header must be one line: its name, a colon and its value")
    return name, value.strip(" \t")


def _is_own(name: str) -> bool:
    """Whether a header is meant for the proxy, or written by it. name: in lower case."""
    return name in _OWN_HEADERS or name.startswith("proxy-")


def _length(headers: list[tuple[str, str]]) -> int | None:
    """The length of the body; None: it is chunked."""
    told = [(name.lower(), value) for name, value in headers if name.lower() in ("content-length", "transfer-encoding")]
    match told:
        case []:
            return 0
        case [("transfer-encoding", coding)] if coding.lower() == "chunked":
            return None
        case [("content-length", length)] if _LENGTH.fullmatch(length):
            return int(length)
    raise Refused("400 Bad Request", "a body must have one Content-Length or be chunked")


async def forward_body(
    length: int | None, source: asyncio.StreamReader, send: Callable[[bytes], Awaitable[None]]
) -> None:
    """Forward one request's body, and nothing after it. Raises OSError, IncompleteReadError or LimitOverrunError."""
    if length is not None:
        return await _forward(length, source, send)
    while size := await _chunk_size(source):
        await send(b"%x\r\n" % size)
        await _forward(size, source, send)
        if await source.readexactly(2) != b"\r\n":
            raise ConnectionAbortedError("invalid chunk")
        await send(b"\r\n")
    # Trailers are dropped: their meaning cannot be checked.
    for _ in range(_MOST_TRAILERS):
        if await source.readuntil(b"\r\n") == b"\r\n":
            return await send(b"0\r\n\r\n")
    raise ConnectionAbortedError("too many trailers")


async def _chunk_size(source: asyncio.StreamReader) -> int:
    found = _CHUNK_SIZE.fullmatch(await source.readuntil(b"\r\n"))
    if found is None:
        raise ConnectionAbortedError("invalid chunk")
    return int(found[1], 16)


async def _forward(size: int, source: asyncio.StreamReader, send: Callable[[bytes], Awaitable[None]]) -> None:
    while size:
        data = await source.read(min(size, CHUNK))
        if not data:
            raise ConnectionAbortedError("the body is incomplete")
        size -= len(data)
        await send(data)


async def greeting(source: asyncio.StreamReader) -> tuple[bytes, str | None]:
    """The first message of TLS as received, and the server's name in it, in lower case; None if there is none."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def named(_: object, name: str | None, __: object) -> int:
        names.append(name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME  # the name has been read; there must be no answer

    context.sni_callback = named
    came, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    reading = context.wrap_bio(came, answer, server_side=True)
    said = bytearray()
    while len(said) < LONGEST_HEAD:
        data = await source.read(LONGEST_HEAD - len(said))
        said += data
        came.write(data)
        try:
            reading.do_handshake()
        except ssl.SSLWantReadError:
            if data:
                continue
        except ssl.SSLError:
            pass
        break
    return bytes(said), names[0].lower() if names and names[0] else None
