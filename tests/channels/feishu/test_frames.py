"""The hand-made frames: as the SDK's protobuf writes and reads them, whatever arrives, and in parts."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.feishu.frames import CONTROL, DATA, BadFrame, Frame, decode, encode, ping
from channels.feishu.socket import Fragments

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FRAMES = st.builds(
    Frame,
    method=st.sampled_from([CONTROL, DATA]),
    service=st.integers(-(1 << 31), (1 << 31) - 1),
    seq_id=st.integers(0, (1 << 64) - 1),
    log_id=st.integers(0, (1 << 64) - 1),
    headers=st.dictionaries(TEXTS, TEXTS, max_size=4),
    payload_encoding=TEXTS,
    payload_type=TEXTS,
    payload=st.binary(max_size=400),
    log_id_new=TEXTS,
)


@functools.cache
def sdk_frame() -> Any:
    """The SDK's class of frames. Importing the SDK takes seconds, so collecting the tests does not."""
    from lark_oapi.ws import client
    from lark_oapi.ws.pb.pbbp2_pb2 import Frame

    # Importing it also makes a loop that nobody closes.
    if not client.loop.is_running():
        client.loop.close()
    return Frame


@pytest.fixture(scope="module", autouse=True)
def _the_sdk_is_there() -> None:
    """Before Hypothesis counts the time of an example."""
    sdk_frame()


def as_the_sdk_has_it(frame: Frame) -> Any:
    theirs = sdk_frame()()
    theirs.method, theirs.service, theirs.SeqID, theirs.LogID = frame.method, frame.service, frame.seq_id, frame.log_id
    for key, value in frame.headers.items():
        header = theirs.headers.add()
        header.key, header.value = key, value
    theirs.payload_encoding, theirs.payload_type = frame.payload_encoding, frame.payload_type
    theirs.payload, theirs.LogIDNew = frame.payload, frame.log_id_new
    return theirs


@given(FRAMES)
def test_the_sdk_reads_what_we_write(frame: Frame) -> None:
    theirs = sdk_frame()()
    theirs.ParseFromString(encode(frame))
    assert theirs.IsInitialized()
    expected = as_the_sdk_has_it(frame)
    assert [(header.key, header.value) for header in theirs.headers] == list(frame.headers.items())
    for name in ("method", "service", "SeqID", "LogID", "payload_encoding", "payload_type", "payload", "LogIDNew"):
        assert getattr(theirs, name) == getattr(expected, name)


@given(FRAMES)
def test_we_read_what_the_sdk_writes(frame: Frame) -> None:
    assert decode(as_the_sdk_has_it(frame).SerializeToString()) == frame


@given(st.binary(max_size=60) | FRAMES.map(lambda frame: encode(frame)[:-1]))
def test_anything_else_is_a_bad_frame(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        decode(data)


def test_unknown_fields_are_stepped_over() -> None:
    strange = b"\x50\x01" + b"\x59" + bytes(8) + b"\x65" + bytes(4) + b"\x6a\x02xy"
    assert decode(encode(ping(7)) + strange) == ping(7)


def test_an_answer_is_the_frame_with_another_payload() -> None:
    frame = Frame(method=DATA, service=3, seq_id=9, headers={"message_id": "m", "type": "event"}, payload=b"in")
    answer = frame.answer(b"out", 12)
    assert answer.headers == {"message_id": "m", "type": "event", "biz_rt": "12"}
    assert (answer.payload, answer.service, answer.seq_id) == (b"out", 3, 9)


def part(message: str, total: int, number: int, payload: bytes) -> Frame:
    headers = {"message_id": message, "sum": str(total), "seq": str(number)}
    return Frame(method=DATA, headers=headers, payload=payload)


def test_parts_are_joined_in_any_order() -> None:
    fragments = Fragments()
    assert fragments.add(part("m", 3, 2, b"c"), 0.0) is None
    assert fragments.add(part("other", 2, 0, b"x"), 0.0) is None
    assert fragments.add(part("m", 3, 0, b"a"), 1.0) is None
    assert fragments.add(part("m", 3, 1, b"b"), 2.0) == b"abc"
    assert fragments.add(part("alone", 1, 0, b"whole"), 2.0) == b"whole"


def test_parts_of_something_that_never_came_whole_are_forgotten() -> None:
    fragments = Fragments()
    assert fragments.add(part("m", 2, 0, b"a"), 0.0) is None
    assert fragments.add(part("n", 2, 0, b"a"), 6.0) is None
    assert fragments.add(part("m", 2, 1, b"b"), 6.0) is None
    for number in range(200):
        fragments.add(part(f"x{number}", 2, 0, b"a"), 6.0)
    assert fragments.add(part("n", 2, 1, b"b"), 6.0) is None


@pytest.mark.parametrize(("total", "number"), [(2, 2), (2, 5), (1000, 0)])
def test_parts_that_cannot_be_are_refused(total: int, number: int) -> None:
    with pytest.raises(BadFrame):
        Fragments().add(part("m", total, number, b"a"), 0.0)
