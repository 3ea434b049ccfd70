"""A reference server on loopback, clients of it, and a line between them that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import httpx

from sandbox.config import SandboxSettings
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.config import ServerSettings
from sandbox.remote.server.service import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from types import TracebackType

    from sandbox.base import SandboxProvider

TOKEN = "a-token-of-the-tests"
SECONDS = 30.0


def server_settings(folder: Path, **more: Any) -> ServerSettings:
    values = {"token": TOKEN, "data_dir": folder, "listen": {"port": 0}, "sandbox": {"use": "memory"}}
    return ServerSettings.model_validate(values | more)


@asynccontextmanager
async def served(folder: Path, provider: SandboxProvider | None = None, **more: Any) -> AsyncIterator[Service]:
    service = Service(server_settings(folder, **more), provider)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def client_settings(url: str, **remote: Any) -> SandboxSettings:
    return SandboxSettings.model_validate({"use": "remote", "remote": {"url": url, "token": TOKEN, **remote}})


@asynccontextmanager
async def client_of(address: str, **remote: Any) -> AsyncIterator[RemoteProvider]:
    provider = RemoteProvider(client_settings(f"http://{address}", **remote))
    await provider.start()
    try:
        yield provider
    finally:
        await provider.shutdown()


def raw(service: Service, token: str = TOKEN) -> httpx.AsyncClient:
    """HTTP by hand."""
    return httpx.AsyncClient(
        base_url=f"http://{service.address}",
        headers={"Authorization": f"Bearer {token}"},
        timeout=SECONDS,
        trust_env=False,
    )


class Line:
    """Passes connections on to a server. cut: aborts them. deaf: takes new ones and passes nothing on any more."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))
        self._open: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._passes = asyncio.Event()
        self._passes.set()
        self._refuses = False

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, *, for_good: bool = False) -> None:
        self._refuses = for_good
        for writer in self._open:
            writer.transport.abort()

    def deafen(self) -> None:
        self._passes.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut(for_good=True)
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._target)
        self._open |= {writer, back}
        for source, target in ((reader, back), (there, writer)):
            task = asyncio.create_task(self._pass_on(source, target), name="a line of the tests")
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._passes.wait()
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass  # cut
        finally:
            target.transport.abort()
            self._open.discard(target)
