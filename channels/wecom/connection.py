"""One websocket from its opening to its end: subscription, pings, acks for sent frames, received callbacks.

WeCom acks a frame by its req_id alone, which all frames of one answer share: after an ack has timed out, the next one
may be that late ack and not the awaited one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.protocol import State

from channels.errors import ChannelError, OutcomeUnknown, Temporary
from channels.network import http_session, tls_context, usable_proxy
from channels.supervision import within
from channels.wecom import frames
from channels.wecom.failures import Kicked, NotSubscribed, failure, refused_subscription
from channels.wecom.frames import Ack, Callback

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp
    from websockets.asyncio.client import ClientConnection

    from channels.base import Route
    from channels.wecom.config import WecomConfig
    from channels.wecom.frames import Body

MAX_FRAME = 16 * 1024 * 1024
_WIRE_LOG = logging.getLogger("channels.wecom.wire")
# At lower levels the library logs whole frames: the secret, people's messages, keys of files.
_WIRE_LOG.setLevel(logging.WARNING)


class Network:
    """The network routes of one account. Methods raise Fatal when a route itself is unusable."""

    def __init__(self, route: Callable[[str], Route], account: str) -> None:
        self._route = route
        self._account = account

    def websocket(self, url: str) -> dict[str, Any]:
        """Arguments for `websockets.connect`."""
        route = self._route(url)
        proxy = usable_proxy(route, self._account)
        arguments: dict[str, Any] = {"proxy": proxy}
        if url.startswith("wss:"):
            arguments["ssl"] = tls_context(route, self._account)
        if proxy is not None and proxy.startswith("https:"):
            arguments["proxy_ssl"] = tls_context(route, self._account)
        return arguments

    def session(self, url: str) -> aiohttp.ClientSession:
        """An HTTP session for one download; needs a running loop."""
        route = self._route(url)
        proxy = usable_proxy(route, self._account)
        tls = url.startswith("https:") or (proxy or "").startswith("https:")
        return http_session(1, tls_context(route, self._account) if tls else None, proxy=proxy)


class Acks:
    """The awaited acks: at most one per req_id at a time.

    doubt: seconds for which a success is not trusted because it may belong to an earlier frame.
    """

    def __init__(self, doubt: float) -> None:
        self._doubt = doubt
        self._awaited: dict[str, asyncio.Future[Ack]] = {}
        self._owed: Counter[str] = Counter()

    def expect(self, req_id: str) -> asyncio.Future[Ack]:
        """Register a frame that is about to be sent; returns the future of its ack."""
        self._awaited[req_id] = answer = asyncio.get_running_loop().create_future()
        return answer

    def forget(self, req_id: str, answer: asyncio.Future[Ack]) -> None:
        """Stop waiting for an ack; one that still arrives belongs to this frame."""
        if self._awaited.get(req_id) is answer:
            del self._awaited[req_id]
            self._owed[req_id] += 1

    def arrived(self, ack: Ack) -> None:
        answer = self._awaited.get(ack.req_id)
        if answer is None or answer.done():
            self._settle(ack.req_id)
        elif ack.errcode or not self._owed[ack.req_id]:
            # A refusal is attributed to the newest frame: repeating that frame does no harm.
            self._give(ack.req_id, answer, ack)
        else:
            self._settle(ack.req_id)
            asyncio.get_running_loop().call_later(self._doubt, self._give, ack.req_id, answer, ack)

    def _give(self, req_id: str, answer: asyncio.Future[Ack], ack: Ack) -> None:
        if self._awaited.get(req_id) is answer:
            del self._awaited[req_id]
        if not answer.done():
            answer.set_result(ack)

    def _settle(self, req_id: str) -> None:
        """Count a late ack as received."""
        self._owed[req_id] -= 1
        if self._owed[req_id] <= 0:
            del self._owed[req_id]

    def fail_all(self, error: ChannelError) -> None:
        """Fail all waiting frames: no more acks will arrive."""
        for answer in self._awaited.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # marks it as retrieved: the waiter may be gone
        self._awaited.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times in seconds.

    ack, upload: until a frame (one with a piece of a file) counts as unanswered. doubt: see `Acks`. ping: between two
    pings, each of which must be answered within `pong`; after `missed` unanswered ones in a row the connection is dead.
    """

    connect: float = 20.0
    ack: float = 5.0
    upload: float = 30.0
    doubt: float = 1.0
    ping: float = 30.0
    pong: float = 10.0
    missed: int = 2
    close: float = 2.0


