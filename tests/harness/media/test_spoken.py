"""Text for the ear, in parts; recordings as one."""

from __future__ import annotations

import pytest

from harness.media.spoken import beginning, for_the_ear, in_parts, joined, turns_of
from tests.simulators.media.server import heard, mp3


def test_parts_of_a_recording_are_one_mp3() -> None:
    long = "a longer part " * 50
    whole = joined([mp3("one"), mp3("two"), mp3(long)])
    assert not whole.startswith(b"ID3")
    assert b"Info" not in whole
    assert heard(whole) == ["one", "two", long]


def test_what_is_no_mp3_is_not_joined() -> None:
    with pytest.raises(ValueError, match="no MP3"):
        joined([b"RIFF" + bytes(40), mp3("two")])


def test_marks_code_tables_and_addresses_are_not_spoken() -> None:
    answer = (
        "# Deer\n\n**Red** deer [1] are [large](https://a.example/x).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "```python\nprint(1)\n```\n\n- first\n- second `one`\n\nSee https://b.example/y"
    )
    assert for_the_ear(answer) == "Deer\nRed deer are large.\nfirst\nsecond one\nSee"


def test_a_long_text_ends_with_a_sentence() -> None:
    text = "One is here. Two is there! 三在这里。Four."
    assert beginning(text, 100) == (text, False)
    assert beginning(text, 30) == ("One is here. Two is there!", True)
    assert beginning("word " * 10, 12) == ("word word", True)


@pytest.mark.parametrize("text", ["One. Two.\nThree? Four!  Five.", "x" * 95, "句子。" * 40, "a b c " * 30])
def test_parts_hold_all_words_and_fit(text: str) -> None:
    parts = in_parts(text, 10)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert max(map(len, parts)) <= 10


def test_turns_have_the_voices_of_their_speakers() -> None:
    script = "# Title\n**ANN:** Hello, [laughs] you.\nAnd more.\n\nBEN： Yes: indeed.\n> a note\nNote: kept"
    assert turns_of(script, {"Ann": "nova", "Ben": "onyx"}, "alloy") == [
        ("nova", "Hello, you.\nAnd more."),
        ("onyx", "Yes: indeed.\nNote: kept"),
    ]
    assert turns_of("Dear all: hello", {}, "alloy") == [("alloy", "Dear all: hello")]
