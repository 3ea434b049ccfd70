"""The check of a report's citations: each number resolves to a page that was fetched in this research, quoted words
stand there, and the report is numbered anew by what it really cites."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.research.sources import SHORTEST_QUOTE, canonical, occurs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.research.sources import Source

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_NUMBERS = re.compile(r"(?<![ \t])[ \t]*+\[\^?(\d{1,4}(?:\s*[,;、，]\s*\d{1,4})*)\](?![(:])")
_LINK = re.compile(r"\[([^\]\n]{0,300})\]\((https?://[^)\s]{1,2000})\)")
_BARE = re.compile(r"<?(https?://[^\s<>()\[\]\"'，。；、）】]{1,2000})>?")
_QUOTE = re.compile(r'"([^"\n]{1,600})"|“([^”\n]{1,600})”|„([^“”\n]{1,600})[“”]|「([^」\n]{1,600})」|«([^»\n]{1,600})»')
_SENTENCE = re.compile(
    r"[^.!?。！？\n]*(?:[.!?。！？](?=\S)[^.!?。！？\n]*)*[.!?。！？]*[ \t]*(?:\[\^?[\d ,;、，]+\][ \t]*)*\n?"
)
_LIST_NAMES = r"(?:key[ \t]+)?(?:sources|references|citations|bibliography)|参考文献|参考资料|来源|引用|主要引用"
_OWN_LIST = re.compile(rf"\n#{{1,6}}[ \t]*(?:{_LIST_NAMES})[ \t]*[:：]?[ \t]*\n.*\Z", re.DOTALL | re.IGNORECASE)
"""A list of sources that the model wrote itself, at the end: the one that is delivered is made of the records."""


@dataclass(frozen=True, slots=True)
class Misquoted:
    """Words that do not stand in the source that the report gives for them. number: as delivered, 0 for one that is
    cited nowhere else."""

    words: str
    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A report after the check. text: numbered from 1 in the order in which sources are first cited. cited: the sources
    in that order. citations: how many places cite one. unknown: numbers that no source had. foreign: addresses that
    were not fetched in this research; misquoted: see there; quotes: how many were looked for. merged: sources left out,
    since another one has the same content."""

    text: str
    cited: tuple[Source, ...] = ()
    citations: int = 0
    unknown: int = 0
    foreign: tuple[str, ...] = ()
    quotes: int = 0
    misquoted: tuple[Misquoted, ...] = ()
    merged: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing had to be taken out."""
        return not (self.unknown or self.foreign or self.misquoted)


@dataclass(slots=True)
class _Check:
    """sources: as the model was given them, numbered from 1."""

    sources: Sequence[Source]
    numbers: dict[str, int] = field(default_factory=dict)
    cited: list[Source] = field(default_factory=list)
    citations: int = 0
    unknown: int = 0
    foreign: dict[str, None] = field(default_factory=dict)
    quotes: int = 0
    misquoted: list[tuple[str, Source]] = field(default_factory=list)

    def known(self, address: str) -> Source | None:
        key = canonical(address)
        return next((source for source in self.sources if canonical(source.address) == key), None)

    def number(self, source: Source) -> int:
        """The number under which it is delivered. Sources with the same content have the same one."""
        if source.digest not in self.numbers:
            self.cited.append(source)
            self.numbers[source.digest] = len(self.cited)
        return self.numbers[source.digest]

    def sentence(self, text: str) -> str:
        """One sentence with its citations: a source in which its quoted words do not stand is none for it."""
        quoted = [
            words for found in _QUOTE.finditer(text) if len("".join((words := _words(found)).split())) >= SHORTEST_QUOTE
        ]
        named = [int(each) for found in _NUMBERS.finditer(text) for each in re.findall(r"\d+", found[1])]
        given = [self.sources[number - 1] for number in named if 0 < number <= len(self.sources)]
        refused: set[str] = set()
        for words in quoted if given else ():
            self.quotes += 1
            holding = {source.digest for source in given if occurs(words, source.texts)}
            if not holding:
                self.misquoted.append((words, given[0]))
                refused |= {source.digest for source in given}
        return _NUMBERS.sub(lambda found: self._numbered(found, refused), text)

    def _numbered(self, found: re.Match[str], refused: set[str]) -> str:
        kept: dict[int, None] = {}
        for number in map(int, re.findall(r"\d+", found[1])):
            if not 0 < number <= len(self.sources):
                self.unknown += 1
            elif (source := self.sources[number - 1]).digest not in refused:
                kept[self.number(source)] = None
        self.citations += len(kept)
        blank = found[0][: len(found[0]) - len(found[0].lstrip())]
        return blank + "".join(f"[{number}]" for number in kept) if kept else ""

    def linked(self, text: str) -> str:
        """Links and bare addresses become citations, or, where they were not fetched, words."""
        text = _LINK.sub(lambda found: f"{found[1]}{self._cited(found[2])}", text)
        return _BARE.sub(lambda found: self._bare(found[1]), text)

    def _cited(self, address: str) -> str:
        source = self.known(address)
        if source is None:
            self.foreign[address] = None
            return ""
        return f" [{self.sources.index(source) + 1}]"

    def _bare(self, address: str) -> str:
        ending = address[len(address.rstrip(".,;:!?")) :]
        return self._cited(address.rstrip(".,;:!?")).lstrip() + ending


def check(report: str, sources: Sequence[Source]) -> Checked:
    """Check a report against the sources of its research, as numbered for the model from 1. Code is left alone."""
    work = _Check(sources)
    parts = _CODE.split(_OWN_LIST.sub("\n", "\n" + report).lstrip("\n"))
    told = []
    for place, part in enumerate(parts):
        if place % 2:
            told.append(part)
        else:
            told.append(_SENTENCE.sub(lambda found: work.sentence(found[0]), work.linked(part)))
    merged = len(sources) - len({source.digest for source in sources})
    misquoted = tuple(
        Misquoted(words, work.numbers.get(source.digest, 0), source.address) for words, source in work.misquoted
    )
    return Checked(
        text="".join(told).strip(),
        cited=tuple(work.cited),
        citations=work.citations,
        unknown=work.unknown,
        foreign=tuple(work.foreign),
        quotes=work.quotes,
        misquoted=misquoted,
        merged=merged,
    )


def _words(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None).strip()


_ITEM = re.compile(r"^\s{0,3}(?:[-*+]|\d{1,2}[.)、])\s+(.+)$")


def key_findings(text: str, most: int = 5) -> list[str]:
    """What stands for the report in the chat: the items of its first list, else its first paragraphs."""
    items: list[str] = []
    for line in _CODE.sub("", text).split("\n"):
        found = _ITEM.match(line)
        if found is not None:
            items.append(found[1].strip())
        elif items and line.strip() and not line.startswith((" ", "\t")):
            break
    if items:
        return items[:most]
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return [part for part in paragraphs if part and not part.startswith(("#", "|", "`", "!"))][:3]