class Connection:
    """take: receives the callbacks in order. heard: called at every incoming frame."""

    def __init__(
        self, socket: ClientConnection, take: Callable[[Callback], None], heard: Callable[[], None], timing: Timing
    ) -> None:
        self._socket = socket
        self._take = take
        self._heard = heard
        self._timing = timing
        self._acks = Acks(timing.doubt)
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._reason: ChannelError | None = None

    @classmethod
    async def open(
        cls,
        config: WecomConfig,
        network: Network,
        take: Callable[[Callback], None],
        heard: Callable[[], None],
        timing: Timing,
    ) -> Connection:
        """Connect without subscribing. Raises Temporary, Fatal."""
        try:
            socket = await connect(
                config.url,
                open_timeout=timing.connect,
                close_timeout=timing.close,
                ping_interval=None,
                max_size=MAX_FRAME,
                compression=None,
                logger=_WIRE_LOG,
                **network.websocket(config.url),
            )
        except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed, EOFError) as error:
            raise Temporary(f"cannot connect to WeCom ({_why(error)})") from None
        return cls(socket, take, heard, timing)

    async def serve(self, config: WecomConfig, account: str, subscribed: Callable[[], None]) -> None:
        """Subscribe, then serve the connection until it ends, which raises Temporary, Kicked or Fatal."""
        reading = asyncio.create_task(self._read(), name=f"wecom {account} reads")
        try:
            await self._subscribe_or_say_why(config, account, reading)
            subscribed()
            pinging = asyncio.create_task(self._ping(), name=f"wecom {account} pings")
            try:
                await asyncio.wait([reading])
                reading.result()
            finally:
                pinging.cancel()
                await asyncio.wait([pinging])
        finally:
            # Read what arrives before the other side has closed as well: none of it would be sent again.
            await self._close()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()  # marks it as retrieved: where it matters it was raised above

    async def _subscribe_or_say_why(self, config: WecomConfig, account: str, reading: asyncio.Task[None]) -> None:
        try:
            await self._subscribe(config, account)
        except Temporary:
            if reading.done():
                reading.result()  # raises the reason for the missing ack
            raise

    async def _subscribe(self, config: WecomConfig, account: str) -> None:
        body = {"bot_id": config.bot_id, "secret": config.secret.get_secret_value()}
        try:
            ack = await self._exchange(frames.SUBSCRIBE, frames.new_req_id(frames.SUBSCRIBE), body, self._timing.ack)
        except OutcomeUnknown as error:
            raise Temporary(str(error)) from error
        if ack.errcode:
            raise refused_subscription(ack, account)

    async def ask(self, cmd: str, body: Body, req_id: str | None = None) -> Body:
        """Send a frame and return the body of its ack. req_id: of the callback that it answers.

        Frames of one req_id are sent one after another, each after the ack of the last. Raises OutcomeUnknown if no ack
        arrives, Temporary if nothing was sent, and the error that `failures.failure` returns for a refusal.
        """
        req_id = req_id or frames.new_req_id(cmd)
        line = self._lines.setdefault(req_id, asyncio.Lock())
        async with line:
            seconds = self._timing.upload if cmd == frames.UPLOAD_CHUNK else self._timing.ack
            ack = await self._exchange(cmd, req_id, body, seconds)
        if ack.errcode == 0:
            return ack.body
        error = failure(ack, cmd)
        if isinstance(error, NotSubscribed):
            self.drop(error)
        raise error

    def drop(self, reason: ChannelError) -> None:
        """End the connection at once; `serve` raises the reason."""
        self._reason = self._reason or reason
        self._socket.transport.abort()

    async def _exchange(self, cmd: str, req_id: str, body: Body | None, seconds: float) -> Ack:
        if self._socket.state is not State.OPEN or self._reason is not None:
            raise Temporary(f"{cmd}: not connected to WeCom")
        answer = self._acks.expect(req_id)
        try:
            async with asyncio.timeout(seconds):
                await self._socket.send(frames.request(cmd, req_id, body))
                return await answer
        except TimeoutError:
            raise OutcomeUnknown(f"{cmd}: no ack within {seconds:.0f} s") from None
        except ConnectionClosed:
            raise OutcomeUnknown(f"{cmd}: the connection was lost while sending") from None
        finally:
            self._acks.forget(req_id, answer)

    async def _read(self) -> None:
        """Read until the connection ends. Raises the reason."""
        try:
            async for text in self._socket:
                self._heard()
                self._sort(frames.read(text))
        except ConnectionClosed:
            pass
        finally:
            self._acks.fail_all(OutcomeUnknown("the connection ended before the ack"))
        code = self._socket.close_code
        raise self._reason or Temporary(f"WeCom closed the connection ({code or 1006})")

    def _sort(self, frame: Callback | Ack | None) -> None:
        match frame:
            case Ack():
                self._acks.arrived(frame)
            case Callback() if frame.event_type == "disconnected_event":
                raise Kicked("another program has connected as this robot")
            case Callback():
                self._take(frame)

    async def _ping(self) -> None:
        """Ping until the connection no longer answers; then end it."""
        missed = 0
        while True:
            if not missed:
                await asyncio.sleep(self._timing.ping)
            try:
                await self._exchange(frames.PING, frames.new_req_id(frames.PING), None, self._timing.pong)
                missed = 0
            except Temporary:
                return
            except OutcomeUnknown:
                missed += 1
            if missed >= self._timing.missed:
                self.drop(Temporary(f"WeCom has not answered {missed} pings"))
                return

    async def _close(self) -> None:
        await within(self._timing.close, self._socket.close())
        self._socket.transport.abort()


def _why(error: Exception) -> str:
    """One line without secrets: the error's name, because the text of a proxy error may contain a password."""
    if isinstance(error, InvalidStatus):
        return f"HTTP {error.response.status_code}"
    if isinstance(error, TimeoutError):
        return "no answer"
    return error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
