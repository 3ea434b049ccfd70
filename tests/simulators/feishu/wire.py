"""A raw long connection for the simulator's own tests: what the SDK hides, such as several at once and no acks."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import aiohttp

from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.frames import CONTROL, DATA, Frame, decode, encode
from tests.simulators.feishu.raw import Json

PATIENCE = 10.0


class Wire:
    """One open websocket, read frame by frame."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse, service: int) -> None:
        self.ws = ws
        self.service = service

    async def ping(self) -> None:
        """Send a control ping."""
        await self.ws.send_bytes(encode(Frame(CONTROL, self.service, (("type", "ping"),))))

    async def frame(self) -> Frame:
        """The next frame; raises TypeError if something else arrives, such as the end."""
        return decode(await self.ws.receive_bytes(timeout=PATIENCE))

    async def event(self) -> tuple[Frame, Json]:
        """The next data frame with its event."""
        while (frame := await self.frame()).method != DATA:
            pass
        return frame, json.loads(frame.payload)

    async def ack(self, frame: Frame, code: int = 200) -> None:
        """Echo a data frame with a result."""
        headers = (*frame.headers, ("biz_rt", "1"))
        payload = json.dumps({"code": code}).encode()
        await self.ws.send_bytes(encode(Frame(DATA, frame.service, headers, payload, frame.seq_id, frame.log_id)))


async def endpoint(feishu: FeishuSimulator, http: aiohttp.ClientSession) -> str:
    """The URL for one connection."""
    body = {"AppID": feishu.app_id, "AppSecret": feishu.app_secret}
    async with http.post(f"{feishu.domain}/callback/ws/endpoint", json=body) as answer:
        return str((await answer.json())["data"]["URL"])


@asynccontextmanager
async def wire(feishu: FeishuSimulator) -> AsyncIterator[Wire]:
    """An open connection."""
    async with aiohttp.ClientSession() as http:
        url = await endpoint(feishu, http)
        service = int(parse_qs(urlsplit(url).query)["service_id"][0])
        async with http.ws_connect(url, autoping=False) as ws:
            yield Wire(ws, service)
