"""What is posted to a conversation, and handled by it in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.runs.turns import Spoken, Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bot.conversations.actor import Conversation
    from bot.store.rows import RunRow
    from channels.message import Message


@dataclass(frozen=True, slots=True)
class Edited:
    """The new state of a message that may still be waiting. id: of the edit's own inbox row."""

    id: int
    message: Message


@dataclass(frozen=True, slots=True)
class Resume:
    """Runs of an earlier process, oldest first."""

    rows: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do in the conversation's own order, such as a command. The event it answers is settled by it."""

    do: Callable[[Conversation], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A turn's files are there."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class Ended:
    """The run is over."""


Item = Spoken | Edited | Resume | Task | Arrived | Ended
