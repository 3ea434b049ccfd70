"""What one console chat shows: its last messages, kept so that edits, repeated sends and numbers find them.

A screen outlives its terminal: what came while none was attached is told to the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.console.frames import Shown
    from channels.message import Button

MAX_MESSAGES = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A message and what its buttons send."""

    shown: Shown
    buttons: tuple[Button, ...] = ()


class Screen:
    """The newest MAX_MESSAGES messages in the order in which they were sent."""

    def __init__(self) -> None:
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._unseen: set[str] = set()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._entries

    def put(self, entry: Entry, seen: bool) -> None:
        """Add a message or give it a new state. seen: a terminal took it."""
        message_id = entry.shown.message_id
        self._entries[message_id] = entry
        if seen:
            self._unseen.discard(message_id)
        else:
            self._unseen.add(message_id)
        if len(self._entries) > MAX_MESSAGES:
            oldest, _ = self._entries.popitem(last=False)
            self._unseen.discard(oldest)

    def remove(self, message_id: str) -> bool:
        """Forget a message; False when it was not there."""
        self._unseen.discard(message_id)
        return self._entries.pop(message_id, None) is not None

    def take_unseen(self) -> list[Shown]:
        """What no terminal has shown yet, oldest first; from now on it counts as seen."""
        missed = [entry.shown for message_id, entry in self._entries.items() if message_id in self._unseen]
        self._unseen.clear()
        return missed

    def choices(self) -> tuple[str, tuple[Button, ...]] | None:
        """The id and buttons of the newest message that is no file; older buttons take no numbers."""
        for message_id, entry in reversed(self._entries.items()):
            if entry.shown.file is None:
                return (message_id, entry.buttons) if entry.buttons else None
        return None
