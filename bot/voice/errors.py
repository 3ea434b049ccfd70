"""Why a voice message has no transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Unheard = Literal[
    "off", "too_long", "too_large", "gone", "format", "key", "model", "quota", "busy", "timeout", "unavailable",
    "garbage", "silent", "failed",
]  # fmt: skip
"""Reasons; each has a sentence for people (bot/texts) and a clause for the model."""

CLAUSES: Mapping[Unheard, str] = {
    "off": "nobody could listen to it: no transcription service is configured",
    "too_long": "nobody listened to it: it is longer than is allowed",
    "too_large": "nobody listened to it: it is larger than is allowed",
    "gone": "nobody could listen to it: the file is no longer there",
    "format": "nobody could listen to it: the transcription service did not accept the recording",
    "key": "nobody could listen to it: the transcription service refused the API key",
    "model": "nobody could listen to it: the transcription service does not know the configured model",
    "quota": "nobody could listen to it: the account at the transcription service has no credit left",
    "busy": "nobody could listen to it: the transcription service takes no more requests at the moment",
    "timeout": "nobody could listen to it: the transcription service did not answer in time",
    "unavailable": "nobody could listen to it: the transcription service cannot be reached",
    "garbage": "nobody could listen to it: the transcription service answered something unreadable",
    "silent": "no words were heard in it",
    "failed": "nobody could listen to it: something went wrong, which the log tells",
}
"""The reasons as the model is told."""


class NotHeardError(Exception):
    """A voice message was not transcribed, for a reason that people and the model are told.

    The text is for the log: no secret, nothing of what was said.
    """

    def __init__(self, reason: Unheard, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason: Unheard = reason
