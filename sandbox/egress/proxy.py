"""An HTTP proxy in the gateway for commands without their own network. One for each provider.

It listens on sockets created inside a command's network namespace, and connects from the gateway. A name is resolved
once, here; every address must be public, and only those addresses are connected to (no rebinding).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sandbox.egress.guard import Names, is_host_name, is_listed, is_public
from sandbox.egress.requests import (
    CHUNK,
    LONGEST_HEAD,
    UNRECOGNIZED_NAME,
    Refused,
    Request,
    forward_body,
    greeting,
    parsed,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

PORTS = frozenset({80, 443})
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 20.0
IDLE_SECONDS = 120.0
"""Maximum idle time without a byte in either direction."""
_CONNECTIONS = 32
"""Maximum number of concurrent connections of one thread's commands, each with two sockets. More wait in their own
listening sockets, not among the gateway's descriptors."""
_OWN_CONNECTIONS = 4
"""Connections reserved for each thread, however many others have."""
_SHARED_CONNECTIONS = 128
"""Maximum number of further connections of all threads together."""
_REST_SECONDS = 0.2
"""Extra time for which a connection keeps its slot: a new one costs a command nothing, but the gateway time."""
Send = Callable[[bytes], Awaitable[None]]


class _Places:
    """Slots for connections: each thread has a few reserved ones, and up to _CONNECTIONS as long as shared ones are
    available."""

    def __init__(self) -> None:
        self._held: Counter[object] = Counter()
        self._left = asyncio.Event()

    async def take(self, whose: object) -> None:
        while not self._is_free(whose):
            self._left.clear()
            await self._left.wait()
        self._held[whose] += 1

    def leave(self, whose: object) -> None:
        self._held[whose] -= 1
        if not self._held[whose]:
            del self._held[whose]
        self._left.set()

    def _is_free(self, whose: object) -> bool:
        shared = sum(max(0, held - _OWN_CONNECTIONS) for held in self._held.values())
        held = self._held[whose]
        return held < _OWN_CONNECTIONS or (held < _CONNECTIONS and shared < _SHARED_CONNECTIONS)


