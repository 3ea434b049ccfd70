"""The ledger of a research: questions, sources, claims with their evidence; one JSON file, written whole each time."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KINDS = ("primary", "official", "academic", "news", "analysis", "vendor", "reference", "forum")
"""primary: the document, data or person itself. vendor: who sells what it praises. forum: anybody."""
WEAK = ("vendor", "forum")
_TWO = "co.uk org.uk ac.uk gov.uk com.au gov.au co.jp or.jp com.cn gov.cn org.cn edu.cn com.br co.in co.kr"
TWO_LEVELS = frozenset(_TWO.split())
TRACKING = ("utm_", "fbclid", "gclid", "mc_", "ref=")


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


@dataclass
class Source:
    """One document that was read. origin: the source that it only repeats."""

    id: str
    url: str
    title: str
    publisher: str
    published: str
    kind: str
    accessed: str
    origin: str = ""


@dataclass
class Evidence:
    """Words of a source for or against a claim."""

    source: str
    quote: str
    against: bool = False


@dataclass
class Claim:
    """One checkable sentence. key: the answer rests on it. verdict: "", or how a dispute or doubt was settled: true,
    open, dropped; why: the reason."""

    id: str
    text: str
    question: str
    key: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    verdict: str = ""
    why: str = ""


@dataclass
class Ledger:
    """All of it. recent_months: how old a source may be before it is called old; 0: age does not matter."""

    question: str
    started: str
    recent_months: int = 0
    questions: dict[str, str] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)

    def source(self, id_: str) -> Source:
        """Ends the script when there is none of that name."""
        if id_ not in self.sources:
            stop(f"there is no source {id_}", f"add it first; there are: {', '.join(self.sources) or 'none'}")
        return self.sources[id_]

    def claim(self, id_: str) -> Claim:
        """Ends the script when there is none of that name."""
        if id_ not in self.claims:
            stop(f"there is no claim {id_}", f"add it first; there are: {', '.join(self.claims) or 'none'}")
        return self.claims[id_]

    def roots(self, ids: Iterable[str]) -> set[str]:
        """The independent voices behind sources: one for each publisher, and none for who only repeats another."""
        voices = set()
        for id_ in ids:
            seen = set()
            while self.sources[id_].origin and id_ not in seen:
                seen.add(id_)
                id_ = self.sources[id_].origin
            source = self.sources[id_]
            voices.add(source.publisher.casefold() or site(source.url))
        return voices

    def standing(self, claim: Claim) -> str:
        """dropped, unsupported, disputed, confirmed (two independent voices, or one that is primary), or single."""
        if claim.verdict == "dropped":
            return "dropped"
        pro = [e.source for e in claim.evidence if not e.against]
        if not pro:
            return "unsupported"
        if any(e.against for e in claim.evidence) and claim.verdict != "true":
            return "disputed"
        primary = any(self.sources[id_].kind in ("primary", "official") for id_ in pro)
        return "confirmed" if primary or len(self.roots(pro)) > 1 else "single"


def site(url: str) -> str:
    """The part of an address that belongs to one owner."""
    labels = (urlsplit(url).hostname or url).removeprefix("www.").split(".")
    return ".".join(labels[-3:] if ".".join(labels[-2:]) in TWO_LEVELS else labels[-2:])


def plain_url(url: str) -> str:
    """Without what only tracks the reader, so that one page is one source."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https", "file", "chat"):
        stop(
            f"{url!r} is no address",
            "give https://..., file:NAME for a file that was sent, chat:NAME for what a person said",
        )
    query = "&".join(p for p in parts.query.split("&") if p and not p.lower().startswith(TRACKING))
    return urlunsplit(
        (parts.scheme, parts.netloc.lower(), parts.path.rstrip("/") if parts.netloc else parts.path, query, "")
    )


def today() -> str:
    """As an ISO date."""
    return date.today().isoformat()


def load(path: Path) -> Ledger:
    """Ends the script when there is none."""
    if not path.is_file():
        stop(f"there is no ledger at {path}", 'begin one: ledger.py start "the question" --sub "..." --sub "..."')
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    raw["sources"] = {id_: Source(**each) for id_, each in raw["sources"].items()}
    for each in raw["claims"].values():
        each["evidence"] = [Evidence(**evidence) for evidence in each["evidence"]]
    raw["claims"] = {id_: Claim(**each) for id_, each in raw["claims"].items()}
    return Ledger(**raw)


def save(path: Path, ledger: Ledger) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(asdict(ledger), ensure_ascii=False, indent=1), encoding="utf-8")
    beside.replace(path)
