"""Fixtures of the simulator's own tests: one process, a robot for each test, and a client that speaks raw frames."""

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.simulators.process import SimulatorProcess
from tests.simulators.wecom import client as wecom_client
from tests.simulators.wecom.client import WecomSimulator


@pytest.fixture(scope="session")
def wecom_process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess(wecom_client.MODULE) as process:
        yield process


@pytest.fixture
async def wecom(wecom_process: SimulatorProcess) -> AsyncIterator[WecomSimulator]:
    async with wecom_client.connect(wecom_process) as client:
        yield client


class Robot:
    """A robot's side of the connection, with raw frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._numbers = itertools.count(1)

    async def send(self, cmd: str, body: dict[str, Any] | None = None, req_id: str | None = None) -> str:
        """Send a frame, return its req_id."""
        req_id = req_id or f"{cmd}_{next(self._numbers)}"
        frame = {"cmd": cmd, "headers": {"req_id": req_id}} | ({} if body is None else {"body": body})
        await self.socket.send(json.dumps(frame))
        return req_id

    async def receive(self) -> Any:
        """The next frame, whatever it is."""
        return json.loads(await self.socket.recv())

    async def ask(self, cmd: str, body: dict[str, Any] | None = None, req_id: str | None = None) -> Any:
        """Send a frame, return its ack; frames before the ack are skipped."""
        req_id = await self.send(cmd, body, req_id)
        while True:
            frame = await self.receive()
            if "cmd" not in frame and frame["headers"]["req_id"] == req_id:
                return frame

    async def code(self, cmd: str, body: dict[str, Any] | None = None, req_id: str | None = None) -> int:
        """The errcode of the ack."""
        return int((await self.ask(cmd, body, req_id))["errcode"])

    async def stream(self, req_id: str, content: str, *, finish: bool = False, stream_id: str = "s1") -> int:
        """The errcode of a stream's frame."""
        stream = {"id": stream_id, "finish": finish, "content": content}
        return await self.code("aibot_respond_msg", {"msgtype": "stream", "stream": stream}, req_id)

    async def push(self, chatid: str, text: str = "hello", chat_type: int = 1) -> int:
        """The errcode of a pushed text."""
        body = {"chatid": chatid, "chat_type": chat_type, "msgtype": "markdown", "markdown": {"content": text}}
        return await self.code("aibot_send_msg", body)

    async def subscribe(self, wecom: WecomSimulator, **changed: str) -> int:
        """The errcode of the subscription."""
        return await self.code("aibot_subscribe", {"bot_id": wecom.bot_id, "secret": wecom.secret, **changed})


@pytest.fixture
async def stranger(wecom: WecomSimulator) -> AsyncIterator[Robot]:
    """A connection that has not subscribed."""
    async with connect(wecom.url, proxy=None, max_size=16 * 1024 * 1024) as socket:
        yield Robot(socket)


@pytest.fixture
async def robot(stranger: Robot, wecom: WecomSimulator) -> Robot:
    """A subscribed connection."""
    assert await stranger.subscribe(wecom) == 0
    return stranger
