"""Threads of programs: each is a conversation of its person on the account `api`, by an id of the program's choosing.

Another person's thread is not found, since its conversation has another key.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from bot.access.admission import FloodGate
from bot.http.api.content import invalid
from bot.http.api.models import small
from bot.http.errors import HttpProblem, not_found, too_many
from bot.store import conversations, forgetting, programs, prompts, run_events, runs
from bot.store.forgetting import BY_AGE, DeletionKind, DeletionRow
from bot.store.identity import chat_of
from bot.store.programs import ProgramThread
from bot.store.retrying import every
from bot.store.rows import RunState
from channels.supervision import within
from harness.errors import ThreadTooLarge, UnfitChange
from harness.events import RUN_EVENT, Question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from bot.conversations.actor import Conversation
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.prompts import ApprovalRow
    from bot.store.rows import ConversationRow, RunRow
    from harness.context import HistoryEntry, Removal, ThreadView

ACCOUNT = "api"
KEPT = timedelta(minutes=2)
"""Time that a thread made for one run remains after its end, for clients that come back for the answer."""
TIDY_SECONDS = 30.0
WRITES_PER_MINUTE, WRITES_AT_ONCE = 120.0, 60
COPIES_PER_MINUTE, COPIES_AT_ONCE = 10.0, 10
"""Copies of one person's threads: each reads and writes a whole history."""

MOST_TOLD, PORTION = 32_000_000, 10
"""Characters of messages in one answer, and states read before they are counted."""
LOOK_SECONDS = 0.5
"""Seconds between two reads of the store while a message is decided on, since a rejection is not announced."""
NO_CHECKPOINT = "there is no such checkpoint, or no longer"

Interrupts = list[dict[str, Any]]
T = TypeVar("T")


