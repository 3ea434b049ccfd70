"""From what the simulators saw to the times of each message."""

from __future__ import annotations

import pytest

from tests.bench.timeline import Asked, Call, busy_seconds, label, requests, timings
from tests.simulators.model.records import Record
from tests.simulators.telegram.seen import Delivery

ANSWER = "one two"


def update(number: int, chat: int, at: float) -> Delivery:
    return Delivery(number, chat, at, at + 0.001)


def test_a_message_is_followed_from_its_update_to_its_last_edit() -> None:
    shown = [Call(10.1, 5, 70, "Working"), Call(10.3, 5, 70, "one"), Call(10.5, 5, 70, ANSWER)]
    (found,), problems = timings([update(1, 5, 10.0)], [Asked(5, 10.02, 10.2, 10.4)], shown, ANSWER)
    assert not problems
    assert found.inbound_ms == pytest.approx(19)
    assert found.first_text_ms == pytest.approx(100)
    assert found.final_ms == pytest.approx(100)
    assert found.whole_seconds == pytest.approx(0.5)
    assert found.edits == 2


def test_the_messages_of_a_chat_are_matched_in_their_order() -> None:
    asked = [Asked(5, 20.1, 20.2, 20.3), Asked(6, 10.1, 10.2, 10.3), Asked(5, 10.1, 10.2, 10.3)]
    shown = [Call(20.4, 5, 72, ANSWER), Call(10.4, 5, 71, ANSWER), Call(10.5, 6, 71, ANSWER)]
    found, problems = timings([update(1, 5, 10), update(2, 6, 10), update(3, 5, 20)], asked, shown, ANSWER)
    assert not problems
    assert [(timing.chat_id, timing.final) for timing in found] == [(5, 10.4), (5, 20.4), (6, 10.5)]
    assert busy_seconds(found, 2) == pytest.approx(0.5 + 0.4)


def test_what_is_missing_or_wrong_is_told() -> None:
    asked = [Asked(chat, 1.1, 1.2, 1.3) for chat in (5, 6, 7, 7)]
    shown = [Call(1.4, 5, 71, "one"), Call(1.4, 7, 71, ANSWER)]
    found, problems = timings([update(chat, chat, 1.0) for chat in (5, 6, 7)], asked, shown, ANSWER)
    assert not found
    assert problems == [
        "chat 5: update 5 ended in 'one'",
        "chat 6: 1 messages, 1 model requests, 0 answers",
        "chat 7: 1 messages, 2 model requests, 1 answers",
    ]


def test_only_labelled_and_answered_requests_count() -> None:
    def record(text: str, token: float | None) -> Record:
        seen = Record(id=1, method="POST", path="/", headers={}, started=1.0, last_user_text=text)
        seen.first_token = seen.last_token = token
        return seen

    records = [
        record(f"!tokens 20 10 {label(5, 1)}\n\nmore", 2.0),
        record("warm", 2.0),
        record(f"!tokens 20 10 {label(6, 1)}", None),
    ]
    records.append(record(f"Messages to summarize: !tokens 20 10 {label(5, 1)}", 2.0))
    assert requests(records) == [Asked(5, 1.0, 2.0, 2.0)]
