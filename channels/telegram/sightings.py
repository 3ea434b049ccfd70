"""Which message ids were seen, and where one of the bot's messages may be whose send was not answered.

Telegram counts messages up: in each supergroup and channel on its own, and in all private chats and basic groups of a
bot together. So what is sent now gets an id above all those that were seen there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AHEAD = 4
"""How many ids above the newest seen one are asked about: others may be on their way to us meanwhile."""
MAX_PROBES = 8
"""How many ids are asked about at once."""
_REMEMBERED = 10_000
_SHARED = "private chats and basic groups"


@dataclass(slots=True)
class Search:
    """The search for one lost send, upwards from `above`; an interrupted one goes on where it was.

    at: the next id to ask about. again: asked about before it was seen to be taken, as all after it; None if none was.
    """

    sequence: str
    above: int
    at: int
    again: int | None = None


class Sightings:
    """The message ids of one account. Bounded: what is forgotten costs needless questions."""

    def __init__(self) -> None:
        self._seen: LRUCache[tuple[str, int], None] = LRUCache(_REMEMBERED)
        self._newest: LRUCache[str, int] = LRUCache(_REMEMBERED)
        self._searches: LRUCache[str, Search] = LRUCache(_REMEMBERED)

    def see(self, chat: str, message_id: int) -> None:
        """A message has this id: somebody else's, or one of the bot's that is not lost."""
        sequence = _sequence(chat)
        self._seen[sequence, message_id] = None
        self._newest[sequence] = max(message_id, self._newest.get(sequence, message_id))

    def newest(self, chat: str) -> int | None:
        """What is sent to the chat from now on has a higher id."""
        return self._newest.get(_sequence(chat))

    def sent(self, key: str, chat: str, message_id: int, newest: int | None) -> None:
        """A send was answered; `newest` as it was before."""
        if newest is not None and message_id <= newest:  # what earlier processes knew came from before a migration
            self._newest.pop(_sequence(chat), None)
        self.see(chat, message_id)
        self._searches.pop(key, None)

    def lost(self, key: str, chat: str, newest: int | None) -> None:
        """A send was not answered; `newest` as it was before. If it was a repeat, the first one is still looked for."""
        if newest is not None and key not in self._searches:
            self._begin(key, chat, newest)

    async def find(
        self, key: str, chat: str, after: int | None, accepts: Callable[[int], Awaitable[bool]]
    ) -> int | None:
        """The id of a lost send, None when there is none; `accepts` asks whether an id is ours and lost.

        after: an older id, where to begin if an earlier process lost it. An interrupted search goes on where it was.
        Raises OutcomeUnknown when there are too many ids to ask about at once, and what `accepts` raises.
        """
        search = self._search(key, chat, after)
        if search is None:
            raise OutcomeUnknown("no message is known that is certainly older than the lost one")
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
        """If it is looked for once more, then also at the ids that nobody seemed to have yet."""
        if search.again is not None:
            search.at, search.again = search.again, None

    def _begin(self, key: str, chat: str, above: int) -> Search:
        search = Search(_sequence(chat), above, above + 1)
        self._searches[key] = search
        return search

    def _top(self, search: Search) -> int:
        return max(search.above, self._newest.get(search.sequence, search.above))


def _sequence(chat: str) -> str:
    """What counts the chat's messages: a supergroup or channel (ids from -100..., public names) does so itself."""
    return chat if chat.startswith(("-100", "@")) else _SHARED
