"""Deletes one thread, or all data about one person.

A person is deleted in this order, because earlier steps need the data that later ones delete: the person's words in
others' turns, the events, memory and skills, reminders, the chats with the bot, the threads, and finally the person's
own turns.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.store import forgetting, knowledge, personal, programs
from bot.store.forgetting import PORTION, Whose
from bot.store.identity import OWN_ACCOUNTS, folder_name, uploads_folder
from bot.store.shown import WHOLE_CHAT
from bot.store.sql import chunks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.delivery.presented import Presented
    from bot.memory.keeper import MemoryKeeper
    from bot.store.forgetting import DeletionRow
    from bot.store.retrying import RetryingStore
    from harness.ports import Harness


FILES_SECONDS = 60.0
"""How long a sandbox may take to delete a thread."""


class ThreadEraser:
    """Deletes threads. files: deletes a thread's files, wherever they are. users: the folder of persons' files. Every
    step may be repeated; the thread's row is deleted last, since its runs identify what belongs to it."""

    def __init__(
        self,
        store: RetryingStore,
        harness: Callable[[], Awaitable[Harness]],
        files: Callable[[str], Awaitable[None]],
        spool: Presented,
        users: Path,
    ) -> None:
        self._store = store
        self._harness = harness
        self._files = files
        self._spool = spool
        self._users = users

    async def remove_uploads(self, row: DeletionRow) -> None:
        """Delete its owner's uploads to a chat that is deleted as a whole, unless they were used elsewhere. Call it
        before its words are deleted, which identify the uploads."""
        if row.address is None or not row.id.startswith(WHOLE_CHAT):
            return
        chat, owner = row.address, row.asked_by
        refs = await self._store.read(lambda tx: personal.uploads_of_chat(tx, chat, owner, row.asked_at))
        folder = self._users / uploads_folder(owner)
        for upload_id in [ref.rpartition("/")[2] for ref in refs]:
            await asyncio.to_thread((folder / upload_id).unlink, missing_ok=True)
            await asyncio.to_thread((folder / f"{upload_id}.name").unlink, missing_ok=True)

    async def erase(self, deletion_id: str, thread_id: str) -> None:
        """Delete a thread that was detached and in which nothing runs. Raises the errors of the sandbox and of the
        history's database: then the rest of it is deleted later."""
        run_ids = await self._store.read(lambda tx: forgetting.runs_of_thread(tx, thread_id))
        await (await self._harness()).forget(thread_id)
        async with asyncio.timeout(FILES_SECONDS):
            await self._files(thread_id)
        await self._spool.remove((*run_ids, thread_id))
        await self.blank(deletion_id, run_ids)

        def unit(tx: Connection) -> None:
            knowledge.remove_thread(tx, thread_id)
            if forgetting.delete_thread(tx, thread_id):
                forgetting.count_deleted(tx, deletion_id, threads=1)

        await self._store.write(unit)

    async def clear_files(self) -> None:
        """Delete spooled files of delivered answers (exports, pictures) now, not at the next upkeep."""
        await self._spool.clear_left(self._store)

    async def scrub(self) -> None:
        """Remove deleted history, and the words of deleted documents, from the database files."""
        await self._store.write(knowledge.tidy)
        await (await self._harness()).scrub()

    async def blank(self, deletion_id: str, run_ids: Sequence[str]) -> None:
        """Remove the words from ended runs."""

        def unit(tx: Connection, portion: Sequence[str]) -> None:
            count = forgetting.blank_runs(tx, portion)
            forgetting.count_deleted(tx, deletion_id, messages=count)

        for portion in chunks(run_ids, PORTION):
            await self._store.write(lambda tx, portion=portion: unit(tx, portion))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Known:
    """Where a person's words are. met: the groups in which they spoke; direct: their chats with the bot."""

    whose: Whose
    met: frozenset[str]
    direct: frozenset[str]


def whose(row: DeletionRow) -> Whose:
    """The person of a deletion."""
    account, _, native = row.subject.partition(":")
    return Whose(account, native)


