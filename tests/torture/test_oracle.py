"""The judge on a platform without redelivery and without edits (WeCom)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from harness.context import RunInput
from tests.simulators.model.records import Record
from tests.torture.facts import Facts, Reply
from tests.torture.load import Asked
from tests.torture.on_wecom import told_apart
from tests.torture.oracle import RECORDING_SECONDS, STORING_SECONDS, Judge
from tests.torture.platform import Bubble, Call, Promises
from tests.torture.report import Report
from tests.torture.world import Life

ANSWER = "Begin m00001:\none two three\nEnd m00001."
TEXT = "!say Begin m00001:\n!tokens 3 0\n!say End m00001."
WECOM = Promises(redelivers=False, edits=False, finds_drafts=False, finds_finals=False)
KILLED = Life(1, 0.0, connected=1.0, ended=20.0, ending="kill")
AFTER = Life(2, 21.0, connected=22.0, ended=90.0, ending="stop", leaving=89.0)


def asked(at: float = 10.0, *, reached: bool = True) -> Asked:
    return Asked(
        marker="m00001",
        kind="stream",
        account="wecom",
        chat="person0",
        person=None,
        text=TEXT,
        message_id="m1|r1",
        at=at,
        until=at + 0.01,
        reached=reached,
    )


def bubble(text: str, name: str = "b0", *, at: float = 11.0, order: int = 0, unfinished: bool = False) -> Bubble:
    return Bubble(message_id=name, text=text, order=order, posted_at=at, changed_at=at, unfinished=unfinished)


def judged(
    message: Asked,
    *shown: Bubble,
    stored: bool = True,
    known: int | None = None,
    calls: tuple[Call, ...] = (),
    first: Life = KILLED,
) -> Report:
    """The report on one message and its reply. known: the gateway knows this many of the bubbles, the last ones. first:
    the process before AFTER."""
    parts = shown if known is None else shown[len(shown) - known :]
    received = datetime.fromtimestamp(message.at, UTC)
    row: Any = SimpleNamespace(
        id=7, chat=message.chat, platform_message_id=message.message_id, state="done", received_at=received
    )
    heard = RunInput(message_id="m7", text=message.text)
    run: Any = SimpleNamespace(
        seq=1, reply_key="k", inbox_ids=[7], conversation="wecom:person0", detail=None, input=heard
    )
    report = Report("wecom", 1)
    facts = Facts(
        account="wecom",
        promises=WECOM,
        asked=(message,),
        lives=(first, AFTER),
        rows=[row] if stored else [],
        runs=[run] if stored else [],
        replies={"k": Reply("k", "wecom", tuple(parts), True)} if stored else {},
        chats={("wecom", "person0"): list(shown)},
        calls=list(calls),
        completions=[],
        effects=[],
        known_ids=frozenset(("wecom", "person0", part.message_id) for part in parts),
        recorded=frozenset(),
        wall_ahead=0.0,
    )
    Judge(facts, report).judge()
    return report


def test_an_answer_that_stands_there_once_is_right() -> None:
    report = judged(asked(), bubble(ANSWER))
    assert (report.problems(), report.stale_bubbles, report.unacked, report.said_twice) == ([], 0, 0, 0)


@pytest.mark.parametrize("begun", ["", "> Working…", "Begin m00001:\none two", "Begin m00001:\none\n\n> Paused"])
def test_an_unfinished_beginning_above_the_answer_is_a_stale_bubble(begun: str) -> None:
    report = judged(asked(), bubble(begun, unfinished=True), bubble(ANSWER, "b1", order=1))
    assert (report.problems(), report.stale_bubbles) == ([], 1)


@pytest.mark.parametrize(
    ("above", "count"),
    [
        # A part that looks complete.
        (bubble("Begin m00001:\none two"), "wrong_texts"),
        (bubble("Begin of something else", unfinished=True), "wrong_texts"),
        # The whole answer, and no process that died before it could record that.
        (bubble(ANSWER, at=30.0), "duplicated_finals"),
        (bubble(ANSWER, at=20.0 - 2 * RECORDING_SECONDS), "duplicated_finals"),
    ],
)
def test_anything_else_above_the_answer_is_blamed(above: Bubble, count: str) -> None:
    assert judged(asked(), above, bubble(ANSWER, "b1", order=1)).problems() == [f"{count} = 1"]


def test_a_whole_answer_that_a_killed_process_could_not_record_is_counted_apart() -> None:
    report = judged(asked(), bubble(ANSWER, at=19.0), bubble(ANSWER, "b1", order=1, at=23.0))
    assert (report.problems(), report.said_twice) == ([], 1)


@pytest.mark.parametrize(("sent_at", "problems"), [(19.5, []), (12.0, ["duplicated_finals = 1"])])
def test_a_push_that_nobody_knows_is_excused_by_a_kill_at_once_only(sent_at: float, problems: list[str]) -> None:
    call = Call(chat="person0", message_id="b0#1", arrived=sent_at, finished=sent_at, applied=True, answered=True)
    lost, known = bubble(ANSWER, "b0#1", at=sent_at), bubble(ANSWER, "b0", order=1, at=23.0)
    report = judged(asked(), lost, known, known=1, calls=(call,))
    assert report.problems() == problems
    assert report.said_twice == (not problems)


def test_an_answer_that_is_never_finished_is_left_open() -> None:
    report = judged(asked(), bubble(ANSWER, unfinished=True))
    assert report.problems() == ["open_placeholders = 1"]


@pytest.mark.parametrize(
    ("message", "count"),
    [
        # No process was connected, or it died at once.
        (asked(0.5, reached=False), "unacked"),
        (asked(20.5, reached=False), "unacked"),
        (asked(19.9), "unacked"),
        (asked(19.9, reached=False), "unacked"),
        (asked(89.5), "unacked"),
        # A process was connected and had enough time.
        (asked(10.0, reached=False), "lost"),
        (asked(10.0), "lost"),
        (asked(30.0), "lost"),
    ],
)
def test_a_message_that_was_never_stored_is_lost_unless_nobody_could(message: Asked, count: str) -> None:
    report = judged(message, stored=False)
    assert (report.unacked, report.lost) == ((1, 0) if count == "unacked" else (0, 1))


@pytest.mark.parametrize(
    ("outages", "seconds"),
    [
        ([], 10.0),
        ([(0.0, 5.0), (20.0, 30.0)], 10.0),
        ([(12.0, 18.0)], 4.0),
        ([(5.0, 12.0), (11.0, 13.0), (19.0, 40.0)], 6.0),
        ([(5.0, 40.0)], 0.0),
    ],
)
def test_who_is_killed_had_the_time_in_which_the_database_was_there(
    outages: list[tuple[float, float]], seconds: float
) -> None:
    life = replace(KILLED, outages=outages)
    assert life.could_store(10.0) == seconds
    report = judged(asked(10.0 - 0.01), stored=False, first=life)
    assert (report.unacked, report.lost) == ((1, 0) if seconds <= STORING_SECONDS else (0, 1))


@pytest.mark.parametrize(
    "put_off",
    [
        "Queued, 2nd in line",
        "Queued. First I need your decision: sign marker: m00002",
        "↪ Will be added to the current answer at its next step",
        "⏳ Still working. The answer follows below.",
    ],
)
def test_what_was_said_of_its_coming_is_a_stale_bubble(put_off: str) -> None:
    report = judged(asked(), bubble(put_off), bubble(ANSWER, "b1", order=1))
    assert (report.problems(), report.stale_bubbles) == ([], 1)


def test_a_message_that_is_answered_was_not_in_the_gap() -> None:
    assert judged(asked(19.9), bubble(ANSWER), stored=False, known=0).lost == 1


def test_recovery_is_measured_where_a_process_found_work() -> None:
    shown = Call(chat="person0", message_id="b1", arrived=24.5, finished=24.6, applied=True, answered=True)
    before = judged(asked(19.0), bubble(ANSWER, "b1", at=24.6), calls=(shown,))
    assert before.recovery == [3.5]
    # Stored after that process had begun, so it could not answer earlier.
    assert judged(asked(24.0), bubble(ANSWER, "b1", at=24.6), calls=(shown,)).recovery == []


def test_of_equal_ids_only_the_last_is_known() -> None:
    assert told_apart(["a", "b", "a", "a"]) == ["a#2", "b", "a#1", "a"]


@pytest.mark.parametrize(
    ("at", "key", "count"),
    [
        (14.0, "w3", "none"),
        (30.4, "w3", "late"),
        (30.4, "w1", "blamed"),
        (32.0, "w3", "blamed"),
        (29.9, "w3", "blamed"),
    ],
)
def test_a_call_for_what_is_over_is_late_only_from_a_process_that_just_woke_up(at: float, key: str, count: str) -> None:
    second = replace(asked(11.0), marker="m00002", text=TEXT.replace("m00001", "m00002"), message_id="m2|r2")
    spoken = [asked(), second]
    received = datetime.fromtimestamp(10.0, UTC)
    rows: Any = [
        SimpleNamespace(id=i, chat=each.chat, platform_message_id=each.message_id, state="done", received_at=received)
        for i, each in enumerate(spoken)
    ]
    runs: Any = [
        SimpleNamespace(
            seq=i,
            run_id=each.marker,
            reply_key=each.marker,
            inbox_ids=[i],
            conversation="wecom:person0",
            detail=None,
            state="completed",
            input=RunInput(message_id=each.message_id, text=each.text),
        )
        for i, each in enumerate(spoken)
    ]
    shown = [
        bubble(ANSWER.replace("m00001", each.marker), each.marker, at=20.0 + i, order=i)
        for i, each in enumerate(spoken)
    ]
    report = Report("wecom", 1)
    facts = Facts(
        account="wecom",
        promises=WECOM,
        asked=tuple(spoken),
        lives=(KILLED, AFTER),
        rows=rows,
        runs=runs,
        replies={part.message_id: Reply(part.message_id, "wecom", (part,), True) for part in shown},
        chats={("wecom", "person0"): shown},
        calls=[],
        completions=[
            called("m00001", 12.0, "w3"),
            called("m00001", at, key),
            called("m00001", 13.5, "w1"),
            called("m00002", 20.0, "w1"),
        ],
        effects=[],
        known_ids=frozenset(("wecom", "person0", part.message_id) for part in shown),
        recorded=frozenset(),
        wall_ahead=0.0,
        woken=(("w3", 30.0),),
    )
    Judge(facts, report).judge()
    assert (report.late_calls, report.order_violations) == {"none": (0, 0), "late": (1, 0), "blamed": (0, 1)}[count]
    assert len(report.problems()) == report.order_violations


def called(marker: str, at: float, key: str) -> Record:
    headers = {"authorization": f"Bearer {key}"}
    text = TEXT.replace("m00001", marker)
    body = {"messages": [{"role": "user", "content": text}]}
    return Record(id=0, method="POST", path="/", headers=headers, started=at, last_user_text=text, body=body)
