"""An HTTP proxy in the gateway for commands that have no network of their own. One for each provider.

It listens on sockets that were made inside a command's network namespace, and connects from the gateway. A name is
resolved once, here; every address must be public, and only those addresses are connected to (no rebinding).
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandbox.egress.guard import is_host_name, is_listed, is_public
from sandbox.egress.names import Names

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable

PORTS = frozenset({80, 443})
_LONGEST_HEAD = 32 * 1024
_CHUNK = 64 * 1024
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 20.0
_CONNECTIONS = 32
"""Of one command at a time, each with two sockets. More wait in its own listening socket, not among the gateway's."""
_ALL_CONNECTIONS = 128
_REST_SECONDS = 0.2
"""A connection keeps its place so much longer: making another costs a command nothing and the gateway time."""
_REQUEST_LINE = re.compile(r"([A-Z]{3,20}) (\S+) HTTP/1\.[01]")
_PORT = re.compile(r"[0-9]{1,5}")
_OWN_HEADERS = ("proxy-", "connection:", "host:", "keep-alive:")


class _Refused(Exception):
    """status: of the answer. The text is for the command."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Request:
    """forward: what goes to the host first; empty for a tunnel."""

    host: str
    port: int
    forward: bytes


class EgressProxy:
    """allow: host names, lower case; `*.example.org` is every host below.

    resolve, public: how a name becomes addresses, and which of these may be connected to. `close` it after use.
    """

    def __init__(
        self,
        allow: tuple[str, ...],
        *,
        ports: frozenset[int] = PORTS,
        resolve: Callable[[str, int], Awaitable[list[str]]] | None = None,
        public: Callable[[str], bool] = is_public,
    ) -> None:
        self._allow = allow
        self._ports = ports
        self._names = Names()
        self._resolve = resolve or self._names.resolve
        self._public = public
        self._room = asyncio.Semaphore(_ALL_CONNECTIONS)

    def close(self) -> None:
        """When nothing is served any more. Idempotent."""
        self._names.close()

    @asynccontextmanager
    async def serve(self, listener: socket.socket) -> AsyncIterator[None]:
        """Answer at a listening socket, which this closes at the end, with all connections."""
        listener.setblocking(False)
        connections: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(listener, connections), name="egress listener")
        try:
            yield
        finally:
            ending = [accepting, *connections]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            listener.close()

    async def _accept(self, listener: socket.socket, connections: set[asyncio.Task[None]]) -> None:
        """One by one, and only where there is room: what is not accepted is no descriptor of the gateway's."""
        room = asyncio.Semaphore(_CONNECTIONS)

        def leave() -> None:
            room.release()
            self._room.release()

        def ended(task: asyncio.Task[None]) -> None:
            connections.discard(task)
            leave()

        while True:
            await room.acquire()
            await _readable(listener)
            await self._room.acquire()
            try:
                connection, _ = listener.accept()
            except OSError:  # It has gone, or there are no descriptors left.
                leave()
                await asyncio.sleep(_REST_SECONDS)
                continue
            task = asyncio.create_task(self._answer(connection), name="egress connection")
            connections.add(task)
            task.add_done_callback(ended)

    async def _answer(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=_LONGEST_HEAD)
        try:
            await self._forward(reader, writer)
        except _Refused as refused:
            body = f"{refused}\n".encode()
            head = f"HTTP/1.1 {refused.status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # One side has gone or is not worth waiting for; the other one sees its connection close.
        finally:
            writer.close()
        await asyncio.sleep(_REST_SECONDS)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        request = _parsed(head)
        upstream_reader, upstream = await self._connect(request)
        try:
            if request.forward:
                upstream.write(request.forward)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, upstream))
                both.create_task(_pump(upstream_reader, writer))
        except* OSError:
            pass
        finally:
            upstream.close()

    async def _connect(self, request: _Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not is_host_name(request.host) or not is_listed(request.host, self._allow):
            raise _Refused("403 Forbidden", f"{request.host!r} is not among the hosts that commands may reach")
        if request.port not in self._ports:
            raise _Refused("403 Forbidden", f"port {request.port} may not be reached")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                addresses = await self._resolve(request.host, request.port)
                if not addresses or not all(map(self._public, addresses)):
                    raise _Refused("403 Forbidden", f"{request.host} has an address that is not public")
                return await _connected(addresses, request.port)
        except (OSError, TimeoutError) as error:
            raise _Refused("502 Bad Gateway", f"{request.host} cannot be reached") from error


async def _readable(listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)


async def _connected(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """To the first address that answers."""
    for address in addresses[:-1]:
        try:
            return await asyncio.open_connection(address, port)
        except OSError:
            continue
    return await asyncio.open_connection(addresses[-1], port)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


def _parsed(head: bytes) -> _Request:
    lines = head.decode("latin-1").split("\r\n")
    if any(sign in line for line in lines for sign in "\r\n"):
        raise _Refused("400 Bad Request", "lines end with CR LF")
    found = _REQUEST_LINE.fullmatch(lines[0])
    if found is None:
        raise _Refused("400 Bad Request", "this is an HTTP proxy")
    method, target = found.groups()
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        if not _PORT.fullmatch(port):
            raise _Refused("400 Bad Request", "CONNECT needs host:port")
        return _Request(host.lower(), int(port), b"")
    try:
        url = urlsplit(target)
        port_number = url.port or 80
    except ValueError as error:
        raise _Refused("400 Bad Request", "this is no URL") from error
    if url.scheme != "http" or url.hostname is None or "@" in url.netloc:
        raise _Refused("400 Bad Request", "only http:// URLs and CONNECT are understood")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [line for line in lines[1:-2] if not line.lower().startswith(_OWN_HEADERS)]
    first = [f"{method} {path} HTTP/1.1", f"Host: {url.netloc}", *kept, "Connection: close", "", ""]
    return _Request(url.hostname, port_number, "\r\n".join(first).encode("latin-1"))
