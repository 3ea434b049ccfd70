"""The life cycle of the process's HTTP listener.

Its address is bound before the gateway becomes visible, the application is imported and built in a thread once the
accounts are served, and a reload replaces the listener.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from bot.http.listener import HttpUnavailable, listening

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from fastapi import APIRouter

    from bot.http.auth import Gatekeeper
    from bot.http.parts import HttpParts
    from bot.http.server import HttpServer
    from bot.process.wiring import Wiring
    from bot.settings.http import HttpSettings

log = logging.getLogger(__name__)


class HttpService:
    """The HTTP listener of a gateway. is_ready: see health_router."""

    def __init__(self, parts: Wiring, is_ready: Callable[[], bool]) -> None:
        self._parts = parts
        self._is_ready = is_ready
        self._address: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: HttpServer | None = None
        self._former: set[HttpServer] = set()

    def take(self, settings: HttpSettings) -> None:
        """Bind the address, if one is configured: connections wait until `open`. Raises HttpUnavailable."""
        self._address = listening(settings) if settings.listen is not None else None

    def open(self) -> None:
        """Start to import the application and then to answer. Returns at once."""
        if self._address is not None:
            opening = self._open(self._parts.settings.http, self._address)
            self._opening = self._parts.tasks.spawn("http", opening)
            self._address = None

    async def replace(self, wanted: HttpSettings) -> str:
        """Replace the listener according to these settings and return "", or the reason why it stays as it was. Does
        not wait for the former one: it may be answering the request that caused this."""
        if self._opening is not None:
            await asyncio.wait({self._opening})
        if self._address is not None:
            self._address.close()
        former, self._server = self._server, None
        if former is not None:
            former.release()
            self._former.add(former)
            self._parts.tasks.spawn("former listener", self._let_finish(former))
        why = ""
        for settings in (wanted, self._parts.settings.http):
            try:
                self.take(settings)
                if self._address is not None:
                    address, self._address = self._address, None
                    await self._open(settings, address)
                break
            except HttpUnavailable as error:
                why = why or str(error)
            except Exception as error:  # from a certificate that has changed since its check, or from a library
                log.exception("the HTTP listener could not be created")
                why = why or f"http: {type(error).__name__} while it was created; see the log"
        return why

    async def close(self) -> None:
        """Close the listeners; requests in progress get a moment to finish. Call it after the parts' tasks ended."""
        if self._address is not None:
            self._address.close()
        servers = [*self._former, *([self._server] if self._server is not None else [])]
        await asyncio.gather(*(server.close() for server in servers))

    async def _open(self, settings: HttpSettings, address: socket.socket) -> None:
        try:
            server, gatekeeper = await asyncio.to_thread(self._made, settings, address)
        except BaseException:
            address.close()
            raise
        server.start()
        gatekeeper.begin(self._parts.tasks)
        self._server = server
        log.info("HTTP: listening on %s", settings.listen)

    def _made(self, settings: HttpSettings, address: socket.socket) -> tuple[HttpServer, Gatekeeper]:
        """Build the server. Call it in a thread: FastAPI and all route descriptions take most of a second."""
        from bot.http.auth import Gatekeeper
        from bot.http.parts import routers
        from bot.http.server import HttpServer

        parts = self._parts
        gatekeeper = Gatekeeper(parts.signins, settings, parts.patient.clock)
        made = routers(http_parts(parts, gatekeeper, self._is_ready))
        return HttpServer(settings, address, made, gatekeeper, parts.uploads.limits.message), gatekeeper

    async def _let_finish(self, former: HttpServer) -> None:
        from bot.http.server import REPLACED_SECONDS

        await former.close(REPLACED_SECONDS)
        self._former.discard(former)


async def serve(
    settings: HttpSettings, address: socket.socket, routers: Callable[[], Sequence[APIRouter]], closing: float
) -> None:
    """Serve HTTP at an address until cancelled, then close it; for a process without a page.

    routers: called in a thread, because it imports FastAPI. closing: seconds for requests in progress at the end.
    """

    def made() -> HttpServer:
        from bot.http.server import HttpServer

        return HttpServer(settings, address, routers())

    try:
        server = await asyncio.to_thread(made)
        server.start()
        try:
            await asyncio.Event().wait()
        finally:
            server.release()
            await server.close(closing)
    finally:
        address.close()


def http_parts(parts: Wiring, gatekeeper: Gatekeeper, is_ready: Callable[[], bool]) -> HttpParts:
    """The parts that a listener serves. gatekeeper: authenticates requests. is_ready: see health_router."""
    from bot.http.parts import HttpParts
    from bot.http.talk import Talk
    from bot.skills.installing import Installs

    def talk(account: str, passes: Callable[[str], bool] = lambda _: True) -> Talk:
        return Talk(
            account,
            channel=parts.connections.channels.get,
            store=parts.patient,
            book=parts.editor.book,
            data_dir=parts.settings.data_dir,
            allowance=parts.uploads.sending,
            passes=passes,
        )

    return HttpParts(
        settings=lambda: parts.settings,
        store=parts.patient,
        clock=parts.patient.clock,
        tasks=parts.tasks,
        gatekeeper=gatekeeper,
        signins=parts.signins,
        web=talk("web", parts.manager.flood.would_pass),
        api=talk("api"),  # its runs report what the flood limit refused
        is_ready=is_ready,
        platforms={account: channel.type for account, channel in parts.settings.channels.items()},
        harness=parts.agent.harness,
        status=parts.status,
        health=parts.health,
        why=parts.why,
        bus=parts.bus,
        manager=parts.manager,
        runs=parts.runs,
        delivery=parts.delivery,
        editor=parts.editor,
        agents=parts.agents,
        skills=parts.skills,
        installs=Installs(lambda: parts.settings, parts.patient.clock, parts.tasks),
        spending=parts.spending,
        memory=parts.memory,
        knowledge=parts.knowledge,
        schedules=parts.schedules,
        uploads=parts.uploads,
        presented=parts.presented,
        models=parts.models,
        forgetting=parts.forgetting,
        branching=parts.branching,
        reloader=parts.reloader,
        redact=parts.redact,
    )
