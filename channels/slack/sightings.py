"""What was seen of each chat lately, bounded: its newest message, who wrote what, what was not acknowledged yet."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from channels.slack.payload import is_timestamp, order

if TYPE_CHECKING:
    from channels.message import Address, Message

_REMEMBERED = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Sightings:
    """Of one account. What is forgotten costs a longer search, or a reaction."""

    def __init__(self) -> None:
        self._newest: OrderedDict[str, str] = OrderedDict()
        self._writers: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._last: OrderedDict[tuple[str, str | None], str] = OrderedDict()
        self._fresh: OrderedDict[tuple[str, str | None], str] = OrderedDict()

    def see(self, chat: str, message_id: str) -> None:
        """A message has this id, somebody's or ours."""
        if is_timestamp(message_id):
            keep(self._newest, chat, max(message_id, self._newest.get(chat, message_id), key=order), _REMEMBERED)

    def hear(self, message: Message) -> None:
        """A person wrote."""
        address = message.address
        self.see(address.chat, message.platform_message_id)
        keep(self._writers, (address.chat, message.platform_message_id), message.sender.id, _REMEMBERED)
        keep(self._last, (address.chat, address.topic), message.sender.id, _REMEMBERED)
        if is_timestamp(message.platform_message_id):
            keep(self._fresh, (address.chat, address.topic), message.platform_message_id, _REMEMBERED)

    def newest(self, chat: str) -> str | None:
        """What is sent to the chat from now on has a higher id."""
        return self._newest.get(chat)

    def writer(self, chat: str, message_id: str | None) -> str | None:
        """The native id of who wrote a message."""
        return None if message_id is None else self._writers.get((chat, message_id))

    def last_writer(self, address: Address) -> str | None:
        """The native id of who wrote last in a conversation."""
        return self._last.get((address.chat, address.topic))

    def take_fresh(self, address: Address) -> str | None:
        """The newest message of a conversation, once."""
        return self._fresh.pop((address.chat, address.topic), None)


def keep(memory: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > most:
        memory.popitem(last=False)
