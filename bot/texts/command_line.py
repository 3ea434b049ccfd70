"""What a command and a pressed button are: read from a message, handed to the groups of commands."""

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
"""Commands that mean something in a file's caption."""
_LINE = re.compile(r"/([^\W\d_][\w-]{0,31})(?:@(\S+))?(?:\s+(.*))?", re.DOTALL)


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


def asks_to_stop(text: str) -> bool:
    """Whether a text says nothing but that the running answer is to stop; while none runs it is a text like others."""
    return _STOP.fullmatch(text) is not None


def skill_name(command: str) -> str:
    """The skill that a command names; some apps make links of commands with underscores only."""
    return command.replace("_", "-")


def meant_for_us(message: Message, username: str | None, knows: Callable[[str], bool]) -> CommandLine | None:
    """The command that a message gives the bot; another bot's, one that was spoken, and an unknown one that a group
    says to nobody, is none.

    username: the bot's, None while it is not connected. knows: whether we have a command of that name.
    """
    line = parse(message.text)
    if line is None or message.dictated or (message.attachments and line.name not in TAKE_FILES):
        return None
    if line.bot is None:
        return line if message.mention or knows(line.name) else None
    if username is None:  # the adapter knew, when the message came
        return line if message.mention else None
    return line if line.bot.lower() == username.lower() else None


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a command. person: who typed it; may_control: whether /new and /models are theirs to use here.
    progress: the account's."""

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
    that has the button, message_id: that message, or the one that says the number.

    may_speak: its sender may talk to the agent there, by these rules. at_home: what its sender writes there belongs to
    the conversation that asked; not so for an administrator in a group where each speaker has one of their own.
    typed: a number was written, which needs no acknowledgement of its own.
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
