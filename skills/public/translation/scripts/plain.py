"""Text files in parts that are translated one by one: Markdown, plain text, subtitles, JSON. For segments.py."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_TIMES = re.compile(r"^(?:\d+:)?\d{1,2}:\d{2}[.,]\d{3}\s+-->\s+(?:\d+:)?\d{1,2}:\d{2}[.,]\d{3}")
_WORDS = re.compile(r"[^\W\d_]")
_FENCE = re.compile(r"^\s*(```|~~~)")
_MARK = re.compile(r"^(\s*(?:[-*+]\s+|\d+[.)]\s+|#{1,6}\s+|>\s?)?(?:\[[ xX]\]\s+)?)")


@dataclass
class Part:
    """before, after: what stays around the text. seconds: how long a subtitle is shown, 0 for other text."""

    text: str
    before: str = ""
    after: str = ""
    seconds: float = 0.0


Whole = tuple[list[Part], "Callable[[dict[int, str]], str]"]
"""Parts, and how the file is written with translations by the parts' places; the others stay."""


def subtitles(text: str) -> Whole:
    """A cue is a part; its lines are kept as lines."""
    blocks = re.split(r"(\n\s*\n)", text)
    parts = []
    for block in blocks:
        lines = block.split("\n")
        at = next((n for n, line in enumerate(lines) if _TIMES.match(line.strip())), None)
        body = "\n".join(lines[at + 1 :]).rstrip("\n") if at is not None else ""
        head = "\n".join(lines[: at + 1]) + "\n" if at is not None else block
        shown = _shown(lines[at]) if at is not None else 0.0
        parts.append(Part(body, head, block[len(head) + len(body) :] if at is not None else "", shown))
    return _whole(parts)


def _shown(times: str) -> float:
    start, end = (_clock(each) for each in re.findall(r"[\d:]+[.,]\d{3}", times)[:2])
    return max(end - start, 0.001)


def _clock(time: str) -> float:
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def markdown(text: str) -> Whole:
    """A paragraph, a list item, a heading, a table row is a part; code and front matter stay."""
    parts: list[Part] = []
    fence, front = "", text.startswith("---\n")
    for number, line in enumerate(text.split("\n")):
        mark = _FENCE.match(line)
        if front or fence or mark:
            if front and number and line == "---":
                front = False
            elif mark and (not fence or mark[1] == fence):
                fence = "" if fence else mark[1]
            parts.append(Part("", line + "\n"))
            continue
        before = _MARK.match(line)
        head = before[1] if before is not None else ""
        body = line[len(head) :]
        goes_on = (
            parts and parts[-1].text and not head.strip() and body and "|" not in line and "|" not in parts[-1].text
        )
        if goes_on and not parts[-1].before.strip().startswith("#") and not parts[-1].text.endswith("  "):
            parts[-1].text += f" {body.strip()}"
        else:
            parts.append(Part(body, head, "\n"))
    if parts:
        parts[-1].after = parts[-1].after.removesuffix("\n")
        parts[-1].before = parts[-1].before.removesuffix("\n") if not parts[-1].text else parts[-1].before
    return _whole(parts)


def plain(text: str) -> Whole:
    """A line is a part."""
    return _whole([Part(line.strip(), line[: len(line) - len(line.lstrip())], end) for line, end in _lines(text)])


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines(keepends=True):
        body = line.rstrip("\r\n")
        yield body, line[len(body) :]


def _whole(parts: list[Part]) -> Whole:
    for part in parts:
        if not _WORDS.search(part.text):
            part.before, part.text = part.before + part.text, ""

    def written(done: dict[int, str]) -> str:
        return "".join(part.before + done.get(at, part.text) + part.after for at, part in enumerate(parts))

    return parts, written


def translations(text: str) -> Whole:
    """The texts of a program's JSON; keys stay. Raises ValueError."""
    value = json.loads(text)
    places: list[tuple[Any, Any]] = []
    _collect(value, places)
    parts = [Part(owner[key] if _WORDS.search(owner[key]) else "") for owner, key in places]
    indent = 4 if re.search(r"\n {4}\S", text) and not re.search(r"\n {2}\S", text) else 2

    def written(done: dict[int, str]) -> str:
        for at, target in done.items():
            owner, key = places[at]
            owner[key] = target
        return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"

    return parts, written


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        if isinstance(each, str):
            places.append((value, key))
        else:
            _collect(each, places)


READERS: dict[str, Callable[[str], Whole]] = {
    ".md": markdown,
    ".txt": plain,
    ".srt": subtitles,
    ".vtt": subtitles,
    ".json": translations,
}


def read(path: Path) -> Whole:
    """Raises ValueError, UnicodeDecodeError."""
    return READERS[path.suffix.lower()](path.read_text(encoding="utf-8-sig"))
