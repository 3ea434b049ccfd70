"""Storage of threads: opens LangGraph's saver on SQLite or PostgreSQL, prunes and forgets."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from langgraph.checkpoint.base import id as checkpoint_ids
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from harness.errors import SetupError
from harness.graph.state import RUN_KEY, replayed, thread_config
from harness.threads.sqlite_saver import ThreadedSqliteSaver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from harness.context import RunContext
    from harness.ports import Fence
    from harness.threads.held import Holding

if not _msgpack.STRICT_MSGPACK_ENABLED:
    raise RuntimeError("langgraph was imported before harness, so checkpoints could load any type they name")

log = logging.getLogger(__name__)
MESSAGES = "messages"
DELETED_AT_ONCE = 200
VACUUMED_BYTES = 64_000_000
# On PostgreSQL a channel's value is a separate row, by version; checkpoints name the versions.
UNNAMED_BLOBS = """
DELETE FROM checkpoint_blobs b WHERE b.thread_id = ? AND NOT EXISTS (
  SELECT 1 FROM checkpoints c WHERE c.thread_id = b.thread_id AND c.checkpoint_ns = b.checkpoint_ns
  AND c.checkpoint->'channel_versions'->>b.channel = b.version)
"""
# A checkpoint is written once and then only given its copy, by an update: one deleted meanwhile stays deleted.
COPY_INTO_ROW = """
UPDATE checkpoints SET type = ?, checkpoint = ?,
  metadata = CAST(json_remove(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot') AS BLOB)
WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?
"""
COPY_INTO_BLOBS = """
WITH copy(type, blob) AS (VALUES (?::text, ?::bytea)), marked AS (
  UPDATE checkpoints SET metadata = metadata - 'counters_since_delta_snapshot',
    checkpoint = jsonb_set(checkpoint, '{channel_values,messages}', 'true')
  WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ?
  RETURNING thread_id, checkpoint_ns, checkpoint->'channel_versions'->>'messages' AS version)
INSERT INTO checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
SELECT thread_id, checkpoint_ns, 'messages', version, type, blob FROM marked, copy ON CONFLICT DO NOTHING
"""

PRUNE_EVERY = 60
"""Graph steps between two prunings of a thread: about twenty turns."""
WRITES_BETWEEN = 30
"""Changes to a thread between turns after which it is pruned."""
LAST_STEPS = 12
"""Checkpoints since a copy that take less space than a second copy: a turn or two."""
MAX_KNOWN_THREADS = 4096


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """An open saver, on its own database.

    holding: what it holds back for runs. writes: the table of tasks' writes. copying: gives a checkpoint its own copy
    of the messages. sweep: run after a deletion, to remove unreferenced rows. is_file: it is SQLite's.
    """

    saver: BaseCheckpointSaver[str]
    holding: Holding
    writes: str
    copying: str
    sweep: str
    run: Callable[..., Awaitable[list[Any]]]
    close: Callable[[], Awaitable[None]]
    is_file: bool = False

    async def newest(self, thread_id: str) -> CheckpointTuple | None:
        """The thread's newest checkpoint; None for a new thread."""
        return await self.saver.aget_tuple(thread_config(thread_id))

    async def forget(self, thread_id: str) -> None:
        """Delete everything stored for the thread."""
        await self.saver.adelete_thread(thread_id)

    async def scrub(self) -> None:
        """Remove deleted data from SQLite's files, as far as that takes no time (bot/store/writer.py). PostgreSQL does
        so itself, in its own time."""
        if not self.is_file:
            return
        ((size,),) = await self.run("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", ())
        if size <= VACUUMED_BYTES:
            await self.run("VACUUM", ())
        await self.run("PRAGMA wal_checkpoint(TRUNCATE)", ())

    async def prune(self, thread_id: str, *, keep: Sequence[str] = ()) -> None:
        """Delete what neither the newest checkpoint nor those in `keep` need: a delta channel is rebuilt from its
        ancestors, so all of them are kept up to the nearest full copy."""
        # Read first: checkpoints written meanwhile are not among them.
        rows = await self.run("SELECT checkpoint_id FROM checkpoints WHERE thread_id = ?", (thread_id,))
        needed: set[str] = set()
        for checkpoint_id in (None, *keep):
            needed |= await self._lineage(thread_id, checkpoint_id, needed)
        # Newest first, with their writes: the remaining ones keep their ancestors, wherever this is interrupted.
        doomed = sorted((checkpoint_id for (checkpoint_id,) in rows if checkpoint_id not in needed), reverse=True)
        for start in range(0, len(doomed), DELETED_AT_ONCE):
            some = doomed[start : start + DELETED_AT_ONCE]
            which = f"WHERE thread_id = ? AND checkpoint_id IN ({', '.join('?' * len(some))})"
            await self.run(f"DELETE FROM {self.writes} {which}", (thread_id, *some), f"DELETE FROM checkpoints {which}")
        if doomed and self.sweep:
            await self.run(self.sweep, (thread_id,))

    async def copy(self, thread_id: str, *, keep: Sequence[str] = ()) -> None:
        """Give those in `keep` their own copy of the messages; the newest checkpoint as well, if it would need more
        than a few steps since one of them. Nothing else changes, so it may be done at any time, and repeated."""
        kept = [await self._copy(thread_id, checkpoint_id) for checkpoint_id in keep]
        if len(await self._lineage(thread_id, None, set())) > (LAST_STEPS if any(kept) else 1):
            await self._copy(thread_id, None)

    async def _copy(self, thread_id: str, checkpoint_id: str | None) -> bool:
        """Copy the messages into a checkpoint. False: it does not exist."""
        saved = await self.saver.aget_tuple(thread_config(thread_id, checkpoint_id=checkpoint_id))
        if saved is None:
            return False
        values, versions = saved.checkpoint["channel_values"], saved.checkpoint["channel_versions"]
        if MESSAGES in versions and MESSAGES not in values:
            history = await self.saver.aget_delta_channel_history(config=saved.config, channels=[MESSAGES])
            copy = _DeltaSnapshot(replayed(history[MESSAGES]))
            row = {**saved.checkpoint, "channel_values": {**values, MESSAGES: copy}}
            stored = await asyncio.to_thread(self.saver.serde.dumps_typed, row if self.is_file else copy)
            await self.run(self.copying, (*stored, thread_id, saved.checkpoint["id"]))
        return True

    async def _lineage(self, thread_id: str, checkpoint_id: str | None, known: set[str]) -> set[str]:
        found: set[str] = set()
        config: RunnableConfig | None = thread_config(thread_id, checkpoint_id=checkpoint_id)
        while config is not None and (saved := await self.saver.aget_tuple(config)) is not None:
            current = saved.checkpoint["id"]
            if current in found:
                break
            found.add(current)
            # The checkpoint's own copy serves it and its descendants; without one the walk continues.
            if MESSAGES in saved.checkpoint["channel_values"]:
                break
            config = saved.parent_config
        return found | known


async def open_checkpoints(
    database: str, fence: Fence | None = None, *, leads: Callable[[], bool] = lambda: True
) -> Checkpoints:
    """Open a SQLite file (made with mode 0600) or a PostgreSQL URL, SQLAlchemy's spelling of the driver included.

    fence, leads: see RetryingPostgresSaver, for several writing processes (PostgreSQL). Raises the database driver's
    errors, SetupError for a damaged file and for a role without rights.
    """
    if "://" in database:
        return await _open_postgres(database.replace("+psycopg://", "://", 1), fence, leads)
    return await _open_sqlite(Path(database))


async def _open_sqlite(path: Path) -> Checkpoints:
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        saver = await ThreadedSqliteSaver.open(path, _go_on_from)
    except sqlite3.OperationalError:  # such as a full disk
        raise
    except sqlite3.DatabaseError as error:
        raise SetupError(f"{path} is damaged ({error}): restore a backup, or move the file away") from error
    return Checkpoints(saver, saver.holding, "writes", COPY_INTO_ROW, "", saver.run, saver.close, is_file=True)


async def _open_postgres(url: str, fence: Fence | None, leads: Callable[[], bool]) -> Checkpoints:
    # Imported here, not at the top: psycopg and its pool are loaded only if PostgreSQL is used.
    from psycopg.errors import InsufficientPrivilege

    from harness.threads.postgres_saver import RetryingPostgresSaver

    try:
        saver = await RetryingPostgresSaver.open(url, _go_on_from, fence, leads)
    except InsufficientPrivilege as error:
        raise SetupError(f"database.url: {str(error).partition(chr(10))[0]}") from error
    holding, run = saver.holding, saver.run
    return Checkpoints(saver, holding, "checkpoint_writes", COPY_INTO_BLOBS, UNNAMED_BLOBS, run, saver.close)


def _go_on_from(checkpoint_id: str) -> None:
    """Give later checkpoints greater ids than this one, which was read.

    The newest checkpoint is the one with the greatest id, and ids begin with the time: after the clock was set back,
    new ones would sort below the old ones and never be read. A thread is read before it is written.
    """
    clock: Any = checkpoint_ids  # the module's record of the last id that it issued
    clock._last_v6_timestamp = max(clock._last_v6_timestamp or 0, _uuid6_time(checkpoint_id))


def _uuid6_time(text: str) -> int:
    value = uuid.UUID(text)
    return (value.time_low << 28) | (value.time_mid << 12) | (value.time_hi_version & 0x0FFF)


@dataclass(slots=True)
class Known:
    """What this process knows of a thread. finished: the run that ended its newest turn. base: the checkpoint before
    that. era: of its last pruning. written: number of changes between turns since the pruning caused by these."""

    finished: str = ""
    base: str = ""
    era: int = 0
    written: int = 0


class FinishedTurns:
    """The finished turns of at most MAX_KNOWN_THREADS threads; others are unknown."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._known: LRUCache[str, Known] = LRUCache(MAX_KNOWN_THREADS)

    def ended(self, thread_id: str, saved: CheckpointTuple) -> bool:
        """Whether the newest checkpoint is the end of a turn seen by this process; saves reading the whole state."""
        known = self._known.get(thread_id)
        return known is not None and known.finished == saved.metadata.get(RUN_KEY)

    def forget(self, thread_id: str) -> None:
        """Drop what is known of a thread."""
        self._known.pop(thread_id, None)

    async def note(self, ctx: RunContext, base: CheckpointTuple | None) -> None:
        """Remember the end of the turn, and occasionally drop old checkpoints; the one before this run is kept, for a
        rollback."""
        known = self._known.setdefault(ctx.thread_id, Known())
        known.finished = ctx.run_id
        known.base = base.checkpoint["id"] if base is not None else ""
        if base is None or (era := int(base.metadata.get("step", 0)) // PRUNE_EVERY) == known.era:
            return
        if await self._prune(ctx.thread_id, known.base):
            known.era = era

    async def changed(self, thread_id: str, at: str | None) -> None:
        """Occasionally drop old checkpoints of a thread that is changed between turns, which need not advance its
        steps. at: the checkpoint that it was set back to, which is kept; so is the one before its last turn, if that
        turn was seen."""
        known = self._known.setdefault(thread_id, Known())
        known.written += 1
        if known.written >= WRITES_BETWEEN and await self._prune(thread_id, known.base, at):
            known.written = 0

    async def _prune(self, thread_id: str, *keep: str | None) -> bool:
        try:
            await self._checkpoints.prune(thread_id, keep=tuple(filter(None, keep)))
        except Exception as error:
            # A full disk, a lost server, a defect: the requested work is done, and the next pruning catches up.
            log.warning("old checkpoints not deleted for now: %s: %s", type(error).__name__, error)
            return False
        return True
