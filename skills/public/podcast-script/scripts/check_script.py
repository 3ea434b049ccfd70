"""Times a podcast script and marks what does not work for the ear; writes the spoken text alone, or its subtitles.

  check_script.py script.md --minutes 12 --spoken /mnt/user-data/outputs/spoken.txt

The form: `# Title`, `## Segment`, turns as `**ANN:** What she says.` (a blank line between turns), directions in
brackets: [music 8s], [pause 2s], [laughs]. A line that begins with > is a note and is not spoken.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

TURN = re.compile(r"^\*\*([^*:：]{1,30})[:：]\*\*\s*(.*)$")
DIRECTION = re.compile(r"\[([^\]]*)\]")
LASTING = re.compile(r"(\d+(?:[.,]\d+)?)\s*s\b")
EASTERN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
RATES = {"en": 150.0, "de": 130.0, "zh": 240.0}
"""Words a minute in conversation; of Chinese and Japanese, characters."""
BREATH = 0.4
"""Seconds between two turns."""
LONG_SENTENCE, LONG_TURN, MOST_NUMBERS = 25, 90, 3
LOUD = [
    (re.compile(r"https?://\S+|www\.\S+"), "an address cannot be heard: say where it stands (show notes)"),
    (re.compile(r"\([^)]{12,}\)"), "brackets cannot be heard: make it a sentence of its own, or cut it"),
    (re.compile(r"\b(?:e\.g\.|i\.e\.|etc\.|z\. ?B\.|d\. ?h\.|u\. ?a\.|bzw\.|approx\.|ca\.)"), "write out what is said"),
    (re.compile(r"\d{1,3}(?:[.,]\d{3})+|\d{5,}|\d+[.,]\d{2,}"), "an exact figure: round it for the ear"),
    (
        re.compile(r"(?i)\b(?:(?:shown|mentioned) (?:above|below)|see (?:figure|table|below)|siehe oben)"),
        "nothing is above",
    ),
    (re.compile(r"(?i)\b(?:moreover|furthermore|in conclusion|delve|des weiteren)\b"), "nobody says that aloud"),
]


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


@dataclass
class Turn:
    """What one person says without a break. silence: seconds of its directions."""

    speaker: str
    line: int
    segment: str
    text: str = ""
    silence: float = 0.0

    def spoken(self) -> str:
        """Without directions and marks."""
        return " ".join(re.sub(r"[*_`#]", "", DIRECTION.sub(" ", self.text)).split())


@dataclass
class Episode:
    """A whole script. silence: seconds of music and pauses outside of turns, by segment."""

    title: str = ""
    turns: list[Turn] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    silence: dict[str, float] = field(default_factory=dict)


def parse(text: str) -> Episode:
    """Ends the script when something is said by nobody."""
    episode = Episode()
    segment, turn = "Opening", None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("## "):
            segment, turn = stripped[3:].strip(), None
            episode.segments.append(segment)
        elif stripped.startswith("# "):
            episode.title = stripped[2:].strip()
        elif not stripped:
            turn = None
        elif stripped.startswith(("#", ">", "---")):
            continue
        elif found := TURN.match(stripped):
            turn = Turn(found[1].strip(), number, segment, found[2], _silence(found[2]))
            episode.turns.append(turn)
        elif turn is not None:
            turn.text += " " + stripped
            turn.silence += _silence(stripped)
        elif DIRECTION.sub("", stripped).strip():
            stop(f"line {number}: nobody says {stripped[:40]!r}", "begin it with **NAME:**, or with > for a note")
        else:
            episode.silence[segment] = episode.silence.get(segment, 0.0) + _silence(stripped)
    if not episode.turns:
        stop("nothing is said in this script", "write turns as **ANN:** What she says.")
    episode.segments = episode.segments or ["Opening"]
    if episode.turns[0].segment == "Opening" and "Opening" not in episode.segments:
        episode.segments.insert(0, "Opening")
    return episode


def _silence(text: str) -> float:
    seconds = (LASTING.search(direction) for direction in DIRECTION.findall(text))
    return sum(float(found[1].replace(",", ".")) for found in seconds if found)


def units(text: str) -> tuple[int, int]:
    """Words, and characters of scripts without spaces."""
    eastern = len(EASTERN.findall(text))
    return len(re.findall(r"\w[\w'’-]*", EASTERN.sub(" ", text))), eastern


def seconds_of(turn: Turn, rate: float) -> float:
    """How long it takes to say, with its silences."""
    words, eastern = units(turn.spoken())
    return 60 * (words / rate + eastern / RATES["zh"]) + turn.silence + BREATH


def remarks(episode: Episode) -> list[str]:
    """What to mend, by line."""
    found = []
    for turn in episode.turns:
        text = turn.spoken()
        found += [f"line {turn.line}: {hit[0][:40]!r}: {why}" for pattern, why in LOUD if (hit := pattern.search(text))]
        if len(re.findall(r"\d[\d.,]*", text)) > MOST_NUMBERS:
            found.append(f"line {turn.line}: more than {MOST_NUMBERS} figures in one turn: keep the one that matters")
        for sentence in re.split(r"(?<=[.!?。！？])\s*", text):
            words, eastern = units(sentence)
            if words + eastern / 2 > LONG_SENTENCE:
                found.append(f"line {turn.line}: a sentence of {words + eastern // 2} words: {sentence[:40]!r}")
        words, eastern = units(text)
        if words + eastern / 2 > LONG_TURN and len({each.speaker for each in episode.turns}) > 1:
            found.append(f"line {turn.line}: {turn.speaker} speaks {words + eastern // 2} words without a break")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path, help="the script, Markdown as above")
    parser.add_argument("--minutes", type=float, help="how long the episode should be")
    parser.add_argument("--language", choices=tuple(RATES), default="en", help="for the pace")
    parser.add_argument("--rate", type=float, help="words a minute, when it is known")
    parser.add_argument("--spoken", type=Path, help="a .txt with what is said, by speaker")
    parser.add_argument("--subtitles", type=Path, help="a .srt, timed by the pace")
    args = parser.parse_args()
    if not args.script.is_file():
        stop(f"there is no file {args.script}", "write the script first; --help shows its form")
    episode = parse(args.script.read_text(encoding="utf-8"))
    rate = args.rate or (RATES[args.language] if args.language != "zh" else 150.0)
    print("\n".join([*_timed(episode, rate, args.minutes), *(f"warning: {text}" for text in remarks(episode))]))
    if args.spoken:
        _written(
            args.spoken,
            "\n\n".join(f"{turn.speaker}: {turn.spoken()}" for turn in episode.turns if turn.spoken()) + "\n",
        )
    if args.subtitles:
        _written(args.subtitles, subtitles(episode, rate))


def _timed(episode: Episode, rate: float, wanted: float | None) -> list[str]:
    by_segment = dict.fromkeys(episode.segments, 0.0)
    by_speaker: dict[str, float] = {}
    for turn in episode.turns:
        seconds = seconds_of(turn, rate)
        by_segment[turn.segment] += seconds
        by_speaker[turn.speaker] = by_speaker.get(turn.speaker, 0.0) + seconds
    for segment, silence in episode.silence.items():
        by_segment[segment] = by_segment.get(segment, 0.0) + silence
    total = sum(by_segment.values())
    lines = [
        f"{episode.title or 'Episode'}: about {_clock(total)} at {rate:.0f} words a minute, {len(episode.turns)} turns"
    ]
    lines += [f"- {segment}: {_clock(seconds)}" for segment, seconds in by_segment.items()]
    lines.append(
        "speakers: "
        + ", ".join(f"{who} {100 * seconds / sum(by_speaker.values()):.0f}%" for who, seconds in by_speaker.items())
    )
    if wanted and abs(total / 60 - wanted) > max(0.5, 0.1 * wanted):
        words = abs(total / 60 - wanted) * rate
        how = "cut" if total / 60 > wanted else "add"
        lines.append(f"warning: {_clock(total)} instead of {_clock(wanted * 60)}: {how} about {words:.0f} words")
    return lines


def subtitles(episode: Episode, rate: float) -> str:
    """Sentences with their times; each turn's silences come before it."""
    blocks: list[str] = []
    at = 0.0
    segment = ""
    for turn in episode.turns:
        if turn.segment != segment:
            segment = turn.segment
            at += episode.silence.get(segment, 0.0)
        at += turn.silence
        for sentence in filter(None, re.split(r"(?<=[.!?。！？])\s*", turn.spoken())):
            words, eastern = units(sentence)
            end = at + 60 * (words / rate + eastern / RATES["zh"])
            blocks.append(f"{len(blocks) + 1}\n{_stamp(at)} --> {_stamp(end)}\n{turn.speaker}: {sentence}")
            at = end
        at += BREATH
    return "\n\n".join(blocks) + "\n"


def _written(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"written: {path}")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _stamp(seconds: float) -> str:
    whole, rest = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02},{rest:03}"


if __name__ == "__main__":
    main()
