"""Commands and pressed buttons: read from a message, passed to the groups of commands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.texts import texts_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.settings.busy_policies import TurnRules
    from bot.texts.catalogue import Texts
    from channels.message import Address, Message, Sender
    from harness.context import Progress

_STOP = re.compile(r"\s*(?:stop|cancel|停|取消)[\W_]*", re.IGNORECASE)
TAKE_FILES = frozenset({"knowledge"})
"""Commands that are accepted in a file's caption."""
# Chinese and Japanese keyboards also type full-width signs and letters.
_HALF_WIDTH = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
_LINE = re.compile(r"[/\uff0f]([^\W\d_][\w-]{0,31})(?:[@\uff20](\S+))?(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A typed command: `/name@bot arguments`, the name in lower case; bot is None if it was not given."""

    name: str
    bot: str | None
    arguments: str


def parse(text: str) -> CommandLine | None:
    """Parse a message as a command; None if it is none, such as `/usr/bin/x` or text that merely contains a slash."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        return None
    return CommandLine(match[1].translate(_HALF_WIDTH).lower(), match[2], (match[3] or "").strip())


def asks_to_stop(text: str) -> bool:
    """Whether a text only asks to stop the running answer; if none runs it is an ordinary text."""
    return _STOP.fullmatch(text) is not None


def skill_name(command: str) -> str:
    """The skill that a command names; some apps only turn commands with underscores into links."""
    return command.replace("_", "-")


def meant_for_us(message: Message, username: str | None, knows: Callable[[str], bool]) -> CommandLine | None:
    """The command that a message gives the bot. None for another bot's command, a spoken one, and an unknown one in a
    group that does not mention the bot.

    username: the bot's, None while it is not connected. knows: whether we have a command with that name.
    """
    line = parse(message.text)
    if line is None or message.dictated or (message.attachments and line.name not in TAKE_FILES):
        return None
    if line.bot is None:
        return line if message.mention or knows(line.name) else None
    if username is None:  # the adapter knew it when the message arrived
        return line if message.mention else None
    return line if line.bot.lower() == username.lower() else None


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a command. person: who typed it; may_control: whether they may use /new and /models here. progress:
    the account's setting."""

    event_id: int
    message: Message
    line: CommandLine
    language: str
    person: str
    is_admin: bool
    may_control: bool
    progress: Progress = "short"

    @property
    def texts(self) -> Texts:
        return texts_for(self.language)


@dataclass(frozen=True, slots=True)
class Press:
    """A press of one of our buttons, or the typed number of an option. option: its index; reply_key: of the message
    with the button; message_id: that message, or the one with the number.

    may_speak: its sender may talk to the agent there. at_home: messages of its sender there belong to the conversation
    that asked; not so for an administrator in a group where each speaker has their own.
    typed: a number was written, which needs no separate acknowledgement.
    """

    event_id: int
    address: Address
    sender: Sender
    message_id: str
    option: int
    reply_key: str
    language: str
    person: str
    is_admin: bool
    may_control: bool
    may_speak: bool
    turns: TurnRules
    at_home: bool = True
    typed: bool = False

    @property
    def texts(self) -> Texts:
        return texts_for(self.language)
