"""Pure decisions on messages that arrive while their conversation is busy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from harness.context import Progress


class Busy(StrEnum):
    """`conversations.busy`. QUEUE: it waits for its turn. COLLECT: one person's waiting messages are answered together.

    INTERRUPT: the active run is stopped and the new one begins. ROLLBACK: also, the stopped exchange is forgotten.
    REJECT: it is refused. STEER: the active run receives it before its next step, if it is the same person's.
    """

    QUEUE = "queue"
    COLLECT = "collect"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How an account turns messages into turns. debounce: seconds in which one person's further messages join, 0: off.
    join: seconds after the start of an answer in which they still join it, as long as none of it was shown; 0: off.
    intermediate: which of an answer's messages are shown; progress: how much of the work is shown."""

    busy: Busy = Busy.QUEUE
    debounce: float = 0.0
    join: float = 0.0
    intermediate: Literal["all", "last"] = "all"
    progress: Progress = "short"


QUEUED = TurnRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The waiting messages when a message arrives, and their limits. working: whether the conversation is busy."""

    working: bool
    here: int
    here_limit: int
    everywhere: int
    everywhere_limit: int


class Refusal(StrEnum):
    """Why a message is refused; the keys of the texts."""

    BUSY = "busy"
    QUEUE_FULL = "queue_full"
    ALL_FULL = "all_full"


def refusal(busy: Busy, backlog: Backlog) -> Refusal | None:
    """Whether a message is refused on arrival, before any of it is fetched. None: it is accepted."""
    if busy is Busy.REJECT and backlog.working:
        return Refusal.BUSY
    if backlog.here >= backlog.here_limit:
        return Refusal.QUEUE_FULL
    if backlog.everywhere >= backlog.everywhere_limit:
        return Refusal.ALL_FULL
    return None


class Move(StrEnum):
    """The effect of a complete turn. START: at once. WAIT: at the end of the queue. JOIN: with the last waiting one.

    INTERRUPT, ROLLBACK: it stops the active run and is next. STEER: it waits, and that run may receive it.
    RESTART: the active run starts again, with its own input and this.
    """

    START = "start"
    WAIT = "wait"
    JOIN = "join"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The situation of a complete turn. running: the person of the active run, None if there is none. stopping: that
    run is ending.
    waiting: something waits. joinable: the last waiting turn can include this one. steerable: the active run can
    receive it. unseen: the active run has just begun and can answer this turn too: none of it was shown.
    """

    running: str | None = None
    stopping: bool = False
    waiting: bool = False
    joinable: bool = False
    steerable: bool = False
    unseen: bool = False


def decide(busy: Busy, moment: Moment, person: str, is_admin: bool) -> Move:
    """Decide on a person's complete turn.

    Only an admin may stop another person's run. While a run is already ending, messages of its person join the next
    turn, so that none is lost. People write one request as several messages, so what follows immediately belongs to
    it; not with ROLLBACK, where a message replaces the one before.
    """
    if moment.running is None and not moment.waiting:
        return Move.START
    if moment.unseen and not moment.stopping and busy is not Busy.ROLLBACK:
        return Move.RESTART
    if busy is Busy.COLLECT:
        return Move.JOIN if moment.joinable else Move.WAIT
    if busy in (Busy.INTERRUPT, Busy.ROLLBACK):
        if moment.stopping or moment.running is None:
            return Move.JOIN if moment.joinable else Move.WAIT
        if is_admin or person == moment.running:
            return Move.INTERRUPT if busy is Busy.INTERRUPT else Move.ROLLBACK
    if busy is Busy.STEER and moment.steerable and not moment.stopping:
        return Move.STEER
    return Move.WAIT


@dataclass(slots=True)
class Tally:
    """The number of waiting messages in all conversations: each reports its own when it may have changed."""

    total: int = 0
    _numbers: dict[object, int] = field(default_factory=dict)

    def note(self, whose: object, waiting: int) -> None:
        self.total += waiting - self._numbers.pop(whose, 0)
        if waiting:
            self._numbers[whose] = waiting
