"""The pages that a thread's runs have read: kept so that reading on needs no reload, and citations can be checked.

A source belongs to a run: a page that an earlier run of the thread loaded counts for a later one once that one reads
it. What a subagent reads belongs to its run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import unicodedata
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from harness.files.durable import write_atomically
from harness.web.search.merging import normalized

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

MOST_SOURCES = 400
MOST_BYTES = 64_000_000
"""Limit for a thread; beyond that the sources read longest ago are deleted."""
MOST_MET = 20_000
"""Addresses that a thread remembers; beyond that the older half is dropped."""
UNREACHABLE = "unreachable"
"""Why a page does not answer now, if there is no status."""
LEAST_WORDS = 4
"""Characters of a quotation below which finding it proves nothing."""
_CARD, _TEXT, _MET = ".json", ".txt", "met"
_RUN = re.compile(r"[\w-]{1,128}")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_MARKS = re.compile(r"[*_`~\\\[\]]+")
_BLOCKS = re.compile(r"[#>|]+|^[ \t]*[-+][ \t]", re.MULTILINE)
_GAP = re.compile(r"\[?(?:\.\.\.|…)\]?")
_STOPS = " \"'.,;:!?。、"
_SIGNS = str.maketrans({**dict.fromkeys("‘’‚‛´", "'"), **dict.fromkeys("“”„‟«»", '"'), **dict.fromkeys("‐‑‒–—―−", "-")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A page that a run has read. url: as requested; address: after redirects. kind: its media type. fetched_at: when
    it was loaded, aware UTC. sha256: of the text. cut: the page has more than the text."""

    thread_id: str
    run_id: str
    url: str
    address: str
    title: str
    kind: str
    fetched_at: datetime
    sha256: str
    characters: int
    cut: bool = False

    def is_at(self, url: str) -> bool:
        """Whether an address means this page."""
        return normalized(url) in (normalized(self.url), normalized(self.address))


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Sources(Protocol):
    """Storage of sources. What was stored survives a crash."""

    async def keep(self, source: Source, text: str) -> None:
        """Store a source; it replaces an earlier one of the same run and url. Raises OSError."""

    async def latest(self, thread_id: str, url: str) -> tuple[Source, str] | None:
        """What the thread last read at exactly this url, with its text."""

    async def of_run(self, thread_id: str, run_id: str) -> tuple[Source, ...]:
        """Everything that a run has read, in chronological order."""

    async def text(self, source: Source) -> str | None:
        """Its text; None if it is no longer kept."""

    async def meet(self, thread_id: str, keys: Collection[str]) -> None:
        """Remember addresses that the thread has met, see harness.web.known. Raises OSError."""

    async def has_met(self, thread_id: str, key: str) -> bool:
        """Whether the thread has met this address."""


@dataclass(frozen=True, slots=True)
class ReadPage:
    """A page that runs have read, under any of its addresses. sources: each read, in order, at least one."""

    sources: tuple[Source, ...]

    @property
    def first(self) -> Source:
        """The read whose address, title and time a citation names."""
        return self.sources[0]

    @property
    def sha256(self) -> str:
        """The hash of its newest text: equal for pages with the same content."""
        return self.sources[-1].sha256

    def is_at(self, url: str) -> bool:
        """Whether an address means this page."""
        return any(source.is_at(url) for source in self.sources)

    def texts(self, kept: Mapping[str, str]) -> list[str]:
        """The texts read of it, without duplicates, oldest first. kept: by SHA-256, see texts_of."""
        return [kept[each] for each in dict.fromkeys(source.sha256 for source in self.sources) if each in kept]


