"""Forgetting: carries out deletions, one after the other. Each is recorded before anything is deleted, so that it
continues after a crash; what cannot be deleted now (a sandbox server is unreachable) is retried.
Reports contain numbers, never a word of what was deleted.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.forgetting.erasing import PersonEraser, ThreadEraser, whose
from bot.store import forgetting
from bot.store.forgetting import DeletionKind, DeletionRow
from bot.store.identity import users_folder
from bot.store.rows import StopReason
from bot.texts import DEFAULT, texts_for
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.conversations.actor import Conversation
    from bot.delivery.presented import Presented
    from bot.delivery.respond import Responder
    from bot.memory.keeper import MemoryKeeper
    from bot.runs.turns import Turn
    from bot.settings import Settings
    from bot.store.retrying import RetryingStore
    from bot.store.rows import RunRow
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from harness.ports import Harness

    InOrder = Callable[..., asyncio.Future[Any]]

log = logging.getLogger(__name__)
QUIET_SECONDS = 120.0
"""Seconds for which a deletion waits for the runs that it stopped to end and their messages to be delivered."""
LOOK_SECONDS = 0.2
AGAIN_SECONDS = 600.0
SCRUBS = 20
KINDS = ("threads", "messages", "reminders", "facts")


def make_forgetting(
    settings: Settings,
    *,
    store: RetryingStore,
    tasks: Tasks,
    responder: Responder,
    harness: Callable[[], Awaitable[Harness]],
    files: Callable[[str], Awaitable[None]],
    presented: Presented,
    memories: MemoryKeeper,
    in_order: InOrder,
    background: Callable[[str], None],
    erased: Callable[[DeletionRow], Awaitable[None]],
) -> tuple[Forgetting, Retention]:
    """Make the services that delete at a person's request and by age. files: deletes those of a thread. erased: see
    Forgetting."""
    users = users_folder(settings.data_dir)
    threads = ThreadEraser(store, harness, files, presented, users)
    service = Forgetting(
        store=store,
        tasks=tasks,
        responder=responder,
        threads=threads,
        persons=PersonEraser(store, threads, memories, users),
        in_order=in_order,
        background=background,
        erased=erased,
    )
    return service, Retention(store, service, in_order, store.clock, settings.data.keep_threads_days)


class NotYet(Exception):
    """A deletion is blocked, perhaps only temporarily."""


class Forgetting:
    """Carries out deletions. in_order: runs a function in the order of the conversation with a key. background: called
    with persons whose words must not be passed on any more. erased: called after the erasure, before it is reported."""

    def __init__(
        self,
        *,
        store: RetryingStore,
        tasks: Tasks,
        responder: Responder,
        threads: ThreadEraser,
        persons: PersonEraser,
        in_order: InOrder,
        background: Callable[[str], None],
        erased: Callable[[DeletionRow], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = store.clock
        self._tasks = tasks
        self._responder = responder
        self._threads = threads
        self._persons = persons
        self._in_order = in_order
        self._background = background
        self._erased = erased
        self._waiting: asyncio.Queue[tuple[DeletionRow, list[asyncio.Future[None]]]] = asyncio.Queue()
        self._done: dict[str, asyncio.Event] = {}
        self._held_up: set[str] = set()

    async def resume(self) -> None:
        """Resume the deletions of an earlier process; called at the start."""
        for row in await self._store.read(forgetting.unfinished_deletions):
            await self.begin(row)

    async def begin(self, row: DeletionRow) -> None:
        """Begin a recorded deletion. Active runs are stopped; messages after its confirmation are not affected."""
        keys = await self._store.read(lambda tx: _concerned(tx, row))
        self._done.setdefault(row.id, asyncio.Event())
        self._waiting.put_nowait((row, [self._let_go(row, key) for key in sorted(keys)]))

    async def finished(self, deletion_id: str) -> dict[str, int]:
        """Wait for the end of a deletion that was begun; returns the numbers of deleted items by kind."""
        if (done := self._done.get(deletion_id)) is not None:
            await done.wait()
        return await self._store.read(lambda tx: forgetting.deleted_so_far(tx, deletion_id))

    async def serve(self) -> None:
        """Carry out deletions until cancelled."""
        while True:
            row, letting_go = await self._waiting.get()
            try:
                await asyncio.gather(*letting_go)
                await self._carry_out(row)
            except Exception as error:
                # Any error, also of an operator's own sandbox: other deletions continue, this one is retried.
                expected = isinstance(error, NotYet)
                log.warning("deletion %s is not complete: %s", row.id, error, exc_info=None if expected else error)
                self._tasks.spawn(f"deletion {row.id}", self._again(row))
                await self._tell_again(row)

    async def _tell_again(self, row: DeletionRow) -> None:
        """Report the delay, only once: without editing each report would be a message."""
        if row.id not in self._held_up:
            self._held_up.add(row.id)
            await self._tell(row, "again")

    async def _again(self, row: DeletionRow) -> None:
        await self._clock.sleep(AGAIN_SECONDS)
        await self.begin(row)

    # Preparation: stop all activity in what is to be deleted.

    def _let_go(self, row: DeletionRow, key: str) -> asyncio.Future[None]:
        """Stop active runs, drop waiting messages and continue in another thread, in the conversation's own order."""
        return self._in_order(key, lambda actor: self._stop(actor, row), Exception)

    async def _stop(self, actor: Conversation, row: DeletionRow) -> None:
        """Stop one conversation. Safe to repeat: messages after the confirmation are already in another thread."""
        person, only = (row.subject, None) if row.kind is DeletionKind.PERSON else (None, row.subject)
        until, now, known, gone = row.asked_at, self._clock.now(), await actor.stored(), list[str]()
        if actor.key in await self._store.read(lambda tx: _own(tx, row)):
            gone = await self._store.write(lambda tx: forgetting.let_go(tx, actor.key, until, now, only))
            actor.forget_row()
        moved = known is not None and known.thread_id in gone
        to_delete = await self._store.read(lambda tx: _let_go_of(tx, row))

        def concerns(run: RunRow) -> bool:
            return run.thread_id in to_delete or (run.speaker == person and run.created_at <= until)

        def arrives(turn: Turn) -> bool:  # its files are being stored in the formerly current thread
            return moved or (turn.person == person and turn.first.received_at <= until)

        if actor.active is not None and concerns(actor.active):
            await self._store.write(actor.stop_unit(StopReason.FORGOTTEN))
            actor.stop_active(StopReason.FORGOTTEN)
        for waiting in actor.line:
            if concerns(waiting.row):
                await actor.drop(waiting, _dropped)
        await actor.drop_arriving(_dropped, arrives)

    async def _quiet(self, row: DeletionRow, thread_ids: list[str]) -> None:
        """Wait until nothing runs in these threads, or for the person. Raises NotYet."""
        person = whose(row) if row.kind is DeletionKind.PERSON else None
        began = self._clock.monotonic()
        while await self._store.read(lambda tx: forgetting.working(tx, thread_ids, person, row.asked_at)):
            if self._clock.monotonic() - began > QUIET_SECONDS:
                raise NotYet("a stopped run is still running")
            await self._clock.sleep(LOOK_SECONDS)

    # The deletion itself.

    async def _carry_out(self, row: DeletionRow) -> None:
        thread_ids = await self._store.read(lambda tx: _let_go_of(tx, row))
        if row.kind is DeletionKind.PERSON:
            self._background(row.subject)
        await self._quiet(row, thread_ids)
        await self._said(row)
        if row.kind is DeletionKind.PERSON:
            whole = await self._persons.erase(row, thread_ids)
        else:
            whole = True
            await self._threads.remove_uploads(row)
            await self._threads.erase(row.id, row.subject)
            await self._store.write(lambda tx: forgetting.blank_place(tx, row))
        if not whole or await self._unsaid(row):
            raise NotYet("an active run of others has received the words, or an answer is not delivered yet")
        await self._erased(row)
        if row.asked_by != forgetting.BY_AGE:
            await self._threads.scrub()
            await self._scrub()
        await self._finish(row)

    async def _said(self, row: DeletionRow) -> None:
        """Wait for the delivery of pending answers, such as those of stopped runs, but not for long."""
        began = self._clock.monotonic()
        while await self._unsaid(row) and self._clock.monotonic() - began < QUIET_SECONDS / 4:
            await self._clock.sleep(LOOK_SECONDS)

    async def _unsaid(self, row: DeletionRow) -> int:
        if row.kind is DeletionKind.PERSON:
            return await self._persons.unsaid(row)
        return await self._store.read(lambda tx: forgetting.undelivered(tx, forgetting.runs_of_thread(tx, row.subject)))

    async def _scrub(self) -> None:
        for _ in range(SCRUBS):
            if await self._store.scrub():
                return
            await self._clock.sleep(LOOK_SECONDS)
        raise NotYet("the database is being read continuously")

    async def _finish(self, row: DeletionRow) -> None:
        now = self._clock.now()
        await self._tell(row, "done", lambda tx: forgetting.finish_deletion(tx, row.id, now))
        counts = await self._store.read(lambda tx: forgetting.deleted_so_far(tx, row.id))
        log.info("deletion %s (%s, requested by %s) is complete: %s", row.id, row.kind, row.asked_by, counts)
        self._held_up.discard(row.id)
        if (done := self._done.pop(row.id, None)) is not None:
            done.set()

    async def _tell(self, row: DeletionRow, how: str, also: Callable[[Connection], object] | None = None) -> None:
        """Report in the message that was confirmed, if there is one."""
        if row.address is None or row.reply_key is None:
            if also is not None:
                await self._store.write(also)
            return
        counts = await self._store.read(lambda tx: forgetting.deleted_so_far(tx, row.id))
        text = report(row.kind, how, counts, texts_for(row.language or DEFAULT))
        message = OutboundMessage(text=text, final=True)
        await self._responder.tell(row.reply_key, row.address, None, message, also=also)


