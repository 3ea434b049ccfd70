"""Deletes one thread with all that was kept of it: history, files, words. For service.py and persons.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.store import forgetting
from bot.store.forgetting import PORTION
from bot.store.sql import chunks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.delivery.presented import Presented
    from bot.store.retrying import PatientStore
    from harness.ports import Harness

FILES_SECONDS = 60.0
"""How long a sandbox may take to give up a thread."""


class ThreadEraser:
    """files: deletes a thread's, wherever they are. Every step may be done again; the thread's row goes last, for its
    runs tell what belongs to it."""

    def __init__(
        self,
        store: PatientStore,
        harness: Callable[[], Awaitable[Harness]],
        files: Callable[[str], Awaitable[None]],
        spool: Presented,
    ) -> None:
        self._store = store
        self._harness = harness
        self._files = files
        self._spool = spool

    async def erase(self, deletion_id: str, thread_id: str) -> None:
        """Delete a thread that was let go and in which nothing runs. Raises what the sandbox and the history's
        database raise: then what is left of it is deleted another time."""
        run_ids = await self._store.read(lambda tx: forgetting.runs_of_thread(tx, thread_id))
        await (await self._harness()).forget(thread_id)
        async with asyncio.timeout(FILES_SECONDS):
            await self._files(thread_id)
        await self._spool.remove(run_ids)
        await self.blank(deletion_id, run_ids)

        def unit(tx: Connection) -> None:
            if forgetting.delete_thread(tx, thread_id):
                forgetting.count_deleted(tx, deletion_id, threads=1)

        await self._store.write(unit)

    async def clear_files(self) -> None:
        """Delete spooled files of delivered answers (exports, pictures) now, not at the next upkeep."""
        await self._spool.clear_left(self._store)

    async def scrub(self) -> None:
        """The history that was deleted is in no file any more."""
        await (await self._harness()).scrub()

    async def blank(self, deletion_id: str, run_ids: Sequence[str]) -> None:
        """Take the words out of ended runs."""

        def unit(tx: Connection, portion: Sequence[str]) -> None:
            count = forgetting.blank_runs(tx, portion)
            forgetting.count_deleted(tx, deletion_id, messages=count)

        for portion in chunks(run_ids, PORTION):
            await self._store.write(lambda tx, portion=portion: unit(tx, portion))  # type: ignore[misc]