async def pages_read(sources: Sources, thread_id: str, run_ids: Iterable[str]) -> tuple[ReadPage, ...]:
    """The pages that these runs of a thread have read, without duplicates, in the order of their first read."""
    found = [source for run_id in dict.fromkeys(run_ids) for source in await sources.of_run(thread_id, run_id)]
    pages: list[list[Source]] = []
    places: dict[str, list[Source]] = {}
    for source in _in_time(found):
        keys = normalized(source.url), normalized(source.address)
        page = next((places[key] for key in keys if key in places), None)
        if page is None:
            pages.append(page := [])
        page.append(source)
        for key in keys:
            places.setdefault(key, page)
    return tuple(ReadPage(tuple(page)) for page in pages)


async def texts_of(sources: Sources, pages: Iterable[ReadPage]) -> dict[str, str]:
    """All texts of these pages that are still kept, by SHA-256."""
    every = {source.sha256: source for page in pages for source in page.sources}
    texts = {sha256: await sources.text(source) for sha256, source in every.items()}
    return {sha256: text for sha256, text in texts.items() if text is not None}


def occurs(words: str, text: str) -> bool:
    """Whether a quotation occurs in a page: case, spaces, markup, the form of quotes and dashes and the final stop do
    not count, and `…` or `...` in it matches anything."""
    pieces = [piece for piece in (_spoken(each).strip(_STOPS) for each in _GAP.split(words)) if piece]
    if sum(map(len, pieces)) < LEAST_WORDS:
        return False
    spoken, at = _spoken(text), 0
    for piece in pieces:
        found = spoken.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _spoken(text: str) -> str:
    plain = _BLOCKS.sub(" ", _MARKS.sub("", _LINK.sub(r"\1", text.translate(_SIGNS))))
    plain = unicodedata.normalize("NFKC", plain).casefold()
    return " ".join(plain.split()).strip(" \"'")


