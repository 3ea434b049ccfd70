"""How many runs work at once: first come, first served, and the number may change while they work. For manager.py."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """limit: how many there are now."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def free(self) -> bool:
        """One can be had without waiting."""
        return self._taken < self.limit and not self._waiting

    async def take(self) -> None:
        """As soon as it is the caller's turn; `give_back` has to follow."""
        if self.free:
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
                self._pass_on()  # whoever came behind it, also when all slots were given back meanwhile
            else:  # it had just been given one
                self.give_back()
            raise

    def give_back(self) -> None:
        self._taken -= 1
        self._pass_on()

    def resize(self, limit: int) -> None:
        """From now on; whoever has one keeps it, even when they are more."""
        self.limit = limit
        self._pass_on()

    def _pass_on(self) -> None:
        # One that is cancelled takes itself off the line, later.
        for turn in [turn for turn in self._waiting if not turn.done()]:
            if self._taken >= self.limit:
                break
            self._waiting.remove(turn)
            self._taken += 1
            turn.set_result(None)
