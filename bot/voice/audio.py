"""What kind of audio some bytes are, and how long it lasts, by their own words; for listener.py. Pure.

Platforms name voice messages by no suffix, or by a wrong one, and services go by the suffix alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCEPTED = frozenset({"flac", "m4a", "mp3", "ogg", "wav", "webm"})
"""What OpenAI's service takes ("Speech to text", supported formats), and with it every server that imitates it."""
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
_OPUS_RATE = 48_000
_AMR_FRAME_SECONDS = 0.02
_MOST_FRAMES = 1_000_000
_MOST_CHUNKS = 64
"""That are looked at: a file may consist of empty ones."""
_AMR_BYTES = {
    b"#!AMR\n": (12, 13, 15, 17, 19, 20, 26, 31, 5, 0, 0, 0, 0, 0, 0, 0),
    b"#!AMR-WB\n": (17, 23, 32, 36, 40, 46, 50, 58, 60, 5, 0, 0, 0, 0, 0, 0),
}
"""Of a frame of each type, without its header byte (RFC 4867, 3GPP TS 26.101 and 26.201)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """suffix: without the dot; "bin" for what nobody knows. seconds: how long it lasts, None where it does not say."""

    suffix: str
    mime_type: str
    seconds: float | None

    @property
    def accepted(self) -> bool:
        """Services take it as it is."""
        return self.suffix in ACCEPTED


def kind_of(content: bytes, declared: str) -> Kind:
    """declared: the MIME type by the platform's word, which counts where the content says nothing."""
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
        return "aac" if content[1] & 0x06 == 0 else "mp3"  # the two bits of the layer, which ADTS leaves empty
    return None


def _seconds(suffix: str, content: bytes) -> float | None:
    measures = {"ogg": _ogg, "wav": _wav, "amr": _amr, "m4a": _m4a}
    measure = measures.get(suffix)
    return measure(content) if measure is not None else None


def _ogg(content: bytes) -> float | None:
    """By the position of the last page (RFC 3533); only Opus counts in a rate that is known (RFC 7845)."""
    last, head = content.rfind(b"OggS"), content.find(b"OpusHead", 0, 4096)
    if head < 0 or len(content) < last + 14:
        return None
    skipped = int.from_bytes(content[head + 10 : head + 12], "little")
    position = struct.unpack_from("<q", content, last + 6)[0]
    return max(0, position - skipped) / _OPUS_RATE if position >= 0 else None


def _wav(content: bytes) -> float | None:
    rate: int | None = None
    for name, start, size in _riff_chunks(content):
        if name == b"fmt " and len(content) >= start + 12:
            rate = int.from_bytes(content[start + 8 : start + 12], "little")
        elif name == b"data" and rate:
            return min(size, len(content) - start) / rate
    return None


def _riff_chunks(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    at = 12
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(content):
            return
        size = int.from_bytes(content[at + 4 : at + 8], "little")
        yield content[at : at + 4], at + 8, size
        at += 8 + size + size % 2


def _amr(content: bytes) -> float | None:
    magic = content[: content.find(b"\n", 0, 16) + 1]
    sizes = _AMR_BYTES.get(magic)
    if sizes is None:
        return None
    at, frames = len(magic), 0
    while at < len(content) and frames < _MOST_FRAMES:
        at += 1 + sizes[content[at] >> 3 & 0x0F]
        frames += 1
    return frames * _AMR_FRAME_SECONDS


def _m4a(content: bytes) -> float | None:
    """By the movie header (ISO/IEC 14496-12, 8.2.2)."""
    at = content.find(b"mvhd")
    if at < 0 or len(content) < at + 36:
        return None
    form = ">II" if content[at + 4] == 0 else ">IQ"
    scale, length = struct.unpack_from(form, content, at + (16 if content[at + 4] == 0 else 24))
    return length / scale if scale else None
