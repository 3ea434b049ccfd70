"""P6 of the design: each event ended in exactly one way, told where it has to be. For gateway_promises.py."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bot.store.rows import RunState
from tests.bot.gateway_books import Books, admitted, command_of
from tests.bot.played_agent import said_in

if TYPE_CHECKING:
    from channels.message import Message

RUN_ENDS = {str(state) for state in RunState if state.ended}
COMMANDS = {"/new", "/stop", "/status", "/models", "/queue", "/retry", "not allowed", "unknown command"}
NOT_TAKEN = {"dropped", "files refused", "queue full", "busy", "backlog full"}
STRANGE = {"unknown person", "unknown group", "not a listed member"}
PAIRING = {"pairing code", "has a pairing code", "too many pairing codes"}
TOLD_TO_STRANGERS = {"unknown person", "unknown group", "pairing code"}
EDITS = {"edit taken over", "edited after its turn began"}
PRESSES = {"button refused", "model button", "not allowed", "expired", "unknown button"} | {
    f"button {what}" for what in ("now", "drop", "begun", "over", "not_yours", "not_yours_to_stop", "retry")
}


def one_outcome_each(books: Books) -> None:
    for row, message in books.messages:
        outcome = f"event {row.id} ({message.text!r}) ended as {row.reason!r}"
        if not admitted(message):
            _turned_away(books, row, outcome)
        elif row.reason in RUN_ENDS:
            _answered_by_a_run(books, row, outcome)
        elif row.id in books.run_of:
            raise AssertionError(f"{outcome}, but it is part of a run")
        elif command_of(row, message):
            assert row.reason in COMMANDS | {"flood"}, outcome
            assert f"event:{row.id}" in books.replies or row.reason in ("/stop", "flood"), outcome
        elif row.reason != "flood":
            assert row.reason in NOT_TAKEN, outcome
            assert any(f"event:{other}" in books.replies for other in _told_together(books, row, message)), outcome
    for row, _ in books.presses:
        assert row.reason in PRESSES | RUN_ENDS, f"press {row.id} ended as {row.reason!r}"
    _edits_count(books)
    _stops_count(books)


def _turned_away(books: Books, row: Any, outcome: str) -> None:
    assert row.reason in STRANGE | PAIRING | {"flood"}, outcome
    assert row.id not in books.run_of, outcome
    assert f"event:{row.id}" not in books.replies or row.reason in TOLD_TO_STRANGERS, outcome


def _answered_by_a_run(books: Books, row: Any, outcome: str) -> None:
    assert row.id in books.run_of, outcome
    assert books.answering(row.id).state == row.reason, outcome
    assert books.run_of[row.id].reply_key in books.replies, outcome
    assert f"event:{row.id}" not in books.replies, outcome


def _told_together(books: Books, row: Any, message: Message) -> list[int]:
    """The events that may share one notice with this one: parts of one turn, or all that were refused in a row."""
    return [
        other.id
        for other, said in books.messages
        if other.chat == row.chat
        and other.id <= row.id
        and (said.sender.id == message.sender.id or row.reason not in ("dropped", "files refused"))
    ]


def _edits_count(books: Books) -> None:
    """An edit that was taken over is what the message's run answers, if it has one."""
    answered: dict[int, int] = {}
    for run in books.runs:
        if run.run_id not in books.again:
            answered |= said_in(run.input.text)
    taken: dict[int, int] = {}
    for row, edit in books.edits:
        outcome = f"edit {row.id} ended as {row.reason!r}"
        assert row.reason in (EDITS if admitted(edit.message) else {"edit by a stranger"}), outcome
        if row.reason == "edit taken over":
            taken |= said_in(edit.message.text)
    for number, version in taken.items():
        assert answered.get(number, version) == version, f"message {number} was answered in another state"


def _stops_count(books: Books) -> None:
    """A /stop that was not answered has stopped a run, for good, whatever happened right after."""
    stops = Counter(
        row.chat for row, message in books.messages if row.reason == "/stop" and f"event:{row.id}" not in books.replies
    )
    for chat, count in stops.items():
        stopped = [run for run in books.runs if run.chat == chat and run.detail == "stopped"]
        assert len(stopped) >= count, f"{count} times /stop in {chat}, but stopped is only {stopped}"
