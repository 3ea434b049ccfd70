"""A draft against its ledger: what is cited, what is not, what is in dispute; and the draft with numbered citations."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING

from _ledger import WEAK, plain_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _ledger import Ledger, Source

MARK = re.compile(r"\[((?:[CS]\d+\??)(?:\s*,\s*[CS]\d+\??)*)\](?!\()")
URL = re.compile(r"https?://[^\s)>\]]+")
FIGURE = re.compile(r"\d[\d.,]*\s*(?:%|€|\$|£|¥|percent|million|billion|万|亿)|[€$£¥]\s?\d|\b\d{2,}\b|\b\d+[.,]\d+\b")
DATE_ONLY = re.compile(r"\d{4}-\d{2}-\d{2}")
LANGUAGES = {
    "en": ("Sources", "accessed", "undated"),
    "zh": ("来源", "访问于", "无日期"),
    "de": ("Quellen", "abgerufen", "ohne Datum"),
}
"""What stands in the list of sources."""


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Blocks with the number of their first line: paragraphs, items of lists, rows of tables. Code is left out."""
    block: list[str] = []
    start, code = 1, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            code = not code
            continue
        if code:
            continue
        fresh = re.match(r"\s*(?:[-*+]|\d+[.)])\s|\s*\||#", line)
        if (not line.strip() or fresh) and block:
            yield start, "\n".join(block)
            block = []
        if line.strip():
            if not block:
                start = number
            block.append(line)


def marks(text: str) -> list[str]:
    """All ids that a text cites, with the ? of those that it calls disputed."""
    return [each.strip() for found in MARK.findall(text) for each in found.split(",")]


def errors(ledger: Ledger, draft: str) -> list[str]:
    """What must not be delivered."""
    found = []
    known = {source.url for source in ledger.sources.values()}
    for line, block in paragraphs(draft):
        for mark in marks(block):
            if trouble := _trouble(ledger, mark):
                found.append(f"line {line}: [{mark}] {trouble}")
        found += [
            f"line {line}: {url} is not in the ledger: add it as a source once it was read"
            for url in URL.findall(block)
            if plain_url(url.rstrip(".,;")) not in known
        ]
    if not marks(draft):
        found.append("nothing is cited: put [C1] behind each sentence that rests on claim C1")
    return found


def _trouble(ledger: Ledger, mark: str) -> str:
    id_, open_ = mark.rstrip("?"), mark.endswith("?")
    if id_ not in ledger.sources and id_ not in ledger.claims:
        return "is not in the ledger"
    if id_.startswith("S"):
        return ""
    standing = ledger.standing(ledger.claims[id_])
    if standing in ("dropped", "unsupported"):
        return f"is {standing}: find evidence or take the sentence out"
    if standing == "disputed" and not open_:
        return f"is disputed: say who says what and cite it as [{id_}?], or settle it"
    return ""


def warnings(ledger: Ledger, draft: str) -> list[str]:
    """What should be mended, or said."""
    cited = {mark.rstrip("?") for mark in marks(draft)}
    found = [
        f"key claim {c.id} is not in the report: {c.text[:60]}"
        for c in ledger.claims.values()
        if c.key and c.verdict != "dropped" and c.id not in cited
    ]
    for id_ in sorted(cited & set(ledger.claims), key=lambda id_: int(id_[1:])):
        claim = ledger.claims[id_]
        if ledger.standing(claim) == "single":
            weak = all(ledger.sources[e.source].kind in WEAK for e in claim.evidence)
            found.append(f"{id_} rests on one {'weak ' if weak else ''}source: say so in the text, or find another")
    for line, block in paragraphs(draft):
        text = DATE_ONLY.sub("", URL.sub("", MARK.sub("", re.sub(r"^\s*(?:\d+[.)]|#+.*)", "", block))))
        if FIGURE.search(text) and not marks(block) and not block.startswith(("#", "|--", "| --")):
            found.append(f"line {line}: a figure without a source: {text.strip()[:60]}")
    for id_, question in ledger.questions.items():
        if id_ not in ledger.gaps and not any(c.question == id_ and c.id in cited for c in ledger.claims.values()):
            found.append(f"{id_} is not answered: {question[:60]} (if nothing can be found: gap {id_})")
    return found + [text for id_ in sorted(_sources_cited(ledger, draft)) for text in old(ledger, ledger.sources[id_])]


def old(ledger: Ledger, source: Source) -> list[str]:
    """Whether a source is too old, or undated, for a question of the day."""
    if not ledger.recent_months or source.kind == "reference":
        return []
    if source.published == "unknown":
        return [f"{source.id} has no date, and the question is one of the day"]
    year, month = int(source.published[:4]), int(source.published[5:7] or 12)
    now = date.fromisoformat(ledger.started)
    months = (now.year - year) * 12 + now.month - month
    return [f"{source.id} is {months} months old: is there something newer?"] if months > ledger.recent_months else []


def _sources_cited(ledger: Ledger, draft: str) -> dict[str, int]:
    """Sources in the order in which the draft cites them, with their numbers."""
    numbers: dict[str, int] = {}
    for mark in marks(draft):
        for id_ in _behind(ledger, mark):
            numbers.setdefault(id_, len(numbers) + 1)
    return numbers


def _behind(ledger: Ledger, mark: str) -> list[str]:
    """The sources of a mark: of a disputed claim those on both sides."""
    id_ = mark.rstrip("?")
    if id_ in ledger.claims:
        return list(dict.fromkeys(e.source for e in ledger.claims[id_].evidence if mark.endswith("?") or not e.against))
    return [id_] if id_ in ledger.sources else []


def rendered(ledger: Ledger, draft: str, *, links: bool, language: str) -> str:
    """The draft with numbers for marks and a list of sources below. links: numbers lead to the pages (for a chat)."""
    numbers = _sources_cited(ledger, draft)

    def shown(id_: str) -> str:
        url = ledger.sources[id_].url
        return f"[{numbers[id_]}]({url})" if links and url.startswith("http") else f"[{numbers[id_]}]"

    def replaced(found: re.Match[str]) -> str:
        ids = dict.fromkeys(id_ for mark in marks(found[0]) for id_ in _behind(ledger, mark))
        return "".join(shown(id_) for id_ in sorted(ids, key=lambda id_: numbers[id_]))

    heading, accessed, undated = LANGUAGES[language]
    lines = [f"{number}. {_listed(ledger.sources[id_], accessed, undated)}" for id_, number in numbers.items()]
    return "\n".join([MARK.sub(replaced, draft).rstrip(), "", f"## {heading}", "", *lines, ""])


def _listed(source: Source, accessed: str, undated: str) -> str:
    when = undated if source.published == "unknown" else source.published
    where = source.url if source.url.startswith("http") else source.url.partition(":")[2]
    return f"{source.publisher}: {source.title} ({when}). {where}, {accessed} {source.accessed}"
