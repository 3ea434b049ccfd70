"""What may be wrong with a translation, segment by segment, without knowing the languages. For segments.py."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Found = tuple[str, str]
"""Level ("error" or "warning") and text."""
TAGS = re.compile(r"</?\d+>|<x\d+/>")
HELD = re.compile(
    r"\{\{[^{}]*\}\}|\{[\w.:-]*\}|%\(\w+\)[sdif]|%(?:\d+\$)?[sdif@]|\$\{\w+\}|</?[a-zA-Z][^<>]*>|`[^`]+`"
    r"|https?://[^\s<>()\"']*[^\s<>()\"'.,;:!?。，]|[\w.+-]+@[\w-]+\.[\w.-]*\w"
)
"""Places for a program's values, HTML, code, addresses: the same in every language."""
NUMBER = re.compile(r"\d[\d.,'’\u00a0\u202f]*\d|\d")
SQUARES = re.compile(r"[\u2e80-\u9fff\uac00-\ud7a3\uff00-\uffef]")
ENDS = {".": ".。", "?": "?？", "!": "!！", ":": ":：", "。": ".。", "？": "?？", "！": "!！"}
FASTEST, LONGEST_LINE, MOST_LINES = 20, 42, 2
"""Of subtitles: characters a second, characters a line (half as many of Chinese), lines."""
RATIO = (0.45, 2.3)
LEAST_FOR_RATIO = 25


def segment_findings(source: str, target: str, glossary: dict[str, Any], seconds: float = 0) -> Iterator[Found]:
    """seconds: how long a subtitle is shown."""
    if not target.strip():
        yield "error", "is empty"
        return
    if Counter(TAGS.findall(source)) != Counter(TAGS.findall(target)):
        yield "error", f"has the tags {_list(TAGS, target)}, the source has {_list(TAGS, source)}"
    bare_source, bare_target = TAGS.sub("", source), TAGS.sub("", target)
    if source.startswith("|") and source.count("|") != target.count("|"):
        yield "error", "has another number of table columns (|)"
    held = Counter(HELD.findall(bare_source)) - Counter(HELD.findall(bare_target))
    if held:
        yield "error", f"lacks {', '.join(held)}, which stays as it is"
    for term in glossary.get("keep", []):
        if _has(bare_source, term) and term not in bare_target:
            yield "error", f'lacks "{term}", which is not translated'
    yield from _numbers(HELD.sub("", bare_source), HELD.sub("", bare_target))
    yield from _terms(bare_source, bare_target, glossary)
    yield from _shape(bare_source, bare_target)
    if seconds:
        yield from _subtitle(bare_target, seconds)


def _list(pattern: re.Pattern[str], text: str) -> str:
    return " ".join(pattern.findall(text)) or "none"


def _has(text: str, term: str) -> bool:
    """As a word of its own; Chinese has no room between words."""
    if SQUARES.search(term):
        return term in text
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE) is not None


def _numbers(source: str, target: str) -> Iterator[Found]:
    """By their digits: 1,234.50 is 1.234,50 elsewhere."""
    one, other = (Counter(re.sub(r"\D", "", each) for each in NUMBER.findall(text)) for text in (source, target))
    if one != other:
        lacking, new = ", ".join(one - other), ", ".join(other - one)
        yield (
            "warning",
            "numbers: "
            + "; ".join(
                part for part in (f"lacks {lacking}" if lacking else "", f"has {new} more" if new else "") if part
            ),
        )


def _terms(source: str, target: str, glossary: dict[str, Any]) -> Iterator[Found]:
    for term in glossary.get("terms", []):
        if not _has(source, term["source"]):
            continue
        wanted = term["target"]
        stem = wanted if SQUARES.search(wanted) else wanted[: max(4, len(wanted) - 3)]  # it may be inflected
        if stem.casefold() not in target.casefold():
            yield "warning", f'"{term["source"]}" is "{wanted}" in the glossary'
        for wrong in term.get("forbidden", []):
            if _has(target, wrong):
                yield "warning", f'"{wrong}" is not to be used for "{term["source"]}"'


def _shape(source: str, target: str) -> Iterator[Found]:
    if source.strip() == target.strip() and len(re.findall(r"[^\W\d_]{2,}", source)) > 2:
        yield "warning", "is the same as the source"
    last = source.strip()[-1:]
    if last in ENDS and target.strip()[-1:] not in ENDS[last]:
        yield "warning", f'ends otherwise than with "{last}"'
    if bool(SQUARES.search(source)) == bool(SQUARES.search(target)) and len(source) >= LEAST_FOR_RATIO:
        ratio = len(target) / len(source)
        if not RATIO[0] <= ratio <= RATIO[1]:
            yield "warning", f"is {ratio:.1f} times as long as the source: is something missing, or added?"


def _subtitle(text: str, seconds: float) -> Iterator[Found]:
    text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)
    lines = text.split("\n")
    square = bool(SQUARES.search(text))
    longest = LONGEST_LINE // 2 if square else LONGEST_LINE
    if len(lines) > MOST_LINES or max(map(len, lines)) > longest:
        yield "warning", f"a subtitle has at most {MOST_LINES} lines of {longest} characters"
    speed = len(text.replace("\n", "")) / seconds
    if speed > (FASTEST / 2 if square else FASTEST):
        yield "warning", f"cannot be read so fast: {speed:.0f} characters a second; shorten it"


def consistency(pairs: list[tuple[int, str, str]]) -> Iterator[str]:
    """Different sources with one translation are named: often a copied line. pairs: number, source, target."""
    seen: dict[str, tuple[int, str]] = {}
    for number, source, target in pairs:
        key = target.strip().casefold()
        if len(key) >= LEAST_FOR_RATIO and key in seen and seen[key][1].casefold() != source.casefold():
            yield f"segment {number}: has the translation of segment {seen[key][0]}, whose source is another"
        seen.setdefault(key, (number, source))
