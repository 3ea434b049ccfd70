"""The Bot API side of the simulator: dispatch of calls with their faults, long polls, file downloads, recording."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.simulators.telegram import control, media, methods, profile
from tests.simulators.telegram.calls import Call, read_call
from tests.simulators.telegram.errors import ApiError
from tests.simulators.telegram.faults import FILE_DOWNLOAD, Fault
from tests.simulators.telegram.journal import Record
from tests.simulators.telegram.state import Bot, World
from tests.simulators.telegram.updates import PollDroppedError

Method = Callable[[World, Bot, Call], Any]

METHODS: dict[str, Method] = {
    name.lower(): method
    for group in (profile.METHODS, methods.METHODS, media.METHODS)
    for name, method in group.items()
}
GET_UPDATES = "getupdates"
MAX_BODY = 64 * 1024 * 1024
MAX_BATCH = 100
HTML_502 = (
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n"
)
NOT_JSON = '{"ok":true,"result":{"mess'


def build_app(world: World) -> web.Application:
    """The application with both sides: /bot<TOKEN>/..., /file/bot<TOKEN>/... and /control/..."""
    app = web.Application(client_max_size=MAX_BODY)
    api = BotApi(world)
    control.add_routes(app, world)
    app.router.add_route("*", "/file/bot{token}/{path:.+}", api.download)
    app.router.add_route("*", "/bot{token:[^/]+}/{method}", api.call)
    return app


class BotApi:
    """Handlers of the Bot API side."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def call(self, request: web.Request) -> web.StreamResponse:
        """One method call, from its record to its answer."""
        method = request.match_info["method"]
        bot, record = self._arrive(request, method, f"/bot<TOKEN>/{method}")
        try:
            call = await read_call(request, method)
            record.params, record.chat_id = call.params, call.chat_id
            record.files = [upload.summary() for upload in call.uploads.values()]
            if bot is None:
                self._world.bot(request.match_info["token"])
                raise ApiError(404, "Not Found")
        except ApiError as refused:
            return self._refuse(record, refused)
        except ConnectionResetError:  # the bot was killed in mid request
            self._world.journal.finish(record, None, "dropped")
            return web.Response()
        chat = self._world.chat(bot, call.chat_id) if call.chat_id is not None else None
        if method.lower() == GET_UPDATES:
            return await self._answer(request, bot, call, record)
        watched = (bot, chat) if chat is not None else (bot,)
        for party in watched:
            party.in_flight += 1
        try:
            return await self._answer(request, bot, call, record)
        finally:
            for party in watched:
                party.in_flight -= 1
                party.touch()

    async def download(self, request: web.Request) -> web.StreamResponse:
        """A file download, streamed from a generator; counts what the socket took."""
        path = request.match_info["path"]
        bot, record = self._arrive(request, FILE_DOWNLOAD, f"/file/bot<TOKEN>/{path}")
        stored = self._world.files.at_path(bot.id, path) if bot is not None else None
        if bot is None or stored is None:
            return self._refuse(record, ApiError(404, "Not Found"))
        fault = self._world.faults.take(bot.id, FILE_DOWNLOAD, None)
        if fault is not None:
            await self._before(fault, record)
            if fault.answer != "normal":
                return self._broken_answer(request, fault, record)
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        if stored.honest:
            response.content_length = stored.stream_size
        stored.downloads += 1
        await response.prepare(request)
        try:
            for chunk in stored.chunks():
                await response.write(chunk)
                stored.sent += len(chunk)
            await response.write_eof()
        except ConnectionError:
            self._world.journal.finish(record, 200, "dropped")
            return response
        record.applied = True
        self._world.journal.finish(record, 200, "applied")
        return response

    def _arrive(self, request: web.Request, method: str, path: str) -> tuple[Bot | None, Record]:
        bot = self._world.bots.get(request.match_info["token"])
        if bot is not None:
            bot.connections.note(request)
        record = self._world.journal.arrive(
            bot.id if bot else None, method, request.method, path, dict(request.query), dict(request.headers)
        )
        return bot, record

    async def _answer(self, request: web.Request, bot: Bot, call: Call, record: Record) -> web.StreamResponse:
        fault = self._world.faults.take(bot.id, call.method.lower(), call.chat_id)
        if fault is None:
            return await self._apply(request, bot, call, record, "applied")
        await self._before(fault, record)
        if fault.apply:
            answer = await self._apply(request, bot, call, record, fault.name, finish=False)
            self._world.journal.note(record)
            await asyncio.sleep(fault.hang)
            if fault.hold_after:
                await self._hold(record)
            if fault.answer == "normal":
                self._world.journal.finish(record, answer.status, fault.name)
                return answer
        return self._broken_answer(request, fault, record)

    async def _before(self, fault: Fault, record: Record) -> None:
        await asyncio.sleep(fault.delay)
        if fault.hold_before:
            await self._hold(record)

    async def _hold(self, record: Record) -> None:
        record.outcome = "held"
        self._world.journal.note(record)
        await self._world.released.wait()

    def _broken_answer(self, request: web.Request, fault: Fault, record: Record) -> web.Response:
        if fault.answer == "reset":
            _reset_connection(request)
            self._world.journal.finish(record, None, fault.name)
            return web.Response()
        record.description = fault.description
        self._world.journal.finish(record, fault.code, fault.name)
        if fault.answer == "html":
            return web.Response(status=fault.code, text=HTML_502, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        return _json(fault.code, ApiError(fault.code, fault.description, fault.parameters).body())

    async def _apply(
        self, request: web.Request, bot: Bot, call: Call, record: Record, outcome: str, *, finish: bool = True
    ) -> web.Response:
        """Perform the call by the API's rules; with finish=False the record stays open for the fault's second half."""
        try:
            result = await self._perform(request, bot, call)
        except ApiError as refused:
            return self._refuse(record, refused)
        except PollDroppedError:
            _reset_connection(request)
            self._world.journal.finish(record, None, "dropped")
            return web.Response()
        record.applied = True
        if isinstance(result, dict):
            record.message_id = result.get("message_id")
        if finish:
            self._world.journal.finish(record, 200, outcome)
        return _json(200, {"ok": True, "result": result})

    async def _perform(self, request: web.Request, bot: Bot, call: Call) -> Any:
        name = call.method.lower()
        if name == GET_UPDATES:
            return await self._poll(request, bot, call)
        method = METHODS.get(name)
        if method is None:
            raise ApiError(404, "Not Found")
        if call.chat_id is not None and name.startswith(("send", "edit")) and name != "sendchataction":
            bot.meter.check(call.chat_id)
        return method(self._world, bot, call)

    async def _poll(self, request: web.Request, bot: Bot, call: Call) -> Any:
        limit = min(MAX_BATCH, max(1, call.integer("limit", MAX_BATCH)))
        allowed = call.params.get("allowed_updates")
        bot.changed.fire()  # those who wait for a held poll look once this one is held
        return await bot.queue.poll(
            call.integer("offset"), limit, call.integer("timeout"), allowed, lambda: request.transport is not None
        )

    def _refuse(self, record: Record, refused: ApiError) -> web.Response:
        record.description = refused.description
        self._world.journal.finish(record, refused.code, "refused")
        return _json(refused.code, refused.body())


def _json(status: int, body: Any) -> web.Response:
    # Escaped to ASCII as the real server does; so even a lone surrogate that a test injects survives the wire.
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


def _reset_connection(request: web.Request) -> None:
    """Close with RST instead of FIN, as a connection that broke on its way."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
