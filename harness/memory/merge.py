"""Applies changes to a memory: pure, deterministic and idempotent.

Callers hold the owner's lock.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import timedelta
from typing import TYPE_CHECKING

from harness.memory.injection import is_instruction, is_override
from harness.memory.model import LONGEST_FACT, LONGEST_SUMMARY, SUMMARIES, Fact, Summary, with_summaries
from harness.memory.redaction import has_secret, without_unseen
from harness.memory.store import NotKept
from harness.text.plain import short_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from harness.memory.config import MemorySettings
    from harness.memory.model import Changes, Correction, Memory, Proposed

REINFORCED = 0.25
"""Share of the remaining uncertainty removed each time a fact is repeated."""
OVER = timedelta(days=30)
"""How long a fact is kept after the last day on which it holds."""
WESTMOST = timedelta(hours=12)
"""Offset of the westernmost time zone from UTC."""
LEAST_WEIGHT = 0.25
OVER_WEIGHT = 0.1
"""Factors on the rank of a fact that is old, or no longer holds."""

TOOLS_CONFIDENCE = 0.95
"""Confidence of facts that the agent was asked to remember."""

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


def merged(memory: Memory, changes: Changes, settings: MemorySettings, now: datetime) -> Memory:
    """Apply changes to the memory: corrections first, then removals, confirmations and new facts; no duplicates,
    nothing below the threshold, no secrets, at most max_facts."""
    facts = Facts(memory.facts, settings)
    for correction in changes.corrected:
        facts.correct(correction)
    for fact_id in changes.removed:
        facts.remove(fact_id)
    for heard in changes.confirmed:
        facts.confirm(heard.fact_id, heard.at)
    for proposed in changes.added:
        facts.add(proposed)
    kept = _most_wanted(_still_holding(facts.all(), now), settings, now)
    texts = {name: _cut(text, LONGEST_SUMMARY) for name, text in changes.summaries.items() if name in SUMMARIES}
    texts = {name: text for name, text in texts.items() if not has_secret(text) and not is_override(text)}
    fresh = {name: Summary(summary=text, updated_at=now if text else None) for name, text in texts.items()}
    changed = with_summaries(memory, fresh).model_copy(update={"facts": kept})
    return memory if changed == memory else changed.model_copy(update={"last_updated": now})


def remembered(memory: Memory, proposed: Proposed, settings: MemorySettings, now: datetime) -> tuple[Memory, Fact]:
    """The memory with a requested fact, and the fact as it is stored, which may be one that was already known. Raises
    NotKept."""
    if not normal(proposed.content):
        raise NotKept("There is nothing in it to remember.")
    if has_secret(proposed.content):
        raise NotKept("It holds a secret, such as a password, a key or a card number, and those are never remembered.")
    if _is_unwanted(proposed):
        raise NotKept("It reads like an instruction, not like a fact about the person.")
    facts = Facts(memory.facts, settings)
    fact = facts.add(proposed)
    kept = _most_wanted(_still_holding(facts.all(), now), settings, now)
    if fact is None or fact not in kept:
        raise NotKept("The memory is full of more important facts; something has to be forgotten first.")
    return memory.model_copy(update={"facts": kept, "last_updated": now}), fact


def ranked(facts: Iterable[Fact], settings: MemorySettings, now: datetime) -> list[Fact]:
    """Facts by importance: corrections first, then by confidence, which fades when a fact is not repeated for long."""

    def rank(fact: Fact) -> tuple[bool, float, datetime, str]:
        weight = _weight(fact, settings, now)
        return is_correction(fact) and weight > OVER_WEIGHT, fact.confidence * weight, fact.heard_at, fact.id

    return sorted(facts, key=rank, reverse=True)


def is_correction(fact: Fact) -> bool:
    """Whether the fact corrects a wrong belief, or the agent."""
    return fact.category == "correction" or fact.source_error is not None


def is_over(fact: Fact, now: datetime) -> bool:
    """Whether the fact's last day is past, wherever the person lives."""
    return fact.valid_until is not None and fact.valid_until < (now - WESTMOST).date()


def normal(text: str) -> str:
    """A text normalized for comparison: case, blanks and the characters at its ends do not matter."""
    return _EDGES.sub("", " ".join(unicodedata.normalize("NFKC", text).casefold().split()))


