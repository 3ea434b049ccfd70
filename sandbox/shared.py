"""A provider whose sandboxes can also be borrowed beside a run, so that neither ends what the other has running.

The gateway puts it around the provider that it uses: a document is converted while the thread's run goes on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox.base import Report, Sandbox, SandboxProvider


class SharedProvider:
    """SandboxProvider port over another one: a release takes effect when nobody has the thread's sandbox any more."""

    def __init__(self, provider: SandboxProvider) -> None:
        self._provider = provider
        self._acquired: set[str] = set()
        self._borrowed: Counter[str] = Counter()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self) -> Report:
        return await self._provider.start()

    async def acquire(self, thread_id: str) -> Sandbox:
        async with self._lock(thread_id):
            sandbox = await self._provider.acquire(thread_id)
            self._acquired.add(thread_id)
            return sandbox

    @asynccontextmanager
    async def borrow(self, thread_id: str) -> AsyncIterator[Sandbox]:
        """The thread's sandbox for a while, whether or not a run has it. Raises SandboxError as `acquire`."""
        self._borrowed[thread_id] += 1
        try:
            async with self._lock(thread_id):
                sandbox = await self._provider.acquire(thread_id)
            yield sandbox
        finally:
            self._borrowed[thread_id] -= 1
            await self._release_unused(thread_id)

    def get(self, thread_id: str) -> Sandbox | None:
        return self._provider.get(thread_id)

    async def release(self, thread_id: str) -> None:
        self._acquired.discard(thread_id)
        await self._release_unused(thread_id)

    async def _release_unused(self, thread_id: str) -> None:
        async with self._lock(thread_id):
            if self._borrowed[thread_id] or thread_id in self._acquired:
                return
            del self._borrowed[thread_id]
            await self._provider.release(thread_id)

    async def forget(self, thread_id: str) -> None:
        async with self._lock(thread_id):
            self._acquired.discard(thread_id)
            await self._provider.forget(thread_id)

    async def shutdown(self) -> None:
        await self._provider.shutdown()

    def _lock(self, thread_id: str) -> asyncio.Lock:
        """Of what is done to one thread's sandbox: it is not made anew before the old one is gone."""
        return self._locks.setdefault(thread_id, asyncio.Lock())