class Threads:
    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._store = parts.store
        self._writes = FloodGate(parts.clock, WRITES_PER_MINUTE, WRITES_AT_ONCE)
        self._copies = FloodGate(parts.clock, COPIES_PER_MINUTE, COPIES_AT_ONCE)

    async def create(
        self,
        caller: Caller,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        temporary: bool = False,
    ) -> tuple[ProgramThread, bool]:
        """Create the thread with that id (a UUID; None: a new one), if it is new. Returns it, and whether it was."""
        thread_id = str(uuid.uuid4()) if name is None else name
        key, now = f"{ACCOUNT}:{chat_of(caller.person, thread_id)}", self._parts.clock.now()
        row = ProgramThread(
            key=key,
            person=caller.person,
            name=thread_id,
            metadata=dict(metadata or {}),
            temporary=temporary,
            created_at=now,
            updated_at=now,
        )

        def unit(tx: Connection) -> tuple[ProgramThread, bool]:
            conversations.ensure(tx, key, ACCOUNT, caller.person, now)
            made = programs.create(tx, row)
            return programs.load(tx, key) or row, made

        return await self._store.write(unit)

    async def find(self, caller: Caller, thread_id: str) -> ProgramThread:
        """The caller's thread with that id. Raises HttpProblem, the same for another's thread as for a missing one."""
        try:
            name = str(uuid.UUID(thread_id))
        except ValueError:
            raise not_found("there is no such thread") from None
        key = f"{ACCOUNT}:{chat_of(caller.person, name)}"
        found = await self._store.read(lambda tx: programs.load(tx, key))
        if found is None or found.person != caller.person:
            raise not_found("there is no such thread")
        return found

    async def update(self, thread: ProgramThread, metadata: Mapping[str, Any]) -> ProgramThread:
        """Merge members into a thread's metadata. Raises HttpProblem where all of them together are too large."""
        now = self._parts.clock.now()

        def unit(tx: Connection) -> ProgramThread:
            changed = programs.change(tx, thread.key, metadata, now) or thread
            try:
                small(changed.metadata)
            except ValueError as error:
                raise invalid(str(error), "metadata") from None
            return changed

        return await self._store.write(unit)

    async def all(self, caller: Caller) -> list[ProgramThread]:
        """The caller's threads, most recently used first."""
        return await self._store.read(lambda tx: programs.of_person(tx, caller.person))

    async def record(self, thread: ProgramThread) -> ConversationRow:
        """The thread's conversation. Raises HttpProblem where it is being deleted."""
        row = await self._store.read(lambda tx: conversations.load(tx, thread.key))
        if row is None:
            raise not_found("there is no such thread")
        return row

    # What is in it.

    async def views(
        self, thread: ProgramThread, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        """See Harness.views."""
        thread_id = (await self.record(thread)).thread_id
        return await (await self._parts.harness()).views(thread_id, at=at, before=before, limit=limit)

    async def history(self, thread: ProgramThread, before: str | None, limit: int) -> list[ThreadView]:
        """The newest states before a checkpoint. Raises HttpProblem where they are too long for one answer."""
        found: list[ThreadView] = []
        size = 0
        while len(found) < limit:
            older = await self.views(thread, before=before, limit=min(PORTION, limit - len(found)))
            if not older:
                break
            found, before = [*found, *older], older[-1].checkpoint_id
            for each in older:
                size = lengthened(size, each.messages)
        return found

    async def values(self, thread: ProgramThread) -> dict[str, Any]:
        """The current state of a thread."""
        found = await self.views(thread)
        return values_of(found[0]) if found else {"messages": []}

    async def newest_run(self, key: str) -> RunRow | None:
        found = await self._store.read(lambda tx: runs.recent(tx, key, 1))
        return found[0] if found else None

    async def status(self, thread: ProgramThread) -> tuple[str, Interrupts]:
        """idle, busy, interrupted or error; and what the thread waits for."""
        working = await self._store.read(lambda tx: runs.active(tx, thread.key))
        if working is not None and working.state is RunState.WAITING:
            waits = await self.approvals(working)
            return ("interrupted", waits) if waits else ("busy", [])
        last = await self.newest_run(thread.key)
        if last is None:
            return "idle", []
        if working is not None or not last.state.ended:
            return "busy", []
        asked = await self.question(last)
        if asked:
            return "interrupted", asked
        return ("error" if last.state in (RunState.ERROR, RunState.TIMEOUT) else "idle"), []

    async def approvals(self, run: RunRow) -> Interrupts:
        """The approvals that a run waits for."""
        open_ = await self._store.read(lambda tx: prompts.open_approvals(tx, run.run_id))
        return [_approval(row) for row in open_]

    async def question(self, run: RunRow) -> Interrupts:
        """The question that an ended run asked the person, while it is open."""
        if run.state is not RunState.SUCCESS:
            return []
        events = await self._store.read(lambda tx: run_events.read(tx, run.run_id))
        bodies = [body for _, kind, body in events if kind == "question"]
        asked = RUN_EVENT.validate_json(bodies[-1]) if bodies else None
        if not isinstance(asked, Question) or asked.expires_at <= self._parts.clock.now():
            return []
        return [_question(asked)]

    # Writing into it.

    async def write(self, thread: ProgramThread, changes: Sequence[HistoryEntry | Removal], at: str | None) -> None:
        """Change a thread's messages; without changes, restore it as of that checkpoint. Raises HttpProblem."""
        harness = await self._parts.harness()

        async def write() -> None:
            thread_id = (await self.record(thread)).thread_id
            try:
                if changes:
                    await harness.change(thread_id, changes, at=at)
                else:
                    await harness.rewind(thread_id, at)
            except ThreadTooLarge as error:
                raise HttpProblem(413, "too_long", f"values.messages: {error}") from None
            except UnfitChange as error:
                raise invalid(str(error), "values.messages") from None
            except LookupError:
                raise not_found(NO_CHECKPOINT) from None

        _check(self._writes, thread.person)
        if at is not None and not await self.views(thread, at=at):
            raise not_found(NO_CHECKPOINT)
        await self._at_rest(thread, write)
        now = self._parts.clock.now()
        await self._store.write(lambda tx: programs.touch(tx, thread.key, now))

    async def copy(self, caller: Caller, thread: ProgramThread) -> ProgramThread:
        """Create another thread with the same history and metadata, without the files. Raises HttpProblem."""
        _check(self._copies, caller.person)
        harness = await self._parts.harness()

        async def copy() -> ProgramThread:
            made, _ = await self.create(caller, metadata=thread.metadata)
            await harness.fork((await self.record(thread)).thread_id, (await self.record(made)).thread_id)
            await self._store.write(lambda tx: programs.touch(tx, made.key, made.created_at))
            return made

        return await self._at_rest(thread, copy)

    async def _at_rest(self, thread: ProgramThread, do: Callable[[], Awaitable[T]]) -> T:
        """Do something in a thread in which nothing runs or waits. Raises HttpProblem where something does."""

        def has_runs(tx: Connection) -> bool:
            return runs.active(tx, thread.key) is not None or bool(runs.queued(tx, thread.key))

        async def attempt(actor: Conversation) -> list[T]:
            return [] if actor.busy else [await do()]

        with self._parts.runs.following.watch(thread.key) as changed:
            while True:
                changed.clear()
                if await self._store.read(has_runs):
                    text = "a run of this thread is active or waiting: wait until it ends, or cancel it, and try again"
                    raise HttpProblem(409, "thread_busy", text)
                if result := await self._parts.manager.in_order(thread.key, attempt, HttpProblem):
                    return result[0]
                # A message is about to become a run, or a run has ended and its conversation has not been notified yet.
                await within(LOOK_SECONDS, changed.wait())

    # Its end.

    async def delete(self, thread: ProgramThread, by: str) -> None:
        """Delete a thread: it is not found from now on, and its messages and files are deleted right after that."""
        record, now = await self.record(thread), self._parts.clock.now()
        row = DeletionRow(
            id=f"api:{record.thread_id}",
            kind=DeletionKind.THREAD,
            subject=record.thread_id,
            account=ACCOUNT,
            asked_by=by,
            asked_at=now,
        )

        def unit(tx: Connection) -> bool:
            if not programs.drop(tx, thread.key):
                return False
            forgetting.ask_deletion(tx, row)
            return True

        if await self._store.write(unit):
            await self._parts.forgetting.begin(row)
            self._parts.tasks.spawn(f"clear:{thread.name}", self._cleared(thread.key, row.id))

    async def _cleared(self, key: str, deletion_id: str) -> None:
        await self._parts.forgetting.finished(deletion_id)
        await self._store.write(lambda tx: programs.clear(tx, key))

    async def tidy(self) -> None:
        """Delete threads made for one run that is over; runs until cancelled."""

        async def delete() -> None:
            before = self._parts.clock.now() - KEPT
            for thread in await self._store.read(lambda tx: programs.over(tx, before)):
                if await self._store.read(lambda tx, key=thread.key: conversations.load(tx, key)) is None:  # type: ignore[misc]
                    await self._store.write(lambda tx, key=thread.key: programs.drop(tx, key))  # type: ignore[misc]
                else:
                    await self.delete(thread, BY_AGE)

        await every(TIDY_SECONDS, self._parts.clock, "deleting temporary threads", delete)


def lengthened(size: int, messages: Iterable[Mapping[str, Any]]) -> int:
    """The characters of an answer's messages, with these added. Raises HttpProblem where they are too many."""
    size += sum(len(each["content"]) for each in messages)
    if size > MOST_TOLD:
        text = f"the messages of this answer have more than {MOST_TOLD} characters: request less with `limit`"
        raise HttpProblem(413, "too_long", text)
    return size


def _check(gate: FloodGate, person: str) -> None:
    """Count a write or copy. Raises HttpProblem for too many."""
    if not gate.passes(person):
        raise too_many("too many changes or copies of threads")


def _approval(row: ApprovalRow) -> dict[str, Any]:
    options = ["once", "deny"] if row.is_exact else ["once", "chat", "deny"]
    about = {"tool": row.tool, "arguments": row.shown, "reason": row.why, "call_id": row.call_id}
    about["run_id"] = str(uuid.UUID(row.run_id))
    expires = {"expires_at": row.expires_at.isoformat()}
    return {"id": row.prompt_id, "value": {"type": "approval", **about, "options": options, **expires}}


def _question(asked: Question) -> dict[str, Any]:
    value = {"type": "question", "text": asked.text, "options": list(asked.options)}
    value["run_id"] = str(uuid.UUID(asked.run_id))
    return {"id": asked.prompt_id, "value": {**value, "expires_at": asked.expires_at.isoformat()}}


def values_of(view: ThreadView) -> dict[str, Any]:
    """A thread's state as programs read it."""
    values: dict[str, Any] = {"messages": list(view.messages)}
    return {**values, "todos": list(view.todos)} if view.todos else values


def checkpoint_json(thread_id: str, checkpoint_id: str) -> dict[str, Any]:
    return {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id, "checkpoint_map": None}


def state_json(thread_id: str, view: ThreadView | None, interrupts: Interrupts = ()) -> dict[str, Any]:  # type: ignore[assignment]
    """LangGraph's ThreadState. interrupts: of the newest state."""
    if view is None:
        return {
            "values": {},
            "next": [],
            "tasks": [],
            "interrupts": [],
            "metadata": {},
            "created_at": None,
            "checkpoint": checkpoint_json(thread_id, ""),
            "parent_checkpoint": None,
        }
    parent = view.parent_id
    node = "tools" if interrupts or _calls(view) else "model"
    task = {"id": view.run_id, "name": node, "error": None, "interrupts": list(interrupts), "checkpoint": None}
    waits = view.open or bool(interrupts)
    return {
        "values": values_of(view),
        "next": [node] if waits else [],
        "tasks": [{**task, "state": None, "result": None}] if waits else [],
        "interrupts": list(interrupts),
        "metadata": {"step": view.step, "run_id": view.run_id},
        "created_at": view.created_at,
        "checkpoint": checkpoint_json(thread_id, view.checkpoint_id),
        "parent_checkpoint": None if parent is None else checkpoint_json(thread_id, parent),
    }


def _calls(view: ThreadView) -> bool:
    """Whether the model has called tools whose results are still missing."""
    asked = [call["id"] for message in view.messages if message["type"] == "ai" for call in message["tool_calls"]]
    return bool(asked) and asked[-1] not in [each.get("tool_call_id") for each in view.messages]
