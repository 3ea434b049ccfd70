"""The busy policy `steer`: what a person says is heard by their own answer at work, else it is the next turn.

Until the agent asks, such a message waits as any other does, so that a crash, a stop or the answer's end leaves it in
the line. When the agent asks, one transaction makes it a part of the run at work; from there on the run's row tells the
agent of it, whatever happens. For actor.py.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.conversations.mailbox import Task
from bot.store import runs
from bot.store.encoding import to_json
from bot.texts import texts_for
from bot.texts.command_line import parse
from channels.message import OutboundMessage
from harness.context import RUN_CONTEXT, RUN_INPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from bot.conversations.actor import Conversation
    from bot.conversations.ports import ConversationPorts
    from bot.conversations.queue import Waiting, WaitingLine
    from bot.runs.active import ActiveRun
    from bot.runs.turns import Turn
    from bot.store.rows import RunRow

MOST = 50
"""Messages that one answer hears; further ones are turns of their own."""


def can_steer(running: RunRow, turn: Turn) -> bool:
    """Whether a run that works can hear this turn: the same person's, with the same rights, in the same place. Not what
    a schedule says or began, what calls a skill or seems to, and a voice message that nobody has listened to yet."""
    if turn.schedule or parse(turn.text) is not None:
        return False
    if any(file.voice is not None and not file.voice.listened for file in turn.files):
        return False
    context = RUN_CONTEXT.validate_json(running.context)
    told = (running.speaker, running.address, context.speaker.is_admin, context.schedule)
    return told == (turn.person, turn.first.address, turn.is_admin, "")


def as_steering(run: RunRow) -> RunRow:
    """The run of such a turn."""
    return replace(run, input=to_json(RUN_INPUT, replace(RUN_INPUT.validate_json(run.input), steers=True)))


def steers(waiting: Waiting, running: RunRow) -> bool:
    """Whether what waits may be heard by that run, which may be another one than when it was said."""
    if not waiting.steers or waiting.row.inbox_ids[0] <= running.inbox_ids[-1]:
        return False
    context = RUN_CONTEXT.validate_json(running.context)
    at_work = (running.thread_id, running.speaker, running.address, context.speaker.is_admin, context.schedule)
    row = waiting.row
    return at_work == (row.thread_id, row.speaker, row.address, waiting.context.speaker.is_admin, "")


def all_steer(line: WaitingLine, running: RunRow, person: str) -> bool:
    """Nothing of that person waits for a turn of its own, which a later message must not overtake."""
    return all(steers(waiting, running) for waiting in line if waiting.row.speaker == person)


class Steering:
    """Of one conversation. post: to its actor, who alone changes the line."""

    def __init__(self, ports: ConversationPorts, line: WaitingLine, post: Callable[[Task], None]) -> None:
        self._ports = ports
        self._line = line
        self._post = post

    async def hear(self, run: ActiveRun) -> None:
        """Make what waits for it a part of a run; returns when that is done. Called by the run itself."""
        if not self._heard_by(run):
            return
        done = asyncio.Event()

        async def take(conversation: Conversation) -> None:
            try:
                await self._take(run, conversation)
            finally:
                done.set()

        self._post(Task(take))
        await done.wait()

    async def _take(self, run: ActiveRun, conversation: Conversation) -> None:
        for waiting in self._heard_by(run):
            if not conversation.is_active(run.row.run_id) or not self._ports.runs.hears(run.row.run_id):
                return  # it is being ended meanwhile: then this is the next turn
            await self._join(run, waiting)
            conversation.active = run.row

    def _heard_by(self, run: ActiveRun) -> Sequence[Waiting]:
        found = [waiting for waiting in self._line if steers(waiting, run.row)]
        if not found:
            return found
        return found[: max(0, MOST - len(RUN_INPUT.validate_json(run.row.input).steered))]

    async def _join(self, run: ActiveRun, waiting: Waiting) -> None:
        row, now = waiting.row, self._ports.clock.now()
        known = RUN_INPUT.validate_json(run.row.input)
        heard = replace(known, steered=(*known.steered, RUN_INPUT.validate_json(row.input)))
        joined = replace(run.row, input=to_json(RUN_INPUT, heard))

        def unit(tx: Connection) -> None:
            runs.join(tx, joined.run_id, row.run_id, joined.input, now)

        told = OutboundMessage(text=texts_for(waiting.context.locale).steered, final=True)
        await self._ports.responder.tell(row.reply_key, row.address, row.reply_to, told, also=unit)
        self._line.remove(waiting)
        run.row = joined
