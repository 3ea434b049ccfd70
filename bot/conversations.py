"""The actor of a conversation: takes its events in order, one run at a time, and is gone when there is nothing to do.

The manager posts to it and never waits for it; a run never blocks it, so that /stop and /status are answered at once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from bot.identity import owner_of, person_id, thread_folder
from bot.store import conversations, inbox, runs
from bot.store.rows import RunRow, RunState
from bot.texts import texts_for
from bot.uploads import Refused
from channels.message import INBOUND_EVENT, Message, OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT, InputFile, RunContext, RunInput, Speaker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from bot.admission import Background
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs import RunManager, StopReason
    from bot.store.rows import ConversationRow, InboxRow
    from bot.tasks import Tasks
    from bot.uploads import Uploads
    from channels.base import Channel, Clock

log = logging.getLogger(__name__)

QUIET = 0.8
"""Seconds without a further event after which a bundle (an album, a long paste) is complete."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """An admitted message. language: to answer in; is_admin: of its sender."""

    id: int
    message: Message
    language: str
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """The new state of a message that may still be waiting. id: of the edit's own inbox row."""

    id: int
    message: Message


@dataclass(frozen=True, slots=True)
class Resume:
    """Runs of an earlier process, oldest first."""

    rows: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do in the conversation's own order, such as a command. The event it answers is settled by it."""

    id: int
    do: Callable[[Conversation], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Arrived:
    turn: Turn


@dataclass(frozen=True, slots=True)
class _Ended:
    run_id: str


Item = Spoken | Edited | Resume | Task | _Arrived | _Ended


@dataclass(slots=True)
class Turn:
    """One turn's input while it is put together: several events of one bundle, and their files.

    sealed: a further part would start a turn of its own. complete: the files are there, a run can be opened.
    """

    parts: list[Spoken]
    sealed: bool = False
    complete: bool = False
    files: list[InputFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    touched: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def first(self) -> Message:
        return self.parts[0].message

    def takes(self, message: Message) -> bool:
        """Whether a message is a further part of this turn."""
        return (
            not self.sealed
            and message.bundle_key is not None
            and message.bundle_key == self.first.bundle_key
            and message.sender.id == self.first.sender.id
        )


@dataclass(frozen=True, slots=True)
class ConversationPorts:
    """What every actor shares."""

    store: PatientStore
    runs: RunManager
    responder: Responder
    uploads: Uploads
    background: Background
    clock: Clock
    tasks: Tasks
    data_dir: Path
    default_model: str
    queue_limit: int
    channel: Callable[[str], Channel | None]


class Conversation:
    def __init__(self, key: str, ports: ConversationPorts, on_idle: Callable[[str], None]) -> None:
        self.key = key
        self._ports = ports
        self._on_idle = on_idle
        self._mailbox: deque[Item] = deque()
        self._working = False
        self._row: ConversationRow | None = None
        self._turns: deque[Turn] = deque()
        self._refusals: tuple[str, int] | None = None
        self.queue: deque[RunRow] = deque()
        self.active: RunRow | None = None

    def post(self, item: Item) -> None:
        """Add an event; returns at once."""
        self._mailbox.append(item)
        if not self._working:
            self._working = True
            self._ports.tasks.spawn(self.key, self._work())

    @property
    def load(self) -> int:
        """Messages that wait here, in any stage."""
        return len(self.queue) + len(self._turns) + sum(isinstance(item, Spoken) for item in self._mailbox)

    async def _work(self) -> None:
        while self._mailbox:
            await self._handle(self._mailbox.popleft())
        self._working = False
        if self.active is None and not self._turns and not self.queue:
            self._on_idle(self.key)

    async def _handle(self, item: Item) -> None:
        try:
            await self._dispatch(item)
        except Exception:
            # The one place that survives a bug: the event stays in the inbox (and is tried again at the next start),
            # the conversation goes on with the next one.
            log.exception("%s could not handle %s", self.key, type(item).__name__)

    async def _dispatch(self, item: Item) -> None:
        match item:
            case Spoken():
                await self._spoken(item)
            case Edited():
                await self._edited(item)
            case Task():
                await item.do(self)
            case Resume():
                self.queue.extend(item.rows)
                self._start_next()
            case _Arrived():
                item.turn.complete = True
                await self._open_complete()
            case _Ended():
                self.active = None
                self._start_next()

    # Messages become turns, turns become runs.

    async def _spoken(self, spoken: Spoken) -> None:
        message = spoken.message
        if self._turns and self._turns[-1].takes(message):
            self._turns[-1].parts.append(spoken)
            self._turns[-1].touched.set()
            return
        if len(self.queue) + len(self._turns) >= self._ports.queue_limit:
            await self._refuse(spoken)
            return
        self._refusals = None
        at_once = message.bundle_key is None and not message.attachments
        turn = Turn([spoken], sealed=at_once, complete=at_once)
        self._turns.append(turn)
        if at_once:
            await self._open_complete()
        else:
            self._ports.tasks.spawn(f"{self.key}:arrive", self._assemble(turn))

    async def _assemble(self, turn: Turn) -> None:
        """Wait for the bundle's last part, fetch the files, then post the complete turn."""
        while turn.first.bundle_key is not None:
            turn.touched.clear()
            waiting = asyncio.create_task(turn.touched.wait())
            quiet = asyncio.create_task(self._ports.clock.sleep(QUIET))
            done, rest = await asyncio.wait({waiting, quiet}, return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            if waiting not in done:
                break
        turn.sealed = True
        try:
            await self._fetch(turn)
        finally:
            self.post(_Arrived(turn))

    async def _fetch(self, turn: Turn) -> None:
        channel = self._ports.channel(turn.first.account)
        folder = thread_folder(self._ports.data_dir, (await self.row(turn.first)).thread_id) / "uploads"
        for attachment in (found for part in turn.parts for found in part.message.attachments):
            if channel is None:
                turn.refused.append(Refused(attachment.name or attachment.kind, "failed"))
                continue
            result = await self._ports.uploads.fetch(channel, attachment, folder)
            if isinstance(result, InputFile):
                turn.files.append(result)
            else:
                turn.refused.append(result)

    async def _open_complete(self) -> None:
        """Open a run for each complete turn at the head; an earlier one that still arrives holds back the later."""
        while self._turns and self._turns[0].complete:
            run = self._run_row(self._turns[0], await self.row(self._turns[0].first))
            await self._ports.store.write(partial(runs.open, row=run))
            self._turns.popleft()
            self.queue.append(run)
            self._start_next()

    def _run_row(self, turn: Turn, row: ConversationRow) -> RunRow:
        message, run_id, now = turn.first, uuid.uuid4().hex, self._ports.clock.now()
        speaker = person_id(message.account, message.sender.id)
        context = RunContext(
            thread_id=row.thread_id,
            run_id=run_id,
            trace_id=run_id,
            account=message.account,
            conversation=self.key,
            owner=row.owner,
            speaker=Speaker(id=speaker, display_name=message.sender.display_name, is_admin=turn.parts[0].is_admin),
            is_group=message.address.kind != "dm",
            locale=turn.parts[0].language,
            workspace=str(thread_folder(self._ports.data_dir, row.thread_id)),
            model=row.model or self._ports.default_model,
        )
        return RunRow(
            run_id=run_id,
            thread_id=row.thread_id,
            conversation=self.key,
            speaker=speaker,
            inbox_ids=tuple(part.id for part in turn.parts),
            reply_key=run_id,
            address=message.address,
            reply_to=message.platform_message_id,
            state=RunState.PENDING,
            context=RUN_CONTEXT.dump_json(context).decode(),
            input=RUN_INPUT.dump_json(self._input(turn)).decode(),
            base_checkpoint_id=None,
            head=None,
            attempt=0,
            epoch=self._ports.store.epoch,
            model_calls=0,
            created_at=now,
            started_at=None,
            ended_at=None,
        )

    def _input(self, turn: Turn) -> RunInput:
        message = turn.first
        return RunInput(
            message_id=f"m{turn.parts[0].id}",
            text="\n".join(part.message.text for part in turn.parts if part.message.text),
            files=tuple(turn.files),
            quote=message.reply_to.text if message.reply_to and not message.reply_to.from_bot else "",
            background=self._ports.background.take(self.key),
        )

    # Runs, one at a time.

    def _start_next(self) -> None:
        if self.active is not None or not self.queue:
            return
        self.active = self.queue.popleft()
        self._ports.tasks.spawn(f"{self.key}:run", self._execute(self.active))

    async def _execute(self, row: RunRow) -> None:
        try:
            await self._ports.runs.execute(row)
        finally:
            self.post(_Ended(row.run_id))

    def stop_active(self, reason: StopReason) -> bool:
        """Stop the running run; False when there is none to stop."""
        return self.active is not None and self._ports.runs.stop(self.active.run_id, reason)

    async def drop_waiting(self, sentence: Callable[[str], str]) -> int:
        """End every waiting run with a sentence in its language; returns how many."""
        dropped = list(self.queue)
        self.queue.clear()
        for row in dropped:
            await self._ports.runs.drop(row, sentence(RUN_CONTEXT.validate_json(row.context).locale))
        return len(dropped)

    # The conversation's own record.

    async def row(self, message: Message) -> ConversationRow:
        """The conversation as stored, made at its first message."""
        if self._row is not None:
            return self._row
        owner, now = owner_of(message.address, message.sender, self.key), self._ports.clock.now()
        row = await self._ports.store.write(lambda tx: conversations.ensure(tx, self.key, message.account, owner, now))
        self._row = row
        return row

    def forget_row(self) -> None:
        """Read the record anew at its next use."""
        self._row = None

    # Edits and refusals.

    async def _edited(self, edited: Edited) -> None:
        """A message that still waits is replaced by its new state; one that is being answered is not run again."""
        message = edited.message
        reason = "edited after its turn began"
        for turn in self._turns:
            for index, part in enumerate(turn.parts):
                if part.message.platform_message_id == message.platform_message_id:
                    turn.parts[index] = replace(part, message=replace(part.message, text=message.text))
                    reason = "edit taken over"
        for index, row in enumerate(self.queue):
            known = await self._ports.store.read(partial(inbox.load, ids=row.inbox_ids))
            changed = self._replace_text(row, known, message)
            if changed is not None:
                await self._ports.store.write(partial(runs.set_input, run_id=changed.run_id, run_input=changed.input))
                self.queue[index] = changed
                reason = "edit taken over"
        await self._ports.responder.settle([edited.id], reason)

    def _replace_text(self, row: RunRow, known: Sequence[InboxRow], message: Message) -> RunRow | None:
        originals = [INBOUND_EVENT.validate_json(found.event) for found in known]
        texts = []
        matched = False
        for original in originals:
            if not isinstance(original, Message):
                continue
            matches = original.platform_message_id == message.platform_message_id
            matched = matched or matches
            texts.append(message.text if matches else original.text)
        if not matched:
            return None
        run_input = replace(RUN_INPUT.validate_json(row.input), text="\n".join(text for text in texts if text))
        return replace(row, input=RUN_INPUT.dump_json(run_input).decode())

    async def _refuse(self, spoken: Spoken) -> None:
        """Too many wait. Told once, in one message whose count grows, not in a storm of messages."""
        key, count = self._refusals or (f"event:{spoken.id}", 0)
        self._refusals = key, count + 1
        text = texts_for(spoken.language).queue_full.format(count=count + 1, limit=self._ports.queue_limit)
        message = spoken.message
        await self._ports.responder.answer(
            spoken.id,
            message.address,
            message.platform_message_id,
            OutboundMessage(text=text, final=True),
            reason="queue full",
            reply_key=key,
        )
