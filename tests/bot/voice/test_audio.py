"""What kind of audio some bytes are, and how long it lasts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.voice.audio import ACCEPTED, MIME_TYPES, kind_of
from tests.simulators.transcription import speech
from tests.tables import table

OCTETS = "application/octet-stream"


def piped(wav: bytes) -> bytes:
    """As it is written where the length is not known at the beginning."""
    return wav.replace(b"data" + (len(wav) - 44).to_bytes(4, "little"), b"data\xff\xff\xff\xff")


@table(
    ("content", "suffix", "seconds"),
    [
        (speech.ogg("hello", 2.5), "ogg", 2.5),
        (speech.wav("hello", 1.5), "wav", 1.5),
        (speech.m4a("hello", 61.0), "m4a", 61.0),
        (b"#!AMR\n" + (bytes([0x3C]) + bytes(31)) * 100, "amr", 2.0),
        (b"#!AMR-WB\n" + (bytes([0x44]) + bytes(60)) * 50, "amr", 1.0),
        (b"OggS" + bytes(200), "ogg", None),  # no Opus in it
        (b"ID3\x04" + bytes(20), "mp3", None),
        ((b"\xff\xfb\x90\x64" + bytes(413)) * 200, "mp3", 5.2),
        (piped(speech.wav("hello", 1.5)), "wav", 1.5),
        (b"\xff\xfb\x90\x64", "mp3", 0.0),
        (b"\xff\xf1\x50\x80", "aac", None),
        (b"fLaC", "flac", None),
        (b"\x1aE\xdf\xa3", "webm", None),
        (b"caff\0\1", "caf", None),
        (b"\x02#!SILK_V3", "silk", None),
        (b"", "bin", None),
    ],
)
def test_the_content_tells(content: bytes, suffix: str, seconds: float | None) -> None:
    kind = kind_of(content, OCTETS)
    assert (kind.suffix, kind.accepted) == (suffix, suffix in ACCEPTED)
    assert kind.mime_type == MIME_TYPES.get(suffix, OCTETS)
    assert kind.seconds == (None if seconds is None else pytest.approx(seconds, abs=0.05))


@pytest.mark.parametrize(
    ("declared", "suffix"),
    [("audio/ogg; codecs=opus", "ogg"), ("AUDIO/AMR", "amr"), ("audio/x-m4a", "m4a"), ("text/html", "bin")],
)
def test_where_it_says_nothing_the_platform_is_believed(declared: str, suffix: str) -> None:
    assert kind_of(b"\0\0\0\0", declared).suffix == suffix


BEGINNINGS = (b"OggS", b"RIFF\0\0\0\0WAVE", b"#!AMR\n", b"#!AMR-WB\n", b"\0\0\0\0ftyp", b"OggS\0\0OpusHead", b"")


@given(st.sampled_from(BEGINNINGS), st.binary(max_size=400))
def test_nothing_in_a_recording_breaks_it(beginning: bytes, rest: bytes) -> None:
    kind = kind_of(beginning + rest + b"mvhd" + rest, "audio/ogg")
    assert kind.seconds is None or kind.seconds >= 0


def test_a_recording_of_empty_frames_costs_little() -> None:
    assert kind_of(b"#!AMR\n" + b"\x7c" * 3_000_000, OCTETS).seconds == pytest.approx(20_000)
    assert kind_of(b"RIFF\0\0\0\0WAVE" + bytes(3_000_000), OCTETS).seconds is None


def test_a_length_behind_too_much_that_is_no_sound_is_not_looked_for() -> None:
    """Each of these bytes may begin a frame: 25 MB of them would take a core for half a minute."""
    frames = (b"\xff\xfb\x90\x64" + bytes(413)) * 200
    assert kind_of(b"\xff\xfb" + b"\xff" * 10_000 + frames, OCTETS).seconds == pytest.approx(5.2, abs=0.5)
    assert kind_of(b"\xff\xfb" + b"\xff" * 1_000_000 + frames, OCTETS).seconds is None
