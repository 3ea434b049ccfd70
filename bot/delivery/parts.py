"""The messages that a reply consists of: what is known of each. Changed by sender.py and failures.py."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from channels.base import LiveReply, Part
    from channels.message import OutboundMessage


FIRST_TRIAL = 15.0
LONGEST_TRIAL = 900.0
"""Seconds between two trials of what was refused as if nothing could be sent: doubling, between these."""
ALONE = 3
"""So often may that be said of one reply, while others are sent, before it counts as refused like any other."""


def idem_key(reply_key: str, part: int) -> str:
    """The idempotency key of one part: derived, so that a restarted process uses the same."""
    return hashlib.sha256(f"{reply_key}|{part}".encode()).hexdigest()[:32]


def button_data(message: OutboundMessage) -> tuple[str, ...]:
    """Of its buttons, in their order: by which one question is told from another."""
    return tuple(button.data for row in message.buttons for button in row)


@dataclass(slots=True, kw_only=True)
class PartState:
    """What is known of one platform message of a reply.

    shown: what it shows, None when not known. intended: its outbox row is committed.
    sent_after: an older message id, recorded with the intent.
    repeated: the next send with the same key may give back a message that shows something older.
    lost: what was sent at lost_at without an answer; it is looked for before anything is sent again.
    looks: how often that could not tell. unsure: a draft that was looked for enough, until there is a final.
    crashed: an earlier process may have sent it.
    lost_finals: sends of final content that may have been applied. assumed: counts as shown, after too many of them.
    refused: the platform did not take the file, or no change of it: it stays as it is.
    final_shown: an earlier process recorded the final content. deletes: failed tries to delete it.
    left_open: an earlier process began a stream here, and nothing says that it has ended. begun: not before that was
    its message sent, on the clock; -inf when not known. asked: the data of the buttons that an earlier process showed.
    """

    index: int
    idem_key: str
    sent_after: str | None = None
    message_id: str | None = None
    shown: Part | None = None
    intended: bool = False
    repeated: bool = False
    lost: Part | None = None
    lost_at: float = -math.inf
    looks: int = 0
    unsure: bool = False
    crashed: bool = False
    lost_finals: int = 0
    assumed: bool = False
    refused: bool = False
    final_shown: bool = False
    deletes: int = 0
    left_open: bool = False
    begun: float = -math.inf
    asked: tuple[str, ...] = ()

    @property
    def stands(self) -> bool:
        """It is known to show something that was wanted of it, maybe by an earlier process."""
        return self.shown is not None or self.final_shown

    def gone(self) -> None:
        """Its message is no more. The next one needs another key, or the platform would take it for this one. An
        earlier process may have used that key already, for a message that is gone as well, or shows something older."""
        self.message_id = self.shown = None
        self.repeated = True
        self.final_shown = False
        self.idem_key = idem_key(self.idem_key, self.index)

    def replace(self, rev: int | None) -> None:
        """Its message stays as it is; another one takes its place. rev: of the final that it will show, under a key
        that stands for nothing else; None for a draft."""
        self.gone()
        if rev is not None:
            self.idem_key = idem_key(f"{self.idem_key}|{rev}", self.index)
            self.repeated = False

    @property
    def searching(self) -> bool:
        """It may be in the chat and is looked for, or has to be repeated."""
        return (self.lost is not None and not self.unsure) or (self.lost_finals > 0 and not self.assumed)

    def lose(self, part: Part, final: bool, now: float) -> None:
        """A send was not answered."""
        self.lost, self.lost_at, self.looks, self.unsure = part, now, 0, False
        self.lost_finals += final

    def settle(self) -> None:
        """Nothing of it is in the chat that is not known."""
        self.lost, self.unsure, self.crashed = None, False, False
        self.lost_finals = 0


@dataclass(slots=True)
class Live:
    """An open append-only stream, the live form of one part. ends: when it must be finished, on the clock."""

    stream: LiveReply
    part: PartState
    ends: float
    shown: OutboundMessage | None = None


@dataclass(slots=True)
class Concessions:
    """What was given up of a final after the platform refused it, in this order.

    whole: as it was before its formatting was left out.
    """

    whole: OutboundMessage | None = None
    renewed: bool = False
    replaced: bool = False


@dataclass(slots=True)
class Refusals:
    """Calls of one reply that were refused as if nothing at all could be sent.

    tried: when it was last chosen to find out whether that is so. alone: how often others were taken meanwhile.
    """

    count: int = 0
    last: float = -math.inf
    tried: float = -math.inf
    alone: int = 0

    def note(self, now: float) -> float:
        """It was refused once more; returns the seconds until it may be tried again."""
        self.last = now
        self.count += 1
        return min(FIRST_TRIAL * 2.0 ** min(self.count - 1, 10), LONGEST_TRIAL)

    def overruled(self, worked_at: float) -> bool:
        """It is refused again, while others are taken (the last one at that time) again and again: so it is its own."""
        self.alone += worked_at > self.last > -math.inf
        return self.alone >= ALONE