class MemorySources:
    """Sources in memory, for at most MOST_SOURCES pages of a thread."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[Source, str]]] = {}
        self._met: dict[str, set[str]] = {}

    async def keep(self, source: Source, text: str) -> None:
        others = [
            each
            for each in self._kept.get(source.thread_id, [])
            if (each[0].run_id, each[0].url) != (source.run_id, source.url)
        ]
        self._kept[source.thread_id] = [*others, (source, text)][-MOST_SOURCES:]

    async def latest(self, thread_id: str, url: str) -> tuple[Source, str] | None:
        kept = [each for each in self._kept.get(thread_id, []) if each[0].url == url]
        return max(kept, key=lambda each: each[0].fetched_at, default=None)

    async def of_run(self, thread_id: str, run_id: str) -> tuple[Source, ...]:
        return _in_time(source for source, _ in self._kept.get(thread_id, []) if source.run_id == run_id)

    async def text(self, source: Source) -> str | None:
        kept = self._kept.get(source.thread_id, [])
        return next((text for each, text in kept if each.sha256 == source.sha256), None)

    async def meet(self, thread_id: str, keys: Collection[str]) -> None:
        self._met.setdefault(thread_id, set()).update(keys)

    async def has_met(self, thread_id: str, key: str) -> bool:
        return key in self._met.get(thread_id, ())


class FileSources:
    """Sources in files: a JSON card for each, and the texts, without duplicates. folder_of: the folder for a thread's
    sources, which is deleted with the thread."""

    def __init__(self, folder_of: Callable[[str], Path]) -> None:
        self._folder_of = folder_of
        self._writing = asyncio.Lock()

    async def keep(self, source: Source, text: str) -> None:
        async with self._writing:
            await asyncio.to_thread(self._keep, source, text)

    async def latest(self, thread_id: str, url: str) -> tuple[Source, str] | None:
        return await asyncio.to_thread(self._latest, thread_id, url)

    async def of_run(self, thread_id: str, run_id: str) -> tuple[Source, ...]:
        return _in_time(await asyncio.to_thread(self._cards, thread_id, f"{_named(run_id)}.*{_CARD}"))

    async def text(self, source: Source) -> str | None:
        return await asyncio.to_thread(self._text, self._folder_of(source.thread_id), source.sha256)

    async def meet(self, thread_id: str, keys: Collection[str]) -> None:
        if keys:
            async with self._writing:
                await asyncio.to_thread(self._meet, self._folder_of(thread_id), keys)

    async def has_met(self, thread_id: str, key: str) -> bool:
        return _key(key) in await asyncio.to_thread(_met, self._folder_of(thread_id))

    def _meet(self, folder: Path, keys: Collection[str]) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        known = _met(folder)
        fresh = [key for key in map(_key, sorted(keys)) if key not in known]
        if len(known) + len(fresh) > MOST_MET:
            kept = [*known, *fresh][-MOST_MET // 2 :]
            write_atomically(folder / _MET, "".join(f"{key}\n" for key in kept).encode())
        elif fresh:
            with (folder / _MET).open("a") as file:
                # A line break before it too: a line that a crash has cut off spoils no other.
                file.write("".join(f"\n{key}\n" for key in fresh))

    def _keep(self, source: Source, text: str) -> None:
        folder = self._folder_of(source.thread_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = folder / f"{source.sha256}{_TEXT}"
        if not place.exists():
            write_atomically(place, text.encode("utf-8", "surrogatepass"))
        card = json.dumps({**asdict(source), "fetched_at": source.fetched_at.isoformat()}, ensure_ascii=False)
        name = f"{_named(source.run_id)}.{_key(source.url)}{_CARD}"
        write_atomically(folder / name, card.encode("utf-8", "surrogatepass"))
        _prune(folder, keep=name)

    def _latest(self, thread_id: str, url: str) -> tuple[Source, str] | None:
        known = [each for each in self._cards(thread_id, f"*.{_key(url)}{_CARD}") if each.url == url]
        source = max(known, key=lambda each: each.fetched_at, default=None)
        text = self._text(self._folder_of(thread_id), source.sha256) if source is not None else None
        return (source, text) if source is not None and text is not None else None

    def _cards(self, thread_id: str, pattern: str) -> list[Source]:
        found = []
        for path in self._folder_of(thread_id).glob(pattern):
            with suppress(OSError, ValueError, TypeError, KeyError):  # deleted, or not written by Antler
                card = json.loads(path.read_bytes())
                card["fetched_at"] = datetime.fromisoformat(card["fetched_at"])
                found.append(replace(Source(**card), thread_id=thread_id))
        return found

    def _text(self, folder: Path, sha256: str) -> str | None:
        try:
            return (folder / f"{sha256}{_TEXT}").read_bytes().decode("utf-8", "surrogatepass")
        except (OSError, UnicodeDecodeError):
            return None


def _prune(folder: Path, keep: str) -> None:
    """Delete what exceeds the limits, oldest first, and texts that no card names."""
    cards = sorted(folder.glob(f"*{_CARD}"), key=lambda path: (path.name == keep, path.stat().st_mtime), reverse=True)
    sizes = {path.stem: path.stat().st_size for path in folder.glob(f"*{_TEXT}")}
    if len(cards) <= MOST_SOURCES and sum(sizes.values()) <= MOST_BYTES:
        return
    named: set[str] = set()
    size = 0
    for number, path in enumerate(cards):
        sha256 = str(json.loads(path.read_bytes()).get("sha256", ""))
        size += 0 if sha256 in named else sizes.get(sha256, 0)
        if number and (number >= MOST_SOURCES or size > MOST_BYTES):
            path.unlink(missing_ok=True)
        else:
            named.add(sha256)
    for sha256 in sizes.keys() - named:
        (folder / f"{sha256}{_TEXT}").unlink(missing_ok=True)


def _met(folder: Path) -> dict[str, None]:
    """The addresses that a thread has met, in chronological order."""
    try:
        return dict.fromkeys((folder / _MET).read_text().split())
    except OSError:
        return {}


def _in_time(found: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(sorted(found, key=lambda source: (source.fetched_at, source.url)))


def _key(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _named(run_id: str) -> str:
    if not _RUN.fullmatch(run_id):
        raise ValueError(f"{run_id!r} cannot name a file")
    return run_id
