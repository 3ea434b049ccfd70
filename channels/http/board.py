"""The current state of one conversation of the page or the API, and the numbered changes that its readers follow."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

    from channels.message import OutboundFile

KEPT_MESSAGES = 200
"""Messages of one conversation kept in memory; older ones are read from permanent storage."""
KEPT_CHANGES = 500
"""Changes of one conversation kept for readers that reconnect."""

ChangeType = Literal["snapshot", "posted", "message", "append", "removed", "typing", "acknowledged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One message of the bot as shown. status, done and buttons: as in OutboundMessage; file: the file that it is."""

    message_id: str
    text: str = ""
    status: str = ""
    done: tuple[str, ...] = ()
    buttons: tuple[tuple[tuple[str, str], ...], ...] = ()
    file: OutboundFile | None = None
    final: bool = False
    asks_reply: bool = False
    reply_to: str | None = None
    at: datetime

    def as_json(self) -> dict[str, Any]:
        """The JSON sent to readers; it never contains the path of a file."""
        file = self.file
        return {
            "message_id": self.message_id,
            "author": "bot",
            "text": self.text,
            "status": self.status,
            "done": list(self.done),
            "buttons": [[{"label": label, "data": data} for label, data in row] for row in self.buttons],
            "file": None if file is None else {"name": file.name, "mime_type": file.mime_type, "kind": file.kind},
            "final": self.final,
            "asks_reply": self.asks_reply,
            "reply_to": self.reply_to,
            "at": self.at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One change. number: increases with each change of the account, across all conversations. data: JSON types."""

    number: int
    type: ChangeType
    data: dict[str, Any]


class Board:
    """The newest KEPT_MESSAGES messages of the bot in one conversation. number: returns the next change's number."""

    def __init__(self, number: Callable[[], int], floor: int) -> None:
        self._number = number
        self._floor = floor
        """The newest change that is no longer kept; a reader that has seen it needs nothing older."""
        self._messages: OrderedDict[str, Shown] = OrderedDict()
        self._removed: OrderedDict[str, None] = OrderedDict()
        self._changes: deque[Change] = deque()
        self._changed = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()
        self.readers = 0

    @property
    def is_quiet(self) -> bool:
        """Whether it has no readers and none of its messages is still being written."""
        return not self.readers and all(shown.final for shown in self._messages.values())

    @property
    def messages(self) -> list[Shown]:
        return list(self._messages.values())

    def get(self, message_id: str) -> Shown | None:
        return self._messages.get(message_id)

    def is_removed(self, message_id: str) -> bool:
        return message_id in self._removed

    def put(self, shown: Shown) -> None:
        """Add a message or update it: only the new text is published if the rest is unchanged."""
        known = self._messages.get(shown.message_id)
        self._messages[shown.message_id] = shown
        if len(self._messages) > KEPT_MESSAGES:
            self._messages.popitem(last=False)
        if known == shown:
            return
        if known is not None and shown.text.startswith(known.text) and _only_grew(known, shown):
            added = shown.text[len(known.text) :]
            data = {"message_id": shown.message_id, "at_length": len(known.text), "text": added}
            self.tell("append", {**data, "status": shown.status})
        else:
            self.tell("message", shown.as_json())

    def remove(self, message_id: str) -> None:
        self._removed[message_id] = None
        if len(self._removed) > KEPT_MESSAGES:
            self._removed.popitem(last=False)
        if self._messages.pop(message_id, None) is not None:
            self.tell("removed", {"message_id": message_id})

    def tell(self, kind: ChangeType, data: dict[str, Any]) -> None:
        """Record a change and wake the readers."""
        if kind == "typing" and self._changes and self._changes[-1].type == "typing":
            self._floor = self._changes.pop().number  # one such change is enough
        self._changes.append(Change(self._number(), kind, data))
        while len(self._changes) > KEPT_CHANGES:
            self._floor = self._changes.popleft().number
        self._rouse()

    def _rouse(self) -> None:
        if self.readers:
            waking = asyncio.create_task(self._wake(), name="wake readers")
            self._waking.add(waking)
            waking.add_done_callback(self._waking.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all final messages and all recorded changes."""
        self._messages = OrderedDict((key, shown) for key, shown in self._messages.items() if not shown.final)
        self._changes.clear()
        self._floor = self._number()
        self._rouse()

    def snapshot(self, *, gap: bool) -> Change:
        """All of its messages, with the number of the newest change. gap: the reader has missed changes."""
        newest = self._changes[-1].number if self._changes else self._floor
        return Change(newest, "snapshot", {"gap": gap, "messages": [shown.as_json() for shown in self.messages]})

    async def follow(self, seen: int | None, *, gap: bool = False) -> AsyncIterator[Change]:
        """The changes after number `seen`, without end; first a snapshot if `seen` is None or too old.

        gap: reported with an initial snapshot.
        """
        self.readers += 1
        try:
            while True:
                if seen is None or seen < self._floor:
                    first = self.snapshot(gap=gap or seen is not None)
                    seen = first.number
                    yield first
                for change in self._behind(seen):
                    if change.number <= seen or seen < self._floor:
                        break  # overtaken while reading
                    seen = change.number
                    yield change
                async with self._changed:
                    while not self._is_news(seen):
                        await self._changed.wait()
        finally:
            self.readers -= 1

    def _behind(self, seen: int) -> list[Change]:
        """The changes after number `seen`, oldest first; searched from the newest, the only one most readers lack."""
        newest_first = takewhile(lambda change: change.number > seen, reversed(self._changes))
        return list(newest_first)[::-1]

    def _is_news(self, seen: int) -> bool:
        return seen < self._floor or (bool(self._changes) and self._changes[-1].number > seen)


def _only_grew(known: Shown, shown: Shown) -> bool:
    """Whether only text and status differ, and the text is longer."""
    return len(shown.text) > len(known.text) and known == replace(shown, text=known.text, status=known.status)
