"""The figures of the scenario with subagents, from what the simulators saw."""

from __future__ import annotations

import pytest

from tests.bench.delegation import ANSWER, most_at_once, whole_seconds
from tests.bench.timeline import Call
from tests.simulators.model.records import Record
from tests.simulators.telegram.seen import Delivery


def test_a_run_lasts_from_its_message_to_its_answer_round_by_round() -> None:
    said = [Delivery(n, chat, at, at) for n, (chat, at) in enumerate([(5, 10.0), (6, 10.0), (5, 20.0), (6, 20.0)])]
    shown = [
        Call(10.5, 5, 1, "3 tasks: 3 running"),
        *(Call(at, chat, 1, ANSWER) for chat, at in ((5, 11.0), (6, 12.0), (6, 21.0))),
    ]
    assert whole_seconds(said, shown, ANSWER) == pytest.approx([1.0, 2.0, 1.0]), "the last one is missing"


def test_requests_at_the_same_moment_are_counted() -> None:
    def record(number: int, started: float, ended: float | None) -> Record:
        return Record(id=number, method="POST", path="/", headers={}, started=started, ended=ended)

    assert most_at_once([record(1, 1.0, 2.0), record(2, 1.5, 3.0), record(3, 2.0, None)]) == 2
    assert most_at_once([]) == 0
