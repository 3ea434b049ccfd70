"""A repeatable wake-up for many waiters; the server's long polls wait on it."""

import asyncio


class Signal:
    """Everybody who waits is woken by `fire`; nobody is woken by a firing from before the wait."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Wake all current waiters."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever); False when it ran out."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        done, _ = await asyncio.wait([waiter], timeout=timeout)
        self._waiters.discard(waiter)
        return bool(done)
