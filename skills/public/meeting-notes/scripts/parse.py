"""A transcript or raw notes as numbered lines with speaker and time: python3 parse.py FILE -o transcript.json"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from subtitles import Cue, NotSubtitles, subtitles

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOCK = r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d{1,3})?(?:\s?[AaPp][Mm])?"
NAME = r"[^\W\d_](?:[\w .'’)\-·/]|\((?!\d)){0,38}[\w.)]|[^\W\d_]"
_SAID = re.compile(
    rf"^(?:[\[(]?(?P<time>{CLOCK})[\])]?\s*[-–]?\s*)?(?P<name>{NAME})\s*(?:[\[(](?P<after>{CLOCK})[\])]\s*)?"
    r"[:：]\s*(?P<text>.+)$"
)
_HEADING = re.compile(rf"^(?P<name>{NAME})\s*(?:[-–|,]\s*|\s)[\[(]?(?P<time>{CLOCK})[\])]?$")
_TIMED = re.compile(rf"^[\[(]?(?P<time>{CLOCK})[\])]?\s*[-–]?\s*(?P<text>.+)$")
_WORD = re.compile(r"[\u2e80-\u9fff]|[^\W\u2e80-\u9fff]+(?:['’-]\w+)*")
"""Each Chinese sign is one."""
_MARK = re.compile(r"^(?:#+|>|[-*•]|\d+[.)])\s+")
NOT_A_NAME = {
    "http",
    "https",
    "note",
    "notes",
    "date",
    "time",
    "agenda",
    "topic",
    "topics",
    "action",
    "actions",
    "todo",
}
NOT_A_NAME |= {"decision", "decisions", "subject", "re", "ps", "attendees", "participants", "present", "absent", "next"}
NOT_A_NAME |= {"location", "日期", "时间", "地点", "议题", "主题", "参会人", "出席", "决定", "待办"}
"""What stands before a colon in notes and is nobody."""
MOST_NAME_WORDS = 4
LONGEST_LINE = 60
"""Words; what one person says on and on is cut into lines that can be cited."""
KINDS = (".txt", ".md", ".vtt", ".srt", ".docx")


class Unreadable(Exception):
    """The text says why, and what to do."""


@dataclass(frozen=True)
class Said:
    """at: "hh:mm:ss" since the beginning, or the time of day as it was written, or ""."""

    speaker: str
    at: str
    text: str


def read(path: Path) -> list[Said]:
    """What was said, in order. Raises Unreadable."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise Unreadable(f"{path.name}: {kind or 'no ending'} is not read here; there are {', '.join(KINDS)}")
    try:
        text = _docx(path) if kind == ".docx" else path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Unreadable(f"{path} does not exist") from None
    except UnicodeDecodeError:
        raise Unreadable(f"{path.name} is not UTF-8: iconv -f WINDOWS-1252 -t UTF-8 {path.name} > new.txt") from None
    if kind in (".vtt", ".srt"):
        try:
            return _joined(_of_cue(cue) for cue in subtitles(text))
        except NotSubtitles as error:
            raise Unreadable(f"{path.name}: {error}") from None
    return _joined(_lines(text))


def _of_cue(cue: Cue) -> Said:
    """Some programs write the speaker's name into the text."""
    found = None if cue.speaker else _SAID.match(cue.text)
    if found is not None and _is_name(found["name"]):
        return Said(found["name"].strip(), cue.at, found["text"])
    return Said(cue.speaker, cue.at, cue.text)


def _docx(path: Path) -> str:
    """Paragraphs, and the rows of tables, as lines."""
    import docx  # here: other kinds need no packages
    from docx.opc.exceptions import PackageNotFoundError

    if not path.is_file():
        raise FileNotFoundError
    try:
        document = docx.Document(str(path))
    except (PackageNotFoundError, BadZipFile, KeyError, ValueError):
        raise Unreadable(f"{path.name} is no .docx; save it as one in Word, or send its text") from None
    lines = []
    for block in document.iter_inner_content():
        if hasattr(block, "rows"):
            for row in block.rows:
                cells = list(dict.fromkeys(cell.text.strip() for cell in row.cells))
                lines.append((": " if len(cells) == 2 else " | ").join(cell for cell in cells if cell))
        else:
            lines += block.text.splitlines()
    return "\n".join(lines)


