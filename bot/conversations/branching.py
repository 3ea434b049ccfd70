"""Creates branches: chats that begin with the history of another one up to one of its messages.

The branch is recorded first, with the conversation; then the agent's history and the files are copied, in the new
conversation's order, so that no message is answered there earlier; then it is marked as complete. The next process
restarts the creation of a branch that was left unfinished.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from bot.store import branches
from bot.texts.command_line import parse
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
    """Creates branches. in_order: runs a function in the order of the conversation with that key. sandboxes: copy
    threads' files. spool: the folder of answers' files; those of a branch are in a subfolder named after its thread."""

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
        """Allows only one branch at a time to copy files."""

    async def resume(self) -> None:
        """Resume branches that an earlier process left unfinished. Called at the start, before people's messages are
        resumed. Returns when this is queued; the agent need not be loaded yet."""
        for row in await self._store.read(branches.unmade):
            self._begin(row)

    async def make(self, row: BranchRow, title: str) -> None:
        """Create a branch, which is complete when this returns. Raises BeingDeleted, TooManyBranches, and errors of the
        history's database and the disk; nothing is left of it then."""
        await self._store.write(lambda tx: branches.begin(tx, row, title))
        await self._begin(row)

    def folder_of(self, thread_id: str) -> Path:
        """Folder with the copies of the files that a branch shows."""
        return self._spool / thread_id

    def _begin(self, row: BranchRow) -> asyncio.Future[None]:
        async def do(actor: Conversation) -> None:
            try:
                if await self._is_open(row):
                    await self._make(row)
            except Exception:
                # From the history's database, the disk or a sandbox: raised to the caller that awaits the branch.
                log.exception("the branch %s could not be created", row.key)
                await self._drop(row)
                actor.forget_row()
                raise

        return self._in_order(row.key, do, Exception)

    async def _is_open(self, row: BranchRow) -> bool:
        """Whether it is still unfinished, and has not been deleted in the meantime."""
        known = await self._store.read(lambda tx: branches.load(tx, row.key))
        return known is not None and known.made_at is None

    async def _make(self, row: BranchRow) -> None:
        """Create it. Every step may be repeated."""
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
        """Whether the agent's history was copied completely, which is also true where there is none."""
        if not row.before and not row.through:
            return not said_in(row.messages)
        return await harness.fork(
            row.source_thread, row.thread_id, before=row.before, through=row.through, checkpoint_id=row.checkpoint
        )

    async def _copied(self, row: BranchRow) -> bool:
        """Whether the workspace was copied in its current state."""
        try:
            async with self._copying, asyncio.timeout(FILES_SECONDS):
                return await self._sandboxes.copy(row.source_thread, row.thread_id)
        except (SandboxError, OSError, TimeoutError) as error:
            log.warning("files were not copied to the branch %s: %s", row.key, error)
            return False

    def _link(self, row: BranchRow) -> None:
        """Keep the shown files, even if the other chat is deleted. A file that is already deleted is skipped."""
        for each in row.messages:
            if each.file is not None:
                each.file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileNotFoundError):
                    try:
                        os.link(each.original, each.file.path, follow_symlinks=False)
                    except FileExistsError:
                        pass
                    except OSError:  # the file system has no hard links
                        shutil.copyfile(each.original, each.file.path, follow_symlinks=False)

    async def _clear(self, thread_id: str) -> None:
        """Remove what an earlier attempt left."""
        await (await self._harness()).forget(thread_id)
        with suppress(SandboxError):  # the copy that follows reports the problem
            await self._sandboxes.forget(thread_id)
        await asyncio.to_thread(shutil.rmtree, self.folder_of(thread_id), ignore_errors=True)

    async def _drop(self, row: BranchRow) -> None:
        try:
            await self._clear(row.thread_id)
        except Exception as error:  # most likely the same error
            log.warning("parts of the branch %s could not be removed: %s", row.key, error)
        await self._store.write(lambda tx: branches.drop(tx, row))


def said_in(messages: Sequence[Inherited]) -> list[HistoryEntry]:
    """The messages to and from the agent, for a thread whose history is no longer stored; without commands and their
    answers."""
    said: list[HistoryEntry] = []
    is_command = False
    for each in messages:
        entry, text = each.entry, str(each.entry["text"])
        is_persons = entry["author"] == "person"
        if is_persons:
            is_command = not each.run_id and parse(text) is not None
        if text.strip() and (each.run_id or not is_command):
            role = "user" if is_persons else "assistant"
            said.append(HistoryEntry(message_id=f"s{entry['message_id']}", role=role, text=text))
    return said
