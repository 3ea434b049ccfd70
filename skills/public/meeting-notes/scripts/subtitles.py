"""WebVTT and SubRip subtitles, as meeting programs export them. For parse.py."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

_TIMES = re.compile(r"^((?:\d+:)?\d{1,2}:\d{2})[.,]\d{3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[.,]\d{3}")
_VOICE = re.compile(r"<v(?:\.[^ >]*)?\s+([^>]+)>")
_TAG = re.compile(r"</?[^>]{1,40}>")


class NotSubtitles(Exception):
    """The text says why."""


@dataclass(frozen=True)
class Cue:
    """at: when it begins, "hh:mm:ss". speaker: "" where the file does not say."""

    at: str
    speaker: str
    text: str


def subtitles(text: str) -> list[Cue]:
    """In order. Raises NotSubtitles when there is not one cue in it."""
    cues: list[Cue] = []
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        at = next((number for number, line in enumerate(lines[:2]) if _TIMES.match(line.strip())), None)
        if at is None:
            continue
        times = _TIMES.match(lines[at].strip())
        assert times is not None
        cues += _cues(_padded(times[1]), lines[at + 1 :])
    if not cues:
        raise NotSubtitles(
            "there is no line such as 00:00:01.000 --> 00:00:04.000 in it; name it .txt if it is plain text"
        )
    return _without_repeats(cues)


def _padded(time: str) -> str:
    parts = [int(part) for part in time.split(":")]
    return ":".join(f"{part:02d}" for part in [0] * (3 - len(parts)) + parts)


def _cues(at: str, lines: list[str]) -> list[Cue]:
    """One cue has several voices at times."""
    found: list[Cue] = []
    for line in lines:
        parts = _VOICE.split(line)
        if parts[0].strip():
            speaker = found[-1].speaker if found else ""
            found.append(Cue(at, speaker, _plain(parts[0])))
        found += [Cue(at, _plain(name), _plain(said)) for name, said in zip(parts[1::2], parts[2::2], strict=True)]
    return [cue for cue in found if cue.text]


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub("", text)).split())


def _without_repeats(cues: list[Cue]) -> list[Cue]:
    """Live captions show a line again while it grows: only its last form counts."""
    kept: list[Cue] = []
    for cue in cues:
        last = kept[-1] if kept else None
        if last is not None and last.speaker == cue.speaker and cue.text.startswith(last.text):
            kept[-1] = Cue(last.at, cue.speaker, cue.text)
        else:
            kept.append(cue)
    return kept
