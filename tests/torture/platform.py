"""The interface of a platform for the torture: people who write, and the content of chats. One implementation for each
platform (on_telegram.py, on_slack.py, on_feishu.py, on_wecom.py); load.py writes and facts.py reads through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tests.simulators.seen import SeenCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The guarantees that the gateway can give on a platform, given the platform's features.

    redelivers: unacknowledged events are redelivered. at_once: as soon as a process is connected, not at the platform's
    next try. edits: sent messages can be edited, so an interrupted answer continues in its message. finds_drafts:
    a message that was sent but not recorded is found again, or created only once. finds_finals: this is true at least
    of messages with an answer.
    """

    redelivers: bool = True
    at_once: bool = False
    edits: bool = True
    finds_drafts: bool = True
    finds_finals: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A conversation and its people. chat: its id as the gateway stores it; room, people: as the simulator's client
    expects them."""

    account: str
    chat: str
    is_group: bool
    room: Any
    people: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A person's message. message_id: as the gateway stores it. reached: the platform has passed it to the gateway or
    will do so; otherwise it is lost. again: key for redelivery by the platform, None if it cannot redeliver.
    """

    message_id: str
    reached: bool = True
    again: Any = None


class Timed(Protocol):
    """Properties that most clients' messages share."""

    @property
    def posted_at(self) -> float: ...
    @property
    def changed_at(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A message of the bot as a person sees it now. order: its position in the chat. Times are monotonic seconds.

    unfinished: the platform shows it as incomplete, which can no longer change.
    """

    message_id: str
    text: str
    order: int
    posted_at: float
    changed_at: float
    unfinished: bool = False

    @classmethod
    def of(cls, message: Timed, message_id: str, text: str, order: int) -> Bubble:
        """Create a bubble from a message of a simulator's client."""
        return cls(
            message_id=message_id,
            text=text,
            order=order,
            posted_at=message.posted_at,
            changed_at=message.changed_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A visible call. message_id: of the message that it created or changed, "" if neither.

    applied: the platform carried it out. answered: it also confirmed that. finished: time of the answer.
    """

    chat: str
    message_id: str
    arrived: float
    finished: float | None
    applied: bool
    answered: bool

    @classmethod
    def of(cls, record: SeenCall, chat: str | None, message_id: str | None, *, accepted: bool) -> Call:
        """Create a call from an HTTP request. accepted: the response, if any, reports no failure."""
        return cls(
            chat=chat or "",
            message_id=message_id or "",
            arrived=record.arrived,
            finished=record.finished,
            applied=record.applied,
            answered=accepted and record.outcome == "applied",
        )


class Platform(Protocol):
    """One account on one simulator."""

    @property
    def account(self) -> str: ...
    @property
    def promises(self) -> Promises: ...
    @property
    def places(self) -> Sequence[Place]: ...

    async def prepare(self) -> None:
        """Register the places, before the first process starts."""

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        """The text as a person types it to address the bot."""

    async def say(self, text: str, place: Place, person: Any, number: int | None = None) -> Spoken:
        """Send one message; return once the platform has it. number: one of `reserve`."""

    async def reserve(self) -> tuple[int, int] | None:
        """Reserve two consecutive numbers, to be used out of order; None if events have no numbers."""

    async def deliver_again(self, spoken: Spoken) -> None:
        """Deliver the same event again."""

    async def bubbles(self, place: Place) -> list[Bubble]:
        """The messages of the bot that still exist, in the order of the chat."""

    async def calls(self) -> list[Call]:
        """All visible calls, in order of arrival."""

    def native(self, message_id: str) -> str:
        """Convert an id stored by the gateway to that of a bubble."""

    async def is_ready(self, timeout: float) -> None:
        """Wait until the newest process is connected. Raises AssertionError."""

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        """Whether nothing was in progress for `quiet` seconds, at some time before the timeout."""

    async def problems(self) -> list[str]:
        """Actions of the gateway that the platform's rules never allow."""


async def in_time(waiting: Awaitable[None]) -> bool:
    """Whether a wait of a simulator's client succeeded, instead of raising AssertionError."""
    try:
        await waiting
    except AssertionError:
        return False
    return True
