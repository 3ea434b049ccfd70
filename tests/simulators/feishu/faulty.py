"""Applies queued faults to requests; the base of the handlers in server.py."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.simulators.faulty import FaultyServer
from tests.simulators.feishu import ids
from tests.simulators.feishu.faults import Fault
from tests.simulators.feishu.journal import Record
from tests.simulators.feishu.state import App, Json
from tests.simulators.feishu.world import World

HTML_ERROR = "<html><head><title>502 Bad Gateway</title></head><body><center>tengine</center></body></html>"
NOT_JSON = '{"code":0,"msg":"succ'


def answer(body: Json, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer with the log id that every answer of the platform carries."""
    return web.json_response(body, status=status, headers={**(headers or {}), "X-Tt-Logid": ids.numbered("log-")})


class FeishuServer(FaultyServer[Record, Fault]):
    """Handlers whose answers can be delayed, held, broken or replaced."""

    def __init__(self, world: World) -> None:
        super().__init__(world.journal, world.released)
        self.world = world

    async def with_faults(
        self, request: web.Request, record: Record, app: App | None, apply: Callable[[], Awaitable[web.Response]]
    ) -> web.Response:
        """Apply the fault that is queued for a call (see FaultyServer.meet)."""
        fault = self.world.faults.take(app.app_id, record.method, record.chat_id) if app else None
        return await self.meet(fault, request, record, apply)

    def answer_of(self, fault: Fault, record: Record) -> web.Response:
        if fault.answer == "error":
            record.code = fault.code
        if fault.answer == "html":
            return web.Response(status=fault.status, text=HTML_ERROR, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        return answer({"code": fault.code, "msg": fault.msg}, fault.status, fault.headers)
