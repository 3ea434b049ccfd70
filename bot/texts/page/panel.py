"""Everything beside the chat: Now, threads, people, usage and the rest."""

from __future__ import annotations

TEXTS: dict[str, dict[str, str]] = {
    "en": {},
    "zh": {},
}
