"""Tracks which message ids were seen, and which ids a message of the bot may have whose send was not answered.

Telegram numbers messages in ascending order: separately in each supergroup and channel, and jointly in all private
chats and basic groups of a bot. So a new message gets an id above all those that were seen there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AHEAD = 4
"""How many ids above the newest seen one are probed: other messages may have been sent but not received yet."""
MAX_PROBES = 8
"""How many ids are probed in one call of `find`."""
_REMEMBERED = 10_000
_SHARED = "private chats and basic groups"


@dataclass(slots=True)
class Search:
    """The search for one lost send, upward from `above`; an interrupted one continues where it stopped.

    at: the next id to probe. again: the first id that was probed before it was seen in use; None if there was none.
    """

    sequence: str
    above: int
    at: int
    again: int | None = None


class Sightings:
    """The message ids of one account. Bounded: forgotten ids only cost unnecessary probes."""

    def __init__(self) -> None:
        self._seen: LRUCache[tuple[str, int], None] = LRUCache(_REMEMBERED)
        self._newest: LRUCache[str, int] = LRUCache(_REMEMBERED)
        self._searches: LRUCache[str, Search] = LRUCache(_REMEMBERED)

    def see(self, chat: str, message_id: int) -> None:
        """Record that an id is in use: by someone else's message, or by one of the bot's that is not lost."""
        sequence = _sequence(chat)
        self._seen[sequence, message_id] = None
        self._newest[sequence] = max(message_id, self._newest.get(sequence, message_id))

    def newest(self, chat: str) -> int | None:
        """The newest id seen: messages sent to the chat from now on have higher ones. None if none was seen."""
        return self._newest.get(_sequence(chat))

    def sent(self, key: str, chat: str, message_id: int, newest: int | None) -> None:
        """Record that a send was answered. newest: its value before the send."""
        if newest is not None and message_id <= newest:  # ids known from earlier processes predate a migration
            self._newest.pop(_sequence(chat), None)
        self.see(chat, message_id)
        self._searches.pop(key, None)

    def lost(self, key: str, chat: str, newest: int | None) -> None:
        """Record that a send was not answered; newest: its value before it. A repeat continues the first search."""
        if newest is not None and key not in self._searches:
            self._begin(key, chat, newest)

    async def find(
        self, key: str, chat: str, after: int | None, accepts: Callable[[int], Awaitable[bool]]
    ) -> int | None:
        """The id of a lost send, None if there is none; `accepts` checks whether an id is ours and lost.

        after: an older id to start from if an earlier process lost it. An interrupted search resumes where it stopped.
        Raises OutcomeUnknown if there are too many ids to probe in one call, and what `accepts` raises.
        """
        search = self._search(key, chat, after)
        if search is None:
            raise OutcomeUnknown("no known message is certainly older than the lost one")
        for _ in range(MAX_PROBES):
            candidate = self._candidate(search)
            if candidate is None:
                break
            if await accepts(candidate):
                self.see(chat, candidate)
                self._searches.pop(key)
                return candidate
            self._refused(search)
        if self._candidate(search) is not None:
            raise OutcomeUnknown(f"more than {MAX_PROBES} messages could be the lost one")
        self._complete(search)
        return None

    def _search(self, key: str, chat: str, after: int | None) -> Search | None:
        search = self._searches.get(key)
        if search is not None and search.sequence == _sequence(chat):
            return search
        return None if after is None else self._begin(key, chat, after)

    def _candidate(self, search: Search) -> int | None:
        while (search.sequence, search.at) in self._seen:
            search.at += 1
        return search.at if search.at <= self._top(search) + AHEAD else None

    def _refused(self, search: Search) -> None:
        if search.again is None and search.at > self._top(search):
            search.again = search.at
        search.at += 1

    def _complete(self, search: Search) -> None:
        """Make the next search also probe the ids that did not seem to be in use yet."""
        if search.again is not None:
            search.at, search.again = search.again, None

    def _begin(self, key: str, chat: str, above: int) -> Search:
        search = Search(_sequence(chat), above, above + 1)
        self._searches[key] = search
        return search

    def _top(self, search: Search) -> int:
        return max(search.above, self._newest.get(search.sequence, search.above))


def _sequence(chat: str) -> str:
    """The sequence of the chat's message ids: a supergroup or channel (ids from -100..., public names) has its own."""
    return chat if chat.startswith(("-100", "@")) else _SHARED
