"""The server's open sandboxes, and the commands that run in them."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from cachetools import LRUCache

from sandbox.remote import wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from pathlib import Path

    from sandbox.base import CommandResult, Sandbox, SandboxProvider

_IDS_KEPT = 10_000
"""Number of command ids that are remembered, so that none is run twice."""


class Refusal(Exception):
    """The server refuses a request. code: of wire.Error."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Rooms:
    """Open sandboxes. delete: permanently removes a sandbox's files. folder: contains a folder of files for each
    sandbox. sandboxes: maximum open at once; commands: maximum running at once in one sandbox."""

    def __init__(
        self,
        provider: SandboxProvider,
        delete: Callable[[str], Awaitable[None]],
        folder: Path,
        *,
        sandboxes: int,
        commands: int,
    ) -> None:
        self._provider = provider
        self._delete = delete
        self._folder = folder
        self._most = sandboxes
        self._most_commands = commands
        self._open: OrderedDict[str, int] = OrderedDict()
        """The open ones with the number of calls using each; the least recently used first."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: dict[tuple[str, str], asyncio.Task[CommandResult]] = {}
        self._ids: LRUCache[tuple[str, str], None] = LRUCache(_IDS_KEPT)
        self._closed = False

    def open_ones(self) -> list[str]:
        return sorted(self._open)

    def is_open(self, sandbox: str) -> bool:
        return sandbox in self._open

    async def keeps(self, sandbox: str) -> bool:
        """Whether it has files, or is open and so may get some."""
        return self.is_open(sandbox) or await asyncio.to_thread((self._folder / sandbox).exists)

    async def kept(self) -> list[str]:
        """All sandboxes with files, and the open ones, sorted."""
        return sorted({*self._open, *await asyncio.to_thread(self._in_folder)})

    def _in_folder(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []  # nothing was ever stored

    def commands_of(self, sandbox: str) -> list[str]:
        return sorted(command for owner, command in self._running if owner == sandbox)

    async def open(self, sandbox: str) -> bool:
        """Open it; returns whether it was not open before. Idempotent. Raises Refusal, SandboxError."""
        async with self._lock(sandbox):
            if sandbox in self._open:
                self._open.move_to_end(sandbox)
                return False
            await self._make_room()
            if self._closed:
                raise Refusal(wire.STOPPING, "the sandbox server is stopping")
            self._open[sandbox] = 0
            try:
                await self._provider.acquire(sandbox)
            except BaseException:  # including cancellation: it was not opened, so its slot is free
                self._open.pop(sandbox, None)
                raise
            return True

    async def release(self, sandbox: str) -> None:
        """Close it, unless a command runs in it: that belongs to another process, since each ends its own before it
        releases the sandbox. The files stay. Idempotent."""
        async with self._lock(sandbox):
            if not self.commands_of(sandbox):
                self._open.pop(sandbox, None)
                await self._provider.release(sandbox)

    async def destroy(self, sandbox: str) -> None:
        """End what runs and delete the files. Idempotent."""
        async with self._lock(sandbox):
            await self._end_all(sandbox)
            self._open.pop(sandbox, None)
            await self._provider.forget(sandbox)
            await self._delete(sandbox)

    @contextmanager
    def using(self, sandbox: str) -> Iterator[Sandbox]:
        """Hold an open sandbox for a call. Raises Refusal if it is not open."""
        found = self._provider.get(sandbox)
        if found is None or sandbox not in self._open:
            raise Refusal(wire.NO_SUCH_SANDBOX, "this sandbox does not exist here; PUT creates it")
        self._open.move_to_end(sandbox)
        self._open[sandbox] += 1
        try:
            yield found
        finally:
            if sandbox in self._open:
                self._open[sandbox] -= 1

    def begin(
        self, sandbox: str, command: str, work: Coroutine[None, None, CommandResult]
    ) -> asyncio.Task[CommandResult]:
        """Run a command under the id given by its client; an id can be used once. Raises Refusal."""
        key = (sandbox, command)
        refusal = None
        if self._closed:
            refusal = Refusal(wire.STOPPING, "the sandbox server is stopping")
        elif key in self._ids:
            refusal = Refusal(wire.USED, "this command id was already used")
        elif len(self.commands_of(sandbox)) >= self._most_commands:
            refusal = Refusal(wire.BUSY, f"{self._most_commands} commands run in this sandbox, which is the limit")
        if refusal is not None:
            work.close()
            raise refusal
        self._ids[key] = None
        task = self._running[key] = asyncio.create_task(work, name="command of a client")
        task.add_done_callback(lambda _: self._running.pop(key, None))
        return task

    async def cancel(self, sandbox: str, command: str) -> None:
        """Kill a command, and wait until nothing of it is left; a later one with this id is not started. Idempotent."""
        self._ids[sandbox, command] = None
        task = self._running.get((sandbox, command))
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """End all commands; no further ones are started. Idempotent."""
        self._closed = True
        for owner in {owner for owner, _ in self._running}:
            await self._end_all(owner)

    async def _end_all(self, sandbox: str) -> None:
        tasks = [task for (owner, _), task in self._running.items() if owner == sandbox]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _make_room(self) -> None:
        while len(self._open) >= self._most:
            unused = next((each for each, users in self._open.items() if not users), None)
            if unused is None:
                raise Refusal(wire.BUSY, f"all {self._most} sandboxes are in use")
            async with self._lock(unused):
                if self._open.get(unused, 1):
                    continue  # it is in use again, or gone
                del self._open[unused]
                await self._provider.release(unused)

    def _lock(self, sandbox: str) -> asyncio.Lock:
        return self._locks.setdefault(sandbox, asyncio.Lock())
