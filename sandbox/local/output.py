"""What a command prints: the beginning and the end are kept, watchers are told as it comes. Used by process.py."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class Text:
    """omitted: bytes left out between the beginning and the end, at the index `gap`."""

    output: str
    omitted: int = 0
    gap: int = 0


@dataclass(slots=True)
class Capture:
    """Collects output, at most `head` bytes from its beginning and `tail` bytes from its end."""

    head: int
    tail: int
    on_output: Callable[[str], None] | None = None
    _beginning: bytearray = field(default_factory=bytearray)
    _end: deque[bytes] = field(default_factory=deque)
    _held: int = 0
    _omitted: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    def add(self, data: bytes) -> None:
        self._tell(self._decoder.decode(data))
        room = self.head - len(self._beginning)
        self._beginning += data[:room]
        if len(data) > room:
            self._append(data[room:])

    def _append(self, data: bytes) -> None:
        self._end.append(data)
        self._held += len(data)
        while self._held > self.tail:
            oldest = self._end.popleft()
            surplus = self._held - self.tail
            if len(oldest) > surplus:
                self._end.appendleft(oldest[surplus:])
            dropped = min(surplus, len(oldest))
            self._held -= dropped
            self._omitted += dropped

    def finish(self) -> Text:
        """No more will come."""
        self._tell(self._decoder.decode(b"", final=True))
        beginning, end = bytes(self._beginning), b"".join(self._end)
        if not self._omitted:
            return Text((beginning + end).decode(errors="replace"))
        kept, rest = _whole_characters(beginning), _from_a_character(end)
        omitted = self._omitted + len(beginning) - len(kept) + len(end) - len(rest)
        first = kept.decode(errors="replace")
        return Text(first + rest.decode(errors="replace"), omitted, len(first))

    def _tell(self, text: str) -> None:
        if text and self.on_output is not None:
            self.on_output(text)


def _whole_characters(data: bytes) -> bytes:
    """Cut an incomplete character off the end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            return data
    return data


def _from_a_character(data: bytes) -> bytes:
    """Cut an incomplete character off the beginning."""
    for start, byte in enumerate(data[: _LONGEST_CHARACTER - 1]):
        if byte & 0xC0 != 0x80:
            return data[start:]
    return data[_LONGEST_CHARACTER - 1 :]
