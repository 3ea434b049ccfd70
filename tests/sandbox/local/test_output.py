"""The beginning and the end of a command's output are kept, characters stay whole, and nothing is told twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox.local.process import Capture, Text

PIECES = st.lists(st.binary(max_size=40) | st.text(max_size=12).map(str.encode), max_size=12)


def captured(pieces: list[bytes], head: int, tail: int) -> tuple[Text, str]:
    told: list[str] = []
    capture = Capture(head, tail, told.append)
    for piece in pieces:
        capture.add(piece)
    return capture.finish(), "".join(told)


@given(PIECES)
def test_what_fits_is_kept_as_it_came(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    text, told = captured(pieces, 1000, 1000)
    assert text == Text(whole.decode(errors="replace"))
    assert told == text.output


@given(st.text(min_size=30, max_size=80), st.integers(0, 12), st.integers(0, 12), st.integers(1, 7))
def test_of_valid_text_whole_characters_are_kept(text: str, head: int, tail: int, size: int) -> None:
    data = text.encode()
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    found, told = captured(pieces, head, tail)
    first, last = found.output[: found.gap], found.output[found.gap :]
    assert told == text
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first.encode()) <= head
    assert len(last.encode()) <= tail
    assert len(found.output.encode()) + found.omitted == len(data)


@given(PIECES, st.integers(0, 20), st.integers(0, 20))
def test_memory_is_bounded_and_every_byte_is_accounted_for(pieces: list[bytes], head: int, tail: int) -> None:
    found, _ = captured(pieces, head, tail)
    assert found.omitted <= len(b"".join(pieces))
    assert len(found.output) <= head + tail
    assert 0 <= found.gap <= len(found.output)
