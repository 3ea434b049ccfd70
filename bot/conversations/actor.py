"""The actor of a conversation: processes its events in order, one run at a time, and ends when idle.

The manager posts to it without waiting; a run never blocks it, so /stop and /status are answered at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.conversations.openings import Openings
from bot.conversations.queue import WaitingLine
from bot.delivery.buttons import waiting_question
from bot.runs.inputs import edited_input, event_of, messages_of, run_again
from bot.runs.research import tried_again
from bot.runs.turns import Arrivals, Spoken, Turn
from bot.settings.busy_policies import Backlog, Refusal, refusal
from bot.store import conversations, inbox, memories, prompts, runs
from bot.store.identity import owner_of, person_id
from bot.store.rows import StopReason
from bot.texts import texts_for
from bot.texts.command_line import parse
from bot.usage.days import zone_of
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.conversations.queue import Waiting
    from bot.conversations.services import ConversationPorts
    from bot.runs.active import ActiveRun
    from bot.runs.approvals import ApprovalService
    from bot.store.rows import ConversationRow, RunRow
    from bot.texts.catalogue import Texts
    from channels.message import Address, Message
    from harness.context import RunInput

log = logging.getLogger(__name__)

REASONS = {Refusal.BUSY: "busy", Refusal.QUEUE_FULL: "queue full", Refusal.ALL_FULL: "backlog full"}


@dataclass(frozen=True, slots=True)
class Edited:
    """An edited message that may still be waiting. id: the edit's own inbox row. recalled: it is not to be answered."""

    id: int
    message: Message
    recalled: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Runs left by an earlier process, oldest first."""

    rows: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Work to do in the conversation's order, such as a command. It settles the event that it answers."""

    do: Callable[[Conversation], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Arrived:
    """The files of a turn have arrived."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class _AskingChanged:
    """The run is waiting for a different decision. Queued messages are updated, as after every item."""


@dataclass(frozen=True, slots=True)
class _Ended:
    """The run has ended."""


Item = Spoken | Edited | Resume | Task | _Arrived | _AskingChanged | _Ended


@dataclass(slots=True)
class _Refused:
    """Consecutive messages refused for the same reason; a single reply covers all of them."""

    why: Refusal
    reply_key: str
    count: int = 0


def _dropped(texts: Texts) -> str:
    return texts.dropped_by["author"]


def _anyone(address: Address, person: str) -> bool:
    return True


class Conversation:
    """The actor. line: the queued runs; active: the current run. Commands read both, and change them by its methods."""

    def __init__(self, key: str, ports: ConversationPorts, on_idle: Callable[[Conversation], None]) -> None:
        self.key = key
        self._ports = ports
        self._on_idle = on_idle
        self._mailbox: deque[Item] = deque()
        self._working = False
        self._resting = asyncio.Event()
        self._row: ConversationRow | None = None
        self._arrivals = Arrivals(ports, self.row, lambda turn: self.post(_Arrived(turn)))
        self._refused: _Refused | None = None
        self.line = WaitingLine(ports.store, ports.delivery, ports.clock, ports.channel)
        self._openings = Openings(ports, self.line, self.row)
        self.active: RunRow | None = None
        self.active_since: datetime | None = None

    def post(self, item: Item) -> None:
        """Add an item to the mailbox; returns at once."""
        self._mailbox.append(item)
        self._resting.clear()
        if not self._working:
            self._working = True
            self._ports.tasks.spawn(self.key, self._work())

    @property
    def load(self) -> int:
        """Number of waiting messages, in any stage."""
        return self._waiting + sum(isinstance(item, Spoken) for item in self._mailbox)

    @property
    def arriving(self) -> int:
        """Number of turns whose files or further parts have not arrived yet."""
        return len(self._arrivals)

    @property
    def busy(self) -> bool:
        return self.active is not None or self._waiting > 0

    @property
    def _waiting(self) -> int:
        return self.line.messages + len(self._arrivals)

    async def _work(self) -> None:
        while self._mailbox:
            await self._handle(self._mailbox.popleft())
        self._working = False
        if not self.busy or (self.active is not None and self.approvals.rests(self.active)):
            self._resting.set()
        if not self.busy:
            self._on_idle(self)

    async def rest(self) -> None:
        """Wait until all posted items are handled, or can only continue after a person's decision."""
        await self._resting.wait()

    async def _handle(self, item: Item) -> None:
        try:
            await self._dispatch(item)
            # The first in line has no message yet while it is about to begin; the others must not appear above it.
            if not self._mailbox and not self.stopping:
                await self.line.show(self.approvals.blocking(self.active), self.active)
        except Exception:
            # The only place that survives a bug: the event stays in the inbox (and is retried at the next start),
            # and the conversation continues with the next item.
            log.exception("%s could not handle %s", self.key, type(item).__name__)
        self._ports.tally.note(self, self._waiting)
        self._ports.runs.following.note(self.key)

    async def _dispatch(self, item: Item) -> None:
        match item:
            case Spoken():
                await self.hear(item)
            case Edited():
                await self._take_edit(item)
            case Task():
                await item.do(self)
            case Resume():
                await self._resume(item.rows)
            case _Arrived():
                item.turn.complete = True
                await self._open_complete()
            case _Ended():
                self.active = None
                await self._start_next()
            case _AskingChanged():
                pass

    # Messages become turns, turns become runs.

    async def hear(self, spoken: Spoken) -> None:
        """Handle a message for the agent. Call it only in the conversation's order."""
        ports = self._ports
        in_thread = spoken.message.address.topic is not None
        run_id = self.active.run_id if self.active is not None else ""
        if (run_id or in_thread) and await self._gives_reason(run_id, spoken):
            return
        if self._arrivals.joins(spoken):
            return
        backlog = Backlog(
            working=self.busy,
            here=self._waiting,
            here_limit=ports.limits().queued_per_conversation,
            everywhere=ports.tally.total + ports.runs.waiting,
            everywhere_limit=ports.limits().queued_total,
        )
        why = refusal(spoken.rules.busy, backlog)
        if why is not None:
            limit = backlog.everywhere_limit if why is Refusal.ALL_FULL else backlog.here_limit
            await self._refuse(spoken, why, limit)
            return
        self._refused = None
        self._arrivals.begin(spoken)
        await self._open_complete()

    async def _gives_reason(self, run_id: str, spoken: Spoken) -> bool:
        """Whether a message was taken as the reason for a denial that the running answer is waiting for.

        When in doubt it is treated as a new request, and the denial goes without a reason: no message is ever lost.
        """
        if spoken.schedule or spoken.offer:
            return False
        message, settled = spoken.message, self._ports.responder.answered
        person = person_id(message.account, message.sender.id)
        return await self.approvals.take_reason(
            run_id, person, message, also=lambda tx: settled(tx, [spoken.id], "reason of a denial")
        )

    async def _refuse(self, spoken: Spoken, why: Refusal, limit: int) -> None:
        """Report a refused message, in a single reply whose count grows. limit: the limit that was reached."""
        if spoken.heading:  # a refused reminder still reminds
            text = f"{spoken.heading}\n\n{texts_for(spoken.language).refusals[why].format(count=1, limit=limit)}"
            return await self._ports.responder.say(spoken.id, spoken.message, text, REASONS[why])
        if self._refused is None or self._refused.why is not why:
            self._refused = _Refused(why, f"event:{spoken.id}")
        self._refused.count += 1
        text = texts_for(spoken.language).refusals[why].format(count=self._refused.count, limit=limit)
        key = self._refused.reply_key
        await self._ports.responder.say(spoken.id, spoken.message, text, REASONS[why], reply_key=key)

    async def _take_edit(self, edited: Edited) -> None:
        """Replace a message that is still waiting with its edit, or drop it if nothing is left of its turn; one that is
        being answered is not run again."""
        settle = self._ports.responder.settle
        if (arriving := self._arrivals.edit(edited.message)) is not None:
            await settle([edited.id], "edit taken over", _edit(*arriving))
            if edited.recalled:
                await self.drop_arriving(_dropped, lambda turn: [part.id for part in turn.parts] == [arriving[0]])
        elif (changed := await self.line.edit(edited.message)) is not None:
            await settle([edited.id], "edit taken over", _edit(*changed))
            waiting = self.line.find(changed[2].run_id)
            if edited.recalled and waiting is not None and changed[2].inbox_ids == (changed[0],):
                await self.drop(waiting, _dropped)
        else:
            await settle([edited.id], "edited after its turn began")

    @property
    def approvals(self) -> ApprovalService:
        """The approvals that the running answer may be waiting for."""
        return self._ports.runs.approvals

    async def _open_complete(self) -> None:
        for turn in self._arrivals.completed():
            self.active = await self._openings.open(turn, self.active)
            await self._start_next()

    # Runs, one at a time.

    async def _resume(self, rows: tuple[RunRow, ...]) -> None:
        """Queue the runs that an earlier process left, in their order."""
        store, now = self._ports.store, self._ports.clock.now()
        known = await store.read(lambda tx: [inbox.load(tx, row.inbox_ids) for row in rows])
        for row, events in zip(rows, known, strict=True):
            self.line.add(row, messages_of(events))
        await self._start_next()
        questions = [waiting_question(waiting.row, now) for waiting in self.line]
        if questions:
            await store.write(lambda tx: prompts.ensure(tx, questions))

    @property
    def stopping(self) -> bool:
        """Whether the current run is about to end, and the first in line about to begin."""
        return self.active is not None and self._ports.runs.stopping(self.active.run_id)

    async def _start_next(self) -> None:
        if self.active is not None or not self.line:
            return
        self.active, self.active_since = self.line.pop(), self._ports.clock.now()
        run = self._ports.runs.begin(
            self.active, asking_changed=lambda: self.post(_AskingChanged()), take_in=self.take_in
        )
        try:
            if run.stop_reason is None:
                await self._ports.runs.present(run)
        finally:
            self._ports.tasks.spawn(f"{self.key}:run", self._execute(run))

    async def _execute(self, run: ActiveRun) -> None:
        try:
            await self._ports.runs.execute(run)
        finally:
            self.post(_Ended())

    async def take_in(self, run: ActiveRun) -> None:
        """The busy policy `steer`: add waiting messages to the run. Called by the run before each model call.

        Until then such a message waits like any other, so that a crash, a stop or the end of the answer leaves it in
        the line. One transaction moves it into the run's row, from which the agent is then informed.
        """
        if not self.line.heard_by(run.row):
            return
        done = asyncio.Event()

        async def take(_: Conversation) -> None:
            try:
                for waiting in self.line.heard_by(run.row):
                    if not self.is_active(run.row.run_id) or not self._ports.runs.hears(run.row.run_id):
                        return  # it is ending: the message becomes the next turn
                    self.active = run.row = await self._openings.let_hear(run.row, waiting)
                    if run.reply is not None:
                        run.reply.called_at = None  # the answer to this message has to notify, and to stand below it
            finally:
                done.set()

        self.post(Task(take))  # only the conversation's own order changes the line
        await done.wait()

    # Operations of commands.

    def stop_active(self, reason: StopReason) -> bool:
        """Stop the current run; False when there is none. The caller has to record it, see `stop_unit`."""
        return self.active is not None and self._ports.runs.stop(self.active.run_id, reason)

    def is_active(self, run_id: str) -> bool:
        """Whether this is the conversation's current run, running or waiting."""
        return self.active is not None and self.active.run_id == run_id

    def stop_unit(self, reason: StopReason) -> Callable[[Connection], None]:
        """The unit that records why the current run is stopped, so that it does not continue after a crash."""
        active = self.active
        return lambda tx: None if active is None else runs.ask_to_stop(tx, active.run_id, reason)

    async def run_next(self, waiting: Waiting) -> None:
        """Stop the current run and put this one next."""
        row, ahead, active = waiting.row, self.line.next_ahead, self.active
        stop = self.stop_unit(StopReason.RUN_NOW)

        def unit(tx: Connection) -> None:
            runs.put_ahead(tx, row.run_id, ahead)
            stop(tx)

        await self._ports.store.write(unit)
        self.line.put_first(waiting, ahead)
        if active is not None:
            self._ports.runs.stop(active.run_id, StopReason.RUN_NOW)

    async def drop(self, waiting: Waiting, sentence: Callable[[Texts], str]) -> None:
        """End a queued run with a sentence in its language."""
        self.line.remove(waiting)
        await self._ports.runs.drop(waiting.row, sentence(texts_for(waiting.context.locale)))

    async def drop_waiting(
        self, sentence: Callable[[Texts], str], whose: Callable[[Address, str], bool] = _anyone
    ) -> int:
        """`drop` everything of these persons that is waiting or still arriving; returns the number of messages."""
        dropped = 0
        for waiting in self.line:
            if whose(waiting.row.address, waiting.row.speaker):
                dropped += waiting.messages
                await self.drop(waiting, sentence)
        return dropped + await self.drop_arriving(sentence, lambda turn: whose(turn.first.address, turn.person))

    async def drop_arriving(self, sentence: Callable[[Texts], str], which: Callable[[Turn], bool]) -> int:
        """`drop` for turns that are still arriving; returns how many."""
        taken = self._arrivals.take(which)
        for turn in taken:
            notice = OutboundMessage(text=sentence(texts_for(turn.language)), final=True)
            await self._openings.answer(turn, notice, "dropped")
        await self._open_complete()  # the turns that they held back
        return len(taken)

    async def last_run(self) -> RunRow | None:
        """The latest ended run of the current thread."""
        known = await self.stored()
        if known is None:
            return None
        return await self._ports.store.read(lambda tx: runs.last_worked(tx, known.key, known.thread_id))

    async def repeat(self, ended: RunRow, event_id: int, message_id: str | None) -> None:
        """Answer the last run's messages again, as they have been edited since; the agent forgets that run
        first. Nothing may be running or waiting.

        event_id: the requesting event, which then belongs to the new run; it is unsettled until then, so that all of
        this is repeated after a crash. message_id: its message, which is answered where each can be answered only once.
        Raises LookupError when the state to go back to is no longer stored.
        """
        ports, known = self._ports, await self.stored()
        model, agent = ports.agents.answering(known)
        going_on = tried_again(ended, await ports.runs.research(ended.thread_id))
        newest = ended.input.whole
        edited: dict[int, Message] = {}
        if going_on is None:
            await ports.runs.rewind(ended)
            newest, edited = await ports.store.read(lambda tx: _newest(tx, ended))
        off, now = known.skills_off if known is not None else (), ports.clock.now()
        run = run_again(
            *(going_on or replace(ended, input=newest), event_id),
            model=model,
            agent=agent,
            timezone=zone_of(known, ports.timezone()),
            skills_off=off,
            progress=known.progress if known is not None else None,
            voice=known.voice if known is not None else None,
            now=now,
            epoch=ports.store.epoch,
        )

        channel = ports.channel(run.address.account)
        if message_id is not None and channel is not None and channel.capabilities.replies_to_message:
            run = replace(run, reply_to=message_id)

        def unit(tx: Connection) -> None:
            runs.open(tx, run)
            for row_id, message in edited.items():
                inbox.replace_event(tx, row_id, message)
            if edited or ended.input.steered:
                runs.change_input(tx, ended, run.input)
            memories.drop_turns_of_runs(tx, [ended.run_id])

        await ports.store.write(unit)
        self.line.add(run)
        await self._start_next()

    async def hear_offer(self, spoken: Spoken) -> bool:
        """`hear` the text of a button below a report; False if it is already queued behind files that are arriving."""
        if self._arrivals.holds(spoken.offer):
            return False
        await self.hear(spoken)
        return True

    async def calls_skill(self, message: Message) -> bool:
        """Whether a message calls one of the skills available here, by its name after a slash."""
        ports, row = self._ports, await self.row(message)
        agent = ports.agents.agent_of(row)
        return bool(ports.skills.called(parse(message.text), message.text, row.owner, agent, row.skills_off)[0])

    # The conversation's record.

    async def row(self, message: Message) -> ConversationRow:
        """The stored conversation, created at its first message."""
        if (known := await self.stored()) is not None:
            return known
        owner, now = owner_of(message.address, message.sender, self.key), self._ports.clock.now()
        row = await self._ports.store.write(lambda tx: conversations.ensure(tx, self.key, message.account, owner, now))
        self._row = row
        return row

    async def stored(self) -> ConversationRow | None:
        """The stored conversation, None before its first message."""
        if self._row is None:
            self._row = await self._ports.store.read(lambda tx: conversations.load(tx, self.key))
        return self._row

    def forget_row(self) -> None:
        """Reload the record at its next use."""
        self._row = None

    def move(self, key: str) -> None:
        """Continue under another key, which the store already has: current and queued runs keep going."""
        self.key = key
        self._row = None


def _edit(event_id: int, message: Message, run: RunRow | None = None) -> Callable[[Connection], None]:
    """The unit that stores an edited waiting message, and its run's input."""

    def unit(tx: Connection) -> None:
        inbox.replace_event(tx, event_id, message)
        if run is not None:
            runs.set_input(tx, run.run_id, run.input)

    return unit


def _newest(tx: Connection, ended: RunRow) -> tuple[RunInput, dict[int, Message]]:
    """What an ended run took in, with the newest texts of the messages that it began with, and those edited since."""
    first = runs.answering(tx, event_of(ended.input))
    known = inbox.load(tx, first.inbox_ids) if first is not None else []
    edits = inbox.edits_since(tx, known[0], ended.address.chat) if known else []
    return edited_input(ended.input.whole, known, edits)
