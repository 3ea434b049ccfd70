"""Makes branches: chats that begin with what another one held up to one of its messages.

What is to be made is recorded first, with the conversation; then the agent's history and the files are copied, in the
new conversation's own order, so that nobody is answered there before; then it is marked as whole. What a process leaves
unfinished the next one makes from the beginning.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from bot.store import branches
from harness.context import HistoryEntry
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from bot.conversations.actor import Conversation
    from bot.files.sandboxes import Sandboxes
    from bot.store.branches import BranchRow, Inherited
    from bot.store.retrying import RetryingStore
    from harness.ports import Harness

    InOrder = Callable[..., asyncio.Future[None]]

log = logging.getLogger(__name__)

FILES_SECONDS = 120.0
RESULTS, FILES = "results", "files"
"""What a branch may lack."""


class Branching:
    """in_order: lets something happen in the order of the conversation with that key. sandboxes: copy the files of
    threads. spool: where files of answers are kept, those of a branch in a folder named after its thread."""

    def __init__(
        self,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        sandboxes: Sandboxes,
        spool: Path,
        in_order: InOrder,
    ) -> None:
        self._store = store
        self._harness = harness
        self._sandboxes = sandboxes
        self._spool = spool
        self._in_order = in_order
        self._copying = asyncio.Lock()
        """Files are copied for one branch at a time."""

    async def resume(self) -> None:
        """Take up what an earlier process left, before anything that was said there: called at the start, before what
        people wrote is taken up. Returns when that is in its order; the agent need not be there yet."""
        for row in await self._store.read(branches.unmade):
            self._begin(row)

    async def make(self, row: BranchRow, title: str) -> None:
        """Make a branch; it is whole when this returns. Raises BeingDeleted, TooManyBranches, and what the
        history's database and the disk raise: then nothing is left of it."""
        await self._store.write(lambda tx: branches.begin(tx, row, title))
        await self._begin(row)

    def folder_of(self, thread_id: str) -> Path:
        """Where the copies of files that a branch shows are kept."""
        return self._spool / thread_id

    def _begin(self, row: BranchRow) -> asyncio.Future[None]:
        async def do(actor: Conversation) -> None:
            try:
                if await self._is_open(row):
                    await self._make(row)
            except Exception:
                # Of the history's database, the disk or a sandbox: it belongs to the one who waits for it.
                log.exception("the branch %s could not be made", row.key)
                await self._drop(row)
                actor.forget_row()
                raise

        return self._in_order(row.key, do, Exception)

    async def _is_open(self, row: BranchRow) -> bool:
        """It is still to be made, and nothing of it was deleted meanwhile."""
        known = await self._store.read(lambda tx: branches.load(tx, row.key))
        return known is not None and known.made_at is None

    async def _make(self, row: BranchRow) -> None:
        """Every step may be done again."""
        harness, lacks = await self._harness(), []
        await self._clear(row.thread_id)
        if not await self._forked(harness, row):
            await harness.seed(row.thread_id, said_in(row.messages))
            lacks.append(RESULTS)
        if not await self._copied(row):
            lacks.append(FILES)
        await asyncio.to_thread(self._link, row)
        now = self._store.clock.now()
        await self._store.write(lambda tx: branches.made(tx, row.thread_id, lacks, now))
        log.info(
            "conversation %s is branched from %s%s", row.key, row.source_key, f", without {lacks}" if lacks else ""
        )

    async def _forked(self, harness: Harness, row: BranchRow) -> bool:
        """Whether the agent knows all that it knew there; where nothing was said to it it does."""
        if not row.before and not row.through:
            return not said_in(row.messages)
        return await harness.fork(
            row.source_thread, row.thread_id, before=row.before, through=row.through, checkpoint_id=row.checkpoint
        )

    async def _copied(self, row: BranchRow) -> bool:
        """Whether the workspace came along as it is now."""
        try:
            async with self._copying, asyncio.timeout(FILES_SECONDS):
                return await self._sandboxes.copy(row.source_thread, row.thread_id)
        except (SandboxError, OSError, TimeoutError) as error:
            log.warning("files were not copied to the branch %s: %s", row.key, error)
            return False

    def _link(self, row: BranchRow) -> None:
        """Keep the files that are shown, also when the other chat is deleted. One that is gone already stays gone."""
        for each in row.messages:
            if each.file is not None:
                each.file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    try:
                        os.link(each.original, each.file.path, follow_symlinks=False)
                    except FileExistsError:
                        pass
                    except OSError:  # a file system without hard links
                        shutil.copyfile(each.original, each.file.path, follow_symlinks=False)

    async def _clear(self, thread_id: str) -> None:
        """Nothing is there of a try before."""
        await (await self._harness()).forget(thread_id)
        with suppress(SandboxError):  # then what stands there is told when it is copied
            await self._sandboxes.forget(thread_id)
        await asyncio.to_thread(shutil.rmtree, self.folder_of(thread_id), ignore_errors=True)

    async def _drop(self, row: BranchRow) -> None:
        try:
            await self._clear(row.thread_id)
        except Exception as error:  # the same again, most likely
            log.warning("parts of the branch %s stay behind: %s", row.key, error)
        await self._store.write(lambda tx: branches.drop(tx, row))


def said_in(messages: Sequence[Inherited]) -> list[HistoryEntry]:
    """What was said to the agent and by it, for a thread whose own history is not kept any more; commands and their
    answers are not."""
    said: list[HistoryEntry] = []
    is_command = False
    for each in messages:
        entry, text = each.entry, str(each.entry["text"])
        is_persons = entry["author"] == "person"
        if is_persons:
            is_command = not each.run_id and text.startswith("/")
        if text.strip() and (each.run_id or not is_command):
            role = "user" if is_persons else "assistant"
            said.append(HistoryEntry(message_id=f"s{entry['message_id']}", role=role, text=text))
    return said
