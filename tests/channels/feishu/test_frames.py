"""The frames of the long connection: written as the platform reads them, with anything that arrives, and in parts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.feishu.socket import BadFrame, Fragments, acknowledged, header, ping, read_frame
from tests.simulators.feishu.frames import CONTROL, DATA, Frame, decode, encode

if TYPE_CHECKING:
    from channels.feishu.sdk import Frame as SdkFrame

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FRAMES = st.builds(
    Frame,
    method=st.sampled_from([CONTROL, DATA]),
    service=st.integers(-(1 << 31), (1 << 31) - 1),
    headers=st.lists(st.tuples(TEXTS, TEXTS), max_size=4).map(tuple),
    payload=st.binary(max_size=400),
    seq_id=st.integers(0, (1 << 64) - 1),
    log_id=st.integers(0, (1 << 64) - 1),
    payload_encoding=TEXTS,
    payload_type=TEXTS,
    log_id_new=TEXTS,
)


@given(FRAMES)
def test_an_acknowledgement_is_the_frame_with_another_payload(frame: Frame) -> None:
    answer = decode(acknowledged(read_frame(encode(frame)), b"out", 12))
    assert answer.headers == (*frame.headers, ("biz_rt", "12"))
    assert answer.payload == b"out"
    for name in ("method", "service", "seq_id", "log_id", "payload_encoding", "payload_type", "log_id_new"):
        assert getattr(answer, name) == getattr(frame, name)


def test_a_ping_is_a_control_frame() -> None:
    assert decode(ping(7)) == Frame(method=CONTROL, service=7, headers=(("type", "ping"),))


def test_of_a_repeated_header_the_last_counts() -> None:
    frame = read_frame(encode(Frame(method=DATA, headers=(("sum", "1"), ("sum", "2")))))
    assert (header(frame, "sum"), header(frame, "seq")) == ("2", "")


@given(st.binary(max_size=60) | FRAMES.map(lambda frame: encode(frame)[:-1]))
def test_anything_else_is_a_bad_frame(data: bytes) -> None:
    with contextlib.suppress(BadFrame):
        read_frame(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x53" * 5000,
        encode(Frame(method=DATA, payload_type="xx")).replace(b"xx", b"\xff\xff"),
        encode(Frame(method=DATA))[:-2],
    ],
    ids=["nested", "not UTF-8", "without a method"],
)
def test_what_cannot_be_used_is_a_bad_frame(data: bytes) -> None:
    with pytest.raises(BadFrame):
        read_frame(data)


def test_unknown_fields_are_stepped_over() -> None:
    strange = b"\x50\x01" + b"\x59" + bytes(8) + b"\x65" + bytes(4) + b"\x6a\x02xy"
    assert header(read_frame(ping(7) + strange), "type") == "ping"


def part(message: str, total: int, number: int, payload: bytes) -> SdkFrame:
    headers = (("message_id", message), ("sum", str(total)), ("seq", str(number)))
    return read_frame(encode(Frame(method=DATA, headers=headers, payload=payload)))


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
