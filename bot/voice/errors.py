"""Why a voice message was not understood; raised by the parts of bot/voice, told by listener.py."""

from __future__ import annotations

from typing import Literal

Unheard = Literal[
    "off", "too_long", "too_large", "gone", "format", "key", "model", "quota", "busy", "timeout", "unavailable",
    "garbage", "silent", "failed",
]  # fmt: skip
"""Each has a sentence for people (bot/texts) and a clause for the model (listener.py)."""


class NotHeardError(Exception):
    """reason: for people and the model. The text is for the log: no secret, nothing of what was said."""

    def __init__(self, reason: Unheard, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason: Unheard = reason
