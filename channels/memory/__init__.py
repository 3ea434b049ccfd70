"""The channel port without a platform: for embedding Antler in a program, and for proving delivery in every mode.

It remembers what a person would see, fails on demand, and stands in for platforms with fewer abilities (MemoryMode).
"""

from channels.memory.channel import MemoryChannel
from channels.memory.platform import (
    APPEND_ONLY,
    FULL,
    NO_BUTTONS,
    NO_EDIT,
    NO_IDEMPOTENCY,
    REPLIES,
    RESUMED,
    SEARCHED,
    Bubble,
    Call,
    MemoryMode,
    MemoryPart,
)

__all__ = [
    "APPEND_ONLY",
    "FULL",
    "NO_BUTTONS",
    "NO_EDIT",
    "NO_IDEMPOTENCY",
    "REPLIES",
    "RESUMED",
    "SEARCHED",
    "Bubble",
    "Call",
    "MemoryChannel",
    "MemoryMode",
    "MemoryPart",
]
