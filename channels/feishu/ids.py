"""The message ids that the gateway stores: a platform's id, and what a later process must know to edit the message.

"om_x" is a card that is the message's own content, "om_x/<card_id>" one that shows a card entity, "om_x/post",
"om_x/text" and "om_x/file" are what they say. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

POST, TEXT, FILE = "post", "text", "file"


@dataclass(frozen=True, slots=True)
class MessageId:
    """native: the platform's id. card_id: of the entity that it shows, or "". form: "card" or one of the above."""

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
