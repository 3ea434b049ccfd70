"""Which messages belong together: files sent at once, and the words that come right after them. Used by receiving.py.

A Feishu client sends each file as a message of its own, and what was typed with them as another.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from channels.message import Message

TOGETHER_SECONDS = 2.0
"""Between two of them, by the platform's time."""


@dataclass(slots=True)
class Bundles:
    """Remembers who just sent a file. Bounded: the least recently used entry leaves when `size` is passed."""

    size: int = 1_000
    _last: OrderedDict[tuple[str, str | None, str], tuple[datetime, str]] = field(default_factory=OrderedDict)

    def keyed(self, message: Message) -> Message:
        """The message with its bundle key, if it is a part of a bundle."""
        who = (message.address.chat, message.address.topic, message.sender.id)
        last = self._last.pop(who, None)
        joins = last is not None and 0 <= (message.sent_at - last[0]).total_seconds() <= TOGETHER_SECONDS
        if not message.attachments or message.text:
            return replace(message, bundle_key=last[1]) if last is not None and joins else message
        key = last[1] if last is not None and joins else f"files:{message.platform_message_id}"
        self._last[who] = message.sent_at, key
        if len(self._last) > self.size:
            self._last.popitem(last=False)
        return replace(message, bundle_key=key)
