"""Turns a model's answer into changes: lenient about its form, strict about its evidence. Pure.

What the person did not say is not learned: a fact names a turn and words from it, which must occur there.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from harness.memory.asking import SHORT_NAMES
from harness.memory.injection import is_among, is_instruction, share, words
from harness.memory.model import CATEGORIES, LONGEST_FACT, SUMMARIES, Changes, Correction, Heard, Proposed, summaries
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.memory.model import Category, Exchange, Memory

log = logging.getLogger(__name__)

MOST_ITEMS = 200
"""Items of one kind in one answer."""
GROUNDED = 0.6
"""Share of a fact's evidence that must be among the person's words."""
UNGROUNDED = 0.75
"""Factor on the confidence of any other fact: only near certainty stays above the usual threshold."""
OWN = 0.4
"""Share of a fact's own words that must be there too if it tells the agent what to do: something that an earlier page
made the agent say, and that the person then thanked for, is not their wish."""
MOST_LOST, LARGEST_SHARE_LOST = 5, 4
"""Facts that one answer may remove, and may correct; in a large memory one in so many. Beyond that none of them are."""
UNSURE = 0.5
WORDS_OF_CONFIDENCE = {"high": 0.9, "certain": 0.95, "medium": 0.7, "low": 0.4, "高": 0.9, "中": 0.7, "低": 0.4}
LONGEST_VALIDITY = timedelta(days=3660)

LONGEST_NUMBER = 9
"""Digits in a turn's number."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n")
_SNAKE = re.compile(r"_([a-z])")


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Source:
    """An exchange, and the words that its person used."""

    exchange: Exchange
    words: frozenset[str]


def changes_of(answer: Mapping[str, Any], exchanges: Sequence[Exchange], memory: Memory) -> Changes:
    """The changes in an answer. exchanges: numbered as for the model, from 1. memory: that it read. Meaningless items
    are omitted."""
    sources = [Source(exchange, frozenset(words(_persons(exchange)))) for exchange in exchanges]
    added = [fact for item in _items(answer, "add") if (fact := _fact(item, sources)) is not None]
    corrected = [
        Correction(fact_id, fact)
        for item in _items(answer, "correct")
        if (fact := _fact(item, sources)) is not None and (fact_id := _id(item))
    ]
    confirmed = [
        Heard(fact_id, source.exchange.at)
        for item in _items(answer, "confirm")
        if (fact_id := _id(item)) and (source := _source(item, sources)) is not None
    ]
    return Changes(
        summaries=_learnt_summaries(answer, sources, memory),
        added=tuple(added),
        corrected=_few(corrected, {each.fact_id for each in corrected}, memory),
        confirmed=tuple(confirmed),
        removed=_few(removed := _removed(answer, sources, memory), set(removed), memory),
    )


def _removed(answer: Mapping[str, Any], sources: Sequence[Source], memory: Memory) -> list[str]:
    """Ids of the facts to remove. In a group, no one can remove facts based on another person's words."""
    said_by = {fact.id: fact.said_by for fact in memory.facts}
    found = []
    for item in _items(answer, "remove"):
        fact_id, source = _id(item), _source(item, sources)
        if fact_id not in said_by or source is None:
            continue
        if not source.exchange.is_group or said_by[fact_id] in ("", source.exchange.speaker):
            found.append(fact_id)
    return found


