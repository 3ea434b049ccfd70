"""Threads: in which threads of groups a conversation has begun, so that it goes on there without naming the bot.

The manager asks it for each message. What is in memory answers at once; the store is asked before a message is
committed, where the platform waits anyway, or by the conversation itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from bot.store import conversations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bot.store import Store
    from channels.message import Message


class Threads:
    """key_of: the key of a message's conversation. Remembers KEPT threads, begun or not, the longest silent is
    forgotten first: then the store is asked again."""

    KEPT = 10_000

    def __init__(self, store: Store, key_of: Callable[[Message], str]) -> None:
        self._store = store
        self._key_of = key_of
        self._begun: OrderedDict[str, bool] = OrderedDict()

    def goes_on(self, message: Message) -> bool | None:
        """Whether a message belongs to a conversation that has begun in its thread; None: only the store can tell."""
        if not _follows(message):
            return False
        key = self._key_of(message)
        if key in self._begun:
            self._begun.move_to_end(key)
        return self._begun.get(key)

    def begin(self, message: Message) -> None:
        """The bot is addressed by this message: its conversation has begun."""
        if message.address.kind != "dm" and message.address.topic is not None:
            self._note(self._key_of(message), True)

    async def look_up(self, messages: Iterable[Message]) -> None:
        """Find out what `goes_on` cannot tell of these. Raises StoreError."""
        keys = {self._key_of(message) for message in messages if self.goes_on(message) is None}
        if keys:
            known = await self._store.read(lambda tx: conversations.known(tx, keys))
            for key in keys - self._begun.keys():  # what began meanwhile has begun
                self._note(key, key in known)

    def forget(self) -> None:
        """Keys have changed: everything is to be looked up again."""
        self._begun.clear()

    def _note(self, key: str, begun: bool) -> None:
        self._begun[key] = begun
        self._begun.move_to_end(key)
        if len(self._begun) > self.KEPT:
            self._begun.popitem(last=False)


def _follows(message: Message) -> bool:
    return message.continues and message.address.kind != "dm" and message.address.topic is not None
