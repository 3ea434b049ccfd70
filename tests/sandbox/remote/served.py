"""A reference server on loopback, clients of it, and a line between them that can be cut."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import yaml
from aiohttp import web

from sandbox.base import Isolation, Report
from sandbox.config import SandboxSettings
from sandbox.remote import wire
from sandbox.remote.provider import RemoteProvider
from sandbox.remote.server.__main__ import Service
from sandbox.remote.server.config import ServerSettings
from tests.simulators.sandbox.provider import USE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from sandbox.base import SandboxProvider

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "a-token-of-the-tests"
SECONDS = 30.0


def server_settings(folder: Path, **more: Any) -> ServerSettings:
    values = {"token": TOKEN, "data_dir": folder, "listen": {"port": 0}, "sandbox": {"use": USE}}
    return ServerSettings.model_validate(values | more)


@dataclass
class ServerProcess:
    """The reference server as an operator starts it. log: what it has said so far."""

    process: asyncio.subprocess.Process
    address: str = ""
    log: bytes = b""

    async def ready(self) -> None:
        """Until it tells where it listens."""
        async with asyncio.timeout(SECONDS):
            while not (told := re.search(rb"sandboxes at (127\.0\.0\.1:\d+)\n", self.log)):
                assert await self._read(), f"the server ended: {self.log.decode()}"
            self.address = told[1].decode()

    async def read_on(self) -> None:
        """Until its end, so that it never waits for its log to be read."""
        while await self._read():
            pass

    async def _read(self) -> bytes:
        assert self.process.stderr is not None
        piece = await self.process.stderr.read(65536)
        self.log += piece
        return piece


@asynccontextmanager
async def server_process(folder: Path, **config: Any) -> AsyncIterator[ServerProcess]:
    """A server on a free port. folder: of its config; relative paths in that start there. At the end it is killed where
    the test has not stopped it."""
    values = {"token": TOKEN, "data_dir": "data", "listen": {"port": 0}} | config
    (folder / "server.yaml").write_text(yaml.safe_dump(values))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "sandbox.remote.server", "--config", str(folder / "server.yaml")),
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        stderr=asyncio.subprocess.PIPE,
    )
    server = ServerProcess(process)
    reading: asyncio.Task[None] | None = None
    try:
        await server.ready()
        reading = asyncio.create_task(server.read_on(), name="log of a server")
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


@asynccontextmanager
async def served(folder: Path, provider: SandboxProvider | None = None, **more: Any) -> AsyncIterator[Service]:
    service = Service(server_settings(folder, **more), provider)
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@asynccontextmanager
async def older_server() -> AsyncIterator[str]:
    """The address of one that takes no skills, tells nothing of what it keeps, and runs no commands."""

    async def welcome(request: web.Request) -> web.Response:
        report = Report(provider="memory", isolation=Isolation.NONE, bash=False)
        told = wire.Welcome(version=wire.VERSION, report=report).model_dump(mode="json", exclude={"skills", "kept"})
        return web.json_response(told)

    app = web.Application()
    app.router.add_get(wire.PREFIX, welcome)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def client_settings(url: str | tuple[str, ...], **remote: Any) -> SandboxSettings:
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
        self.lead_to(address)
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

    def lead_to(self, address: str) -> None:
        """New connections go there."""
        host, _, port = address.rpartition(":")
        self._target = (host, int(port))

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
        try:
            if self._refuses:
                raise ConnectionRefusedError
            there, back = await asyncio.open_connection(*self._target)
        except ConnectionRefusedError:
            writer.transport.abort()
            return
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
