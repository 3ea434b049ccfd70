"""The state of a terminal: applies frames and decides what to print permanently and what is still growing."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cachetools import LRUCache

from channels.console.frames import Entered, Line, Menu, Removed, Shown, Typing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from channels.console.frames import Frame
    from channels.console.link import TerminalLink

MAX_PRINTED = 1000


class Transcript:
    """growing: the messages that are not final yet, in the order of their first state. commands: (name, description)
    pairs in the terminal's language."""

    def __init__(self) -> None:
        self.growing: dict[str, Shown] = {}
        self.commands: tuple[tuple[str, str], ...] = ()
        self._language = (locale_of(os.environ) or "")[:2]
        self._printed: LRUCache[str, tuple[str, str]] = LRUCache(MAX_PRINTED)
        self._awaiting = False

    @property
    def busy(self) -> bool:
        """Whether an answer is in progress or awaited."""
        return self._awaiting or bool(self.growing)

    def entered(self) -> None:
        """Record that the person entered something that will be answered."""
        self._awaiting = True

    def apply(self, frame: Frame) -> Shown | None:
        """Apply a frame; returns the message to print now."""
        match frame:
            case Typing() | Entered():
                self._awaiting = True
            case Menu(locale=locale, commands=commands):
                if locale == self._language or not self.commands:
                    self.commands = commands
            case Removed(message_id=message_id):
                self.growing.pop(message_id, None)
            case Shown(final=False):
                self.growing[frame.message_id] = frame
            case Shown():
                return self._final(frame)
        return None

    def was_printed(self, message_id: str) -> bool:
        """Whether this message was already printed, so that a new state is a correction."""
        return message_id in self._printed

    def remember(self, shown: Shown) -> None:
        """Record that the message was printed."""
        self._printed[shown.message_id] = (shown.text, shown.status)

    def _final(self, shown: Shown) -> Shown | None:
        self.growing.pop(shown.message_id, None)
        self._awaiting = False
        text, status = self._printed.get(shown.message_id, (None, ""))
        if text is not None and text.startswith(shown.text) and status == shown.status:
            return None  # nothing changed, or only the options below it were settled
        return shown


class Entry:
    """Numbers what the person enters and hands it to the gateway. in_turn: see Line."""

    def __init__(self, link: TerminalLink, *, in_turn: bool = False) -> None:
        self._link = link
        self._in_turn = in_turn
        self._locale = locale_of(os.environ) or ""
        self._count = 0

    async def send(self, text: str) -> None:
        """Send one line."""
        self._count += 1
        now = datetime.now(UTC)
        await self._link.send(Line(number=self._count, text=text, at=now, locale=self._locale, in_turn=self._in_turn))


def locale_of(environment: Mapping[str, str]) -> str | None:
    """The locale of a terminal, such as "zh_CN.UTF-8". None for English or no locale: machines are often set to English
    whatever their user speaks, so the language of the text decides."""
    found = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environment.get(name))), "")
    return None if found.startswith(("C.", "en")) or found in ("", "C", "POSIX") else found
