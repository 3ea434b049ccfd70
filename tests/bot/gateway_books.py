"""What the database says of a played gateway at the end, and who of its people may be heard; for the promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from bot.store import tables
from bot.store.runs import JOINED
from channels.message import INBOUND_EVENT, ButtonPressed, Message, MessageEdited
from tests.bot.core import ANN, BOB

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, Table

    from tests.bot.gateway_play import Play

GROUPS = ("g", "k")
ALSO = {"/cancel": "/stop", "/reset": "/new", "stop": "/stop", "取消。": "/stop"}
"""Other ways to give a command; a word is one only while an answer runs."""


def admitted(message: Message) -> bool:
    """Whether its sender may be heard there; a probe's person has a number that begins with 9."""
    known = message.sender.id in (ANN, BOB) or message.sender.id.startswith("9")
    return known and (message.address.kind == "dm" or message.address.chat in GROUPS)


@dataclass
class Books:
    """Rows of the tables. events: what they are of; run_of: event -> its run; replies: key -> its parts.

    again: runs that somebody asked for by /retry or its button -> the run that they repeat.
    """

    inbox: list[Any]
    runs: list[Any]
    outbox: list[Any]

    def __post_init__(self) -> None:
        self.events = {row.id: INBOUND_EVENT.validate_json(row.event) for row in self.inbox}
        self.run = {run.run_id: run for run in self.runs}
        self.run_of: dict[int, Any] = {}
        for run in self.runs:
            for event_id in run.inbox_ids:
                assert event_id not in self.run_of, f"event {event_id} is in two runs"
                self.run_of[event_id] = run
        self.replies: dict[str, list[Any]] = {}
        for row in sorted(self.outbox, key=lambda row: (row.reply_key, row.part)):
            self.replies.setdefault(row.reply_key, []).append(row)
        self.again = self._repeats()

    def answering(self, event_id: int) -> Any:
        """The run that an event is answered by in the end: its own, or the one that heard it while it worked."""
        own = self.run_of[event_id]
        if own.detail != JOINED:
            return own
        return self.run[next(row.run_id for row in self.inbox if row.id == event_id)]

    def _repeats(self) -> dict[str, str]:
        newest: dict[tuple[str, str], str] = {}
        again: dict[str, str] = {}
        for run in self.runs:
            about = (run.thread_id, run.input.message_id)
            if about in newest:
                asked = self.events[run.inbox_ids[0]]
                wanted = isinstance(asked, ButtonPressed) or (isinstance(asked, Message) and asked.text == "/retry")
                assert wanted, f"{run.input} is answered again, and nobody asked for that"
                again[run.run_id] = newest[about]
            newest[about] = run.run_id
        return again

    @property
    def messages(self) -> list[tuple[Any, Message]]:
        """Rows with their messages, in the order of arrival."""
        found = ((row, self.events[row.id]) for row in self.inbox)
        return [(row, event) for row, event in found if isinstance(event, Message)]

    @property
    def edits(self) -> list[tuple[Any, MessageEdited]]:
        found = ((row, self.events[row.id]) for row in self.inbox)
        return [(row, event) for row, event in found if isinstance(event, MessageEdited)]

    @property
    def presses(self) -> list[tuple[Any, ButtonPressed]]:
        found = ((row, self.events[row.id]) for row in self.inbox)
        return [(row, event) for row, event in found if isinstance(event, ButtonPressed)]

    def commands_in(self, chat: str) -> set[str]:
        """The commands that were given in a chat."""
        return {command for row, message in self.messages if row.chat == chat and (command := command_of(row, message))}

    def conversation_of(self, play: Play, message: Message) -> str:
        shared = message.address.kind == "dm" or play.core.policy.group_scope == "chat"
        return f"memory:{message.address.chat}" + ("" if shared else f"@{message.sender.id}")

    def opened_at_once(self, play: Play, row: Any, message: Message, run: Any) -> bool:
        """Whether its run was opened when it was its turn to be handled, and for nothing else."""
        plain = message.bundle_key is None and not message.attachments and not message.text.startswith("/")
        return plain and not play.core.policy.turns.debounce and run.inbox_ids[0] == row.id


def command_of(row: Any, message: Message) -> str:
    """The command that a message was; "" for any other."""
    meant = ALSO.get(message.text, message.text)
    was_word = not message.text.startswith("/") and row.reason in ("/stop", "not allowed")
    return meant if message.text.startswith("/") or was_word else ""


async def read_books(play: Play) -> Books:
    def everything(tx: Connection) -> tuple[list[Row[Any]], ...]:
        return (
            _all(tx, tables.inbox, tables.inbox.c.id),
            _all(tx, tables.runs, tables.runs.c.seq),
            _all(tx, tables.outbox, tables.outbox.c.created_at),
        )

    return Books(*await play.core.store.read(everything))


def _all(tx: Connection, table: Table, order: Any) -> list[Row[Any]]:
    return list(tx.execute(select(table).order_by(order)))