class Facts:
    """The facts of a memory while they are being changed."""

    def __init__(self, facts: Sequence[Fact], settings: MemorySettings) -> None:
        self._threshold = settings.fact_confidence_threshold
        self._facts = {fact.id: fact for fact in facts}
        self._ids = {normal(fact.content): fact.id for fact in reversed(facts)}
        self._wrong = {normal(fact.source_error): fact.heard_at for fact in facts if fact.source_error}

    def all(self) -> tuple[Fact, ...]:
        """All facts in order of arrival."""
        return tuple(self._facts.values())

    def add(self, proposed: Proposed) -> Fact | None:
        """Add a fact; returns it, or the known one that says the same; None if it is not to be kept."""
        content = _cut(proposed.content, LONGEST_FACT)
        text = normal(content)
        if not self._is_wanted(proposed) or proposed.at <= self._wrong.get(text, _ever(proposed.at)):
            return None
        known = self._ids.get(text)
        if known is not None:
            fact = self._facts[known]
            return fact if fact.source == proposed.source else self.confirm(known, proposed.at)
        fact = Fact(
            id=self._new_id(proposed),
            content=content,
            category=proposed.category,
            confidence=min(max(proposed.confidence, 0.0), 1.0),
            created_at=proposed.at,
            source=proposed.source,
            said_by=proposed.said_by,
            valid_until=proposed.valid_until,
        )
        self._put(fact)
        return fact

    def correct(self, correction: Correction) -> None:
        """Correct a fact, which keeps its id and records the earlier belief; in a group only if both are the same
        person's words, so that no words are attributed to another person. If the fact no longer exists, the new text is
        added anyway."""
        to, wrong = correction.to, self._facts.get(correction.fact_id)
        content = _cut(to.content, LONGEST_FACT)
        text = normal(content)
        if wrong is None:
            self.add(to)
            return
        if not self._is_wanted(to) or to.at < wrong.created_at:
            return
        if text == normal(wrong.content):
            self.confirm(wrong.id, to.at)
            return
        same = self._ids.get(text)
        if same is not None:
            self.remove(same)
        before = wrong.content if wrong.said_by in ("", to.said_by) else None
        changes = {
            "content": content,
            "category": to.category,
            "confidence": min(max(to.confidence, 0.0), 1.0),
            "source": to.source,
            "said_by": to.said_by,
            "source_error": before,
            "confirmed_at": to.at,
            "valid_until": to.valid_until,
        }
        self.remove(wrong.id, stays=True)
        self._put(wrong.model_copy(update=changes))
        self._wrong[normal(wrong.content)] = to.at

    def confirm(self, fact_id: str, at: datetime) -> Fact | None:
        """Confirm a fact; repeating the same turn does not raise its confidence. None if there is no such fact."""
        fact = self._facts.get(fact_id)
        if fact is None or at <= fact.heard_at:
            return fact
        surer = round(fact.confidence + (1 - fact.confidence) * REINFORCED, 4)
        heard = fact.model_copy(update={"confirmed_at": at, "confidence": surer})
        self._facts[fact_id] = heard
        return heard

    def remove(self, fact_id: str, *, stays: bool = False) -> None:
        """Remove a fact. stays: its position remains, for another text."""
        fact = self._facts.get(fact_id)
        if fact is None:
            return
        if self._ids.get(normal(fact.content)) == fact_id:
            del self._ids[normal(fact.content)]
        if not stays:
            del self._facts[fact_id]

    def _put(self, fact: Fact) -> None:
        self._facts[fact.id] = fact
        self._ids[normal(fact.content)] = fact.id

    def _is_wanted(self, proposed: Proposed) -> bool:
        return (
            proposed.confidence >= self._threshold
            and bool(normal(proposed.content))
            and not has_secret(proposed.content)
            and not _is_unwanted(proposed)
        )

    def _new_id(self, proposed: Proposed) -> str:
        """An id that is the same for the same fact of the same run."""
        text = f"{proposed.source}\0{normal(proposed.content)}"
        while True:
            fact_id = "f" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:11]
            if fact_id not in self._facts:
                return fact_id
            text += "\0"


def _is_unwanted(proposed: Proposed) -> bool:
    return is_override(proposed.content) or (proposed.tainted and is_instruction(proposed.content))


def _ever(at: datetime) -> datetime:
    return at - timedelta.resolution


def _still_holding(facts: Sequence[Fact], now: datetime) -> tuple[Fact, ...]:
    over = (now - OVER).date()
    return tuple(fact for fact in facts if fact.valid_until is None or fact.valid_until >= over)


def _most_wanted(facts: tuple[Fact, ...], settings: MemorySettings, now: datetime) -> tuple[Fact, ...]:
    """The best-ranked facts, at most max_facts, in order of arrival."""
    if len(facts) <= settings.max_facts:
        return facts
    kept = {fact.id for fact in ranked(facts, settings, now)[: settings.max_facts]}
    return tuple(fact for fact in facts if fact.id in kept)


def _weight(fact: Fact, settings: MemorySettings, now: datetime) -> float:
    """The weight of a fact: 1 if heard recently; after stale_days it halves with each further stale_days."""
    if is_over(fact, now):
        return OVER_WEIGHT
    late = (now - fact.heard_at) / timedelta(days=settings.stale_days) - 1
    return float(max(0.5 ** min(late, 10.0), LEAST_WEIGHT)) if late > 0 else 1.0


def _cut(text: str, most: int) -> str:
    return short_line(without_unseen(text), most)
