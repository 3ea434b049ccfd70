"""What the torture needs of a platform: people who write there, and what stands in its chats. One reader for each of
them (on_telegram.py, on_slack.py, on_feishu.py, on_wecom.py); load.py speaks by it, facts.py reads by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from tests.simulators.seen import SeenCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What the gateway can keep on a platform, given what that offers.

    redelivers: what was not acknowledged comes again. at_once: as soon as a process is there, and not when the platform
    next tries. edits: what was sent can change, so an interrupted answer goes
    on in its message. finds_drafts: a message that was sent and not recorded is found again, or made only once.
    finds_finals: at least one with an answer in it is.
    """

    redelivers: bool = True
    at_once: bool = False
    edits: bool = True
    finds_drafts: bool = True
    finds_finals: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A conversation and who speaks there. chat: its id as the gateway stores it; room, people: as the simulator's
    client wants them."""

    account: str
    chat: str
    is_group: bool
    room: Any
    people: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A person's message. message_id: as the gateway stores it. reached: the platform has handed it to the gateway or
    will do so; without that it is lost there. again: by which the platform can deliver it once more, None if it cannot.
    """

    message_id: str
    reached: bool = True
    again: Any = None


class Timed(Protocol):
    """What the clients' messages of most platforms tell in the same way."""

    @property
    def posted_at(self) -> float: ...
    @property
    def changed_at(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A message of the bot as a person sees it now. order: its place in the chat. Times are monotonic seconds.

    unfinished: the platform shows that more is to come, and nothing can change that any more.
    """

    message_id: str
    text: str
    order: int
    posted_at: float
    changed_at: float
    unfinished: bool = False

    @classmethod
    def of(cls, message: Timed, message_id: str, text: str, order: int) -> Bubble:
        """From a message as a simulator's client sees it."""
        return cls(
            message_id=message_id,
            text=text,
            order=order,
            posted_at=message.posted_at,
            changed_at=message.changed_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that shows something. message_id: of what it made or changed, "" if it did neither.

    applied: the platform carried it out. answered: and said so. finished: when it did.
    """

    chat: str
    message_id: str
    arrived: float
    finished: float | None
    applied: bool
    answered: bool

    @classmethod
    def of(cls, record: SeenCall, chat: str | None, message_id: str | None, *, accepted: bool) -> Call:
        """From an HTTP request. accepted: the answer, if there was one, tells of no failure."""
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
        """Make the places known, before the first process starts."""

    def typed(self, text: str, place: Place, *, command: bool) -> str:
        """What somebody types there so that the bot is meant."""

    async def say(self, text: str, place: Place, person: Any, number: int | None = None) -> Spoken:
        """One message; returns when the platform has it. number: one of `reserve`."""

    async def reserve(self) -> tuple[int, int] | None:
        """Two numbers in a row, to be used out of their order; None where events have none."""

    async def deliver_again(self, spoken: Spoken) -> None:
        """The same event once more."""

    async def bubbles(self, place: Place) -> list[Bubble]:
        """What the bot wrote there and what is still there, in the order of the chat."""

    async def calls(self) -> list[Call]:
        """All calls that show something, in order of arrival."""

    def native(self, message_id: str) -> str:
        """The id of a bubble, from the one that the gateway stores."""

    async def is_ready(self, timeout: float) -> None:
        """Wait until the newest process is connected. Raises AssertionError."""

    async def is_idle(self, quiet: float, timeout: float) -> bool:
        """Whether, within the time, nothing was under way for `quiet` seconds."""

    async def problems(self) -> list[str]:
        """What the gateway did that the platform's rules never allow."""


async def in_time(waiting: Awaitable[None]) -> bool:
    """Whether what a simulator's client waits for has come; it raises an AssertionError when it has not."""
    try:
        await waiting
    except AssertionError:
        return False
    return True
