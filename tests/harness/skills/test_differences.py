"""What a person is shown of a change, and what names a content."""

from __future__ import annotations

import time

from harness.skills.files import digest_of
from harness.skills.history import diff
from tests.harness.skills.test_editing import text


def test_differences() -> None:
    shown = diff(text("One.") | {"a.bin": b"\xff", "old.md": b"gone\n"}, text("Two.") | {"a.bin": b"\xfe\xff"})
    assert "-One.\n+Two." in shown
    assert "a.bin (changed)\n  no text, 2 bytes" in shown
    assert "old.md (gone)" in shown
    assert digest_of({"a": b"1", "b": b""}) != digest_of({"a": b"", "b": b"1"})


def test_differences_of_long_texts_are_found_at_once() -> None:
    many = [f"line {number % 7}" for number in range(40_000)]
    one = [*many[:20_000], "another", *many[20_001:]]
    shown = diff({"a.md": "\n".join(many).encode()}, {"a.md": "\n".join(one).encode()})
    assert shown.split("\n")[:2] == ["a.md (changed)", "…"]
    assert "+another" in shown
    assert len(shown) < 200
    before = time.process_time()
    diff({"a.md": "\n".join(many).encode()}, {"a.md": "\n".join(reversed(many)).encode()})
    assert time.process_time() - before < 1
