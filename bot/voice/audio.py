"""Format and length of a recording, read from its content, and reasons for a missing transcript. Pure.

Platforms give voice messages no suffix, or a wrong one, while services rely on the suffix alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Literal

from tinytag import TinyTag, TinyTagException

if TYPE_CHECKING:
    from collections.abc import Mapping


ACCEPTED = frozenset({"flac", "m4a", "mp3", "ogg", "wav", "webm"})
"""Formats accepted by OpenAI's service ("Speech to text", supported formats), and by servers that imitate it."""
MIME_TYPES = {
    "aac": "audio/aac",
    "amr": "audio/amr",
    "caf": "audio/x-caf",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "silk": "audio/silk",
    "wav": "audio/wav",
    "webm": "audio/webm",
}
_BEGINNINGS = (
    (b"OggS", "ogg"),
    (b"#!AMR", "amr"),
    (b"#!SILK", "silk"),
    (b"\x02#!SILK", "silk"),  # as WeChat writes it
    (b"ID3", "mp3"),
    (b"fLaC", "flac"),
    (b"\x1aE\xdf\xa3", "webm"),
    (b"caff", "caf"),
)
_BY_TYPE = {
    "audio/mpeg": "mp3",
    "audio/x-m4a": "m4a",
    "audio/x-wav": "wav",
    **{mime_type: name for name, mime_type in MIME_TYPES.items()},
}
_MOST_STEPS = 1_000_000
"""Frames, pages or boxes read to find the length, so that hostile content does not keep a core busy for a minute."""
_AMR_FRAME_SECONDS = 0.02
_AMR_BYTES = {
    b"#!AMR\n": (12, 13, 15, 17, 19, 20, 26, 31, 5, 0, 0, 0, 0, 0, 0, 0),
    b"#!AMR-WB\n": (17, 23, 32, 36, 40, 46, 50, 58, 60, 5, 0, 0, 0, 0, 0, 0),
}
"""Bytes of a frame of each type, without its header byte (RFC 4867, 3GPP TS 26.101 and 26.201)."""

Untranscribed = Literal[
    "off", "too_long", "too_large", "gone", "format", "key", "model", "quota", "busy", "timeout", "unavailable",
    "garbage", "silent", "failed",
]  # fmt: skip
"""Reasons; each has a sentence for people (bot/texts) and a clause for the model."""
CLAUSES: Mapping[Untranscribed, str] = {
    "off": "it could not be transcribed: no transcription service is configured",
    "too_long": "it was not transcribed: it is longer than allowed",
    "too_large": "it was not transcribed: it is larger than allowed",
    "gone": "it could not be transcribed: the file is no longer there",
    "format": "it could not be transcribed: the transcription service did not accept the recording",
    "key": "it could not be transcribed: the transcription service refused the API key",
    "model": "it could not be transcribed: the transcription service does not know the configured model",
    "quota": "it could not be transcribed: the account at the transcription service has no credit left",
    "busy": "it could not be transcribed: the transcription service accepts no more requests at the moment",
    "timeout": "it could not be transcribed: the transcription service did not answer in time",
    "unavailable": "it could not be transcribed: the transcription service cannot be reached",
    "garbage": "it could not be transcribed: the transcription service sent an unreadable answer",
    "silent": "no words were heard in it",
    "failed": "it could not be transcribed: something went wrong; the log has details",
}
"""The reasons as worded for the model."""


class TranscriptionError(Exception):
    """A voice message was not transcribed, for a reason reported to people and the model.

    The text is for the log: it holds no secret and nothing of what was said.
    """

    def __init__(self, reason: Untranscribed, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason: Untranscribed = reason


@dataclass(frozen=True, slots=True)
class Kind:
    """Format and length of a recording.

    suffix: without the dot; "bin" for an unknown format. seconds: None where the length is not known.
    """

    suffix: str
    mime_type: str
    seconds: float | None

    @property
    def accepted(self) -> bool:
        """Whether services accept the format as it is."""
        return self.suffix in ACCEPTED


class _Recording(BytesIO):
    """A recording to measure; each round of tinytag's loops reads from it, so a limit on reads ends them."""

    _reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += 1
        if self._reads > _MOST_STEPS:
            raise TinyTagException("it has too many parts")
        return super().read(size)


def kind_of(content: bytes, declared: str) -> Kind:
    """Return the kind by content, or else by `declared`, the MIME type that the platform states."""
    suffix = _by_content(content) or _BY_TYPE.get(declared.partition(";")[0].strip().lower(), "bin")
    mime_type = MIME_TYPES.get(suffix, "application/octet-stream")
    return Kind(suffix, mime_type, _seconds(suffix, content))


def _by_content(content: bytes) -> str | None:
    for beginning, suffix in _BEGINNINGS:
        if content.startswith(beginning):
            return suffix
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        return "wav"
    if content[4:8] == b"ftyp":
        return "m4a"
    if len(content) > 1 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0:
        return "aac" if content[1] & 0x06 == 0 else "mp3"  # the two bits of the layer, which are 0 in ADTS
    return None


def _seconds(suffix: str, content: bytes) -> float | None:
    if suffix == "amr":
        return _amr(content)  # tinytag does not know the format
    try:
        tag = TinyTag.get(file_obj=_Recording(content), tags=False)
    except TinyTagException:
        return None
    if suffix == "wav" and tag.duration and tag.bitrate:
        # A WAV written to a pipe states the largest possible size.
        return min(tag.duration, len(content) * 8 / 1000 / tag.bitrate)
    return tag.duration or None


def _amr(content: bytes) -> float | None:
    magic = content[: content.find(b"\n", 0, 16) + 1]
    sizes = _AMR_BYTES.get(magic)
    if sizes is None:
        return None
    at, frames = len(magic), 0
    while at < len(content) and frames < _MOST_STEPS:
        at += 1 + sizes[content[at] >> 3 & 0x0F]
        frames += 1
    return frames * _AMR_FRAME_SECONDS
