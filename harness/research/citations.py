"""Checks a report's citations: each number resolves to a page fetched in this research, quoted words occur there, and
the report is renumbered by what it really cites."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.web.sources import UNREACHABLE, occurs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from harness.web.sources import ReadPage

MISSING = frozenset({"404", "410"})
"""Responses for a page that no longer exists; others may change by tomorrow."""
SHORTEST_QUOTE = 8
"""Minimum characters, without blanks, of a quotation to be checked: shorter ones do not count as quotes."""
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_NUMBER = r"\[\^?\d{1,4}(?:\s*[,;、，]\s*\d{1,4})*\](?![(:])"
_NUMBERS = re.compile(rf"(?<![ \t])[ \t]*+{_NUMBER}(?:[ \t]?{_NUMBER})*+")
_TITLE = r"""(?:[ \t]++(?:"[^"\n]{0,300}+"|'[^'\n]{0,300}+'))?+[ \t]*+"""
_LINK = re.compile(
    r"!?\[([^\]\n]{0,300})\]\([ \t]*+<?+((?:https?:)?//[^()\s<>]{1,2000}+(?:\([^()\s]{0,200}+\)[^()\s]{0,200}+)?+)>?+"
    rf"{_TITLE}\)",
    re.IGNORECASE,
)
"""Pictures too: a report must not load anything external when it is opened."""
_BARE = re.compile(r"<?(https?://[^\s<>()\[\]\"'，。；、）】]{1,2000})>?", re.IGNORECASE)
_QUOTE = re.compile(r'"([^"\n]{1,600})"|“([^”\n]{1,600})”|„([^“”\n]{1,600})[“”]|「([^」\n]{1,600})」|«([^»\n]{1,600})»')
_SENTENCE = re.compile(
    r"[^.!?。！？\n]*(?:[.!?。！？](?=\S)[^.!?。！？\n]*)*[.!?。！？]*[ \t]*(?:\[\^?[\d ,;、，]+\][ \t]*)*\n?"
)
_LIST_NAMES = r"(?:key[ \t]+)?(?:sources|references|citations|bibliography)|参考文献|参考资料|来源|引用|主要引用"
_LISTED = r"(?:[-*+]|\d{1,3}[.)、]|\[\^?\d{1,4}\]|<?https?:)[^\n]*+|[ \t]{2,}+[^\n]*+"
_OWN_LIST = re.compile(
    rf"\n#{{1,6}}[ \t]*(?:{_LIST_NAMES})[ \t]*+(?:[:：][ \t]*+)?\n"
    rf"(?:(?:{_LISTED})?+[ \t]*+\n)*+(?:{_LISTED})?+(?=#|\Z)",
    re.IGNORECASE,
)
"""A source list written by the model: the delivered one is built from the records. A chapter of that name with
sentences in it does not count, and text after the list is kept."""


@dataclass(frozen=True, slots=True)
class Misquoted:
    """A quotation that does not occur in its cited source. number: as delivered, 0 for a source that is cited nowhere
    else."""

    words: str
    number: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A report after the check. text: numbered from 1 in the order in which sources are first cited. cited: the pages
    in that order; quoted: the quotations found in each. citations: number of places that cite one. unknown: numbers
    without a source. foreign: addresses not fetched in this research; misquoted: see there; quotes: number checked.
    dead: pages that no longer answer, whose citations were removed. unsourced: claims left without any source, and
    marked. merged: pages left out because another one has the same content."""

    text: str
    cited: tuple[ReadPage, ...] = ()
    quoted: tuple[tuple[str, ...], ...] = ()
    citations: int = 0
    unknown: int = 0
    foreign: tuple[str, ...] = ()
    quotes: int = 0
    misquoted: tuple[Misquoted, ...] = ()
    dead: tuple[ReadPage, ...] = ()
    unsourced: int = 0
    merged: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing had to be removed."""
        return not self.taken_out

    @property
    def taken_out(self) -> int:
        """Number of citations, links and sources that did not pass."""
        return self.unknown + len(self.foreign) + len(self.misquoted) + len(self.dead)


@dataclass(slots=True)
class _Check:
    """A check in progress. pages: as given to the model, numbered from 1. texts: of them, by SHA-256. stands: SHA-256
    -> the page that represents all with that content. mark: see `check`."""

    pages: Sequence[ReadPage]
    texts: Mapping[str, str]
    stands: Mapping[str, ReadPage]
    mark: str
    numbers: dict[str, int] = field(default_factory=dict)
    cited: list[ReadPage] = field(default_factory=list)
    citations: int = 0
    unknown: int = 0
    foreign: dict[str, None] = field(default_factory=dict)
    quotes: int = 0
    misquoted: list[tuple[str, ReadPage]] = field(default_factory=list)
    dead: dict[str, ReadPage] = field(default_factory=dict)
    unsourced: int = 0
    held: dict[str, dict[str, None]] = field(default_factory=dict)

    def number(self, page: ReadPage) -> int:
        """The page's number in the delivered report; 0 for a dead one. Pages with the same content share a number."""
        if page.sha256 not in self.stands:
            self.dead[page.sha256] = page
            return 0
        if page.sha256 not in self.numbers:
            self.cited.append(self.stands[page.sha256])
            self.numbers[page.sha256] = len(self.cited)
        return self.numbers[page.sha256]

    def says(self, page: ReadPage, words: str) -> bool:
        """Whether the words occur in what was read of the page."""
        return any(occurs(words, text) for text in page.texts(self.texts))

    def sentence(self, text: str) -> str:
        """One sentence with its citations: a source that does not contain the quoted words does not count for it."""
        quoted = [
            words for found in _QUOTE.finditer(text) if len("".join((words := _words(found)).split())) >= SHORTEST_QUOTE
        ]
        named = [int(each) for found in _NUMBERS.finditer(text) for each in re.findall(r"\d+", found[0])]
        given = [self.pages[number - 1] for number in named if 0 < number <= len(self.pages)]
        refused: set[str] = set()
        for words in quoted if given else ():
            self.quotes += 1
            says = next((page for page in given if self.says(page, words)), None)
            if says is not None:
                self.held.setdefault(says.sha256, {})[words] = None
            else:
                self.misquoted.append((words, given[0]))
                refused |= {page.sha256 for page in given}
        return _NUMBERS.sub(lambda found: self._numbered(found, refused), text)

    def _numbered(self, found: re.Match[str], refused: set[str]) -> str:
        kept: dict[int, None] = {}
        for number in map(int, re.findall(r"\d+", found[0])):
            if not 0 < number <= len(self.pages):
                self.unknown += 1
            elif (page := self.pages[number - 1]).sha256 not in refused and (delivered := self.number(page)):
                kept[delivered] = None
        if not kept:
            return self._marked()
        self.citations += len(kept)
        blank = found[0][: len(found[0]) - len(found[0].lstrip())]
        return blank + "".join(f"[{number}]" for number in kept)

    def _marked(self) -> str:
        """The replacement for a claim's lost citation."""
        self.unsourced += 1
        return f" {self.mark}" if self.mark else ""

    def linked(self, text: str) -> str:
        """Turn links and bare addresses into citations, or into plain words if they were not fetched."""
        text = _LINK.sub(lambda found: f"{found[1]}{self._cited(found[2], picture=found[0][0] == '!')}", text)
        return _BARE.sub(lambda found: self._bare(found[1]), text)

    def _cited(self, address: str, *, picture: bool = False) -> str:
        number = next((number for number, page in enumerate(self.pages, 1) if page.is_at(address)), None)
        if number is None:
            self.foreign[address] = None
            return "" if picture else self._marked()
        return f" [{number}]"

    def _bare(self, address: str) -> str:
        ending = address[len(address.rstrip(".,;:!?")) :]
        return self._cited(address.rstrip(".,;:!?")).lstrip() + ending


def check(
    report: str,
    pages: Sequence[ReadPage],
    texts: Mapping[str, str],
    *,
    dead: Collection[str] = (),
    mark: str = "",
) -> Checked:
    """Check a report against what was read in its research, as numbered for the model from 1. Code is left alone.
    texts: of the pages, see harness.web.sources.texts_of; quotations of a page without a text count as not found. dead:
    addresses of pages that no longer answer; each is replaced by one with the same content, if any. mark: words after
    claims left without a source."""
    alive = [page for page in pages if page.first.address not in dead]
    work = _Check(pages, texts, {page.sha256: page for page in reversed(alive)}, mark)
    parts = _CODE.split(_OWN_LIST.sub("\n", "\n" + report).lstrip("\n"))
    told = []
    for place, part in enumerate(parts):
        if place % 2:
            told.append(part)
        else:
            told.append(_SENTENCE.sub(lambda found: work.sentence(found[0]), work.linked(part)))
    merged = len(pages) - len({page.sha256 for page in pages})
    misquoted = tuple(
        Misquoted(words, work.numbers.get(page.sha256, 0), page.first.address) for words, page in work.misquoted
    )
    return Checked(
        text="".join(told).strip(),
        cited=tuple(work.cited),
        quoted=tuple(tuple(work.held.get(page.sha256, ())) for page in work.cited),
        citations=work.citations,
        unknown=work.unknown,
        foreign=tuple(work.foreign),
        quotes=work.quotes,
        misquoted=misquoted,
        dead=tuple(work.dead.values()),
        unsourced=work.unsourced,
        merged=merged,
    )


def dead_pages(gone: Mapping[str, str]) -> frozenset[str]:
    """The addresses of pages that no longer exist. If none could be reached at all, Antler itself is offline. gone: why
    each requested page does not answer, "" if it does."""
    cut_off = all(why == UNREACHABLE for why in gone.values())
    return frozenset(address for address, why in gone.items() if why in MISSING or (why == UNREACHABLE and not cut_off))


def _words(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None).strip()


_ITEM = re.compile(r"^\s{0,3}(?:[-*+]|\d{1,2}[.)、])\s+(.+)$")


def key_findings(text: str, most: int = 5) -> list[str]:
    """The summary of the report for the chat: the items of its first list, else its first paragraphs."""
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
