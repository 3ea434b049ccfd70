"""The manually encoded frames against the SDK's protobuf, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark_oapi.ws.pb.pbbp2_pb2 import Frame as SdkFrame

from tests.simulators.feishu.frames import CONTROL, DATA, Frame, FrameError, decode, encode

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
def test_the_sdk_reads_what_we_write(frame: Frame) -> None:
    theirs = SdkFrame()
    theirs.ParseFromString(encode(frame))
    assert (theirs.method, theirs.service, theirs.SeqID, theirs.LogID) == (
        frame.method,
        frame.service,
        frame.seq_id,
        frame.log_id,
    )
    assert tuple((header.key, header.value) for header in theirs.headers) == frame.headers
    assert (theirs.payload, theirs.payload_type, theirs.LogIDNew) == (
        frame.payload,
        frame.payload_type,
        frame.log_id_new,
    )
    assert decode(theirs.SerializeToString()) == frame


@given(FRAMES)
def test_what_is_written_is_read_again(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


def test_other_fields_are_skipped() -> None:
    frame = Frame(DATA, payload=b"x")
    assert decode(b"\x78\x01" + encode(frame) + b"\x85\x01abcd") == frame


@pytest.mark.parametrize("data", [b"", b"\x08\x01", b"\x08", b"\x42\x05ab", b"\x0b", b"\x08" + b"\xff" * 11])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


@given(st.binary(max_size=60))
def test_nothing_else_is_raised(data: bytes) -> None:
    try:
        decode(data)
    except (FrameError, UnicodeDecodeError):
        return
