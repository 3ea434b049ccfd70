"""The long connection of one app: frames in, acknowledgements out, and detection of a dead connection.

The frames are the SDK's; the client is not, for the reasons in docs/decisions/0006-feishu-connection.md.
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
from channels.feishu.sdk import DecodeError, Frame, FrameType, MessageType, const

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from channels.feishu.api import FeishuApi

LONGEST_PING = 25.0
"""Most seconds between two pings, whatever interval the platform requests: three lost ones are noticed within 90 s."""
SHORTEST_PING = 0.5
LEAST_SILENCE = 3.0
CONNECT_SECONDS = 20.0
CLOSE_SECONDS = 2.0
MOST_BYTES = 16 * 1024 * 1024
AT_ONCE = 256
"""Frames handled concurrently; beyond that the socket is not read, so the platform waits."""


class BadFrame(ValueError):
    """The bytes are not a frame, or an unusable one."""


def read_frame(data: bytes) -> Frame:
    """The frame in these bytes; unknown fields are ignored. Raises BadFrame."""
    frame = Frame()
    try:
        frame.ParseFromString(data)
    except DecodeError as error:
        raise BadFrame(str(error)) from None
    except UnicodeDecodeError:
        raise BadFrame("it contains text that is not UTF-8") from None
    except RecursionError:
        raise BadFrame("it is nested too deeply") from None
    if not frame.IsInitialized():
        raise BadFrame("a required field is missing")
    return frame


def header(frame: Frame, key: str) -> str:
    """A header's value, "" if missing; the last one if it is repeated."""
    return next((each.value for each in reversed(frame.headers) if each.key == key), "")


def ping(service: int) -> bytes:
    frame = Frame(SeqID=0, LogID=0, service=service, method=FrameType.CONTROL.value)
    frame.headers.add(key=const.HEADER_TYPE, value=MessageType.PING.value)
    data: bytes = frame.SerializeToString()
    return data


def acknowledged(frame: Frame, payload: bytes, biz_milliseconds: int) -> bytes:
    """The acknowledgement of a frame: the same frame with another payload. Modifies the frame."""
    frame.headers.add(key=const.HEADER_BIZ_RT, value=str(biz_milliseconds))
    frame.payload = payload
    data: bytes = frame.SerializeToString()
    return data


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement. code: 200 for committed, 500 for "send it again". reply: shown for a press, None for none."""

    code: int
    reply: dict[str, Any] | None = None

    def payload(self) -> bytes:
        body: dict[str, Any] = {"code": self.code}
        if self.reply is not None:
            body["data"] = base64.b64encode(json.dumps(self.reply).encode()).decode()
        return json.dumps(body).encode()


class Fragments:
    """Joins payloads split over several frames. Incomplete ones are dropped after `_SECONDS`, or if there are many."""

    _SECONDS = 5.0
    _MOST = 64

    def __init__(self) -> None:
        self._parts: OrderedDict[str, tuple[float, list[bytes]]] = OrderedDict()

    def add(self, frame: Frame, now: float) -> bytes | None:
        """The whole payload once all parts have arrived, else None. Raises BadFrame."""
        total, number = _count(header(frame, const.HEADER_SUM), 1), _count(header(frame, const.HEADER_SEQ), 0)
        payload: bytes = frame.payload
        if total <= 1:
            return payload
        if number >= total or total > self._MOST:
            raise BadFrame(f"invalid part number: {number} of {total}")
        while self._parts and next(iter(self._parts.values()))[0] + self._SECONDS < now:
            self._parts.popitem(last=False)
        key = header(frame, const.HEADER_MESSAGE_ID)
        _, parts = self._parts.setdefault(key, (now, [b""] * total))
        if len(parts) != total:
            raise BadFrame("its parts disagree about their total")
        parts[number] = payload
        if not all(parts):
            if len(self._parts) > self._MOST:
                self._parts.popitem(last=False)
            return None
        del self._parts[key]
        return b"".join(parts)


class Socket:
    """handle: processes an event's payload and returns its acknowledgement; if it raises, the error is logged and no
    answer sent. alive: called at every sign of life; the first one means that the connection works.
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
        """Serve one connection until its end: always raises, Temporary if a new connection may work."""
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
            raise Temporary("the platform returned an unusable socket URL")
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
            # Not `from error`: its text may contain the URL, which contains a ticket.
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
                raise Temporary(f"the socket failed ({type(message.data).__name__})")
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            last_sign = loop.time()
            self._alive()
            await self._take(connection, message.data, fragments)

    async def _take(self, connection: aiohttp.ClientWebSocketResponse, data: bytes, fragments: Fragments) -> None:
        try:
            frame = read_frame(data)
            if frame.method == FrameType.CONTROL.value:
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
        """Start a task of this connection, which ends with it."""
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
        answer = acknowledged(frame, ack.payload(), int((loop.time() - began) * 1000))
        # If the connection is gone by now, no acknowledgement is sent: the event is sent again on the next one.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            await connection.send_bytes(answer)

    async def _beat(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):  # the receiving side notices
                await connection.send_bytes(ping(self._service))
            await asyncio.sleep(self._interval)

    def _control(self, frame: Frame) -> None:
        if header(frame, const.HEADER_TYPE) == MessageType.PONG.value and frame.payload:
            try:
                self._configure(json.loads(frame.payload))
            except (ValueError, RecursionError):
                self._log.debug("%s: a pong's settings cannot be read", self._account)

    def _configure(self, settings: object) -> None:
        """Use the ping interval from the platform's settings; the supervisor decides when to reconnect."""
        wish = settings.get("PingInterval") if isinstance(settings, dict) else None
        if isinstance(wish, int | float) and wish > 0:
            self._interval = min(max(float(wish), SHORTEST_PING), LONGEST_PING)


def _handshake_refused(error: aiohttp.WSServerHandshakeError) -> ChannelError:
    """The error reported by Feishu's own headers (handshake-status, -msg, -autherrcode)."""
    headers: Mapping[str, str] = error.headers or {}
    status, said = headers.get(const.HEADER_HANDSHAKE_STATUS, ""), headers.get(const.HEADER_HANDSHAKE_MSG, "")
    code = headers.get(const.HEADER_HANDSHAKE_AUTH_ERRCODE, "")
    text = f"the socket was refused: {said or 'no message'} ({status or error.status}{' ' + code if code else ''})"
    if status == str(const.FORBIDDEN):
        return Fatal(
            text,
            "in the developer console, set Events & Callbacks to use a long connection, and publish a version",
        )
    return Temporary(text)


def _count(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else default
