"""Helpers of the tests of `antler.client`: a gateway with a client, and a connection between them that fails."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from antler.client import Client
from tests.flow.gateway import merged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.api_world import Api
    from tests.flow.gateway import World
    from tests.flow.letters import Letters

WHOLE = "The first half of the answer, and the second half."
HALF = "The first half of the answer, "


@dataclass
class Place:
    """A gateway and its client. api: None if the gateway is embedded. config: of the embedded gateway."""

    world: World
    client: Client
    letters: Letters
    config: Path
    api: Api | None = None
    marks: list[str] = field(default_factory=list)

    def mark(self) -> str:
        """A name that no other test uses."""
        self.marks.append(f"client-{'http' if self.api else 'embedded'}-{len(self.marks)}")
        return self.marks[-1]

    @property
    def served(self) -> Api:
        assert self.api is not None
        return self.api


def rules() -> dict[str, Any]:
    return {
        "limits": {"messages_per_minute": 1000, "message_burst": 1000},
        "tools": [{"use": "tests.flow.letters:send_letter"}],
        "guardrails": {"rules": [{"tool": "send_letter", "decision": "ask", "reason": "It cannot be taken back."}]},
    }


def written(world: World, folder: Path) -> Path:
    """Write the config of a gateway with its own data folder, and its secrets next to it."""
    folder.mkdir()
    config = merged(merged(world.config(), rules()), {"data_dir": str(folder / "data"), "http": None})
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / ".env").write_text(f"MODEL_KEY={world.model.api_key}\nBOT_TOKEN={world.telegram.token}\n")
    (folder / ".env").chmod(0o600)
    return folder / "config.yaml"


class Relay:
    """A connection to the gateway that can fail. port: that it listens on."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow = 0
        """Number of responses to drop, with their connections."""

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Abort all connections."""
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, back}
        pumps = {asyncio.create_task(self._pump(reader, back)), asyncio.create_task(self._pump(there, writer, True))}
        self._tasks |= pumps
        await asyncio.wait(pumps)
        self._tasks -= pumps
        self._open -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool = False) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(64 * 1024):
                if answers and self.swallow:
                    self.swallow -= 1
                    writer.transport.abort()
                    return
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()


@asynccontextmanager
async def through_a_relay(api: Api) -> AsyncIterator[tuple[Client, Relay]]:
    async with Relay(api.port) as relay, Client(relay.url, await api.token()) as client:
        yield client, relay