def everywhere(row: DeletionRow) -> list[Whose]:
    """The person of a deletion, and their identities on the page and the API."""
    person = whose(row)
    return [person, *(Whose(own, row.subject) for own in sorted(OWN_ACCOUNTS) if own != person.account)]


class PersonEraser:
    """Deletes all data about a person. users: the folder of persons' own data, by `folder_name`."""

    def __init__(self, store: RetryingStore, threads: ThreadEraser, memories: MemoryKeeper, users: Path) -> None:
        self._store = store
        self._threads = threads
        self._memories = memories
        self._users = users

    async def erase(self, row: DeletionRow, thread_ids: Sequence[str]) -> bool:
        """Delete everything about the person; nothing may run for them, and these threads must be detached. False:
        others' active runs have received the person's words, so it has to be repeated. Raises the same errors as
        ThreadEraser.erase."""
        until, persons = row.asked_at, everywhere(row)
        known = await self._store.read(lambda tx: [_known(tx, person) for person in persons])
        for each in known:
            await self._out_of_others(each)
            await self._events(each, until)
        await self._own(row.id, row.subject)
        for each in known:
            await self._store.write(lambda tx, each=each: _drop(tx, row, each))  # type: ignore[misc]
        for thread_id in thread_ids:
            await self._threads.erase(row.id, thread_id)
        run_ids = await self._store.read(lambda tx: forgetting.runs_of_person(tx, persons[0], until))
        await self._store.write(lambda tx: personal.blank_titles(tx, run_ids))
        await self._threads.blank(row.id, run_ids)
        await self._threads.clear_files()
        return not await self._store.read(
            lambda tx: any(personal.under_way(tx, each.whose, each.met, until) for each in known)
        )

    async def _own(self, deletion_id: str, person: str) -> None:
        """Delete memory and skills once: a second attempt must not delete what was added after the confirmation."""
        if "facts" in await self._store.read(lambda tx: forgetting.deleted_so_far(tx, deletion_id)):
            return
        facts = await self._memories.forget_everywhere(person)
        await removed(self._users / folder_name(person))
        await self._store.write(lambda tx: forgetting.count_deleted(tx, deletion_id, facts=facts))

    async def unsaid(self, row: DeletionRow) -> int:
        """The number of answers to the person that are not delivered yet, so that their words are still stored."""
        persons, until = everywhere(row), row.asked_at

        def query(tx: Connection) -> int:
            chats = personal.direct_chats(tx, persons[0])
            direct = sum(personal.still_to_say(tx, each.account, chats, until, row.reply_key) for each in persons)
            return direct + forgetting.undelivered(tx, forgetting.runs_of_person(tx, persons[0], until))

        return await self._store.read(query)

    async def _out_of_others(self, known: Known) -> None:
        last: int | None = 0
        while last is not None:
            after = last
            last = await self._store.write(lambda tx: personal.blank_others(tx, known.whose, known.met, after))  # noqa: B023

    async def _events(self, known: Known, until: datetime) -> None:
        last: int | None = 0
        while last is not None:
            after = last
            last = await self._store.write(lambda tx: personal.blank_events(tx, known.whose, until, after))  # noqa: B023


def _known(tx: Connection, person: Whose) -> Known:
    named = replace(person, names=personal.names_of(tx, person))
    return Known(named, frozenset(personal.groups_of(tx, person)), frozenset(personal.direct_chats(tx, person)))


def _drop(tx: Connection, row: DeletionRow, known: Known) -> None:
    person, until = known.whose, row.asked_at
    forgetting.count_deleted(tx, row.id, reminders=personal.drop_reminders(tx, person, until))
    knowledge.remove_person(tx, person.person, until)
    personal.drop_grants(tx, person, forgetting.conversations_of(tx, person), until)
    programs.drop_of(tx, person.person, until)
    personal.blank_chat(tx, person.account, known.direct, until, row.reply_key)


async def removed(folder: Path) -> None:
    """Delete a folder that only this process writes to, if it exists."""
    with suppress(FileNotFoundError):
        await asyncio.to_thread(shutil.rmtree, folder)
