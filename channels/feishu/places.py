"""Places of messages: the ids under which the gateway stores them, and the newest one of each chat and thread.

A stored id is the platform's id and what a later process must know to edit the message: "om_x" is a card that is the
message's own content, "om_x/<card_id>" one that shows a card entity, "om_x/post", "om_x/text" and "om_x/file" are what
they say.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.message import Address

POST, TEXT, FILE = "post", "text", "file"
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class MessageId:
    """A stored id in parts. native: the platform's id. card_id: of the entity that it shows, or "".

    form: "card" or one of the above.
    """

    native: str
    card_id: str = ""
    form: str = "card"

    def __str__(self) -> str:
        tail = self.card_id or ("" if self.form == "card" else self.form)
        return f"{self.native}/{tail}" if tail else self.native

    @staticmethod
    def parse(text: str) -> MessageId:
        native, _, tail = text.partition("/")
        if tail in (POST, TEXT, FILE):
            return MessageId(native, form=tail)
        return MessageId(native, card_id=tail)


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
