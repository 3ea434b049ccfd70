"""How a request meets the fault that a test queued for it; the handlers of server.py and file_server.py build on it."""

import asyncio
import socket
import struct
from collections.abc import Callable

from aiohttp import web

from tests.simulators.slack.faults import Fault
from tests.simulators.slack.journal import Record
from tests.simulators.slack.state import App
from tests.simulators.slack.world import World

HTML_ERROR = "<!DOCTYPE html><html><head><title>Server Error | Slack</title></head><body>Server Error</body></html>"
LOGIN_PAGE = "<!DOCTYPE html><html><head><title>Login | Slack</title></head><body>Sign in to Slack</body></html>"
NOT_JSON = '{"ok":true,"ts":"17'


class FaultyServer:
    """Handlers whose answers can be delayed, held, broken or replaced."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def with_faults(
        self, request: web.Request, record: Record, app: App | None, apply: Callable[[], web.Response]
    ) -> web.Response:
        """Apply a call by the platform's rules, before, after or instead of the fault that is queued for it."""
        fault = self.world.faults.take(app.app_id, record.method, record.channel) if app else None
        if fault is None:
            answer = apply()
            self.world.journal.finish(record, answer.status, "applied" if record.applied else "refused")
            return answer
        await self.before(fault, record)
        if fault.apply:
            answer = apply()
            self.world.journal.note(record)
            await asyncio.sleep(fault.hang)
            if fault.hold_after:
                await self._hold(record)
            if fault.answer == "normal":
                self.world.journal.finish(record, answer.status, fault.name)
                return answer
        return self.broken_answer(request, fault, record)

    async def before(self, fault: Fault, record: Record) -> None:
        await asyncio.sleep(fault.delay)
        if fault.hold_before:
            await self._hold(record)

    async def _hold(self, record: Record) -> None:
        record.outcome = "held"
        self.world.journal.note(record)
        await self.world.released.wait()

    def broken_answer(self, request: web.Request, fault: Fault, record: Record) -> web.Response:
        if fault.answer == "reset":
            _reset_connection(request)
            self.world.journal.finish(record, None, fault.name)
            return web.Response()
        record.error = fault.error
        self.world.journal.finish(record, fault.status, fault.name)
        if fault.answer == "html":
            page = LOGIN_PAGE if fault.status == 200 else HTML_ERROR
            return web.Response(status=fault.status, text=page, content_type="text/html")
        if fault.answer == "garbage":
            return web.Response(text=NOT_JSON, content_type="application/json")
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        body = {"ok": False, "error": fault.error, **(fault.fields or {})}
        return web.json_response(body, status=fault.status, headers=headers)


def _reset_connection(request: web.Request) -> None:
    """Close with RST instead of FIN, as a connection that broke on its way."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
