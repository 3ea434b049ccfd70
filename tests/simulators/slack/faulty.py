"""Applies queued faults to requests; the base of the handlers in server.py and file_server.py."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.simulators.faulty import FaultyServer
from tests.simulators.slack.faults import Fault
from tests.simulators.slack.journal import Record
from tests.simulators.slack.state import App
from tests.simulators.slack.world import World

HTML_ERROR = "<!DOCTYPE html><html><head><title>Server Error | Slack</title></head><body>Server Error</body></html>"
LOGIN_PAGE = "<!DOCTYPE html><html><head><title>Login | Slack</title></head><body>Sign in to Slack</body></html>"
NOT_JSON = '{"ok":true,"ts":"17'


class SlackServer(FaultyServer[Record, Fault]):
    """Handlers whose answers can be delayed, held, broken or replaced."""

    def __init__(self, world: World) -> None:
        super().__init__(world.journal, world.released)
        self.world = world

    async def with_faults(
        self, request: web.Request, record: Record, app: App | None, apply: Callable[[], Awaitable[web.Response]]
    ) -> web.Response:
        """Apply the fault that is queued for a call (see FaultyServer.meet)."""
        fault = self.world.faults.take(app.app_id, record.method, record.channel) if app else None
        return await self.meet(fault, request, record, apply)

    def answer_of(self, fault: Fault, record: Record) -> web.Response:
        record.error = fault.error
        if fault.answer == "html":
            page = LOGIN_PAGE if fault.status == 200 else HTML_ERROR
            return web.Response(status=fault.status, text=page, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        body = {"ok": False, "error": fault.error, **(fault.fields or {})}
        return web.json_response(body, status=fault.status, headers=headers)
