"""What becomes of a message that arrives while its conversation is busy: pure decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from harness.context import Progress


class Busy(StrEnum):
    """`conversations.busy`. QUEUE: it waits for its turn. COLLECT: what waits of one person is answered together.

    INTERRUPT: the running answer is stopped and the new one begins. ROLLBACK: and the stopped exchange is forgotten.
    REJECT: it is refused. STEER: the running answer hears it before its next step, if it is the same person's.
    """

    QUEUE = "queue"
    COLLECT = "collect"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How an account makes turns of messages. debounce: seconds in which one person's further messages join, 0: off.
    join: seconds since an answer began in which they still join it, as long as nothing of it was seen; 0: off.
    intermediate: which of an answer's messages are shown; progress: how much of the work."""

    busy: Busy = Busy.QUEUE
    debounce: float = 0.0
    join: float = 0.0
    intermediate: Literal["all", "last"] = "all"
    progress: Progress = "short"


QUEUED = TurnRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits when a message arrives, and how much may. working: the conversation is busy at all."""

    working: bool
    here: int
    here_limit: int
    everywhere: int
    everywhere_limit: int


class Refusal(StrEnum):
    """Why a message is not taken; the keys of its sentences."""

    BUSY = "busy"
    QUEUE_FULL = "queue_full"
    ALL_FULL = "all_full"


def refusal(busy: Busy, backlog: Backlog) -> Refusal | None:
    """Whether a message is refused as soon as it arrives, before anything of it is fetched. None: it is taken."""
    if busy is Busy.REJECT and backlog.working:
        return Refusal.BUSY
    if backlog.here >= backlog.here_limit:
        return Refusal.QUEUE_FULL
    if backlog.everywhere >= backlog.everywhere_limit:
        return Refusal.ALL_FULL
    return None


class Move(StrEnum):
    """What a complete turn does. START: at once. WAIT: at the end of the line. JOIN: the last that waits takes it in.

    INTERRUPT, ROLLBACK: it ends the run that works, and is the next. STEER: it waits, and may be heard by that run.
    RESTART: the run that works begins again, with what it had to answer and this.
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
    """What a complete turn meets. running: the person whose run works, None without one. stopping: that run is ending.

    waiting: something waits. joinable: the last that waits can answer this turn too. steerable: the run that works can
    hear it. unseen: the run that works has just begun and can answer this turn too: nothing of it was seen.
    """

    running: str | None = None
    stopping: bool = False
    waiting: bool = False
    joinable: bool = False
    steerable: bool = False
    unseen: bool = False


def decide(busy: Busy, moment: Moment, person: str, is_admin: bool) -> Move:
    """What becomes of a person's complete turn.

    Another person's run is only an admin's to stop. While a run is ending already, what its person writes joins what
    comes next, so that no word of it is lost. People write one request as several messages, so what follows at once
    belongs to it; not with ROLLBACK, where a message takes the place of the one before.
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
    """How many messages wait in all conversations together: each tells its own number when it may have changed."""

    total: int = 0
    _numbers: dict[object, int] = field(default_factory=dict)

    def note(self, whose: object, waiting: int) -> None:
        self.total += waiting - self._numbers.pop(whose, 0)
        if waiting:
            self._numbers[whose] = waiting
