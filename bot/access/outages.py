"""Outages: an account that has stopped for good is made known to administrators, through another one that works.

What nobody can be told now waits for the next account that connects; until then it is in the log and in /status.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from bot.markdown import plain
from channels.base import ConnectionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bot.access.admins import Admins
    from bot.texts.catalogue import Texts
    from channels.base import Clock, Health

WORKING = (ConnectionState.CONNECTING, ConnectionState.CONNECTED)
"""Of an account that has said hello: its adapter may be about to call itself connected."""


class Outages:
    """health: of every account. For the gateway."""

    def __init__(self, admins: Admins, health: Callable[[], Mapping[str, Health]], clock: Clock) -> None:
        self._admins = admins
        self._health = health
        self._clock = clock
        self._known: dict[str, None] = {}
        self._untold: dict[str, str] = {}
        self._telling = asyncio.Lock()

    async def connected(self, account: str) -> None:
        """An account works, as far as is known: what could not be told yet is told."""
        self._known[account] = None
        await self._tell_all()

    async def stopped(self, account: str, reason: str) -> None:
        """Only a person can help this account."""
        self._untold[account] = reason
        await self._tell_all()

    async def _tell_all(self) -> None:
        async with self._telling:
            for account, reason in list(self._untold.items()):
                if await self._tell(account, reason):
                    del self._untold[account]

    async def _tell(self, account: str, reason: str) -> bool:
        """Whether an administrator could be told. The same reason again on the same day is no second message, so that
        a supervisor which starts antler over and over makes no noise."""
        what = hashlib.sha256(reason.encode()).hexdigest()[:16]
        key = f"outage:{account}:{self._clock.now():%Y-%m-%d}:{what}"

        def text(texts: Texts) -> str:
            return texts.account_stopped_admin.format(account=account, reason=plain(reason))

        health = self._health()
        working = [other for other in self._known if other != account and health[other].state in WORKING]
        for other in working:
            if await self._admins.tell(other, key, text):
                return True
        return False
