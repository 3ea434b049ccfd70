"""The simulated model as the keeper of a memory: facts in these forms are learned, corrected and forgotten.

    Remember that WORDS.        Actually WORDS, not OLD WORDS.        It is over that WORDS.

The gateway calls it outside the conversations; its answer is the JSON that such a request expects.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.simulators.model.scripts import Say, Script

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKED = "You keep the memory of a chat assistant"
"""How the system prompt of such a request begins."""

_KNOWN = re.compile(r"^(f[a-z0-9]{4,40}) \[[^\]]*\] (.*)$", re.MULTILINE)
_TURN = re.compile(r"^turn (\d+),.*?(?=^turn \d+,|\Z)", re.MULTILINE | re.DOTALL)
_NEW = re.compile(r"^Remember that (.+?)\.?$", re.MULTILINE)
_RIGHT = re.compile(r"^Actually (.+?), not (.+?)\.?$", re.MULTILINE)
_OVER = re.compile(r"^It is over that (.+?)\.?$", re.MULTILINE)


def is_update(last_user_text: str) -> bool:
    """Whether a request with that text is for an update: the gateway's own work, not an answer to a person."""
    return last_user_text.startswith("Today is ") and "<antler-memory>" in last_user_text


def update(system: str, text: str) -> Script | None:
    """The script that answers a request for an update; None for any other request."""
    if not system.startswith(ASKED):
        return None
    known = _KNOWN.findall(text)
    answer: dict[str, list[Any]] = {"summaries": [], "add": [], "correct": [], "confirm": [], "remove": []}
    for turn in _TURN.finditer(text):
        number, said = int(turn[1]), turn[0]
        answer["add"] += [_fact(found[1], number) for found in _NEW.finditer(said)]
        for found in _RIGHT.finditer(said):
            answer["correct"] += [{"id": fact, **_fact(found[1], number)} for fact in _about(found[2], known)]
        for found in _OVER.finditer(said):
            answer["remove"] += [{"id": fact, "turn": number} for fact in _about(found[1], known)]
    return Script((Say(text=json.dumps(answer), pieces=1),))


def _fact(words: str, turn: int) -> dict[str, Any]:
    return {
        "content": words,
        "category": "preference",
        "confidence": 0.95,
        "turn": turn,
        "evidence": words,
        "valid_until": None,
    }


def _about(words: str, known: list[tuple[str, str]]) -> Iterator[str]:
    """The facts that contain these words."""
    return (fact for fact, content in known if words in content)
