"""An HTTP CONNECT proxy for tests: it records every target and never leaves the loopback interface.

The same port serves /control (PUT map, GET records, POST cut), so that a test needs only one number.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from pydantic import TypeAdapter

MAX_HEAD = 64 * 1024
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """One request to the proxy. target: "host:port" (or the URL of a request other than CONNECT); status: our answer;
    port: the loopback port it was connected to, 0 for none; at: monotonic seconds of the proxy."""

    target: str
    method: str
    headers: dict[str, str]
    status: int
    port: int
    at: float


CONNECTS: TypeAdapter[list[Connect]] = TypeAdapter(list[Connect])


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a request; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]


@dataclass(slots=True)
class ProxyServer:
    """The proxy. routes: "host:port" -> loopback port. Targets without a route get 403, unless they are loopback."""

    routes: dict[str, int] = field(default_factory=dict)
    connects: list[Connect] = field(default_factory=list)
    _tunnels: set[asyncio.StreamWriter] = field(default_factory=set)
    _grown: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; for `asyncio.start_server`."""
        try:
            head = await _read_head(reader)
            if head.method == "CONNECT":
                await self._connect(head, reader, writer)
            elif head.target.startswith("/control/"):
                await self._control(head, reader, writer)
            else:
                self._record(head, 405, 0)
                await _respond(writer, 405, b"only CONNECT is proxied")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client disconnected; the record has its request
        finally:
            writer.close()

    async def _connect(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._route(head.target)
        if port is None:
            self._record(head, 403, 0)
            await _respond(writer, 403, b"no route to this host")
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            self._record(head, 502, port)
            await _respond(writer, 502, b"nobody listens there")
            return
        self._record(head, 200, port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        ends = {writer, upstream_writer}
        self._tunnels |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, upstream_writer), name="proxy up")
                group.create_task(_pump(upstream_reader, writer), name="proxy down")
        finally:
            self._tunnels -= ends
            upstream_writer.close()

    def _route(self, target: str) -> int | None:
        if target in self.routes:
            return self.routes[target]
        host, _, port = target.rpartition(":")
        return int(port) if host in LOOPBACK and port.isdigit() else None

    def _record(self, head: Head, status: int, port: int) -> None:
        self.connects.append(
            Connect(
                target=head.target,
                method=head.method,
                headers=head.headers,
                status=status,
                port=port,
                at=time.monotonic(),
            )
        )
        self._grown.set()

    async def _control(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        url = urlsplit(head.target)
        body = await reader.readexactly(int(head.headers.get("content-length", "0")))
        match head.method, url.path:
            case "PUT", "/control/map":
                self.routes.update(json.loads(body))
                await _respond(writer, 200, b"{}")
            case "GET", "/control/records":
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                await _respond(writer, 200, await self._after(int(query["after"]), float(query["wait"])))
            case "POST", "/control/cut":
                for tunnel in self._tunnels:
                    tunnel.transport.abort()
                await _respond(writer, 200, b"{}")
            case _:
                await _respond(writer, 404, b"{}")

    async def _after(self, count: int, wait: float) -> bytes:
        """The records after the first `count`, as JSON; waits up to `wait` seconds for one."""
        try:
            async with asyncio.timeout(wait):
                while len(self.connects) <= count:
                    self._grown.clear()
                    await self._grown.wait()
        except TimeoutError:
            pass  # nothing new: an empty list is the answer
        return CONNECTS.dump_json(self.connects[count:])


async def _read_head(reader: asyncio.StreamReader) -> Head:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    headers = (line.partition(":") for line in lines[1:] if line)
    return Head(method, target, {name.lower(): value.strip() for name, _, value in headers})


async def _respond(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} Simulated\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode("ascii") + body)
    await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the source ends, then pass on the end."""
    try:
        while chunk := await reader.read(64 * 1024):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except ConnectionError:
        writer.transport.abort()
