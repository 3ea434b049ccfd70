"""Text for speech: Markdown without its marks, in parts that a service accepts, by speaker; and recordings joined."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.media.services import LONGEST_PART

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
_TARGET = r"\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)?\)"
_MARKS = (
    (re.compile(r"^(```|~~~).*?(^\1|\Z)", re.DOTALL | re.MULTILINE), "\n"),  # code
    (re.compile(r"^[ \t]*+\|.*$", re.MULTILINE), ""),  # tables
    (re.compile(rf"!?\[([^\[\]\n]*+)\]{_TARGET}"), r"\1"),
    (re.compile(r"\[\^?\d+\]"), ""),  # citation numbers
    (re.compile(r"<?https?://\S+"), ""),
    (re.compile(r"^[ \t]{0,3}(?:#{1,6}|>|[-*+]|\d{1,9}[.)])[ \t]++", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*+(?:[-*_][ \t]*+){3,}+$", re.MULTILINE), ""),
    (re.compile(r"(\*\*|__|\*|~~|\|\||`)"), ""),
)
"""Patterns removed from a text in this order, with their replacements; each reads the text once."""
_TURN = re.compile(r"^\s*+(?:\*\*)?([^:：\n*]{1,30})[:：](?:\*\*)?\s*(.*)$")

_BITRATES = {
    (3, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (2, 1): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""kbit/s by (MPEG version 1: 3, 2 and 2.5: 2; bits of the layer) and index (ISO 11172-3, 2.4.2.3; ISO 13818-3)."""
_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}


def for_the_ear(markdown: str) -> str:
    """The speakable part of an answer: without code, tables, addresses and marks."""
    text = markdown
    for pattern, instead in _MARKS:
        text = pattern.sub(instead, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def beginning(text: str, most: int) -> tuple[str, bool]:
    """Return as many whole sentences as fit, and whether any are left out."""
    if len(text) <= most:
        return text, False
    kept = ""
    for sentence in _sentences(text):
        if len(kept) + len(sentence) + 1 > most:
            break
        kept = f"{kept} {sentence}".strip()
    return kept or text[:most].rpartition(" ")[0] or text[:most], True


def in_parts(text: str, most: int = LONGEST_PART) -> list[str]:
    """The text in parts that each fit into one request, cut between sentences if possible."""
    parts, rest = [], text.strip()
    while rest:
        part, cut = beginning(rest, most)
        if not cut:
            parts.append(rest)
            break
        parts.append(part)
        # The part has single spaces where the text may have line breaks, so its end is found by its words.
        rest = _behind(rest, part)
    return parts


def _behind(text: str, part: str) -> str:
    left = len("".join(part.split()))
    for place, character in enumerate(text):
        if not left:
            return text[place:].strip()
        left -= not character.isspace()
    return ""


def turns_of(text: str, voices: Mapping[str, str], usual: str) -> list[tuple[str, str]]:
    """(voice, words) of each turn. voices: by speaker name, which begins a line. Lines without a name belong to the
    last speaker; `#`, `>` and [directions] are not spoken."""
    known = {name.casefold(): voice for name, voice in voices.items()}
    turns: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if not line.strip() or (voices and line.lstrip().startswith(("#", ">"))):
            continue
        turn = _TURN.match(line)
        voice = known.get(turn[1].strip().casefold()) if turn else None
        if voice is not None and turn is not None:
            turns.append((voice, [turn[2]]))
        elif turns:
            turns[-1][1].append(line)
        else:
            turns.append((usual, [line]))
    spoken = ((voice, for_the_ear(re.sub(r"\[[^\]\n]*\]", " ", "\n".join(lines)))) for voice, lines in turns)
    return [(voice, words) for voice, words in spoken if words]


def _sentences(text: str) -> Iterator[str]:
    return (each for each in (sentence.strip() for sentence in _SENTENCE.split(text)) if each)


def joined(recordings: Sequence[bytes]) -> bytes:
    """Join MP3 recordings: frames are independent, so they are concatenated, without the tags and the frames that give
    the length of one part. Raises ValueError for anything that is not MP3."""
    if len(recordings) == 1 and _begins(recordings[0]) >= 0:
        return recordings[0]
    return b"".join(_frames(recording) for recording in recordings)


def _frames(recording: bytes) -> bytes:
    start = _begins(recording)
    if start < 0:
        raise ValueError("The service gave no MP3, so its parts cannot be joined; an operator has to check speech.")
    length = _length(recording[start : start + 4])
    first = recording[start : start + length]
    if any(mark in first[:64] for mark in (b"Xing", b"Info", b"VBRI")):
        start += length
    end = len(recording) - (128 if recording[-128:-125] == b"TAG" else 0)
    return recording[start:end]


def _begins(recording: bytes) -> int:
    """The offset of the first frame, after an ID3 tag; -1 if there is none."""
    start = 0
    if recording[:3] == b"ID3" and len(recording) > 10:
        start = 10 + sum(byte << shift for byte, shift in zip(recording[6:10], (21, 14, 7, 0), strict=True))
    return start if _length(recording[start : start + 4]) else -1


def _length(head: bytes) -> int:
    """Length in bytes of the frame with this header (ISO 11172-3, 2.4.1.3); 0 for an invalid one."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    index, rate = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or not layer or rate == 3 or index in (0, 15):
        return 0
    bits = _BITRATES[3 if version == 3 else 2, layer][index] * 1000
    hertz, padding = _RATES[version][rate], head[2] >> 1 & 1
    if layer == 3:
        return (12 * bits // hertz + padding) * 4
    return (72 if layer == 1 and version != 3 else 144) * bits // hertz + padding
