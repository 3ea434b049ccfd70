"""Keeps one socket open: opens it with a fresh ticket, renews it before Slack closes it, notices when it is dead.

Run by channel.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.errors import ChannelError, Rejected, Temporary
from channels.slack.socket import Socket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from channels.base import Clock, Health
    from channels.slack.api import SlackApi
    from channels.slack.inbound import Kind
    from channels.slack.socket import Take
    from channels.supervision import Supervisor

STEADY_SECONDS = 30.0
"""A socket that ends earlier counts as a failure, so that a server which closes each one is not asked in a hot loop."""
_ENDS_OF_TOKENS = frozenset({"app_uninstalled", "tokens_revoked"})


class Connection:
    """on_gap: called once a socket stands, with the seconds since the last sign of life (None at the first one)."""

    def __init__(
        self,
        api: SlackApi,
        supervisor: Supervisor,
        health: Health,
        clock: Clock,
        take: Take,
        ping: float,
        on_gap: Callable[[float | None], None],
    ) -> None:
        self._api = api
        self._supervisor = supervisor
        self._health = health
        self._clock = clock
        self._take = take
        self._ping = ping
        self._on_gap = on_gap
        self._sockets: set[Socket] = set()
        """Those that are open: two while one follows the other."""
        self._heard: float | None = None
        self._silent_since: float | None = None
        self.stood = asyncio.Event()
        """Set when the first socket stands."""
        self._doubt = asyncio.Event()
        """Set when Slack says that tokens are dead: ours is tried at once."""

    async def run(self) -> None:
        """Until cancelled. Raises Fatal."""
        following: Socket | None = None
        try:
            while True:
                renewed = following is not None
                socket = following if following is not None else await self._supervisor.keep(self._open)
                self._stands(renewed)
                opened = self._clock.monotonic()
                await self._until_over(socket)
                steady = self._clock.monotonic() - opened >= STEADY_SECONDS
                following = await self._another() if socket.announced and (steady or not renewed) else None
                await self._close(socket)
                if steady:
                    self._supervisor.steady()
                if following is None:
                    self._supervisor.lost(socket.reason)
                    if not steady:
                        await self._supervisor.pause(socket.reason)
        finally:
            for left in tuple(self._sockets):
                await self._close(left)

    async def _until_over(self, socket: Socket) -> None:
        """The socket's end, or a doubt about the tokens that turns out to be right (raises Fatal)."""
        while True:
            self._doubt.clear()
            over = asyncio.ensure_future(socket.ended())
            doubt = asyncio.ensure_future(self._doubt.wait())
            try:
                await asyncio.wait({over, doubt}, return_when=asyncio.FIRST_COMPLETED)
                if over.done():
                    return over.result()
            finally:
                over.cancel()
                doubt.cancel()
                await asyncio.gather(over, doubt, return_exceptions=True)
            await self._supervisor.keep(lambda: self._api.call("auth.test", {}))

    async def _open(self) -> Socket:
        self._silent_since = self._heard
        try:
            url = await self._api.open_connection()
        except Rejected as error:
            raise Temporary(f"Slack gives no connection ({error}): is Socket Mode switched on?") from error
        socket = Socket(self._api.client, url, self._api.network.proxy(url), self._received, self._sign, self._ping)
        await socket.open()
        self._sockets.add(socket)
        return socket

    async def _close(self, socket: Socket) -> None:
        await socket.close()
        self._sockets.discard(socket)

    async def _another(self) -> Socket | None:
        """A new socket while the old one still works; None if that did not succeed at once."""
        try:
            return await self._open()
        except ChannelError:
            return None  # whatever it is, it is said again when the old one is gone

    async def _received(self, kind: Kind, payload: Mapping[str, Any]) -> bool:
        event = payload.get("event")
        if isinstance(event, dict) and event.get("type") in _ENDS_OF_TOKENS:
            self._doubt.set()
        return await self._take(kind, payload)

    def _stands(self, renewed: bool) -> None:
        gap = None if self._silent_since is None else self._clock.monotonic() - self._silent_since
        self._health.reconnects += renewed
        self._supervisor.connected()
        self._sign()
        self.stood.set()
        self._on_gap(gap)

    def _sign(self) -> None:
        self._heard = self._health.last_sign = self._clock.monotonic()
