"""Where messages go: to a chat, as an answer to a message, into a thread. Used by sending.py and receiving.py."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from channels.message import Address

REMEMBERED = 10_000


class Anchors:
    """The newest message known of each chat and thread: a thread can only be written to by answering in it. Bounded."""

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, str | None], str] = OrderedDict()

    def see(self, chat: str, topic: str | None, message_id: str) -> None:
        self._newest[chat, topic] = message_id
        self._newest.move_to_end((chat, topic))
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)

    def newest(self, address: Address) -> str | None:
        return self._newest.get((address.chat, address.topic))

    def lost(self, address: Address, message_id: str) -> None:
        """That message is gone: nothing can be put below it."""
        if self._newest.get((address.chat, address.topic)) == message_id:
            del self._newest[address.chat, address.topic]


def message_path(native_id: str, tail: str = "") -> str:
    return f"im/v1/messages/{quote(native_id, safe='')}{tail}"


def creation(address: Address, answered: str | None) -> tuple[str, dict[str, str], dict[str, Any]]:
    """(path, query, fields of the body) that put a message there; answered: the message that it stands below."""
    if answered is None:
        return "im/v1/messages", {"receive_id_type": "chat_id"}, {"receive_id": address.chat}
    body = {"reply_in_thread": True} if address.topic is not None else {}
    return message_path(answered, "/reply"), {}, body
