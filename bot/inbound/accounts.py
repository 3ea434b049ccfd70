"""Receiving for each account while the process serves: started, ended and replaced according to the settings."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.inbound.connections import Unloadable, reason
from channels.base import ConnectionState
from channels.errors import TakenOver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bot.delivery import Delivery
    from bot.inbound.bus import MessageBus
    from bot.inbound.connections import Connections
    from bot.operations.outages import Outages
    from bot.settings import Settings
    from bot.tasks import Tasks
    from channels.base import Channel

log = logging.getLogger(__name__)

WORKS = frozenset({ConnectionState.CONNECTED, ConnectionState.RETRYING})


@dataclass(frozen=True, slots=True)
class Serving:
    """The callbacks by which the gateway follows its accounts.

    connected: called at each accepted connection, with the account.
    ended: called when a source of messages has ended for good (a terminal's input).
    none_left: called when all accounts are stopped for good, with whether another program has taken over the last one.
    """

    connected: Callable[[str], None]
    ended: Callable[[], Awaitable[None]]
    none_left: Callable[[bool], None]


class Accounts:
    def __init__(
        self,
        settings: Settings,
        connections: Connections,
        delivery: Delivery,
        outages: Outages,
        bus: MessageBus,
        tasks: Tasks,
    ) -> None:
        self._connections = connections
        self._delivery = delivery
        self._outages = outages
        self._bus = bus
        self._tasks = tasks
        self._serving: Serving | None = None
        self._receiving: dict[str, asyncio.Task[None]] = {}
        self._paused = False
        self._resumed: set[str] = set()
        """Accounts for `resume` to start; those that had stopped for good before a pause stay stopped."""
        self._made_by = {account: _what_connects(settings, account) for account in settings.channels}
        """The settings that each account's channel was made from."""

    def serve(self, serving: Serving) -> None:
        """Start receiving for all accounts; returns at once."""
        self._serving = serving
        for account in self._made_by:
            self._begin(account)

    async def pause(self) -> None:
        """Stop receiving until `resume`: every connection is closed."""
        self._paused = True
        receiving = {account: task for account, task in self._receiving.items() if not task.done()}
        self._receiving.clear()
        self._resumed |= receiving.keys()
        await asyncio.gather(*(self._pause(account, task) for account, task in receiving.items()))

    async def _pause(self, account: str, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.wait({task})
        if (channel := self._connections.channels.get(account)) is not None:
            await channel.let_go()

    def resume(self) -> None:
        """Receive again for the accounts that were receiving before the pause. Returns at once."""
        self._paused = False
        begun, self._resumed = self._resumed, set()
        for account in begun:
            self._connections.expect(account)
            self._begin(account)

    async def follow(self, settings: Settings) -> Mapping[str, str]:
        """Adapt the connections to `settings`, whose policies already apply: accounts are added, removed and changed.

        A working account is only replaced once the platform has accepted its new settings. Returns the accounts that
        keep their old settings, with the reasons; those are retried at the next call.
        """
        for account in [account for account in self._made_by if account not in settings.channels]:
            await self._end(account)
        changed = [each for each in settings.channels if self._made_by.get(each) != _what_connects(settings, each)]
        told = await asyncio.gather(*(self._replace(account, settings) for account in changed))
        return {account: why for account, why in zip(changed, told, strict=True) if why}

    async def _replace(self, account: str, settings: Settings) -> str:
        """Replace an account's channel. Returns why the former one stays, "" if the new one takes over."""
        connections = self._connections
        made, former = await connections.make(account, settings), connections.channels.get(account)
        works = former is not None and former.health.state in WORKS
        if works and isinstance(made, Unloadable):
            return reason(made)
        connections.replaced.add(account)
        try:
            if works and not isinstance(made, Unloadable) and (why := await connections.try_out(account, made)):
                await made.close()
                return why
            await self._halt(account)
            await self._take(account, made)
        finally:
            connections.replaced.discard(account)
            if self._serving is not None and account not in self._receiving:
                self._begin(account)
        self._made_by[account] = _what_connects(settings, account)
        return ""

    async def _take(self, account: str, made: Channel | Unloadable) -> None:
        """Close the account's channel, if it has one, and use this one."""
        known, former = account in self._made_by, self._connections.channels.get(account)
        await self._delivery.disconnect(account)
        if former is not None:
            await former.close()
        self._connections.put(account, made)
        if not isinstance(made, Unloadable):
            if self._paused:  # perhaps while it was tried out
                await made.let_go()
            await self._delivery.reconnect(made)
        if not known:
            # Events received before this process began were kept until its access rules are known.
            await self._bus.replay(account)

    async def _end(self, account: str) -> None:
        """End an account that was removed from the config; undelivered replies wait for its return."""
        await self._halt(account)
        self._resumed.discard(account)
        await self._delivery.disconnect(account)
        if (former := self._connections.channels.get(account)) is not None:
            await former.close()
        self._connections.drop(account)
        self._outages.gone(account)
        del self._made_by[account]

    async def _halt(self, account: str) -> None:
        task = self._receiving.pop(account, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _begin(self, account: str) -> None:
        if self._paused:
            self._resumed.add(account)
        elif self._serving is not None:
            task = self._tasks.spawn(f"channel {account}", self._receive(account, self._serving))
            self._receiving[account] = task

    async def _receive(self, account: str, serving: Serving) -> None:
        def said_hello() -> None:
            serving.connected(account)
            self._delivery.rearm(account)
            self._outages.connected(account)

        connections, again = self._connections, True
        while again:
            failed = await connections.receive(account, said_hello)
            if failed is None:
                log.info("%s has ended", account)
                return await serving.ended()
            if account in connections.replaced:
                return  # perhaps the connection was taken over by its replacement
            if connections.all_stopped:
                return serving.none_left(isinstance(failed, TakenOver))
            self._outages.look()
            again = await connections.pause(account)


def _what_connects(settings: Settings, account: str) -> tuple[object, ...]:
    """The settings that an account's connection is made from; all others apply without a new connection."""
    own = settings.channels[account]
    return own.type, own.adapter, own.proxy, settings.network
