"""Faults that tests request for the next frames."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulators.wecom.errors import CONFLICT, EXPIRED, FREQUENCY, INVALID_REQ_ID, NOT_SUBSCRIBED

Ack = Literal["normal", "error", "none", "close"]
ABORT = 0
"""A close code that resets the TCP connection, so that the client sees 1006."""


@dataclass(frozen=True)
class Fault:
    """The fate of one frame: whether it is applied, and how it is acked (`hold`: only when the test releases it).

    delay: seconds until the ack. code: the errcode of an "error", or the close code of a "close".
    """

    name: str
    ack: Ack = "normal"
    apply: bool = True
    delay: float = 0.0
    hold: bool = False
    code: int = 0

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control side."""
        return dataclasses.asdict(self)


def error(code: int) -> Fault:
    """Refused with that errcode and not applied."""
    return Fault(f"error {code}", "error", apply=False, code=code)


def conflict() -> Fault:
    """6000, as after frames that arrived out of order."""
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
    """No answer; the frame was applied, or lost in transit."""
    return Fault("missing ack", "none", apply=apply)


def late_ack(seconds: float) -> Fault:
    """Applied at once and acked later."""
    return Fault("late ack", delay=seconds)


def hold() -> Fault:
    """Applied at once and acked after `release`."""
    return Fault("hold", hold=True)


def close(code: int = ABORT, *, apply: bool = True) -> Fault:
    """The connection is closed with that code instead of an ack."""
    return Fault(f"close {code or 'abort'}", "close", apply=apply, code=code)