def _dropped(texts: Texts) -> str:
    return texts.forgetting["dropped"]


def _let_go_of(tx: Connection, row: DeletionRow) -> list[str]:
    """The threads to be deleted that are already detached."""
    return forgetting.let_go_of(tx, whose(row)) if row.kind is DeletionKind.PERSON else [row.subject]


def _own(tx: Connection, row: DeletionRow) -> set[str]:
    """The conversations whose threads are to be deleted."""
    if row.kind is DeletionKind.PERSON:
        return set(forgetting.conversations_of(tx, whose(row)))
    place = forgetting.place_of(tx, row.subject)
    return set() if place is None else {place}


def _concerned(tx: Connection, row: DeletionRow) -> set[str]:
    """The conversations of `_own`, and those with active runs that have to be stopped."""
    person = whose(row) if row.kind is DeletionKind.PERSON else None
    thread_ids = [] if person is not None else [row.subject]
    return _own(tx, row) | set(forgetting.working(tx, thread_ids, person, row.asked_at).values())


def summary(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts in the order of reports; 0 if nothing was deleted."""
    return {kind: counts.get(kind, 0) for kind in KINDS}


def report(kind: DeletionKind, how: str, counts: Mapping[str, int], texts: Texts) -> str:
    """The text of a report. how: under_way, again or done."""
    say = texts.forgetting
    if how != "done":
        return say[how]
    if kind is DeletionKind.THREAD:
        return say["thread_done"]
    lines = [say[f"count_{name}"].format(count=count) for name, count in summary(counts).items() if count]
    return "\n".join([say["done"] if lines else say["nothing"], *lines, "", say["stays"]])


class Retention:
    """Deletes old threads. days: None: threads are kept."""

    def __init__(
        self, store: RetryingStore, service: Forgetting, in_order: InOrder, clock: Clock, days: int | None
    ) -> None:
        self._store = store
        self._service = service
        self._in_order = in_order
        self._clock = clock
        self.days = days

    async def look(self) -> int:
        """Have a portion of the threads deleted that are too old now; returns their number. Threads that are in use,
        or were used again, are kept."""
        if self.days is None:
            return 0
        before = self._clock.now() - timedelta(days=self.days)
        found = await self._store.read(lambda tx: forgetting.untouched(tx, before))
        asked = [self._in_order(key, partial(self._ask, thread_id=thread, before=before)) for thread, key in found]
        rows = [row for row in await asyncio.gather(*asked, return_exceptions=True) if isinstance(row, DeletionRow)]
        for row in rows:
            await self._service.begin(row)
        return len(rows)

    async def _ask(self, actor: Conversation, thread_id: str, before: datetime) -> DeletionRow | None:
        if actor.busy:
            return None
        now = self._clock.now()
        row = DeletionRow(
            id=f"age:{thread_id}",
            kind=DeletionKind.THREAD,
            subject=thread_id,
            account=actor.key.partition(":")[0],
            asked_by=forgetting.BY_AGE,
            asked_at=now,
        )

        def unit(tx: Connection) -> bool:
            if not forgetting.is_untouched(tx, thread_id, before):
                return False
            if not forgetting.let_go(tx, actor.key, now, now, thread_id):
                return False
            forgetting.ask_deletion(tx, row)
            return True

        asked = await self._store.write(unit)
        actor.forget_row()
        return row if asked else None
