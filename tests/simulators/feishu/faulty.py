"""How a request meets the fault that a test queued for it; the handlers of server.py build on it."""

import asyncio
import socket
import struct
from collections.abc import Callable

from aiohttp import web

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


class FaultyServer:
    """Handlers whose answers can be delayed, held, broken or replaced."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def with_faults(
        self, request: web.Request, record: Record, app: App | None, apply: Callable[[], web.Response]
    ) -> web.Response:
        """Apply a call by the platform's rules, before, after or instead of the fault that is queued for it."""
        fault = self.world.faults.take(app.app_id, record.method, record.chat_id) if app else None
        if fault is None:
            result = apply()
            self.world.journal.finish(record, result.status, "applied" if record.applied else "refused")
            return result
        await self.before(fault, record)
        if fault.apply:
            result = apply()
            self.world.journal.note(record)
            await asyncio.sleep(fault.hang)
            if fault.hold_after:
                await self._hold(record)
            if fault.answer == "normal":
                self.world.journal.finish(record, result.status, fault.name)
                return result
        return self.broken_answer(request, fault, record)

    async def before(self, fault: Fault, record: Record) -> None:
        """What the fault does before the call is applied."""
        await asyncio.sleep(fault.delay)
        if fault.hold_before:
            await self._hold(record)

    async def _hold(self, record: Record) -> None:
        record.outcome = "held"
        self.world.journal.note(record)
        await self.world.released.wait()

    def broken_answer(self, request: web.Request, fault: Fault, record: Record) -> web.Response:
        """The fault's own answer."""
        if fault.answer == "reset":
            reset_connection(request)
            self.world.journal.finish(record, None, fault.name)
            return web.Response()
        if fault.answer == "error":
            record.code = fault.code
        self.world.journal.finish(record, fault.status, fault.name)
        if fault.answer == "html":
            return web.Response(status=fault.status, text=HTML_ERROR, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        return answer({"code": fault.code, "msg": fault.msg}, fault.status, fault.headers)


def reset_connection(request: web.Request) -> None:
    """Close with RST instead of FIN, as a connection that broke on its way."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
