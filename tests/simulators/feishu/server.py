"""The application, and its HTTP side: dispatch of calls, their records, rates and refusals."""

from collections.abc import Awaitable, Callable
from email.utils import formatdate

from aiohttp import web

from tests.simulators.connections import reset_connection
from tests.simulators.feishu import basics, control, registration, resources
from tests.simulators.feishu.calls import Call, read_call, shown_headers
from tests.simulators.feishu.errors import FeishuError, request_limit
from tests.simulators.feishu.faults import ENDPOINT, TOKEN
from tests.simulators.feishu.faulty import FeishuServer, answer
from tests.simulators.feishu.journal import Record
from tests.simulators.feishu.messages import ID_TYPES
from tests.simulators.feishu.routes import (
    BOT_INFO,
    ENDPOINT_PATH,
    RESOURCE,
    RESOURCE_PATH,
    ROUTES,
    TOKEN_PATH,
    Method,
)
from tests.simulators.feishu.sockets import SocketServer, open_endpoint
from tests.simulators.feishu.state import App, Chat, Json
from tests.simulators.feishu.world import World

MAX_BODY = 128 * 1024 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(world: World) -> web.Application:
    """The application with all sides: /open-apis/, /callback/, /ws/ and /control/."""
    app = web.Application(client_max_size=MAX_BODY)
    sockets = SocketServer(world)
    api = OpenApi(world)
    control.add_routes(app, world, sockets)
    app.router.add_post(ENDPOINT_PATH, api.endpoint)
    app.router.add_post(TOKEN_PATH, api.token)
    app.router.add_post(registration.PATH, world.registration.answer)
    app.router.add_get("/ws/v2", sockets.connect)
    app.router.add_get(RESOURCE_PATH, api.resource)
    for name, http_method, path, method in ROUTES:
        app.router.add_route(http_method, f"/open-apis/{path}", api.handler(name, method))
    app.router.add_route("*", "/{path:.*}", api.unknown)

    async def stop_delivering(_: web.Application) -> None:
        for each in world.apps.values():
            await each.delivery.close()

    async def date(_: web.Request, response: web.StreamResponse) -> None:
        response.headers["Date"] = formatdate(world.clock.now(), usegmt=True)

    app.on_response_prepare.append(date)
    app.on_shutdown.append(stop_delivering)
    return app


