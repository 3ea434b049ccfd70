"""The encryption of media against another implementation of it, in pieces of any size, and what broken files do."""

from __future__ import annotations

import base64
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import AttachmentFailed
from channels.wecom.media import BLOCK, Decryptor, media_key
from tests.simulators.wecom.media import encrypt

KEY = bytes(range(32))


def decrypted(data: bytes, *cuts: int) -> bytes:
    decryptor, plain, start = Decryptor(KEY), b"", 0
    for end in (*sorted(cuts), len(data)):
        plain += decryptor.update(data[start:end])
        start = end
    return plain + decryptor.finish()


@given(st.binary(max_size=200), st.lists(st.integers(0, 232), max_size=6))
def test_any_file_in_any_pieces(content: bytes, cuts: list[int]) -> None:
    data = encrypt(content, KEY)
    assert decrypted(data, *(min(cut, len(data)) for cut in cuts)) == content


def test_the_padding_goes_up_to_32_bytes() -> None:
    for size in (0, 16, 31, 32):
        data = encrypt(b"x" * size, KEY)
        assert len(data) % BLOCK == 0
        assert decrypted(data) == b"x" * size


@pytest.mark.parametrize(
    "data",
    [b"", b"x", encrypt(b"x" * 40, KEY)[:-1], encrypt(b"x" * 40, KEY, "padding"), encrypt(b"x" * 40, os.urandom(32))],
    ids=["nothing", "one byte", "cut", "bad padding", "another key"],
)
def test_a_broken_file_fails_as_an_attachment(data: bytes) -> None:
    with pytest.raises(AttachmentFailed) as caught:
        decrypted(data)
    assert caught.value.reason == "gone"


@pytest.mark.parametrize("padding", [b"\0" * 32, b"\x21" * 32, b"\x01" * 30 + b"\x02\x03"])
def test_padding_that_lies_is_refused(padding: bytes) -> None:
    with pytest.raises(AttachmentFailed, match="padding"):
        decrypted(encrypt(padding, KEY)[: len(padding)])


def test_keys_come_with_and_without_their_padding() -> None:
    text = base64.b64encode(KEY).decode()
    assert text.endswith("=")
    assert media_key(text) == media_key(text.rstrip("=")) == KEY


@pytest.mark.parametrize("text", ["", "short", "!" * 43, "A" * 60, "字" * 43])
def test_a_wrong_key_fails_as_an_attachment_and_is_not_shown(text: str) -> None:
    with pytest.raises(AttachmentFailed) as caught:
        media_key(text)
    assert not text or text not in str(caught.value)
