"""What a command and a pressed button are: read from a message, handed to the groups of commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.texts import texts_for

if TYPE_CHECKING:
    from bot.texts.catalogue import Texts
    from channels.message import Address, ButtonPressed, Message

_LINE = re.compile(r"/([A-Za-z][\w-]{0,31})(?:@(\S+))?(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was typed: `/name@bot arguments`, the name in lower case; bot is None when it was not named."""

    name: str
    bot: str | None
    arguments: str


def parse(text: str) -> CommandLine | None:
    """The command that a message is, or None: `/usr/bin/x` and text that merely holds a slash are not."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        return None
    return CommandLine(match[1].lower(), match[2], (match[3] or "").strip())


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a command. person: who typed it; may_control: whether /new and /models are theirs to use here."""

    event_id: int
    message: Message
    line: CommandLine
    language: str
    person: str
    is_admin: bool
    may_control: bool

    @property
    def texts(self) -> Texts:
        return texts_for(self.language)


@dataclass(frozen=True, slots=True)
class Press:
    """A press of one of our buttons. option: its index; reply_key: of the message that has the button."""

    event_id: int
    address: Address
    event: ButtonPressed
    option: int
    reply_key: str
    language: str
    person: str
    is_admin: bool
    may_control: bool

    @property
    def texts(self) -> Texts:
        return texts_for(self.language)


def inline(text: str) -> str:
    """Foreign text inside backquotes: short, on one line, without backquotes of its own."""
    return " ".join(text.replace("`", "'").split())[:80]
