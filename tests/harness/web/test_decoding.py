"""Packed bodies: whatever pieces they come in, the text up to the limit is found, and no byte more."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.web.fetch import BadEncoding, Body

if TYPE_CHECKING:
    from collections.abc import Callable


def headless(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "deflate": zlib.compress,
    "deflate without a header": headless,
}


@pytest.mark.parametrize("kind", PACKERS)
@given(data=st.binary(max_size=300), limit=st.integers(0, 320), piece=st.integers(1, 50))
def test_what_is_kept_is_the_beginning(kind: str, data: bytes, limit: int, piece: int) -> None:
    body = Body(kind.partition(" ")[0], limit)
    packed = PACKERS[kind](data)
    for start in range(0, len(packed), piece):
        body.feed(packed[start : start + piece])
    assert bytes(body.kept) == data[:limit]
    assert body.full == (len(data) > limit)


@given(data=st.binary(max_size=300), encoding=st.sampled_from(["gzip", "deflate"]))
def test_anything_else_is_broken_or_short(data: bytes, encoding: str) -> None:
    body = Body(encoding, 1000)
    try:
        body.feed(data)
    except BadEncoding:
        return
    assert len(body.kept) <= 1000


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "nonsense"])
def test_what_was_not_asked_for_is_refused(encoding: str) -> None:
    with pytest.raises(BadEncoding):
        Body(encoding, 10)


@pytest.mark.parametrize(
    ("encoding", "piece"), [("gzip", gzip.compress(b"")), ("deflate", b"\x00\x00\x00\xff\xff")], ids=["gzip", "deflate"]
)
def test_what_unpacks_to_nothing_is_not_read_for_ever(encoding: str, piece: bytes) -> None:
    body = Body(encoding, 1000)
    many = piece * 50_000
    with pytest.raises(BadEncoding):
        body.feed(many)
