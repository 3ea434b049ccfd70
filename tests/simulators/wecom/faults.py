"""Faults for the next frames: what tests ask for (`Fault` and its constructors) and the queue that hands them out."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulators.wecom.errors import CONFLICT, EXPIRED, FREQUENCY, INVALID_REQ_ID, NOT_SUBSCRIBED

Ack = Literal["normal", "error", "none", "close"]
ANY_COMMAND = "*"
ABORT = 0
"""As a close code: the TCP connection is reset, so that the client sees 1006."""


@dataclass(frozen=True)
class Fault:
    """What happens to one frame: whether it is applied, and how it is acked (`hold`: not before the test releases it).

    delay: seconds until the ack. code: the errcode of an "error", or the close code of a "close".
    """

    name: str
    ack: Ack = "normal"
    apply: bool = True
    delay: float = 0.0
    hold: bool = False
    code: int = 0

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control surface."""
        return dataclasses.asdict(self)


def error(code: int) -> Fault:
    """Refused with that errcode and not applied."""
    return Fault(f"error {code}", "error", apply=False, code=code)


def conflict() -> Fault:
    """6000, as after frames that overtook each other."""
    return error(CONFLICT)


def invalid_req_id() -> Fault:
    """846605, as after a reconnect."""
    return error(INVALID_REQ_ID)


def frequency() -> Fault:
    """846607: too many messages."""
    return error(FREQUENCY)


def expired() -> Fault:
    """846608: the stream's time is over."""
    return error(EXPIRED)


def not_subscribed() -> Fault:
    """846609, while the socket stays open."""
    return error(NOT_SUBSCRIBED)


def missing_ack(*, apply: bool = True) -> Fault:
    """Nothing is answered; the frame was applied, or lost on its way."""
    return Fault("missing ack", "none", apply=apply)


def late_ack(seconds: float) -> Fault:
    """Applied at once and acked later."""
    return Fault("late ack", delay=seconds)


def hold() -> Fault:
    """Applied at once and acked after `release`."""
    return Fault("hold", hold=True)


def close(code: int = ABORT, *, apply: bool = True) -> Fault:
    """Instead of an ack the connection is closed with that code."""
    return Fault(f"close {code or 'abort'}", "close", apply=apply, code=code)


@dataclass
class _Entry:
    fault: Fault
    skip: int
    times: int


class FaultQueue:
    """Queued faults of one bot by command, served in their order; "*" after those of the command itself."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[_Entry]] = {}

    def add(self, command: str, fault: Fault, *, times: int, skip: int) -> None:
        """After `skip` frames of the command, let the next `times` ones meet this fault."""
        self._queues.setdefault(command, deque()).append(_Entry(fault, skip, times))

    def clear(self) -> None:
        """Forget everything that is queued."""
        self._queues.clear()

    def take(self, command: str) -> Fault | None:
        """The fault for this frame, which is used up by it, or None."""
        for name in (command, ANY_COMMAND):
            if queue := self._queues.get(name):
                return self._next(name, queue)
        return None

    def _next(self, name: str, queue: deque[_Entry]) -> Fault | None:
        entry = queue[0]
        if entry.skip > 0:
            entry.skip -= 1
            return None
        entry.times -= 1
        if entry.times <= 0:
            queue.popleft()
            if not queue:
                del self._queues[name]
        return entry.fault
