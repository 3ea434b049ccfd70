"""What a person's word makes of a memory, and what is left of an update that began before it. Pure; for book.py."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.memory.hygiene import has_secret
from harness.memory.model import LONGEST_FACT, SUMMARIES, Fact, Memory, Summary, summaries, with_summaries
from harness.memory.orders import is_override
from harness.memory.port import NotKept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from harness.memory.changes import Changes

_WORD = re.compile(r"[\u3400-\u9fff]{2}|(?:(?![\u3400-\u9fff])[^\W_]){4,}")
_COMMON = """
about also always because been does from have here into like likes more much name named over person prefer prefers said
some than that their them then there they this user uses using very wants were when where which will with work works
用户 喜欢 使用 这个 一个
"""
_EVERYWHERE = frozenset(_COMMON.split())
"""Words that say nothing of which fact a text is about."""


def without_items(memory: Memory, items: Collection[str]) -> Memory:
    """Without these facts (ids) and summaries (names of model.SUMMARIES); and without the summaries that seem to tell
    of the same: they are written anew of what is said from now on."""
    gone = [fact for fact in memory.facts if fact.id in items]
    left = tuple(fact for fact in memory.facts if fact.id not in items)
    telling = _words(fact.content for fact in gone) - _words(fact.content for fact in left)
    names = [name for name in SUMMARIES if name in items]
    names += [name for name, known in summaries(memory).items() if telling & _words([known.summary])]
    return _without_summaries(memory.model_copy(update={"facts": left}), names)


def without_person(memory: Memory, person: str) -> Memory:
    """Without the facts that rest on one person's words, and without all summaries: whose words those rest on nobody
    can tell."""
    left = tuple(fact for fact in memory.facts if fact.said_by != person)
    return _without_summaries(memory.model_copy(update={"facts": left}), SUMMARIES)


def edited(memory: Memory, fact_id: str, text: str, person: str, now: datetime) -> tuple[Memory, Fact | None]:
    """The fact with another text, as a correction of what it said; None where it is not there. Raises NotKept."""
    content = " ".join(text.split())
    if not content or len(content) > LONGEST_FACT:
        raise NotKept("It is too long, or empty.")
    if has_secret(content) or is_override(content):
        raise NotKept("It holds a secret, or reads like an instruction of the system.")
    known = next((fact for fact in memory.facts if fact.id == fact_id), None)
    if known is None or known.content == content:
        return memory, known
    changes = {
        "content": content,
        "confidence": 1.0,
        "said_by": person,
        "source_error": known.content if known.said_by in ("", person) else None,
        "confirmed_at": now,
        "valid_until": None,
    }
    fact = known.model_copy(update=changes)
    facts = tuple(fact if each.id == fact_id else each for each in memory.facts)
    return memory.model_copy(update={"facts": facts}), fact


def after_person(changes: Changes, base: Memory, memory: Memory) -> Changes:
    """What is left of an update that had read `base`, now that a person changed it into `memory`: what they changed or
    forgot themselves stays as they left it."""
    before, now = {fact.id: fact for fact in base.facts}, {fact.id: fact for fact in memory.facts}
    theirs = {known for known in before.keys() | now.keys() if before.get(known) != now.get(known)}
    if not theirs and summaries(base) == summaries(memory):
        return changes
    told, tells = summaries(base), summaries(memory)
    return replace(
        changes,
        summaries={name: text for name, text in changes.summaries.items() if told.get(name) == tells.get(name)},
        corrected=tuple(each for each in changes.corrected if each.fact_id not in theirs),
        confirmed=tuple(each for each in changes.confirmed if each.fact_id not in theirs),
        removed=tuple(fact_id for fact_id in changes.removed if fact_id not in theirs),
    )


def _without_summaries(memory: Memory, names: Collection[str]) -> Memory:
    return with_summaries(memory, dict.fromkeys(names, Summary())) if names else memory


def _words(texts: Iterable[str]) -> set[str]:
    return {word.casefold() for text in texts for word in _WORD.findall(text)} - _EVERYWHERE
