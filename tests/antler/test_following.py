"""What a program is told of a run: each piece of text once, wherever its stream was cut off and taken up again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antler.connection import Frame
from antler.errors import RunFailed
from antler.following import BEGINNING, Reading
from antler.values import Answer, File, Run, Text

RUN = Run(thread_id="t", run_id="r")
PIECES = st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=8)


def chunk(text: str, number: str = "", message: str = "m", kind: str = "AIMessageChunk") -> Frame:
    return Frame("messages", [{"type": kind, "id": message, "content": text}, {}], number)


def custom(number: str = "", **data: Any) -> Frame:
    return Frame("custom", data, number)


def gap(text: str, number: str = "", message: str = "m") -> Frame:
    return Frame("gap", {"messages": [{"type": "ai", "id": message, "content": text}]}, number)


def told(reading: Reading, frames: list[Frame]) -> str:
    """What a program prints that prints what is new."""
    events = [event for frame in frames for event in reading.take(frame)]
    return "".join(event.added for event in events if isinstance(event, Text))


@given(PIECES, st.lists(st.booleans(), min_size=8, max_size=8), st.lists(st.integers(1, 8), max_size=5))
def test_a_text_is_told_once_however_often_its_stream_is_cut_off(
    pieces: list[str], numbered: list[bool], lengths: list[int]
) -> None:
    """Only some events have an id: what came behind the newest id is told again."""
    frames = [chunk(piece, str(at) if numbered[at - 1] else "") for at, piece in enumerate(pieces, 1)]
    reading, said = Reading(RUN), ""
    for length in [*lengths, len(frames)]:
        reading.again()
        first = 0 if reading.last_event_id == BEGINNING else int(reading.last_event_id)
        said += told(reading, frames[first : first + length])
    assert said == reading.text == "".join(pieces)


@given(PIECES, PIECES)
def test_what_is_told_again_after_a_gap_is_not_told_twice(before: list[str], after: list[str]) -> None:
    reading, whole = Reading(RUN), "".join(before)
    said = told(reading, [chunk(piece) for piece in before])
    reading.again()
    again = [gap(whole, "2-1-0"), chunk("", kind="remove"), chunk(whole), *(chunk(piece) for piece in after)]
    assert said + told(reading, again) == whole + "".join(after)


@given(PIECES, PIECES, st.integers(0, 8), st.sampled_from("mn"))
def test_what_a_new_process_says_again_is_not_told_twice(
    before: list[str], after: list[str], seen: int, message: str
) -> None:
    """message: the id under which it is said, the former one or another. seen: how much comes in one piece."""
    reading, whole = Reading(RUN), "".join(before) + "".join(after)
    said = told(reading, [chunk("Done. ", message="l"), *(chunk(piece) for piece in before)])
    known = {"messages": [{"type": "ai", "id": "l", "content": "Done. "}]}
    again = [
        Frame("gap", known, "2-1-0"),
        chunk(whole[:seen], message=message),
        *(chunk(each, message=message) for each in whole[seen:]),
    ]
    assert said + told(reading, again) == "Done. " + whole
    assert reading.text == whole


def test_a_message_that_says_something_else_is_told_whole() -> None:
    reading = Reading(RUN)
    assert told(reading, [chunk("One th")]) == "One th"
    assert told(reading, [chunk("", kind="remove"), chunk("Another")]) == "Another"
    assert reading.text == "Another"


def test_the_newest_message_is_the_text() -> None:
    reading = Reading(RUN)
    told(reading, [chunk("I look. "), chunk("Done.", message="n"), chunk("Really", message="m")])
    assert reading.text == "I look. Really"


def file(name: str, size: int = 1) -> dict[str, Any]:
    return {"name": name, "path": f"/out/{name}", "mime_type": "text/plain", "size": size, "kind": "file"}


def test_a_file_is_told_once_and_again_where_it_is_another() -> None:
    reading = Reading(RUN)
    frames = [
        custom(type="file_ready", file=file("a")),
        custom(type="file_ready", file=file("b")),
        custom(type="file_ready", file=file("a", 2)),
        custom(type="finished", text="Here.", outcome="success", files=[file("a", 2), file("b"), file("c")]),
    ]
    files = [event for frame in frames for event in reading.take(frame) if isinstance(event, File)]
    assert [(each.name, each.size) for each in files] == [("a", 1), ("b", 1), ("a", 2), ("c", 1)]
    answer = reading.answer()
    assert isinstance(answer, Answer)
    assert (answer.text, [(each.name, each.size) for each in answer.files]) == ("Here.", [("a", 2), ("b", 1), ("c", 1)])


def test_a_failure_is_an_error_with_its_kind() -> None:
    reading = Reading(RUN)
    told(reading, [Frame("error", {"error": "quota", "message": "No money."}, ""), Frame("end", None, "")])
    with pytest.raises(RunFailed, match=r"No money. \(quota\)") as failed:
        reading.answer()
    assert (failed.value.code, failed.value.run_id) == ("quota", "r")
