"""How many containers there may be, and whose turn it is to go. Used by the provider; knows nothing of Docker."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.docker import hints

if TYPE_CHECKING:
    from collections.abc import Callable


class Pool:
    """Places for containers, by sandbox id: in use, idle or leaving. replicas: how many there are.

    patience: seconds to wait for one. now: seconds of a clock that never goes back.
    """

    def __init__(self, replicas: int, patience: float, now: Callable[[], float]) -> None:
        self._replicas = replicas
        self._patience = patience
        self._now = now
        self._used: set[str] = set()
        self._idle: OrderedDict[str, float] = OrderedDict()  # since when; the least recently used first
        self._expired: set[str] = set()
        self._evicted: set[str] = set()  # their places are taken already
        self._changed = asyncio.Event()

    @property
    def all(self) -> frozenset[str]:
        """The sandboxes that may have a container."""
        return frozenset(self._used | self._idle.keys() | self._expired | self._evicted)

    async def enter(self, sandbox: str) -> str | None:
        """Take a place, its own or a free one. Gives whose container has to go first, if so; `leave` tells it is gone.

        Raises SandboxError when all places stay in use for too long.
        """
        try:
            async with asyncio.timeout(self._patience):
                while not self._has_place(sandbox):
                    await self._changed.wait()
        except TimeoutError:
            raise SandboxError(f"all {self._replicas} sandboxes are in use", hints.REPLICAS) from None
        evicted = None
        if sandbox not in self._used and self._idle.pop(sandbox, None) is None and self._count() >= self._replicas:
            evicted, _ = self._idle.popitem(last=False)
            self._evicted.add(evicted)
        self._used.add(sandbox)
        return evicted

    def _has_place(self, sandbox: str) -> bool:
        if sandbox in self._evicted or sandbox in self._expired:
            return False
        return sandbox in self._used or bool(self._idle) or self._count() < self._replicas

    def _count(self) -> int:
        return len(self._used) + len(self._idle) + len(self._expired)

    def rest(self, sandbox: str) -> None:
        """Its container, if there is one, is not in use; from now on it may be evicted, and expires some time."""
        self._forget(sandbox)
        self._idle[sandbox] = self._now()
        self._tell()

    def leave(self, sandbox: str) -> None:
        """Its container is gone."""
        self._forget(sandbox)
        self._tell()

    def expire(self, seconds: float) -> list[str]:
        """Those that were idle for so long have to go; `leave` tells that they have gone."""
        since = self._now() - seconds
        old = [sandbox for sandbox, began in self._idle.items() if began <= since]
        for sandbox in old:
            del self._idle[sandbox]
        self._expired.update(old)
        return old

    def _forget(self, sandbox: str) -> None:
        for group in (self._used, self._expired, self._evicted):
            group.discard(sandbox)
        self._idle.pop(sandbox, None)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
