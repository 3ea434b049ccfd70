"""Takes callbacks from the connection and hands them to the gateway in order.

WeCom neither waits for an ack nor sends anything twice: events are kept here until they are committed, and those still
here when the process is killed are lost. So everything that arrives while the connection is open for sending is handed
over, even after receiving has ended, and so is what was read before the connection was released.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from channels.adapter import commit
from channels.errors import NotCommitted
from channels.supervision import within
from channels.wecom.inbound import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from channels.base import ChannelPorts
    from channels.message import InboundEvent
    from channels.wecom.config import WecomConfig
    from channels.wecom.frames import Callback

WAITING = 5000
"""Events that may be queued for the gateway; further ones are refused and logged."""
BATCH = 200
AGAIN_SECONDS = 0.5
"""Pause before storing failed events again. It does not grow: the queued events exist only here, and should no longer
be queued in a process that is killed right after an outage of the database."""
LAST_SECONDS = 5.0
"""How long events that were read may still be handed over when the connection is closed."""


class Receiver:
    """Queue of received events. welcome: greets the person behind a req_id, who has just opened the chat."""

    def __init__(
        self,
        account: str,
        config: WecomConfig,
        ports: ChannelPorts,
        welcome: Callable[[str], Coroutine[None, None, None]],
    ) -> None:
        self._account = account
        self._ports = ports
        self._welcome = welcome
        self._reader = Reader(account, config.bot_name)
        self._waiting: deque[InboundEvent] = deque()
        self._arrived = asyncio.Event()
        self._leaving = False
        self._closed = False
        self._handing_over: asyncio.Task[None] | None = None
        self._welcomes: set[asyncio.Task[None]] = set()
        self._refused = False

    def take(self, callback: Callback) -> None:
        """Accept a callback. Never waits, so that the acks behind it are read."""
        if callback.event_type == "enter_chat":
            if not self._leaving:
                self._greet(callback.req_id)
            return
        event = self._reader.read(callback, self._ports.clock.now())
        if event is None:
            self._ports.log.info("%s: ignored %s", self._account, callback.event_type or callback.cmd)
        elif self._closed or len(self._waiting) >= WAITING:
            why = "the channel is closed" if self._closed else f"{WAITING} others are waiting"
            self._ports.log.error("%s: message lost because %s", self._account, why)
        else:
            self._waiting.append(event)
            self._arrived.set()

    def _greet(self, req_id: str) -> None:
        task = asyncio.create_task(self._welcome(req_id), name=f"wecom {self._account} welcome")
        self._welcomes.add(task)
        task.add_done_callback(self._welcomes.discard)

    async def run(self, link: asyncio.Task[None]) -> None:
        """Start handing over events, until `close`. Ends when cancelled, or with the link, whose error is raised."""
        self._leaving = False
        if self._handing_over is None or self._handing_over.done():
            self._handing_over = asyncio.create_task(self._hand_over(), name=f"wecom {self._account} publishes")
        try:
            await asyncio.wait({self._handing_over, link}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._handing_over, link):
                if ended.done() and not ended.cancelled():
                    ended.result()
        finally:
            self._leaving = True

    async def _hand_over(self) -> None:
        while True:
            await self._arrived.wait()
            while self._waiting:
                await self._publish()
            self._arrived.clear()

    async def _publish(self) -> None:
        """Commit the oldest events. A failure is not passed on: the platform would not send them again."""
        batch = list(islice(self._waiting, BATCH))
        try:
            await commit(batch, self._ports)
        except NotCommitted:
            if not self._refused:
                self._ports.log.exception("%s: events were not stored; trying again", self._account)
            self._refused = True
            await self._ports.clock.sleep(AGAIN_SECONDS)
            return
        for _ in batch:
            self._waiting.popleft()
        if self._refused:
            self._ports.log.info("%s: events are stored again", self._account)
        self._refused = False

    async def _last(self) -> None:
        """Hand over the events not committed yet; those that may have been are recognized by their keys."""
        if not self._waiting:
            return
        try:
            if not await within(LAST_SECONDS, commit(list(self._waiting), self._ports)):
                raise TimeoutError
        except (NotCommitted, TimeoutError):
            self._ports.log.exception("%s: %d messages lost", self._account, len(self._waiting))
        self._waiting.clear()

    async def close(self) -> None:
        """Stop running tasks and hand over what was read; the connection is closed. Idempotent."""
        self._closed = True
        if self._handing_over is not None:
            self._handing_over.cancel()
            await asyncio.wait([self._handing_over])
            await self._last()
        for task in self._welcomes:
            task.cancel()
        if self._welcomes:
            await asyncio.wait(self._welcomes)
