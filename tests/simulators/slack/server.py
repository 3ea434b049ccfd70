"""The application, and its Web API side: dispatch of calls, their records and refusals, response_urls."""

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tests.simulators.slack import (
    assistant,
    chat,
    control,
    conversations,
    identity,
    interactions,
    modals,
    reactions,
    streams,
    uploads,
)
from tests.simulators.slack.calls import Call, read_call, shown_headers
from tests.simulators.slack.errors import RateLimitedError, SlackError
from tests.simulators.slack.faults import RESPONSE_URL
from tests.simulators.slack.faulty import SlackServer
from tests.simulators.slack.file_server import FileServer
from tests.simulators.slack.ids import numbered
from tests.simulators.slack.journal import Record
from tests.simulators.slack.scopes import RULES, require
from tests.simulators.slack.sockets import SocketServer, open_connection
from tests.simulators.slack.state import App, Channel, Installation
from tests.simulators.slack.world import World

Method = Callable[[World, Installation, Call], Any]

METHODS: dict[str, Method] = {
    **assistant.METHODS,
    **chat.METHODS,
    **conversations.METHODS,
    **identity.METHODS,
    **modals.METHODS,
    **reactions.METHODS,
    **streams.METHODS,
    **uploads.METHODS,
}
OPEN_CONNECTION = "apps.connections.open"
AUTH_TEST = "auth.test"
MAX_BODY = 64 * 1024 * 1024


def build_app(world: World) -> web.Application:
    """The application with all sides: /api/, /link/, /upload/, /files-pri/, /response/ and /control/."""
    app = web.Application(client_max_size=MAX_BODY)
    sockets = SocketServer(world)
    api = WebApi(world)
    files = FileServer(world)
    control.add_routes(app, world, sockets)
    app.router.add_route("*", "/api/{method}", api.call)
    app.router.add_get("/link/", sockets.link)
    app.router.add_post("/upload/v1/{file}", files.upload)
    app.router.add_get("/files-pri/{path:.+}", files.download)
    app.router.add_post("/response/{key}", api.respond)

    async def stop_delivering(_: web.Application) -> None:
        for each in world.apps.values():
            await each.delivery.close()

    app.on_shutdown.append(stop_delivering)
    return app


class WebApi(SlackServer):
    """Handlers of the Web API and of response_urls."""

    async def call(self, request: web.Request) -> web.StreamResponse:
        """Handle one Web API method, from its record to its answer."""
        method = request.match_info["method"]
        record = self.world.journal.arrive(
            Record(method=method, http_method=request.method, path=f"/api/{method}", headers=shown_headers(request))
        )
        try:
            call = await read_call(request, method)
        except SlackError as refused:
            return self._refuse(record, refused, None)
        except ConnectionResetError:  # the client was killed in the middle of a request
            self.world.journal.finish(record, None, "dropped")
            return web.Response()
        record.params, record.encodings, record.channel = call.params, call.encodings, call.channel
        install = self.world.installs.get(call.token)
        app = install.app if install else self.world.app_tokens.get(call.token)
        record.app_id = app.app_id if app else None
        record.team_id = install.workspace.team_id if install else None
        channel = install.workspace.channels.get(call.channel or "") if install else None
        parties: list[App | Channel] = [party for party in (app, channel) if party is not None]
        for party in parties:
            party.in_flight += 1
        try:
            return await self.with_faults(request, record, app, lambda: self._apply(call, record, install))
        finally:
            for party in parties:
                party.in_flight -= 1
                party.touch()

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """Handle a POST to a response_url."""
        key = request.match_info["key"]
        url = self.world.response_urls.get(key)
        app = url.install.app if url else None
        record = self.world.journal.arrive(
            Record(
                app_id=app.app_id if app else None,
                method=RESPONSE_URL,
                http_method="POST",
                path="/response/",
                headers=shown_headers(request),
            )
        )
        record.params, record.channel = json.loads(await request.read() or b"{}"), url.channel.id if url else None

        async def apply() -> web.Response:
            try:
                interactions.answer_response_url(self.world, key, record.params)
            except SlackError as refused:
                record.error = refused.error
                return web.json_response(refused.body(), status=404)
            record.applied = True
            return web.Response(text="ok")

        return await self.with_faults(request, record, app, apply)

    async def _apply(self, call: Call, record: Record, install: Installation | None) -> web.Response:
        try:
            result = self._perform(call)
        except SlackError as refused:
            return self._refusal(record, refused, install, call.method)
        record.applied = True
        record.ts = result.get("ts")
        return web.json_response({"ok": True, **result}, headers=_headers(install, call.method))

    def _perform(self, call: Call) -> Any:
        if call.method == OPEN_CONNECTION:
            return open_connection(self.world, call.token, debug=call.flag("debug_reconnects"))
        if call.method == AUTH_TEST and call.token in self.world.app_tokens:
            return identity.app_auth_test(self.world.app_of_token(call.token))
        if call.method == AUTH_TEST and call.token in self.world.user_tokens:
            return identity.user_auth_test(*self.world.user_tokens[call.token])
        method, rule = METHODS.get(call.method), RULES.get(call.method)
        if method is None or rule is None:
            app = self.world.installs.get(call.token)
            self.world.problems.add(app.app.app_id if app else None, f"unimplemented method called: {call.method}")
            raise SlackError("unknown_method", req_method=call.method)
        install = self.world.bot_install(call.token)
        install.meter.check(call.method, rule.tier, call.channel, self.world.clock.now())
        require(install.scopes, rule.scope)
        if rule.by_kind is not None:
            require(install.scopes, rule.by_kind[self.world.channel(install, call.required("channel")).kind])
        return method(self.world, install, call)

    def _refuse(self, record: Record, refused: SlackError, install: Installation | None) -> web.Response:
        answer = self._refusal(record, refused, install, record.method)
        self.world.journal.finish(record, answer.status, "refused")
        return answer

    def _refusal(self, record: Record, refused: SlackError, install: Installation | None, method: str) -> web.Response:
        record.error = refused.error
        headers = _headers(install, method)
        if isinstance(refused, RateLimitedError):
            headers["Retry-After"] = str(refused.retry_after)
            return web.json_response(refused.body(), status=429, headers=headers)
        return web.json_response(refused.body(), headers=headers)


def _headers(install: Installation | None, method: str) -> dict[str, str]:
    headers = {"x-slack-req-id": numbered("req")}
    if install is not None:
        headers["x-oauth-scopes"] = ",".join(sorted(install.scopes))
        headers["x-accepted-oauth-scopes"] = RULES[method].scope if method in RULES else ""
    return headers
