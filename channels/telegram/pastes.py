"""Which text messages are pieces of one long paste that a client cut. Used by inbound.py."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channels.text import utf16_length

if TYPE_CHECKING:
    from channels.message import Address
    from channels.telegram.schema import RawMessage

PASTE_UNITS = 4000
"""A client cuts a paste at 4096 UTF-16 units, or a little before, at a blank."""
PASTE_SECONDS = 2
"""The pieces of a paste are sent at once; dates are whole seconds."""


@dataclass(slots=True)
class Pastes:
    """Remembers who just sent a text of full length, so that what follows at once can be told to belong to it.

    Keyed by chat, topic and sender; the least recently used entry leaves when `size` is passed.
    """

    size: int = 1000
    _last: OrderedDict[tuple[str, str | None, str], tuple[int, str]] = field(default_factory=OrderedDict)

    def key_of(self, raw: RawMessage, address: Address, sender: str) -> str | None:
        """The bundle key of a text message, None when it stands alone."""
        who = (address.chat, address.topic, sender)
        before = self._last.get(who)
        joins = before is not None and 0 <= raw.date - before[0] <= PASTE_SECONDS
        key = before[1] if before is not None and joins else f"paste:{address.chat}:{sender}:{raw.message_id}"
        if utf16_length(raw.text or "") >= PASTE_UNITS:
            self._last[who] = (raw.date, key)
            self._last.move_to_end(who)
            if len(self._last) > self.size:
                self._last.popitem(last=False)
            return key
        return key if joins else None
