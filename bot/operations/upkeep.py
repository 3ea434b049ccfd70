"""Upkeep while the gateway serves: forgets what nothing needs any more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.store import forgetting, inbox, outbox, prompts, runs, schedules
from bot.store.retrying import attempted, every

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.delivery.presented import Presented
    from bot.store import Store
    from channels.base import Clock

INTERVAL_SECONDS = 3600.0
KEPT = timedelta(days=7)
"""Longer than any platform's redelivery: keys of events must outlive it."""


async def prune(
    store: Store,
    clock: Clock,
    keep_runs: Callable[[], timedelta],
    presented: Presented,
    *further: Callable[[], Awaitable[object]],
) -> None:
    """Once an hour until cancelled. keep_runs: how long runs, their events and effects are kept. further: done behind
    it. What fails keeps nothing else from being done."""

    async def old_rows() -> None:
        now = clock.now()
        for table in (inbox.prune, outbox.prune, prompts.prune):
            await _in_portions(store, table, now - KEPT)
        for table in (runs.prune, schedules.prune, forgetting.prune_deletions):
            await _in_portions(store, table, now - keep_runs())

    async def everything() -> None:
        await attempted("removing old rows", old_rows)
        await attempted("removing delivered files", lambda: presented.clear_left(store))
        for work in further:
            await attempted("upkeep", work)

    await every(INTERVAL_SECONDS, clock, "upkeep", everything)


async def clear_uploads(users: Path, clock: Clock) -> None:
    """Remove files that people uploaded to the page or the API long ago: those of messages are in their threads."""
    before = (clock.now() - KEPT).timestamp()
    await asyncio.to_thread(_clear, users, before)


def _clear(users: Path, before: float) -> None:
    for path in users.glob("*/http/*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()


async def _in_portions(store: Store, forget: Callable[[Connection, datetime], int], before: datetime) -> None:
    """Others are served between two portions."""
    while await store.write(lambda tx: forget(tx, before)):
        pass
