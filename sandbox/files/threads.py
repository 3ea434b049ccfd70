"""Runs file work in threads of its own, so that a slow disk stops neither the loop nor the work of others."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from sandbox.base import SandboxError
from sandbox.files.problems import translated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 8


class FileThreads:
    """One for each provider, which closes it."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sandbox-files")
        self._closed = False

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread. Raises what it raises, an OSError translated.

        A cancelled caller waits for the thread, which uses descriptors and names that must not be left half done.
        """
        return await self.run_stoppable(Event(), work, *args, **kwargs)

    async def run_stoppable(self, stop: Event, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run as `run` does; stop is set when the caller is cancelled."""
        if self._closed:
            raise SandboxError("the sandbox is closed")
        job = self._pool.submit(lambda: _translating(work, *args, **kwargs))
        working = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            stop.set()
            if not job.cancel():  # it has begun
                await _ended(working)
            raise

    def close(self) -> None:
        """Idempotent. Work that was begun goes on to its end."""
        self._closed = True
        self._pool.shutdown(wait=False)


async def _ended(working: asyncio.Future[T]) -> None:
    while not working.done():
        with suppress(asyncio.CancelledError):  # cancelled again: the work still has to end first
            await asyncio.wait({working})
    if not working.cancelled():
        working.exception()  # nobody else will ask for it


def _translating(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return work(*args, **kwargs)
    except OSError as error:
        raise translated(error) from error


@dataclass
class _Held:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class PathLocks:
    """One lock for each path that is in use. A provider has one of these: its sandboxes may share mounts."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}

    def __len__(self) -> int:
        """Paths in use."""
        return len(self._held)

    @asynccontextmanager
    async def hold(self, path: str) -> AsyncIterator[None]:
        held = self._held.setdefault(path, _Held())
        held.users += 1
        try:
            async with held.lock:
                yield
        finally:
            held.users -= 1
            if not held.users:
                del self._held[path]