def _few(found: Sequence[Item], ids: set[str], memory: Memory) -> tuple[Item, ...]:
    lost = ids.intersection(fact.id for fact in memory.facts)
    if len(lost) <= max(MOST_LOST, len(memory.facts) // LARGEST_SHARE_LOST):
        return tuple(found)
    log.warning("update would remove %d of %d facts at once: none removed", len(lost), len(memory.facts))
    return ()


def _learnt_summaries(answer: Mapping[str, Any], sources: Sequence[Source], memory: Memory) -> dict[str, str]:
    """The summaries, without those that tell the agent what to do in words that no one used."""
    if any(source.exchange.is_group for source in sources):
        return {}
    known = [each.summary for each in summaries(memory).values()] + [fact.content for fact in memory.facts]
    own = frozenset(words("\n".join(known))).union(*(source.words for source in sources))
    tainted = any(source.exchange.tainted for source in sources)
    return {
        name: text
        for name, text in _summaries(answer.get("summaries")).items()
        if not any(
            is_instruction(sentence) and (tainted or not is_among(sentence, own, OWN))
            for sentence in _SENTENCE_END.split(text)
        )
    }


def _items(answer: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The objects of a list. A single object counts as a list of one, a text as an object of only that."""
    found = answer.get(name)
    for item in (found if isinstance(found, list) else [found])[:MOST_ITEMS]:
        if isinstance(item, str):
            yield {"id": item, "content": item}
        elif isinstance(item, dict):
            yield item


def _fact(item: Mapping[str, Any], sources: Sequence[Source]) -> Proposed | None:
    content = _text(item.get("content") or item.get("fact") or item.get("text"))[:LONGEST_FACT]
    source = _source(item, sources)
    if not content or source is None:
        return None
    confidence, exchange = _confidence(item.get("confidence")), source.exchange
    if not _is_grounded(_text(item.get("evidence")), source):
        if exchange.is_group or exchange.tainted:
            return None  # no one's words, or a stranger's
        confidence *= UNGROUNDED
    return Proposed(
        content=content,
        category=_category(item.get("category")),
        confidence=confidence,
        at=exchange.at,
        source=exchange.run_id,
        said_by=exchange.speaker,
        tainted=exchange.tainted or not is_among(content, source.words, OWN),
        valid_until=_day(item.get("valid_until") or item.get("validUntil"), exchange.at.date()),
    )


def _source(item: Mapping[str, Any], sources: Sequence[Source]) -> Source | None:
    """The turn that the item names, else the one with its evidence, else the last; None if several persons speak."""
    number = item.get("turn")
    if isinstance(number, str) and number.strip().isdecimal() and len(number) <= LONGEST_NUMBER:
        number = int(number)
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= len(sources):
        return sources[number - 1]
    evidence = _text(item.get("evidence"))
    having = next((source for source in reversed(sources) if evidence and _is_grounded(evidence, source)), None)
    if having is not None:
        return having
    return sources[-1] if len({source.exchange.speaker for source in sources}) == 1 else None


def _is_grounded(evidence: str, source: Source) -> bool:
    return share(evidence, source.words) >= GROUNDED


def _persons(exchange: Exchange) -> str:
    return "\n".join(said.text for said in exchange.heard if said.role == "person")


def _summaries(found: object) -> dict[str, str]:
    """The summaries by full name, whether given as a list, flat or nested, in camel case or not."""
    flat: dict[str, object] = {}
    if isinstance(found, list):
        flat = {_text(item.get("name")): item.get("text") for item in found if isinstance(item, dict)}
    elif isinstance(found, dict):
        for name, value in found.items():
            flat |= value if name in ("user", "history") and isinstance(value, dict) else {name: value}
    texts: dict[str, str] = {}
    for name, value in flat.items():
        camel = _SNAKE.sub(lambda letter: letter.group(1).upper(), str(name))
        full = SHORT_NAMES.get(camel, camel)
        text = _text(value.get("summary") if isinstance(value, dict) else value)
        if full in SUMMARIES and text:
            texts[full] = text
    return texts


def _id(item: Mapping[str, Any]) -> str:
    found = item.get("id") or item.get("fact_id")
    return found.strip("[] ").lower() if isinstance(found, str) else ""


def _category(found: object) -> Category:
    name = _text(found).casefold()
    return next((category for category in CATEGORIES if name in (category, f"{category}s")), "context")


def _confidence(found: object) -> float:
    """A confidence from 0 to 1, also from percentages and words. Unsure if it is missing."""
    if isinstance(found, str):
        text = found.strip().casefold()
        if text in WORDS_OF_CONFIDENCE:
            return WORDS_OF_CONFIDENCE[text]
        try:
            found = float(text.removesuffix("%"))
        except ValueError:
            return UNSURE
    if isinstance(found, bool) or not isinstance(found, int | float) or found != found:
        return UNSURE
    return float(min(max(found / 100 if 1 < found <= 100 else found, 0), 1))


def _day(found: object, said_on: date) -> date | None:
    try:
        day = date.fromisoformat(_text(found)[:10])
    except ValueError:
        return None
    return day if abs(day - said_on) <= LONGEST_VALIDITY else None


def _text(found: object) -> str:
    return " ".join(clean_text(found).split()) if isinstance(found, str) else ""
