"""Keeps an account connected: checks its tokens, then opens a socket and replaces it before or after it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.errors import ChannelError, Fatal, Rejected, Temporary
from channels.slack.config import SCOPES
from channels.slack.inbound import Me
from channels.slack.socket import Dispatcher, Socket
from channels.supervision import until_first

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

    from channels.base import Clock, Health
    from channels.slack.api import SlackApi
    from channels.slack.inbound import Kind
    from channels.slack.socket import Take
    from channels.supervision import Supervisor

STEADY_SECONDS = 30.0
"""A socket that ends earlier counts as a failure, so that a server that closes every socket causes no busy loop."""
_ENDS_OF_TOKENS = frozenset({"app_uninstalled", "tokens_revoked"})
_NEEDED = "chat:write"
_RECEIVING = frozenset({"app_mentions:read", "im:history"})
GRANT = "add it under OAuth & Permissions, Scopes, and install the app again"
"""The remedy for a scope that a bot token lacks."""


async def who_am_i(api: SlackApi, account: str, log: logging.Logger) -> Me:
    """Check both tokens and return the bot behind them.

    Raises Fatal if a token cannot work, and what the calls raise.
    """
    answer = await api.call("auth.test", {})
    setting = f"channels.{account}.bot_token"
    match answer:
        case {"team_id": str(team), "user_id": str(user), "bot_id": str(bot), "user": str(name)}:
            _check_scopes(api.scopes, setting, account, log)
            await _check_app(api, bot, account)
            workspace = answer.get("team")
            return Me(team=team, user=user, username=name, workspace=workspace if isinstance(workspace, str) else "")
        case {"user_id": str()}:
            raise Fatal(
                f"{setting} is not a bot token", "copy the Bot User OAuth Token (xoxb-...) from OAuth & Permissions"
            )
    raise Temporary("auth.test did not identify the bot")


async def _check_app(api: SlackApi, bot: str, account: str) -> None:
    """Raise Fatal if the tokens belong to two apps: both work, but no event would ever arrive."""
    try:
        answer = await api.call("bots.info", {"bot": bot})
    except Rejected:
        return  # nothing else needs the scope for this call
    match answer:
        case {"bot": {"app_id": str(found)}} if api.app_id and found != api.app_id:
            raise Fatal(
                f"channels.{account}.app_token is for app {api.app_id}, channels.{account}.bot_token for app {found}",
                "copy both tokens from the settings of one app",
            )


def _check_scopes(scopes: frozenset[str] | None, setting: str, account: str, log: logging.Logger) -> None:
    """Log each missing scope and what does not work without it. Raises Fatal if nothing can work."""
    if not scopes:
        return  # not reported
    missing = [scope for scope in SCOPES if scope.name not in scopes]
    if _NEEDED not in scopes:
        raise Fatal(f"{setting} lacks the scope {_NEEDED}: the bot cannot answer", GRANT)
    if not _RECEIVING & scopes:
        raise Fatal(f"{setting} lacks the scopes {' and '.join(sorted(_RECEIVING))}: no message can arrive", GRANT)
    for scope in missing:
        log.warning("%s: the bot token lacks the scope %s: %s; %s", account, scope.name, scope.purpose, GRANT)


class Connection:
    """An account's socket, always one (two while one replaces the other). take: commits an envelope's payload.

    on_gap: called once a socket is open, with the seconds since the last sign of life (None for the first one).
    """

    def __init__(
        self,
        api: SlackApi,
        me: Me,
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
        self._dispatcher = Dispatcher(api.client, api.sdk_log, me, self._received)
        self._sockets: set[Socket] = set()
        self._heard: float | None = None
        self._silent_since: float | None = None
        self.opened = asyncio.Event()
        """Set when the first socket is open."""
        self._doubt = asyncio.Event()
        """Set when Slack reports revoked tokens: ours is tested at once."""

    async def run(self) -> None:
        """Stay connected until cancelled. Raises Fatal."""
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
        """Wait for the socket's end. Raises Fatal if Slack reports revoked tokens and ours is one of them."""
        while True:
            self._doubt.clear()
            await until_first(socket.ended(), self._doubt.wait())
            if not self._doubt.is_set():
                return
            await self._supervisor.keep(lambda: self._api.call("auth.test", {}))

    async def _open(self) -> Socket:
        self._silent_since = self._heard
        try:
            url = await self._api.open_connection()
        except Rejected as error:
            raise Temporary(f"Slack refused a connection ({error}): is Socket Mode enabled?") from error
        socket = Socket(self._dispatcher, url, self._api.network.proxy(url), self._sign, self._ping)
        await socket.connect_async()
        self._sockets.add(socket)
        return socket

    async def _close(self, socket: Socket) -> None:
        await socket.close_async()
        self._sockets.discard(socket)

    async def _another(self) -> Socket | None:
        """Open a new socket while the old one still works; None if that fails at the first attempt."""
        try:
            return await self._open()
        except ChannelError:
            return None  # retried, and reported, when the old one is gone

    async def _received(self, kind: Kind, payload: Mapping[str, Any]) -> bool | str:
        event = payload.get("event")
        if isinstance(event, dict) and event.get("type") in _ENDS_OF_TOKENS:
            self._doubt.set()
        return await self._take(kind, payload)

    def _stands(self, renewed: bool) -> None:
        gap = None if self._silent_since is None else self._clock.monotonic() - self._silent_since
        self._health.reconnects += renewed
        self._supervisor.connected()
        self._sign()
        self.opened.set()
        self._on_gap(gap)

    def _sign(self) -> None:
        self._heard = self._health.last_sign = self._clock.monotonic()
