"""First messages stand in the order in which their replies were opened: who still has to begin, who waits for that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.delivery.reply import Reply

LONGEST_SILENCE = 2.0
"""Seconds for which others wait for a reply that was opened and shows nothing; normally it does so at once."""


class Places:
    """Of one account, by chat."""

    def __init__(self) -> None:
        self._silent: dict[str, dict[Reply, None]] = {}
        self._behind: dict[str, dict[Reply, None]] = {}

    def add(self, reply: Reply) -> None:
        """It was opened and shows nothing yet."""
        self._silent.setdefault(reply.chat, {})[reply] = None

    def not_before(self, reply: Reply) -> float:
        """When the reply may make its next call, as far as others are concerned."""
        if reply.visible or reply.final:
            return -math.inf
        eldest = next(iter(self._silent.get(reply.chat, ())), reply)
        if eldest.order >= reply.order:
            return -math.inf
        self._behind.setdefault(reply.chat, {})[reply] = None
        return eldest.opened_at + LONGEST_SILENCE

    def begun(self, reply: Reply) -> Iterable[Reply]:
        """It shows something, or never will; returns those that waited, to be decided anew."""
        silent = self._silent.get(reply.chat, {})
        if reply not in silent:
            return ()
        del silent[reply]
        if not silent:
            del self._silent[reply.chat]
        return self._behind.pop(reply.chat, ())

    def move(self, old: str, new: str) -> None:
        """The chat has a new id."""
        for places in (self._silent, self._behind):
            if old in places:
                places[new] = places.pop(old) | places.get(new, {})
