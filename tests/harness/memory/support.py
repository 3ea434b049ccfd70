"""What the memory's tests share: facts, turns and changes with as little around them as possible."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from harness.memory.config import MemorySettings
from harness.memory.model import Exchange, Fact, Memory, Proposed, Said

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SETTINGS = MemorySettings()
ANN = "telegram:1"


def days(count: float) -> timedelta:
    return timedelta(days=count)


def fact(content: str, confidence: float = 0.9, **more: Any) -> Fact:
    """Its id is made of its content, which has to be letters and digits then."""
    values: dict[str, Any] = {
        "id": "f" + "".join(sign for sign in content.lower() if sign.isascii() and sign.isalnum())[:30].ljust(3, "0"),
        "content": content,
        "category": "preference",
        "confidence": confidence,
        "created_at": NOW - days(1),
        "source": "r0",
        "said_by": ANN,
    }
    return Fact(**(values | more))


def memory(*facts: Fact) -> Memory:
    return Memory(facts=facts, last_updated=NOW - days(1))


def proposed(content: str, confidence: float = 0.9, **more: Any) -> Proposed:
    values: dict[str, Any] = {"category": "preference", "at": NOW, "source": "r1", "said_by": ANN}
    return Proposed(content=content, confidence=confidence, **(values | more))


def exchange(text: str, answered: str = "Noted.", *, run: str = "r1", **more: Any) -> Exchange:
    values: dict[str, Any] = {
        "owner": ANN,
        "thread_id": "t1",
        "run_id": run,
        "speaker": ANN,
        "is_group": False,
        "locale": "en",
        "tainted": False,
        "outcome": "success",
        "at": NOW,
        "said": (Said(role="person", text=text, name="Ann"), Said(role="agent", text=answered)),
    }
    return Exchange(**(values | more))
