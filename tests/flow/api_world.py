"""A gateway that serves the API, with clients: LangGraph's SDK, OpenAI's, and plain HTTP."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
from langgraph_sdk import get_client
from openai import AsyncOpenAI

from tests.flow.gateway import merged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from langgraph_sdk.client import LangGraphClient

    from tests.flow.gateway import World

SECONDS = 40.0
TOKEN = re.compile(r"ant_\S+")
AGENT = "default"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@dataclass
class Api:
    """The API of one gateway. tokens: by program name."""

    world: World
    port: int
    stack: AsyncExitStack
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def token(self, name: str = "first", *scopes: str) -> str:
        """The token of a program with its own person, created once."""
        if name not in self.tokens:
            options = [each for scope in scopes for each in ("--scope", scope)]
            code, output = await self.world.command("token", "create", name, *options)
            found = TOKEN.search(output)
            assert code == 0, output
            assert found is not None, output
            self.tokens[name] = found[0]
        return self.tokens[name]

    async def http(self, name: str | None = "first", *scopes: str) -> httpx.AsyncClient:
        headers = {} if name is None else {"Authorization": f"Bearer {await self.token(name, *scopes)}"}
        client = httpx.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=SECONDS)
        return await self.stack.enter_async_context(client)

    async def graph(self, name: str = "first", *scopes: str) -> LangGraphClient:
        """LangGraph's client for the program of that name."""
        key = await self.token(name, *scopes)
        return await self.stack.enter_async_context(get_client(url=f"{self.url}/api/langgraph", api_key=key))

    async def openai(self, name: str = "first") -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=await self.token(name), max_retries=0, timeout=SECONDS)
        return await self.stack.enter_async_context(client)

    async def ready(self) -> None:
        """Wait until the API responds after a start."""
        async with httpx.AsyncClient(base_url=self.url, trust_env=False) as client, asyncio.timeout(SECONDS):
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        return
                assert self.world.process is not None
                await asyncio.wait({asyncio.create_task(self.world.process.wait())}, timeout=0.1)
                assert self.world.process.returncode is None, self.world.log


@asynccontextmanager
async def serving(world: World, **settings: Any) -> AsyncIterator[Api]:
    """Start the gateway with its API."""
    port = free_port()
    world.settings = merged(merged(world.settings, {"http": {"listen": f"127.0.0.1:{port}"}}), settings)
    async with world, AsyncExitStack() as stack:
        api = Api(world, port, stack)
        await api.ready()
        yield api


def said(text: str) -> dict[str, Any]:
    """The input of a run with one message."""
    return {"messages": [{"role": "user", "content": text}]}


def contents(values: Any, kind: str = "ai") -> list[str]:
    """The texts of the messages of that type."""
    return [message["content"] for message in values["messages"] if message["type"] == kind]


def words(parts: Iterable[Any]) -> str:
    """The assistant's text in the messages of a stream."""
    messages = [part.data[0] for part in parts if part.event == "messages"]
    return "".join(message["content"] for message in messages if message["type"] == "AIMessageChunk")
