"""The long connections: subscribe first, one per bot, answers to pings, acks in order, and faults."""

import asyncio
import json
from typing import Any

from aiohttp import WSMsgType, web

from tests.simulators.connections import reset_connection
from tests.simulators.journal import HELD
from tests.simulators.wecom import commands
from tests.simulators.wecom.errors import (
    BAD_CREDENTIAL,
    BAD_PARAM,
    CONFLICT,
    INVALID_REQ_ID,
    MESSAGES,
    NOT_SUBSCRIBED,
    WecomError,
)
from tests.simulators.wecom.faults import Fault
from tests.simulators.wecom.journal import Record
from tests.simulators.wecom.state import Bot, Json
from tests.simulators.wecom.world import World, new_id

MAX_FRAME = 8 * 1024 * 1024
ACK_SECONDS = 0.002
"""Delay of an ack, so that a frame that did not wait for it is detected."""
SUBSCRIBE, PING = "aibot_subscribe", "ping"


class Socket:
    """One connection. bot: None until it subscribed. unacked: the req_ids of frames that are not acked yet."""

    def __init__(
        self, world: World, number: int, ws: web.WebSocketResponse, transport: asyncio.Transport | None
    ) -> None:
        self._world = world
        self.number = number
        self.ws = ws
        self.bot: Bot | None = None
        self.unacked: set[str] = set()
        self.kicked = False
        self._transport = transport
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _bot_id(self) -> str | None:
        return None if self.bot is None else self.bot.bot_id

    @property
    def current(self) -> bool:
        """Whether this is the bot's live connection."""
        return self.bot is not None and self.bot.socket is self

    async def take(self, text: str) -> None:
        """Handle a frame of the client."""
        try:
            frame = json.loads(text)
            cmd, req_id, body = frame["cmd"], frame["headers"]["req_id"], frame.get("body") or {}
            if not (isinstance(cmd, str) and isinstance(req_id, str) and req_id and isinstance(body, dict)):
                raise TypeError("cmd, headers.req_id or body has another type")
        except (ValueError, KeyError, TypeError) as error:
            self._problem(f"no frame: {error!r}: {text[:200]}")
            return
        record = Record(bot_id=self._bot_id, socket=self.number, cmd=cmd, req_id=req_id, body=_shown(body))
        self._world.journal.arrive(record)
        if self.bot is not None and (self.bot.silent or (cmd == PING and self.bot.mute_pings)):
            self._world.journal.finish(record, "ignored", None)
            return
        if req_id in self.unacked:
            record.why = "the frame before it was not acked yet"
            await self._answer(record, CONFLICT, None, "conflict")
            return
        self.unacked.add(req_id)
        fault = self._world.faults.take(self._bot_id, cmd) if self._bot_id is not None else None
        if cmd == SUBSCRIBE and fault is None:  # the fault of the bot that it subscribes as
            fault = self._world.faults.take(str(body.get("bot_id")), SUBSCRIBE)
        await self._apply(record, body, frame, fault)

    async def _apply(self, record: Record, body: Json, frame: Json, fault: Fault | None) -> None:
        errcode, answer, outcome = 0, None, "applied"
        if fault is None or fault.apply:
            try:
                answer = await self._handle(record, frame)
                record.applied = True
            except WecomError as refusal:
                errcode, outcome, record.why = refusal.code, "refused", refusal.why
        if fault is None and record.cmd == SUBSCRIBE:  # the next frame on this connection is read after its ack
            self.unacked.discard(record.req_id)
            await self._answer(record, errcode, answer, outcome)
        elif fault is None:
            self._later(self._acked(record, errcode, answer, outcome, ACK_SECONDS))
        elif fault.ack == "close":
            self._world.journal.finish(record, fault.name, None)
            await self.close(fault.code)
        elif fault.ack == "none":
            self.unacked.discard(record.req_id)
            self._world.journal.finish(record, fault.name, None)
        elif fault.ack == "error":
            self._later(self._acked(record, fault.code, None, fault.name, ACK_SECONDS))
        else:
            self._later(self._acked(record, errcode, answer, fault.name, fault.delay, held=fault.hold))

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _acked(
        self, record: Record, errcode: int, answer: Json | None, outcome: str, delay: float, held: bool = False
    ) -> None:
        if held:
            record.outcome = HELD
            self._world.journal.note(record)
            await self._world.released.wait()
        await asyncio.sleep(delay)
        self.unacked.discard(record.req_id)
        await self._answer(record, errcode, answer, outcome)

    async def _answer(self, record: Record, errcode: int, answer: Json | None, outcome: str) -> None:
        frame: Json = {
            "headers": {"req_id": record.req_id},
            "errcode": errcode,
            "errmsg": MESSAGES.get(errcode, "error"),
        }
        if answer is not None:
            frame["body"] = answer
        # The record first: the receiver of the answer may look it up at once.
        self._world.journal.finish(record, outcome, errcode)
        await self.send(frame)

    async def _handle(self, record: Record, frame: Json) -> Json | None:
        cmd, body = record.cmd, frame.get("body") or {}
        if cmd == SUBSCRIBE:
            await self._subscribe(record, body)
            return None
        if self.bot is None or not self.current:
            raise WecomError(NOT_SUBSCRIBED)
        if cmd == PING:
            return None
        handler = commands.COMMANDS.get(cmd)
        if handler is None:
            self._problem(f"unknown command {cmd}")
            raise WecomError(BAD_PARAM, f"unknown command {cmd}")
        if cmd not in commands.ANSWERS:
            if record.req_id in self.bot.used_req_ids:
                self._problem(f"req_id {record.req_id} was used twice")
                raise WecomError(INVALID_REQ_ID, "used twice")
            self.bot.used_req_ids.add(record.req_id)
        return handler(commands.Call(self._world, self.bot, self.number, record, body))

    async def _subscribe(self, record: Record, body: Json) -> None:
        bot = self._world.bots.get(str(body.get("bot_id")))
        if bot is None or bot.secret != body.get("secret"):
            record.bot_id = str(body.get("bot_id"))
            raise WecomError(BAD_CREDENTIAL)
        record.bot_id = bot.bot_id
        older = bot.socket
        if older is not None and older is not self:
            await older.kick()
        self.bot, bot.socket = bot, self
        bot.subscriptions += 1
        bot.changed.fire()

    async def kick(self) -> None:
        """Report that another connection took over, and close."""
        assert self.bot is not None
        self.kicked = True
        self.bot.kicks += 1
        self.bot.socket = None
        now = int(self._world.clock.now())
        body = {"msgid": new_id("m"), "create_time": now, "aibotid": self.bot.bot_id, "msgtype": "event"}
        event = {"eventtype": "disconnected_event", "disconnected_event": {}}
        await self.send(
            {"cmd": "aibot_event_callback", "headers": {"req_id": new_id("r")}, "body": {**body, "event": event}}
        )
        await self.close(1000)

    async def send(self, frame: Json) -> bool:
        """Send a frame; False if the connection is gone or silent."""
        if self.ws.closed or (self.bot is not None and self.bot.silent):
            return False
        try:
            await self.ws.send_str(json.dumps(frame, ensure_ascii=False))
        except ConnectionError:
            return False
        return True

    async def close(self, code: int) -> None:
        """Close with a code; 0 resets the TCP connection. Does not wait for the client's answer."""
        if self.bot is not None and self.bot.socket is self:
            self.bot.socket = None
            self.bot.changed.fire()
        if code:
            self._later(self._close_gracefully(code))
            return
        reset_connection(self._transport)

    async def _close_gracefully(self, code: int) -> None:
        await self.ws.close(code=code)

    def gone(self) -> None:
        """Note that the connection ended."""
        for task in self._tasks:
            task.cancel()
        if self.bot is not None:
            self.bot.closed_codes.append(self.ws.close_code)
            if self.bot.socket is self:
                self.bot.socket = None
            self.bot.changed.fire()

    def _problem(self, text: str) -> None:
        self._world.problems.add(self._bot_id, text if self.bot is None else f"{self.bot.name}: {text}")


def _shown(body: Json) -> Json:
    """The body without secrets and the bytes of files."""
    return {name: value for name, value in body.items() if name not in ("secret", "base64_data")}


class SocketServer:
    """Accepts websockets at any path that is not the simulator's own."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def link(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(max_msg_size=MAX_FRAME)
        await ws.prepare(request)
        transport = request.transport
        link = Socket(self._world, next(self._world.numbers), ws, transport)
        self._world.sockets.add(link)
        try:
            async for message in ws:
                if message.type is WSMsgType.TEXT:
                    await link.take(message.data)
        finally:
            self._world.sockets.discard(link)
            link.gone()
        return ws