class EgressProxy:
    """The proxy. allow: host names, lower case; `*.example.org` is every host below.

    resolve: resolves a name to addresses. public: whether an address may be connected to. idle_seconds: see
    IDLE_SECONDS. `close` it after use.
    """

    def __init__(
        self,
        allow: tuple[str, ...],
        *,
        ports: frozenset[int] = PORTS,
        resolve: Callable[[str, int], Awaitable[list[str]]] | None = None,
        public: Callable[[str], bool] = is_public,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._allow = allow
        self._ports = ports
        self._names = Names()
        self._resolve = resolve or self._names.resolve
        self._public = public
        self._places = _Places()
        self._idle_seconds = idle_seconds

    def close(self) -> None:
        """Close, after all `serve` blocks have ended. Idempotent."""
        self._names.close()

    @asynccontextmanager
    async def serve(self, listener: socket.socket, whose: object) -> AsyncIterator[None]:
        """Serve a listening socket, which is closed at the end together with all connections. whose: identifies the
        thread for which connections are counted."""
        listener.setblocking(False)
        connections: set[asyncio.Task[None]] = set()
        accepting = asyncio.create_task(self._accept(listener, whose, connections), name="egress listener")
        try:
            yield
        finally:
            accepting.cancel()
            await asyncio.wait({accepting})  # the last accepted connection has begun by then, and closes its socket
            listener.close()
            ending = set(connections)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)

    async def _accept(self, listener: socket.socket, whose: object, connections: set[asyncio.Task[None]]) -> None:
        """Accept one by one, and only if there is room: unaccepted connections take no descriptors of the gateway."""

        def ended(task: asyncio.Task[None]) -> None:
            connections.discard(task)
            self._places.leave(whose)

        while True:
            try:
                await _readable(listener)
            except OSError:  # The commands of this user have used up the kernel's epoll watches.
                await asyncio.sleep(_REST_SECONDS)
                continue
            await self._places.take(whose)
            try:
                connection, _ = listener.accept()
            except OSError:  # It is gone, or there are no descriptors left.
                self._places.leave(whose)
                await asyncio.sleep(_REST_SECONDS)
                continue
            task = asyncio.create_task(self._answer(connection), name="egress connection")
            connections.add(task)
            task.add_done_callback(ended)

    async def _answer(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection, limit=LONGEST_HEAD)
        try:
            await self._forward(reader, writer)
        except Refused as refused:
            body = f"{refused}\n".encode()
            head = f"HTTP/1.1 {refused.status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # One side is gone or too slow; the other one sees its connection close.
        finally:
            writer.close()
        await asyncio.sleep(_REST_SECONDS)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        request = parsed(head)
        upstream_reader, upstream = await self._connect(request)
        try:
            if request.is_tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                async with asyncio.timeout(_HEAD_SECONDS):
                    first, name = await greeting(reader)
                if name != request.host:
                    writer.write(UNRECOGNIZED_NAME)
                    return
            else:
                first = request.forward
            upstream.write(first)
            async with asyncio.timeout(self._idle_seconds) as idle, asyncio.TaskGroup() as both:
                touch = partial(_touch, idle, self._idle_seconds)
                to_host = partial(send_to, target=upstream, touch=touch)
                to_command = partial(send_to, target=writer, touch=touch)
                both.create_task(_ask(request, reader, upstream, to_host))
                both.create_task(_answered(upstream_reader, writer, to_command))
        except* (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # including TimeoutError: nothing arrived from either side
        finally:
            upstream.close()

    async def _connect(self, request: Request) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if not is_host_name(request.host) or not is_listed(request.host, self._allow):
            raise Refused("403 Forbidden", f"{request.host!r} is not among the hosts that commands may reach")
        if request.port not in self._ports:
            raise Refused("403 Forbidden", f"port {request.port} is not allowed")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                addresses = await self._resolve(request.host, request.port)
                if not addresses or not all(map(self._public, addresses)):
                    raise Refused("403 Forbidden", f"{request.host} has a non-public address")
                return await _connected(addresses, request.port)
        except (OSError, TimeoutError) as error:
            raise Refused("502 Bad Gateway", f"{request.host} cannot be reached") from error


async def _readable(listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listener, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listener)


async def _connected(addresses: list[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers."""
    for address in addresses[:-1]:
        try:
            return await asyncio.open_connection(address, port)
        except OSError:
            continue
    return await asyncio.open_connection(addresses[-1], port)


def _touch(idle: asyncio.Timeout, seconds: float) -> None:
    """Note that the connection is in use."""
    idle.reschedule(asyncio.get_running_loop().time() + seconds)


async def send_to(data: bytes, target: asyncio.StreamWriter, touch: Callable[[], None]) -> None:
    """Forward data. touch: called after it."""
    target.write(data)
    await target.drain()
    await asyncio.sleep(0)  # so that a body in thousands of tiny chunks lets others run
    touch()


async def _all(source: asyncio.StreamReader, send: Send) -> None:
    while data := await source.read(CHUNK):
        await send(data)


async def _ask(request: Request, source: asyncio.StreamReader, target: asyncio.StreamWriter, send: Send) -> None:
    """Forward the command's data to the host: everything for a tunnel, else one request."""
    if request.is_tunnel:
        await _all(source, send)
    else:
        await forward_body(request.length, source, send)
        if await source.read(1):
            return  # it belongs to another request, which is not forwarded
    _end(target)


async def _answered(source: asyncio.StreamReader, target: asyncio.StreamWriter, send: Send) -> None:
    await _all(source, send)
    _end(target)


def _end(target: asyncio.StreamWriter) -> None:
    if target.can_write_eof():
        target.write_eof()
