"""Keeps one connection at a time for receiving and sending, and replaces it when it ends.

Started by the first use, receiving or sending; ended only by Fatal, by `let_go` (until the next `begin`) and `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

from channels.base import ConnectionState
from channels.errors import Fatal, Temporary
from channels.supervision import Supervisor
from channels.wecom.connection import Connection, Timing
from channels.wecom.failures import Kicked, taken_over

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.base import ChannelPorts, Health
    from channels.errors import ChannelError
    from channels.wecom.config import WecomConfig
    from channels.wecom.connection import Network
    from channels.wecom.frames import Body, Callback

KICK_SECONDS = 60.0
STABLE_SECONDS = 60.0
"""A connection that lasted this long counts as stable: the next failure starts with a short wait again."""
READY_SECONDS = 5.0
"""How long a call waits for a connection that is being opened, before it fails and is left to be retried."""


class Link:
    """The account's connection. take: receives the callbacks of all connections in order."""

    def __init__(
        self,
        account: str,
        config: WecomConfig,
        ports: ChannelPorts,
        network: Network,
        health: Health,
        take: Callable[[Callback], None],
        timing: Timing,
    ) -> None:
        self._account = account
        self._config = config
        self._ports = ports
        self._network = network
        self._health = health
        self._take = take
        self._timing = timing
        self._supervisor = Supervisor(health, ports.clock, ports.log, account, _after_kick, url=config.url)
        self._connection: Connection | None = None
        self._ready = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._refusal: Fatal | None = None
        self._let_go = False
        self._closed = False

    async def begin(self) -> None:
        """Prepare for receiving: forget how the link ended the last time."""
        self._refusal = None
        self._let_go = False
        if self._keeping is not None and self._keeping.done():
            await self._put_away()

    def start(self) -> asyncio.Task[None]:
        """The task that keeps the connection; it ends with Fatal, or cancelled. Raises Temporary after `let_go` and
        `close`."""
        if self._closed:
            raise Temporary("the channel is closed")
        if self._refusal is not None:
            raise self._refusal
        if self._let_go:
            raise Temporary("the connection is left to another process")
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name=f"wecom {self._account}")
        return self._keeping

    async def connected(self) -> None:
        """Wait for the connection as long as it takes. Raises Fatal, and Temporary when the channel is closed."""
        keeping = self.start()
        waiting = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({keeping, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if keeping.cancelled():
            raise Temporary("the connection was abandoned")
        if keeping.done():
            keeping.result()

    async def ask(self, cmd: str, body: Body, req_id: str | None = None) -> Body:
        """See `Connection.ask`. Raises Temporary without a connection soon, Fatal when there will be none."""
        if self._connection is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_SECONDS):
                    await self.connected()
        if self._connection is None:
            raise Temporary(f"{cmd}: not connected to WeCom")
        return await self._connection.ask(cmd, body, req_id)

    async def end(self, error: Fatal) -> None:
        """Stop because this account must not be served: every send raises `error`."""
        self._refusal = error
        await self._put_away()

    async def let_go(self) -> None:
        """Disconnect until `begin`: another connection would disconnect that of another process."""
        self._let_go = True
        await self._put_away()

    async def close(self) -> None:
        """Nothing works afterwards. Idempotent."""
        self._closed = True
        await self._put_away()

    async def _put_away(self) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])
            if not keeping.cancelled():
                keeping.exception()  # marks it as retrieved: the waiters have received it

    async def _keep(self) -> None:
        try:
            while True:
                await self._supervisor.keep(self._connect_once)
        finally:
            self._health.state = ConnectionState.STOPPED

    async def _connect_once(self) -> None:
        """One connection, until it ends; that always raises."""
        connection = await Connection.open(self._config, self._network, self._take, self._heard, self._timing)
        opened = self._ports.clock.monotonic()
        try:
            await connection.serve(self._config, self._account, lambda: self._subscribed(connection))
        except Kicked as error:
            if self._config.reconnect_after_kick:
                raise
            raise taken_over(self._account) from error
        finally:
            self._connection = None
            self._ready.clear()
            if self._ports.clock.monotonic() - opened >= STABLE_SECONDS:
                self._supervisor.steady()

    def _subscribed(self, connection: Connection) -> None:
        self._supervisor.connected()
        self._connection = connection
        self._ready.set()

    def _heard(self) -> None:
        self._health.last_sign = self._ports.clock.monotonic()


def _after_kick(error: ChannelError) -> tuple[str, float] | None:
    """A `channels.supervision.Judge`: after a kick, leave the other program time, and retry at random intervals."""
    return (str(error), KICK_SECONDS * random.uniform(1.0, 1.5)) if isinstance(error, Kicked) else None
