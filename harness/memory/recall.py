"""What of a memory the agent reads: the block of a thread within a budget of tokens, and what its tool looks up. Pure.

Everything in it was once somebody's words: no sign of it can open or close anything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.memory.merge import is_correction, is_over, ranked
from harness.memory.model import summaries
from harness.memory.words import words
from harness.text.frames import MEMORY, as_data, framed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from harness.memory.config import MemorySettings
    from harness.memory.model import Fact, Memory

HEADINGS = {
    "user.workContext": "work",
    "user.personalContext": "personal",
    "user.topOfMind": "on their mind",
    "history.recentMonths": "recent months",
    "history.earlierContext": "before that",
    "history.longTermBackground": "background",
}
URGENT = ("user.topOfMind", "user.workContext", "user.personalContext")
"""Come before the facts where the budget is short, the others behind them."""
SUMMARY_SHARE = 6
"""A summary has at most this part of the budget."""
ASCII_PER_TOKEN = 3.5
"""Characters; on the safe side of what tokenizers make of English."""
TOKENS = ((0x80, 0.0), (0x800, 1.0), (0x2E80, 2.0), (0xD7B0, 1.2), (0xF900, 3.0), (0x10000, 1.5), (0x110000, 3.0))
"""Of one other sign, by the first sign that is not in its range: of alphabets, of scripts of the south, of Chinese,
Japanese and Korean, of rare ones and pictures. On the safe side too."""
_OTHERS = re.compile(r"[^\0-\x7f]")
MOST_FOUND = 12


def tokens(text: str) -> int:
    """About how many it has for a model: counted here, without the network and without a tokenizer."""
    others = [] if text.isascii() else _OTHERS.findall(text)
    weight = sum(next(tokens for end, tokens in TOKENS if ord(sign) < end) for sign in others)
    return int((len(text) - len(others)) / ASCII_PER_TOKEN + weight) + 1


def memory_block(memory: Memory, settings: MemorySettings, now: datetime) -> str:
    """The block, at most max_injection_tokens long; "" where there is nothing to tell."""
    room = settings.max_injection_tokens - tokens(framed(MEMORY, "facts:"))
    told = {name: summary.summary for name, summary in summaries(memory).items() if summary.summary}
    facts = [fact for fact in ranked(memory.facts, settings, now) if not is_over(fact, now)][: settings.injected_facts]
    shown: dict[str, str] = {}
    lines: list[str] = []
    most = max(settings.max_injection_tokens // SUMMARY_SHARE, 20)
    for name in (*URGENT, "", *(name for name in HEADINGS if name not in URGENT)):
        if not name:
            lines, room = _fitting((_fact(fact) for fact in facts), room)
        elif name in told:
            line = _within(f"{HEADINGS[name]}: {_safe(told[name])}", min(most, room))
            shown |= {name: line} if line else {}
            room -= tokens(line) + 1 if line else 0
    body = [shown[name] for name in HEADINGS if name in shown] + (["facts:", *lines] if lines else [])
    return framed(MEMORY, "\n".join(body)) if body else ""


def found(memory: Memory, query: str, settings: MemorySettings, now: datetime) -> list[str]:
    """What is remembered with words of the query, the best first; all that is most wanted where there is no query."""
    asked = set(words(query))
    facts = ranked(memory.facts, settings, now)
    lines = [_fact(fact) + (" (over)" if is_over(fact, now) else "") for fact in facts]
    lines += [f"- {HEADINGS[name]}: {_safe(each.summary)}" for name, each in summaries(memory).items() if each.summary]
    if not asked:
        return lines[:MOST_FOUND]
    scored = [(len(asked.intersection(words(line))), -place, line) for place, line in enumerate(lines)]
    return [line for score, _, line in sorted(scored, reverse=True)[:MOST_FOUND] if score > 0]


def _fact(fact: Fact) -> str:
    until = f" (until {fact.valid_until})" if fact.valid_until else ""
    before = f" (not: {_safe(fact.source_error)})" if is_correction(fact) and fact.source_error else ""
    return f"- [{fact.category}] {_safe(fact.content)}{until}{before}"


def _safe(text: str) -> str:
    """On one line, and no markup of any kind: what is remembered needs none."""
    return as_data(" ".join(text.split())).replace("<", "&lt;").replace(">", "&gt;")


def _fitting(lines: Iterable[str], room: int) -> tuple[list[str], int]:
    """Those that fit, in order, and what room is left: a long one that does not fit makes way for shorter ones."""
    kept = []
    for line in lines:
        size = tokens(line) + 1
        if size <= room:
            kept.append(line)
            room -= size
    return kept, room


def _within(line: str, room: int) -> str:
    """Its beginning, up to so many tokens; "" where that would say nothing."""
    if tokens(line) <= room:
        return line
    if room < 12:
        return ""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(line[:middle]) < room else (low, middle - 1)
    return line[:low].rstrip() + "…"
