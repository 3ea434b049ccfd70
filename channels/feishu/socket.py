"""The long connection of one app: frames in, acknowledgements out, and a death that is noticed. For channel.py.

An own client in the gateway's loop: what the official SDK's would cost is told in
docs/decisions/0006-feishu-connection.md.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from yarl import URL

from channels.errors import ChannelError, Fatal, Temporary
from channels.feishu.frames import CONTROL, BadFrame, Frame, decode, encode, ping

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from channels.feishu.api import FeishuApi

LONGEST_PING = 25.0
"""Seconds between two pings at most, whatever the platform asks for: three lost ones are noticed within 90 s."""
SHORTEST_PING = 0.5
LEAST_SILENCE = 3.0
CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 2.0
MOST_BYTES = 16 * 1024 * 1024
AT_ONCE = 256
"""Frames that are handled at the same time; beyond it the socket is not read, and so the platform waits."""
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Ack:
    """code: 200 for committed, 500 for "send it again". reply: what a button's press shows, None for nothing."""

    code: int
    reply: dict[str, Any] | None = None

    def payload(self) -> bytes:
        body: dict[str, Any] = {"code": self.code}
        if self.reply is not None:
            body["data"] = base64.b64encode(json.dumps(self.reply).encode()).decode()
        return json.dumps(body).encode()


class Fragments:
    """Puts payloads together that came in several frames. Incomplete ones leave after `_SECONDS`, or when many wait."""

    _SECONDS = 5.0
    _MOST = 64

    def __init__(self) -> None:
        self._parts: OrderedDict[str, tuple[float, list[bytes]]] = OrderedDict()

    def add(self, frame: Frame, now: float) -> bytes | None:
        """The whole payload once all parts are there. Raises BadFrame."""
        total, number = _count(frame.header("sum"), 1), _count(frame.header("seq"), 0)
        if total <= 1:
            return frame.payload
        if number >= total or total > self._MOST:
            raise BadFrame(f"it is part {number} of {total}")
        while self._parts and next(iter(self._parts.values()))[0] + self._SECONDS < now:
            self._parts.popitem(last=False)
        key = frame.header("message_id")
        _, parts = self._parts.setdefault(key, (now, [b""] * total))
        if len(parts) != total:
            raise BadFrame("its parts disagree about their number")
        parts[number] = frame.payload
        if not all(parts):
            if len(self._parts) > self._MOST:
                self._parts.popitem(last=False)
            return None
        del self._parts[key]
        return b"".join(parts)


class Socket:
    """handle: takes an event's payload, answers whether it is committed; what it raises is logged, and not answered.

    alive: called at every sign of life; the first one means that the connection works.
    """

    def __init__(
        self,
        api: FeishuApi,
        handle: Callable[[bytes], Awaitable[Ack]],
        alive: Callable[[], None],
        log: logging.Logger,
        account: str,
    ) -> None:
        self._api = api
        self._handle = handle
        self._alive = alive
        self._log = log
        self._account = account
        self._interval = LONGEST_PING
        self._service = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """One connection, from its beginning to its end: always raises, Temporary when a new one may do better."""
        answer = await self._api.socket_url()
        self._configure(answer.get("ClientConfig"))
        connection = await self._connect(answer["URL"])
        try:
            self._spawn(self._beat(connection), "ping")
            await self._receive(connection)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await connection.close()

    async def _connect(self, url: str) -> aiohttp.ClientWebSocketResponse:
        parts = urlsplit(url)
        service = parse_qs(parts.query).get("service_id", [""])[0]
        if parts.scheme not in ("ws", "wss") or not service.isdecimal():
            raise Temporary("the platform gave a socket's URL that cannot be used")
        self._service = int(service)
        network = self._api.network
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await network.session().ws_connect(
                    URL(url, encoded=True),
                    timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                    max_msg_size=MOST_BYTES,
                    proxy=network.proxy_for(url),
                )
        except aiohttp.WSServerHandshakeError as error:
            raise _handshake_refused(error) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # Not `from error`: its text may hold the URL, which holds a ticket.
            raise Temporary(f"the socket cannot be opened ({type(error).__name__})") from None

    async def _receive(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        loop, fragments = asyncio.get_running_loop(), Fragments()
        last_sign = loop.time()
        while True:
            silence = max(LEAST_SILENCE, 3 * self._interval)
            try:
                message = await connection.receive(timeout=max(0.01, last_sign + silence - loop.time()))
            except TimeoutError:
                raise Temporary(f"no sign of life on the socket for {silence:.0f} s") from None
            if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED):
                raise Temporary(f"the platform closed the socket ({connection.close_code})")
            if message.type is aiohttp.WSMsgType.ERROR:
                raise Temporary(f"the socket broke ({type(message.data).__name__})")
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            last_sign = loop.time()
            self._alive()
            await self._take(connection, message.data, fragments)

    async def _take(self, connection: aiohttp.ClientWebSocketResponse, data: bytes, fragments: Fragments) -> None:
        try:
            frame = decode(data)
            if frame.method == CONTROL:
                self._control(frame)
                return
            payload = fragments.add(frame, asyncio.get_running_loop().time())
        except BadFrame as error:
            self._log.warning("%s: a frame cannot be read: %s", self._account, error)
            return
        if payload is None:
            return
        while len(self._tasks) > AT_ONCE:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self._spawn(self._answer(connection, frame, payload), "event")

    def _spawn(self, work: Coroutine[None, None, None], what: str) -> None:
        """A task of this connection, which ends with it."""
        task = asyncio.create_task(work, name=f"feishu {what} {self._account}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log.error("%s: a task of the socket failed", self._account, exc_info=task.exception())

    async def _answer(self, connection: aiohttp.ClientWebSocketResponse, frame: Frame, payload: bytes) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        ack = await self._handle(payload)
        answer = frame.answer(ack.payload(), int((loop.time() - began) * 1000))
        # A connection that is gone meanwhile takes no acknowledgement: the event comes again on the next one.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            await connection.send_bytes(encode(answer))

    async def _beat(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # the receiving side notices
                await connection.send_bytes(encode(ping(self._service)))
            await asyncio.sleep(self._interval)

    def _control(self, frame: Frame) -> None:
        if frame.header("type") == "pong" and frame.payload:
            try:
                self._configure(json.loads(frame.payload))
            except (ValueError, RecursionError):
                self._log.debug("%s: a pong's settings cannot be read", self._account)

    def _configure(self, settings: object) -> None:
        """Of the platform's wishes only the ping's pace counts: when to come back is the supervisor's business."""
        wish = settings.get("PingInterval") if isinstance(settings, dict) else None
        if isinstance(wish, int | float) and wish > 0:
            self._interval = min(max(float(wish), SHORTEST_PING), LONGEST_PING)


def _handshake_refused(error: aiohttp.WSServerHandshakeError) -> ChannelError:
    """Feishu says why in headers of its own (handshake-status, -msg, -autherrcode)."""
    headers: Mapping[str, str] = error.headers or {}
    status, said = headers.get("handshake-status", ""), headers.get("handshake-msg", "")
    code = headers.get("handshake-autherrcode", "")
    text = f"the socket was refused: {said or 'no message'} ({status or error.status}{' ' + code if code else ''})"
    if status == str(_FORBIDDEN):
        return Fatal(
            text,
            "in the developer console let Events & Callbacks come through a long connection, and publish a version",
        )
    return Temporary(text)


def _count(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else default
