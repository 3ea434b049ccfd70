"""Upkeep while the gateway serves: deletes what is no longer needed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from bot.store import forgetting, inbox, outbox, prompts, runs, schedules, usage
from bot.store.retrying import attempted, every
from bot.store.sql import chunks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection, Row

    from bot.conversations.actor import Conversation
    from bot.delivery.presented import Presented
    from bot.inbound.manager import ChannelManager
    from bot.store import Store
    from bot.usage.days import Days
    from channels.base import Clock
    from harness.ports import Harness

INTERVAL_SECONDS = 3600.0
KEPT = timedelta(days=7)
"""Longer than any platform's redelivery, since keys of events must outlive it."""


PORTION = 200
"""Events, replies or runs removed in one transaction, during which nothing else is written."""
THREADS = 20
"""Threads whose calls of a day are summed up in one transaction."""
IDLE, PAUSE_SECONDS = timedelta(days=1), 0.1
"""Time after which a thread is condensed; pause between two of them."""
READ_SECONDS = 60.0
"""Longer than any read of a thread takes. A worker frozen for that long is considered dead, and writes no more."""
T = TypeVar("T")


async def prune(
    store: Store,
    clock: Clock,
    keep_runs: Callable[[], timedelta],
    presented: Presented,
    *further: Callable[[], Awaitable[object]],
) -> None:
    """Clean up once an hour until cancelled. keep_runs: how long runs, their events and effects are kept. further: done
    afterwards. A failing step does not prevent the others."""

    async def everything() -> None:
        await attempted("removing old rows", lambda: remove_old_rows(store, clock.now(), keep_runs()))
        await attempted("removing delivered files", lambda: presented.clear_left(store))
        for work in further:
            await attempted("upkeep", work)

    await every(INTERVAL_SECONDS, clock, "upkeep", everything)


async def remove_old_rows(store: Store, now: datetime, keep_runs: timedelta) -> None:
    """Delete what was settled long ago."""
    for table in (inbox, outbox):
        await _removed(store, table.old, table.remove, now - KEPT)
    await _removed(store, runs.old, runs.remove, now - keep_runs)
    await _in_portions(store, lambda tx: prompts.prune(tx, now - KEPT))
    for forget in (schedules.prune, forgetting.prune_deletions):
        await _in_portions(store, partial(forget, before=now - keep_runs))


async def sum_up_usage(store: Store, days: Days, keep_runs: timedelta) -> None:
    """Keep only the sums of days whose runs are all forgotten: otherwise every call would add a row for good."""
    before = days.starts(days.today - keep_runs - timedelta(days=1))
    while (oldest := await store.read(lambda tx: usage.oldest_single(tx, before))) is not None:
        day = days.day_of(oldest)
        await _sum_up(store, days.starts(day), days.starts(day + timedelta(days=1)))


async def _sum_up(store: Store, since: datetime, until: datetime) -> None:
    threads = await store.read(lambda tx: usage.threads_between(tx, since, until))
    for part in chunks(threads, THREADS):
        await store.write(partial(usage.fold, threads=part, since=since, until=until))


async def condense(
    store: Store, clock: Clock, harness: Callable[[], Awaitable[Harness]], manager: ChannelManager
) -> None:
    """Reduce idle threads to their newest state and those that /undo and /retry return to, without the steps before.
    The copies come first; the rest is deleted once no process can still be reading a thread without the copies."""
    agent, before, after = await harness(), clock.now() - IDLE, None

    async def condensed(thread: Row[*tuple[Any, ...]], *, drop: bool) -> None:
        await agent.condense(thread.thread_id, await store.read(partial(_bases, thread=thread)), drop=drop)

    async def finished(actor: Conversation, thread: Row[*tuple[Any, ...]]) -> None:
        if not actor.busy:
            await condensed(thread, drop=True)
            await store.write(lambda tx: forgetting.condensed(tx, thread.thread_id, before, clock.now()))

    while found := await store.read(partial(forgetting.idle, before=before, after=after)):
        for thread in found:
            await attempted("condensing", partial(condensed, thread, drop=False))
            await clock.sleep(PAUSE_SECONDS)
        await clock.sleep(READ_SECONDS)
        for thread in found:
            await attempted("upkeep", partial(manager.in_order, thread.conversation, partial(finished, thread=thread)))
        after = found[-1].touched_at


def _bases(tx: Connection, thread: Row[*tuple[Any, ...]]) -> list[str]:
    """The checkpoints that /undo and /retry return to."""
    ended = [last(tx, thread.conversation, thread.thread_id) for last in (runs.last_kept, runs.last_worked)]
    return [row.base_checkpoint_id for row in ended if row is not None and row.base_checkpoint_id]


async def clear_uploads(users: Path, clock: Clock) -> None:
    """Remove files uploaded to the page or the API long ago: those of messages are in their threads."""
    before = (clock.now() - KEPT).timestamp()
    await asyncio.to_thread(_clear, users, before)


def _clear(users: Path, before: float) -> None:
    for path in users.glob("*/http/*"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()


async def _in_portions(store: Store, forget: Callable[[Connection], int]) -> None:
    """Delete in portions, so that others are served in between."""
    while await store.write(forget):
        pass


async def _removed(
    store: Store,
    old: Callable[[Connection, datetime, int], Sequence[T]],
    remove: Callable[[Connection, Sequence[T]], None],
    before: datetime,
) -> None:
    """Remove portions; the rows to remove are looked up outside the writer."""

    async def portion() -> int:
        found = await store.read(lambda tx: old(tx, before, PORTION))
        if found:
            await store.write(lambda tx: remove(tx, found))
        return len(found)

    while await portion():
        pass