def _lines(text: str) -> Iterable[Said]:
    """Of plain text: `Ann: ...`, `[00:12] Ann: ...`, `Ann 00:12` above what she said, or notes without speakers."""
    speaker, time = "", ""
    known = _repeated(text)
    headed = sum(_HEADING.match(line.strip()) is not None for line in text.splitlines()) > 1
    for raw in text.splitlines():
        line = re.sub(r"\*\*|__", "", raw).strip()
        if not headed and (not line or _MARK.match(line)):
            speaker = ""  # something new begins, and nobody says whose it is
        line = _MARK.sub("", line)
        heading = _HEADING.match(line) if headed else None
        if heading is not None and _is_name(heading["name"]):
            speaker, time = heading["name"].strip(), heading["time"]
            continue
        said = _SAID.match(line)
        if said is not None and _speaks(said, known):
            speaker, time = said["name"].strip(), said["time"] or said["after"] or ""
            line = said["text"]
        else:
            timed = _TIMED.match(line)
            time, line = (timed["time"], timed["text"]) if timed is not None else (time, line)
        if line:
            yield Said(speaker, _clock(time), line)
            time = ""


def _speaks(said: re.Match[str], known: set[str]) -> bool:
    """Whether it is a name that stands before the colon."""
    return _is_name(said["name"]) and bool(said["time"] or said["after"] or said["name"].strip() in known)


def _repeated(text: str) -> set[str]:
    """Names that stand before a colon and are no heading of notes. In a short text once is enough."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        found = _SAID.match(re.sub(r"\*\*|__", "", line).strip())
        if found is not None and _is_name(found["name"]):
            name = found["name"].strip()
            counts[name] = counts.get(name, 0) + 1
    talk = sum(counts.values()) * 2 >= len([line for line in text.splitlines() if line.strip()])
    return {name for name, count in counts.items() if count > 1 or talk}


def _is_name(text: str) -> bool:
    text = text.strip()
    return text.lower() not in NOT_A_NAME and len(text.split()) <= MOST_NAME_WORDS


def _clock(time: str) -> str:
    """ "1:02.5" as "00:01:02"; a time of day stays as it is."""
    if not time or time[-1] in "mM":
        return time
    parts = [int(part) for part in re.split(r"[.,]", time)[0].split(":")]
    return ":".join(f"{part:02d}" for part in [0] * (3 - len(parts)) + parts)


def _joined(said: Iterable[Said]) -> list[Said]:
    """Pieces of one sentence of one speaker as one line; long ones stay apart, so that a line can be cited."""
    lines: list[Said] = []
    for one in said:
        text = " ".join(one.text.split())
        last = lines[-1] if lines else None
        if last is not None and _goes_on(last, one, text):
            lines[-1] = Said(last.speaker, last.at, f"{last.text} {text}")
        elif text:
            lines.append(Said(one.speaker, one.at, text))
    return lines


def _goes_on(last: Said, one: Said, text: str) -> bool:
    short = len(last.text.split()) + len(text.split()) <= LONGEST_LINE and len(last.text) + len(text) <= 400
    ended = last.text.endswith((".", "!", "?", "。", "！", "？", "…"))
    return bool(last.speaker) and last.speaker == one.speaker and short and not ended


def as_json(path: Path, said: list[Said]) -> dict[str, Any]:
    """What check.py reads."""
    speakers: dict[str, dict[str, int]] = {}
    for one in said:
        if one.speaker:
            count = speakers.setdefault(one.speaker, {"lines": 0, "words": 0})
            count["lines"] += 1
            count["words"] += len(_WORD.findall(one.text))
    lines = [{"id": f"L{number}", **asdict(one)} for number, one in enumerate(said, 1)]
    return {"source": path.name, "speakers": speakers, "lines": lines}


def _readable(line: dict[str, str]) -> str:
    time = f"[{line['at']}]" if line["at"] else ""
    speaker = f"{line['speaker']}:" if line["speaker"] else ""
    return " ".join(part for part in (line["id"], time, speaker, line["text"]) if part) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Numbers the lines of a transcript (txt, md, vtt, srt, docx).")
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="transcript.json; a .md to read goes beside it"
    )
    options = parser.parse_args()
    try:
        said = read(options.file)
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    if not said:
        print(f"{options.file.name} has no text.", file=sys.stderr)
        return 1
    whole = as_json(options.file, said)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")
    reading = options.output.with_suffix(".md")
    reading.write_text("".join(map(_readable, whole["lines"])), encoding="utf-8")
    print(f"{len(said)} lines; read {reading} and cite its line numbers.")
    for name, count in sorted(whole["speakers"].items(), key=lambda item: -item[1]["words"]):
        print(f"- {name}: {count['lines']} lines, {count['words']} words")
    if not whole["speakers"]:
        print("No speakers are named in it: do not guess who said what; ask who took part.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
