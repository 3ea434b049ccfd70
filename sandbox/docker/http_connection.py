"""HTTP connections to a server inside a container, which needs no network for it: the daemon runs a program there that
passes bytes on. So nobody else can reach that server, and the server nobody. Used by http_api.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpcore

from sandbox.base import SandboxError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from sandbox.docker.api import DockerApi
    from sandbox.docker.shell import Attached

_STDOUT = 1
_AHEAD_BYTES = 1024 * 1024
"""How much is read before it is asked for."""
_RELAY = r"""
exec 3<>/dev/tcp/127.0.0.1/$0 4<&0 || exit 1
cat <&4 >&3 &
cat <&3 &
wait -n
kill -KILL $(jobs -p)
"""


class Relays(httpcore.AsyncNetworkBackend):
    """Opens the connections of one container. user: who passes the bytes on; commands should not be able to end it."""

    def __init__(self, docker: DockerApi, container: str, user: str) -> None:
        self._docker = docker
        self._container = container
        self._user = user

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """To a port of the container's own loopback. Raises SandboxError where the daemon cannot run the program; a
        server that is not there shows in the first read."""
        program = ("/bin/bash", "-c", _RELAY, str(port))
        try:
            async with asyncio.timeout(timeout):
                attached = await self._docker.attach(
                    self._container, program, user=self._user, folder="/", environment={"PATH": "/usr/bin:/bin"}
                )
        except TimeoutError as error:
            raise httpcore.ConnectTimeout from error
        return _Relay(attached)


class _Relay(httpcore.AsyncNetworkStream):
    """One connection."""

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self._arrived = bytearray()
        self._ended = False
        self._changed = asyncio.Condition()
        self._reading = asyncio.create_task(self._read_ahead(), name="connection into a container")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Empty at the end."""
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self._arrived or self._ended)
                piece = bytes(self._arrived[:max_bytes])
                del self._arrived[:max_bytes]
                self._changed.notify_all()
                return piece
        except TimeoutError as error:
            raise httpcore.ReadTimeout from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._attached.write(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout from error
        except SandboxError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._tell_the_end()
        await self._attached.close()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise httpcore.UnsupportedProtocol("a server in a container is spoken to without TLS")

    def get_extra_info(self, info: str) -> Any:
        """Whether an idle connection is still good is what the pool asks: there is something to read once it ended."""
        return bool(self._arrived or self._ended) if info == "is_readable" else None

    async def _read_ahead(self) -> None:
        try:
            while (piece := await self._attached.read()) is not None:
                stream, data = piece
                if stream != _STDOUT:
                    continue
                async with self._changed:
                    self._arrived += data
                    self._changed.notify_all()
                    await self._changed.wait_for(lambda: len(self._arrived) < _AHEAD_BYTES)
        except SandboxError:  # The daemon's connection broke: to the reader it has ended.
            pass
        await self._tell_the_end()

    async def _tell_the_end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()
