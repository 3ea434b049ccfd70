"""What one console chat shows: its last messages, kept so that edits and repeated sends find them.

A screen outlives its terminal: what came while none was attached is told to the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.console.frames import Shown

MAX_MESSAGES = 200


class Screen:
    """The newest MAX_MESSAGES messages in the order in which they were sent."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, Shown] = OrderedDict()
        self._unseen: set[str] = set()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def put(self, shown: Shown, seen: bool) -> None:
        """Add a message or give it a new state. seen: a terminal took it."""
        message_id = shown.message_id
        self._messages[message_id] = shown
        if seen:
            self._unseen.discard(message_id)
        else:
            self._unseen.add(message_id)
        if len(self._messages) > MAX_MESSAGES:
            oldest, _ = self._messages.popitem(last=False)
            self._unseen.discard(oldest)

    def remove(self, message_id: str) -> bool:
        """Forget a message; False when it was not there."""
        self._unseen.discard(message_id)
        return self._messages.pop(message_id, None) is not None

    def take_unseen(self) -> list[Shown]:
        """What no terminal has shown yet, oldest first; from now on it counts as seen."""
        missed = [shown for message_id, shown in self._messages.items() if message_id in self._unseen]
        self._unseen.clear()
        return missed
