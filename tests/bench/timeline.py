"""Combines the simulators' records of each message, from the update to the last edit of its answer. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.simulators.model.records import Record
    from tests.simulators.telegram.seen import Delivery, RecordedCall

VISIBLE = ("sendmessage", "editmessagetext")
POLL = "getUpdates"


@dataclass(frozen=True)
class Call:
    """A send or edit that the platform carried out at this moment (monotonic seconds)."""

    at: float
    chat_id: int
    message_id: int
    text: str


@dataclass(frozen=True)
class Asked:
    """One request to the model, and the chat that caused it. Monotonic seconds."""

    chat_id: int
    started: float
    first_token: float
    last_token: float


@dataclass(frozen=True)
class Timing:
    """One message and its answer; all in monotonic seconds. visible: when the first words appeared in the chat."""

    chat_id: int
    queued: float
    handed_out: float
    asked: float
    first_token: float
    last_token: float
    visible: float
    final: float
    edits: int

    @property
    def inbound_ms(self) -> float:
        """Time from the delivery of the update to the request to the model."""
        return (self.asked - self.handed_out) * 1000

    @property
    def first_text_ms(self) -> float:
        """Time from the model's first token to its first words in the chat."""
        return (self.visible - self.first_token) * 1000

    @property
    def final_ms(self) -> float:
        """Time from the model's last token to the last edit."""
        return (self.final - self.last_token) * 1000

    @property
    def whole_seconds(self) -> float:
        """Time from the person's message to the whole answer."""
        return self.final - self.queued


def label(chat_id: int, number: int) -> str:
    """A label in a question that identifies its request to the model."""
    return f"c{chat_id} r{number}"


# In a question, not in a summary that quotes questions.
_LABEL = re.compile(r"![^\n]* c(-?\d+) r\d+\b")


def requests(records: Iterable[Record]) -> list[Asked]:
    """The answered requests for labeled questions, without those for summaries."""
    found = []
    for record in records:
        match = _LABEL.match(record.last_user_text)
        if match and record.first_token is not None and record.last_token is not None:
            found.append(Asked(int(match[1]), record.started, record.first_token, record.last_token))
    return found


def calls(records: Iterable[RecordedCall]) -> list[Call]:
    """Visible calls, without those of deleted messages: the answer that notifies replaces a notice."""
    records = list(records)
    gone = {
        (record.chat_id, int(str(record.params["message_id"])))
        for record in records
        if record.method.lower() == "deletemessage" and record.applied
    }
    return [
        Call(record.finished, record.chat_id, record.message_id, record.text.strip())
        for record in records
        if record.method.lower() in VISIBLE
        and record.applied
        and (record.chat_id, record.message_id) not in gone
        and record.chat_id is not None
        and record.message_id is not None
        and record.finished is not None
    ]


def notifies(record: RecordedCall) -> bool:
    """Whether it causes a notification."""
    silent = str(record.params.get("disable_notification", "")).lower() == "true"
    return record.method.lower() == "sendmessage" and record.applied and not silent


def timings(
    updates: Sequence[Delivery], asked: Sequence[Asked], shown: Sequence[Call], answer: str
) -> tuple[list[Timing], list[str]]:
    """One timing for each properly answered update, and a sentence for each that was not.

    The k-th update of a chat belongs to the k-th request for it and to the k-th message in it.
    """
    requests_of, messages_of, found, problems = defaultdict(list), defaultdict(list), [], []
    for request in sorted(asked, key=lambda request: request.started):
        requests_of[request.chat_id].append(request)
    for (chat_id, _), edits in _by_message(shown):
        messages_of[chat_id].append(edits)
    for chat_id, said in _by_chat(updates):
        counts = (len(said), len(requests_of[chat_id]), len(messages_of[chat_id]))
        if len(set(counts)) > 1:
            problems.append(f"chat {chat_id}: {counts[0]} messages, {counts[1]} model requests, {counts[2]} answers")
            continue
        for update, request, edits in zip(said, requests_of[chat_id], messages_of[chat_id], strict=True):
            timing = _timing(update, request, edits, answer)
            if timing is None:
                problems.append(f"chat {chat_id}: update {update.update_id} ended in {edits[-1].text[:80]!r}")
            else:
                found.append(timing)
    return found, problems


def _by_chat(updates: Sequence[Delivery]) -> Iterable[tuple[int, list[Delivery]]]:
    chats: dict[int, list[Delivery]] = defaultdict(list)
    for update in updates:
        if update.chat_id is not None:
            chats[update.chat_id].append(update)
    return chats.items()


def _by_message(shown: Sequence[Call]) -> list[tuple[tuple[int, int], list[Call]]]:
    """The calls of each message in their order; messages in the order of their first call."""
    messages: dict[tuple[int, int], list[Call]] = defaultdict(list)
    for call in sorted(shown, key=lambda call: call.at):
        messages[call.chat_id, call.message_id].append(call)
    return list(messages.items())


def _timing(update: Delivery, request: Asked, edits: Sequence[Call], answer: str) -> Timing | None:
    """None unless the last edit shows the whole answer."""
    if update.chat_id is None or update.delivered_at is None or edits[-1].text != answer:
        return None
    start = answer.split(" ", 1)[0]
    visible = next(call.at for call in edits if call.text.startswith(start))
    return Timing(
        update.chat_id,
        update.queued_at,
        update.delivered_at,
        request.started,
        request.first_token,
        request.last_token,
        visible,
        edits[-1].at,
        len(edits) - 1,
    )


def busy_seconds(found: Sequence[Timing], per_round: int) -> float:
    """Time in which messages were in progress: for each round, from its first message to its last final answer."""
    ordered = sorted(found, key=lambda timing: timing.queued)
    rounds = [ordered[start : start + per_round] for start in range(0, len(ordered), per_round)]
    return sum(max(t.final for t in one) - min(t.queued for t in one) for one in rounds)
