"""Measuring, cutting and cleaning text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.capabilities import TextUnit
from channels.text.sanitize import is_blank, is_safe_link, one_line, sanitize
from channels.text.split import clusters, display_width, fitting, is_border, shortened, split_text, utf16_length
from tests.properties import examples
from tests.tables import table

MEASURED = [TextUnit.UTF16, TextUnit.CHARACTERS, TextUnit.UTF8_BYTES]
WHOLE = ["👨‍👩‍👧", "🇩🇪", "é", "👍🏽", "한", "☑️", "각", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "e\u0301\u0323", "\r\n"]


def length(text: str, unit: TextUnit) -> int:
    """The text's length as the platform counts it."""
    sizes = {
        TextUnit.UTF16: utf16_length(text),
        TextUnit.CHARACTERS: len(text),
        TextUnit.UTF8_BYTES: len(text.encode()),
    }
    return sizes[unit]


def test_lengths() -> None:
    assert [length("aé😀", unit) for unit in MEASURED] == [4, 3, 7]
    with pytest.raises(ValueError, match="alone"):
        fitting("a", 1, TextUnit.JSON_BYTES)


@table("whole", WHOLE)
def test_what_looks_like_one_character_is_never_cut(whole: str) -> None:
    assert clusters(f"a{whole}{whole}b") == ["a", whole, whole, "b"]


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([*WHOLE, "a", " ", "\n", "字"])).map("".join), st.integers(40, 60))
def test_pieces_are_the_text_and_fit(text: str, limit: int) -> None:
    for unit in MEASURED:
        pieces = split_text(text, limit, unit)
        assert "".join(pieces) == text
        assert all(0 < length(piece, unit) <= limit for piece in pieces)
        ends = [len("".join(pieces[:count])) for count in range(1, len(pieces))]
        assert all(is_border(text, end) for end in ends)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.integers(0, 40))
def test_as_much_as_fits(text: str, limit: int) -> None:
    for unit in MEASURED:
        count = fitting(text, limit, unit)
        assert length(text[:count], unit) <= limit
        assert count == len(text) or length(text[: count + 1], unit) > limit


@given(st.lists(st.sampled_from([*WHOLE, "a", " "])).map("".join), st.integers(80, 90))
def test_a_shortened_text_has_room_for_its_ellipsis(text: str, limit: int) -> None:
    for unit in (TextUnit.UTF16, TextUnit.CHARACTERS):
        shown = shortened(text, limit, unit)
        assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]) and length(shown, unit) <= limit)


def test_a_pile_of_marks_is_cut_all_the_same() -> None:
    assert all(len(piece) <= 100 for piece in split_text("a" + "\u0301" * 1000, 100, TextUnit.CHARACTERS))


def test_lines_come_before_words_before_characters() -> None:
    assert split_text("aaaa bbbb\ncccc dddd", 14, TextUnit.CHARACTERS) == ("aaaa bbbb\n", "cccc dddd")
    assert split_text("aaaa bbbb cccc", 12, TextUnit.CHARACTERS) == ("aaaa bbbb ", "cccc")
    assert split_text("a" * 25, 10, TextUnit.CHARACTERS) == ("a" * 10, "a" * 10, "a" * 5)


def test_display_widths() -> None:
    assert [display_width(text) for text in ("abc", "日本", "👨‍👩‍👧", "🇩🇪", "e\u0301", "a\u200eb")] == [
        3,
        4,
        2,
        2,
        1,
        2,
    ]


def test_sanitize_removes_what_misleads_and_keeps_what_is_written() -> None:
    assert sanitize("a\x00b\ud800c") == "a\ufffdb\ufffdc"
    assert sanitize("\ud83d\ude00") == "😀"
    assert sanitize("a\r\nb\rc\u2028d") == "a\nb\nc\nd"
    assert sanitize("\x1b[31mred\x1b[0m\x07") == "red"
    assert sanitize("\u202egpj.exe\u2066x\u2069") == "gpj.exex"
    kept = "שלום\u200f عربي\u200d\u200b\tx\n👨‍👩‍👧"
    assert sanitize(kept) is kept


@given(st.text(alphabet=st.characters()))
def test_sanitized_text_can_be_sent(text: str) -> None:
    clean = sanitize(text)
    clean.encode()
    assert sanitize(clean) == clean


def test_one_line_and_blank() -> None:
    assert one_line(" a\n\tb \x00") == "a b \ufffd"
    assert is_blank(" \n\u200b\u2800\u3164")
    assert not is_blank("\u200b.")


def test_safe_links() -> None:
    assert is_safe_link("HTTPS://a.b")
    assert not any(map(is_safe_link, ["https:a", "http:///x", "java\tscript:x", " http://a", "https://a" + "b" * 3000]))
