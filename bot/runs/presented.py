"""The files that a run presents: parts of its answer, and their copies in the spool until they are delivered.

For manager.py; upkeep.py clears away what a crash left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.delivery.reply import Outcome
from bot.markdown import plain
from bot.store import outbox, runs
from bot.uploads import MEGABYTE, harmless_name
from channels.message import OutboundFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from bot.delivery import Reply
    from bot.store import Store
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.capabilities import Capabilities
    from harness.events import ReadyFile

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """files: to send with the answer. sentences: about those that the platform would not take."""

    files: tuple[OutboundFile, ...] = ()
    sentences: tuple[str, ...] = ()


class Presented:
    """folder: the spool, in which a run's copies have a folder of the run's id. capabilities: of an account."""

    def __init__(self, folder: Path, tasks: Tasks, capabilities: Callable[[str], Capabilities | None]) -> None:
        self._folder = folder
        self._tasks = tasks
        self._capabilities = capabilities

    def outgoing(self, ready: Iterable[ReadyFile], account: str, texts: Texts) -> Outgoing:
        """What becomes of the files that a run presented in a chat of this account."""
        caps = self._capabilities(account)
        files, sentences = [], []
        for file in ready:
            problem = _problem(file.size, caps)
            limit = f"{(caps.largest_file or 0) / MEGABYTE:.0f}" if caps is not None else ""
            if problem is None:
                files.append(self._outbound(file, texts))
            else:
                name, size = _shown(file), f"{file.size / MEGABYTE:.1f}"
                sentences.append(texts.file_not_sent[problem].format(name=name, size=size, limit=limit))
        return Outgoing(tuple(files), tuple(sentences))

    def _outbound(self, file: ReadyFile, texts: Texts) -> OutboundFile:
        return OutboundFile(
            path=self._folder / file.spooled,
            name=harmless_name(file.name, "file"),
            mime_type=file.mime_type,
            kind=file.kind,
            instead=texts.file_not_sent["refused"].format(name=_shown(file)),
        )

    def clear_after(self, run_id: str, reply: Reply) -> None:
        """Remove the run's copies once its answer, with them, is delivered or given up."""
        self._tasks.spawn(f"spool of {run_id}", self._clear_after(run_id, reply))

    async def _clear_after(self, run_id: str, reply: Reply) -> None:
        await reply.delivered()
        if reply.outcome is not Outcome.PENDING:
            await asyncio.to_thread(self._remove, run_id)

    async def clear_left(self, store: Store) -> None:
        """Remove the copies of runs that have ended and whose answer is delivered. Raises StoreError."""
        there = await asyncio.to_thread(self._run_ids)  # before the store is asked: a run is known before its files
        if there:
            needed = {row.run_id for row in await store.read(runs.unended)} | await store.read(outbox.open_keys)
            for run_id in there - needed:
                await asyncio.to_thread(self._remove, run_id)

    def _run_ids(self) -> set[str]:
        try:
            return set(os.listdir(self._folder))
        except FileNotFoundError:
            return set()

    def _remove(self, run_id: str) -> None:
        try:
            shutil.rmtree(self._folder / run_id)
        except OSError as error:
            log.warning("files of a delivered answer stay for now: %s", os.strerror(error.errno or 0))


def _problem(size: int, caps: Capabilities | None) -> str | None:
    if caps is None:
        return None
    if not caps.files:
        return "no_files"
    if caps.largest_file is not None and size > caps.largest_file:
        return "too_large"
    return "too_small" if size < caps.smallest_file else None


def _shown(file: ReadyFile) -> str:
    return plain(harmless_name(file.name, "file"))
