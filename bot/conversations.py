"""The actor of a conversation: takes its events in order, one run at a time, and is gone when there is nothing to do.

The manager posts to it and never waits for it; a run never blocks it, so that /stop and /status are answered at once.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.identity import owner_of, thread_folder
from bot.mailbox import Arrived, Edited, Ended, Item, Resume, Task
from bot.store import conversations, inbox, runs
from bot.texts import texts_for
from bot.turns import Spoken, Turn, edited_message, edited_run, run_of
from bot.uploads import Refused, display_name
from channels.message import OutboundMessage
from harness.context import RUN_CONTEXT, InputFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Connection

    from bot.admission import Background
    from bot.patience import PatientStore
    from bot.respond import Responder
    from bot.runs import ActiveRun, RunManager, StopReason
    from bot.store.rows import ConversationRow, RunRow
    from bot.tasks import Tasks
    from bot.uploads import Uploads
    from channels.base import Channel, Clock
    from channels.message import Message

log = logging.getLogger(__name__)


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
    def __init__(self, key: str, ports: ConversationPorts, on_idle: Callable[[Conversation], None]) -> None:
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
            self._on_idle(self)

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
            case Arrived():
                item.turn.complete = True
                await self._open_complete()
            case Ended():
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
            turn.arriving = self._ports.tasks.spawn(f"{self.key}:arrive", self._assemble(turn))
            # Cancelled (dropped, or the process stops) it is not answered without its files.
            turn.arriving.add_done_callback(lambda done: None if done.cancelled() else self.post(Arrived(turn)))

    async def _assemble(self, turn: Turn) -> None:
        """Wait for the bundle's last part, fetch the files."""
        await turn.quiet(self._ports.clock)
        channel = self._ports.channel(turn.first.account)
        folder = thread_folder(self._ports.data_dir, (await self.row(turn.first)).thread_id) / "uploads"
        for attachment in (found for part in turn.parts for found in part.message.attachments):
            if channel is None:
                turn.refused.append(Refused(display_name(attachment), "failed"))
                continue
            result = await self._ports.uploads.fetch(channel, attachment, folder)
            if isinstance(result, InputFile):
                turn.files.append(result)
            else:
                turn.refused.append(result)

    async def _open_complete(self) -> None:
        """Open a run for each complete turn at the head; an earlier one that still arrives holds back the later."""
        while self._turns and self._turns[0].complete:
            await self._open(self._turns.popleft())

    async def _open(self, turn: Turn) -> None:
        """Give the turn a run, or just tell that its files were refused when it was nothing else."""
        ports, message, notice = self._ports, turn.first, turn.not_taken()
        if notice is not None and turn.hollow:
            await self._answer(turn, notice, "files refused")
            return
        run = run_of(
            turn,
            await self.row(message),
            model=ports.default_model,
            background=ports.background.take(self.key),
            data_dir=ports.data_dir,
            now=ports.clock.now(),
            epoch=ports.store.epoch,
        )
        if notice is None:
            await ports.store.write(lambda tx: _open_once(tx, run))
        else:
            await ports.responder.tell(
                f"files:{run.run_id}",
                message.address,
                message.platform_message_id,
                notice,
                also=lambda tx: _open_once(tx, run),
            )
        self.queue.append(run)
        self._start_next()

    async def _answer(self, turn: Turn, notice: OutboundMessage, reason: str) -> None:
        """Settle a turn that gets no run, with a sentence."""
        responder, message = self._ports.responder, turn.first
        await responder.tell(
            f"event:{turn.ids[0]}",
            message.address,
            message.platform_message_id,
            notice,
            also=lambda tx: responder.answered(tx, turn.ids, reason),
        )

    # Runs, one at a time.

    def _start_next(self) -> None:
        if self.active is not None or not self.queue:
            return
        self.active = self.queue.popleft()
        self._ports.tasks.spawn(f"{self.key}:run", self._execute(self._ports.runs.begin(self.active)))

    async def _execute(self, run: ActiveRun) -> None:
        try:
            await self._ports.runs.execute(run)
        finally:
            self.post(Ended(run.row.run_id))

    def stop_active(self, reason: StopReason) -> bool:
        """Stop the running run; False when there is none to stop."""
        return self.active is not None and self._ports.runs.stop(self.active.run_id, reason)

    async def drop_waiting(self, sentence: Callable[[str], str]) -> int:
        """End everything that waits, arriving files too, with a sentence in its language; returns how many."""
        queue, arriving = list(self.queue), list(self._turns)
        self.queue.clear()
        self._turns.clear()
        for row in queue:
            await self._ports.runs.drop(row, sentence(RUN_CONTEXT.validate_json(row.context).locale))
        for turn in arriving:
            if turn.arriving is not None:
                turn.arriving.cancel()
            await self._answer(turn, OutboundMessage(text=sentence(turn.language), final=True), "dropped")
        return len(queue) + len(arriving)

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

    def move(self, key: str) -> None:
        """The conversation has another key, in the store already: what runs and waits here goes on under it."""
        self.key = key
        self._row = None

    # Edits and refusals.

    async def _edited(self, edited: Edited) -> None:
        """A message that still waits is replaced by its new state; one that is being answered is not run again."""
        new, settle = edited.message, self._ports.responder.settle
        for turn in self._turns:
            for index, part in enumerate(turn.parts):
                if (message := edited_message(part.message, new)) is not None:
                    turn.parts[index] = replace(part, message=message)
                    return await settle([edited.id], "edit taken over", _edit(part.id, message))
        for index, row in enumerate(self.queue):
            known = await self._ports.store.read(lambda tx, row=row: inbox.load(tx, row.inbox_ids))  # type: ignore[misc]  # mypy has no type for a lambda's default
            if (changed := edited_run(row, known, new)) is not None:
                self.queue[index], event_id, message = changed
                return await settle([edited.id], "edit taken over", _edit(event_id, message, changed[0]))
        await settle([edited.id], "edited after its turn began")

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


def _open_once(tx: Connection, run: RunRow) -> None:
    """Open a run; nothing when it was committed by a try whose answer got lost with the connection."""
    if runs.load(tx, run.run_id) is None:
        runs.open(tx, run)


def _edit(event_id: int, message: Message, run: RunRow | None = None) -> Callable[[Connection], None]:
    """The unit that stores a waiting message's new state, and its run's."""

    def unit(tx: Connection) -> None:
        inbox.replace_event(tx, event_id, message)
        if run is not None:
            runs.set_input(tx, run.run_id, run.input)

    return unit
