"""The tenant access token of one app: fetched when needed, renewed early, dropped when the platform says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.base import Clock

EARLY_SECONDS = 600.0
"""How long before its end a token is renewed; the platform gives out a new one in its last 30 minutes."""


class Tokens:
    """fetch: asks the platform, returns (token, seconds that it is valid). One fetch at a time serves all who wait."""

    def __init__(self, fetch: Callable[[], Awaitable[tuple[str, float]]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0
        self._fetching = asyncio.Lock()

    async def get(self) -> str:
        """A valid token. Raises what `fetch` raises."""
        if not self._fresh():
            async with self._fetching:
                if not self._fresh():
                    token, seconds = await self._fetch()
                    self._token = token
                    self._renew_at = self._clock.monotonic() + max(seconds - EARLY_SECONDS, seconds / 2)
        return self._token

    def drop(self, token: str) -> None:
        """This token was refused; a newer one stays."""
        if token == self._token:
            self._token = ""

    def _fresh(self) -> bool:
        return bool(self._token) and self._clock.monotonic() < self._renew_at