class OpenApi(FeishuServer):
    """Handlers of all HTTP endpoints."""

    def handler(self, name: str, method: Method) -> Handler:
        """The handler of one endpoint of ROUTES."""

        async def handle(request: web.Request) -> web.StreamResponse:
            record = self._arrive(request, name)
            call = await self._read(request, record)
            if isinstance(call, web.Response):
                return call
            known = self.world.tokens.get(call.token)
            app = known.app if known else None
            chat = _chat_of(self.world, app, call)
            self._describe(record, app, call, chat)
            parties = [party for party in (app, chat) if party is not None]
            for party in parties:
                party.in_flight += 1
            try:
                return await self.with_faults(request, record, app, lambda: self._apply(name, method, call, record))
            finally:
                for party in parties:
                    party.in_flight -= 1
                    party.touch()

        return handle

    async def token(self, request: web.Request) -> web.StreamResponse:
        """Answer the tenant token, whose fields are at the top level of the answer."""
        return await self._unauthorized(request, TOKEN, "app_id", lambda call: basics.tenant_token(self.world, call))

    async def endpoint(self, request: web.Request) -> web.StreamResponse:
        """Answer the address of the long connection."""
        return await self._unauthorized(
            request, ENDPOINT, "AppID", lambda call: {"data": open_endpoint(self.world, call)}
        )

    async def resource(self, request: web.Request) -> web.StreamResponse:
        """Serve a download; faults can break it in the same ways."""
        record = self._arrive(request, RESOURCE)
        call = Call(request.headers.get("Authorization", "").removeprefix("Bearer "), dict(request.match_info), {})
        call.query = dict(request.query)
        known = self.world.tokens.get(call.token)
        app = known.app if known else None
        self._describe(record, app, call, _chat_of(self.world, app, call))
        fault = self.world.faults.take(app.app_id, RESOURCE, record.chat_id) if app else None
        if fault is not None:
            await self.before(fault, record)
            if fault.answer not in ("normal", "truncated"):
                return self.broken_answer(request, fault, record)
        half = fault is not None and fault.answer == "truncated"
        try:
            stored = resources.resource(self.world.app_of(call.token), call)
            response = await resources.stream(request, stored, half=half)
        except FeishuError as refused:
            return self._refuse(record, refused)
        except ConnectionError:
            self.world.journal.finish(record, 200, "dropped")
            return web.Response()
        if half:
            reset_connection(request.transport)
        record.applied = not half
        self.world.journal.finish(record, 200, "truncated" if half else "applied")
        return response

    async def unknown(self, request: web.Request) -> web.StreamResponse:
        """Refuse an endpoint that the simulator lacks: the test fails at its end."""
        record = self._arrive(request, "unknown")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        known = self.world.tokens.get(token)
        record.app_id = known.app.app_id if known else None
        self.world.problems.add(record.app_id, f"unimplemented endpoint called: {request.method} {request.path}")
        self.world.journal.finish(record, 404, "refused")
        return web.Response(status=404, text="404 page not found")

    async def _unauthorized(
        self, request: web.Request, name: str, id_field: str, method: Callable[[Call], Json]
    ) -> web.StreamResponse:
        record = self._arrive(request, name)
        call = await self._read(request, record)
        if isinstance(call, web.Response):
            return call
        app = self.world.apps.get(str(call.body.get(id_field)))
        self._describe(record, app, call, None)

        async def apply() -> web.Response:
            try:
                result = method(call)
            except FeishuError as refused:
                return self._refusal(record, refused)
            record.applied, record.code = True, 0
            return answer({"code": 0, "msg": "ok", **result})

        return await self.with_faults(request, record, app, apply)

    async def _apply(self, name: str, method: Method, call: Call, record: Record) -> web.Response:
        try:
            app = self.world.app_of(call.token)
            self._check_rates(app, name)
            result = method(self.world, app, call)
        except FeishuError as refused:
            return self._refusal(record, refused)
        record.applied, record.code = True, 0
        record.message_id = result.get("message_id") or record.message_id
        record.card_id = result.get("card_id") or record.card_id
        return answer({"code": 0, "msg": "success", "bot" if name == BOT_INFO else "data": result})

    def _check_rates(self, app: App, name: str) -> None:
        rates, now = app.meter.rates, self.world.clock.now()
        for limit, seconds in ((rates.endpoint_per_second, 1.0), (rates.endpoint_per_minute, 60.0)):
            if wait := app.meter.excess(name, "", limit, seconds, now):
                raise request_limit(max(1, round(wait)))

    def _arrive(self, request: web.Request, name: str) -> Record:
        record = Record(
            method=name,
            http_method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=shown_headers(request),
        )
        return self.world.journal.arrive(record)

    async def _read(self, request: web.Request, record: Record) -> Call | web.Response:
        try:
            return await read_call(request)
        except FeishuError as refused:
            return self._refuse(record, refused)
        except (ConnectionResetError, web.RequestPayloadError):  # the client was killed in the middle of a request
            self.world.journal.finish(record, None, "dropped")
            return web.Response()

    def _describe(self, record: Record, app: App | None, call: Call, chat: Chat | None) -> None:
        record.app_id = app.app_id if app else None
        record.params = call.shown()
        record.chat_id = chat.chat_id if chat else None
        record.message_id, record.card_id = call.path.get("message_id"), call.path.get("card_id")

    def _refuse(self, record: Record, refused: FeishuError) -> web.Response:
        result = self._refusal(record, refused)
        self.world.journal.finish(record, result.status, "refused")
        return result

    def _refusal(self, record: Record, refused: FeishuError) -> web.Response:
        record.code = refused.code
        return answer(refused.body(), refused.status, refused.headers)


def _chat_of(world: World, app: App | None, call: Call) -> Chat | None:
    """The chat that a call is about, under any of its names."""
    if app is None:
        return None
    message = app.tenant.messages.get(call.path.get("message_id", ""))
    card = app.tenant.cards.get(call.path.get("card_id", ""))
    if message is None and card is not None:
        message = card.message
    if message is not None:
        return message.chat
    value, id_type = call.body.get("receive_id"), call.query.get("receive_id_type", "")
    if not isinstance(value, str) or id_type not in ID_TYPES:
        return None
    if id_type == "chat_id":
        return app.tenant.chats.get(value)
    person = world.person_by(app, id_type, value)
    return None if person is None else world.direct_chat(app, person)
