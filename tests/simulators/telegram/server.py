"""The Bot API side of the simulator: dispatch of calls with their faults, long polls, file downloads, recording."""

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.simulators.connections import reset_connection
from tests.simulators.faulty import FaultyServer
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
WEBHOOK_CONFLICT = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
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


class BotApi(FaultyServer[Record, Fault]):
    """Handlers of the Bot API side."""

    def __init__(self, world: World) -> None:
        super().__init__(world.journal, world.released)
        self._world = world

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Handle one method call, from its record to its answer."""
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
            return self._refuse_at_once(record, refused)
        except ConnectionResetError:  # the bot was killed in the middle of a request
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
        """Serve a file download, streamed from a generator; counts the bytes that the socket took."""
        path = request.match_info["path"]
        bot, record = self._arrive(request, FILE_DOWNLOAD, f"/file/bot<TOKEN>/{path}")
        stored = self._world.files.at_path(bot.id, path) if bot is not None else None
        if bot is None or stored is None:
            return self._refuse_at_once(record, ApiError(404, "Not Found"))
        fault = self._world.faults.take(bot.id, FILE_DOWNLOAD, None)
        if fault is not None:
            await self.before(fault, record)
            if fault.answer != "normal":
                return self.broken_answer(request, fault, record)
        response, record.applied = await stored.stream(request, "application/octet-stream")
        self._world.journal.finish(record, 200, "applied" if record.applied else "dropped")
        return response

    def _arrive(self, request: web.Request, method: str, path: str) -> tuple[Bot | None, Record]:
        bot = self._world.bots.get(request.match_info["token"])
        if bot is not None:
            bot.connections.note(request)
        record = Record(
            bot_id=bot.id if bot else None,
            method=method,
            http_method=request.method,
            path=path,
            query=dict(request.query),
            headers=dict(request.headers),
        )
        return bot, self._world.journal.arrive(record)

    async def _answer(self, request: web.Request, bot: Bot, call: Call, record: Record) -> web.StreamResponse:
        fault = self._world.faults.take(bot.id, call.method.lower(), call.chat_id)
        try:
            return await self.meet(fault, request, record, lambda: self._apply(request, bot, call, record))
        except PollDroppedError:
            reset_connection(request.transport)
            self._world.journal.finish(record, None, "dropped")
            return web.Response()

    def answer_of(self, fault: Fault, record: Record) -> web.Response:
        record.description = fault.description
        if fault.answer == "html":
            return web.Response(status=fault.code, text=HTML_502, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        return _json(fault.code, ApiError(fault.code, fault.description, fault.parameters).body())

    async def _apply(self, request: web.Request, bot: Bot, call: Call, record: Record) -> web.Response:
        """Perform the call by the API's rules; raises PollDroppedError for a poll that gets no answer."""
        try:
            result = await self._perform(request, bot, call)
        except ApiError as refused:
            return _refusal(record, refused)
        record.applied = True
        if isinstance(result, dict):
            record.message_id = result.get("message_id")
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
        bot.changed.fire()  # waiters for a held poll check once this one is held
        if bot.webhook:
            raise ApiError(409, WEBHOOK_CONFLICT)
        return await bot.queue.poll(
            call.integer("offset"), limit, call.integer("timeout"), allowed, lambda: request.transport is not None
        )

    def _refuse_at_once(self, record: Record, refused: ApiError) -> web.Response:
        answer = _refusal(record, refused)
        self._world.journal.finish(record, answer.status, "refused")
        return answer


def _refusal(record: Record, refused: ApiError) -> web.Response:
    record.description = refused.description
    return _json(refused.code, refused.body())


def _json(status: int, body: Any) -> web.Response:
    # Escaped to ASCII as by the real server, so that even a lone surrogate injected by a test survives.
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")
