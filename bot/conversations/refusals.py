"""Tells that messages are not taken: once, in one message whose count grows, not in a storm. For actor.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.texts import texts_for

if TYPE_CHECKING:
    from bot.delivery.respond import Responder
    from bot.runs.turns import Spoken
    from bot.settings.busy_policies import Refusal


@dataclass(slots=True)
class Told:
    """What was told so far: why, in which reply, and of how many messages."""

    why: Refusal
    reply_key: str
    count: int = 0


class Refusals:
    """Of one conversation."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._told: Told | None = None

    def over(self) -> None:
        """A message was taken: what comes next is told anew."""
        self._told = None

    async def tell(self, spoken: Spoken, why: Refusal, limit: int) -> None:
        """Refuse a message. limit: the number behind it."""
        if self._told is None or self._told.why is not why:
            self._told = Told(why, f"event:{spoken.id}")
        self._told.count += 1
        text = texts_for(spoken.language).refusals[why].format(count=self._told.count, limit=limit)
        await self._responder.say(spoken.id, spoken.message, text, REASONS[why], reply_key=self._told.reply_key)


REASONS = {"busy": "busy", "queue_full": "queue full", "all_full": "backlog full"}
