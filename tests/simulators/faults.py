"""Faults that tests inject into the next calls: the part common to all HTTP platforms, and the queue of faults."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, Literal, Self, TypeVar

Answer = Literal["normal", "error", "html", "garbage", "reset", "handshake", "truncated"]
ANY_METHOD = "*"
T = TypeVar("T")


@dataclass(frozen=True)
class CallFault:
    """The course of one call, in this order: delay, hold_before, apply, hang, hold_after, answer.

    `delay` and `hang` are seconds. A held call waits until the test releases it (the client's `release`).
    answer: "normal" returns the call's result; the form of the others depends on the platform. Not all platforms
    support "handshake" (of a websocket) and "truncated" (a download).
    """

    name: str
    answer: Answer = "normal"
    apply: bool = False
    delay: float = 0.0
    hang: float = 0.0
    hold_before: bool = False
    hold_after: bool = False

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control side."""
        return dataclasses.asdict(self)

    @classmethod
    def slow(cls, seconds: float) -> Self:
        """The call is applied and answered, but only after a delay."""
        return cls("slow", apply=True, delay=seconds)

    @classmethod
    def apply_then_hang(cls, seconds: float) -> Self:
        """The call is applied at once; its answer arrives after the client has stopped waiting."""
        return cls("apply then hang", apply=True, hang=seconds)

    @classmethod
    def reset(cls, *, apply: bool = False) -> Self:
        """The connection is reset, before or after the call was applied."""
        return cls("reset", "reset", apply=apply)

    @classmethod
    def garbage(cls, *, apply: bool = False) -> Self:
        """200 with a body that is not JSON."""
        return cls("garbage", "garbage", apply=apply)

    @classmethod
    def hold(cls, *, apply: bool = False) -> Self:
        """The call stops until `release`: before it is applied, or (apply=True) between that and its answer."""
        return cls("hold", apply=True, hold_before=not apply, hold_after=apply)


@dataclass
class _Entry(Generic[T]):
    item: T
    skip: int
    times: int


class Turns(Generic[T]):
    """Items for the next calls, in order."""

    def __init__(self) -> None:
        self._entries: deque[_Entry[T]] = deque()

    def add(self, item: T, *, times: int, skip: int) -> None:
        """Assign the item to the next `times` calls, after `skip` calls."""
        self._entries.append(_Entry(item, skip, times))

    def next(self) -> T | None:
        """Take the item for this call, or None."""
        if not self._entries:
            return None
        entry = self._entries[0]
        if entry.skip > 0:
            entry.skip -= 1
            return None
        entry.times -= 1
        if entry.times <= 0:
            self._entries.popleft()
        return entry.item

    def __bool__(self) -> bool:
        return bool(self._entries)


class FaultQueue(Generic[T]):
    """Queued faults by account, method and place; the most specific queue is served first, each in its order.

    A method may be a whole name, a family such as "cardkit.*", or "*".
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str | int, str, str | int | None], Turns[T]] = {}

    def add(
        self, account: str | int, method: str, fault: T, *, place: str | int | None = None, times: int, skip: int
    ) -> None:
        """Apply the fault to the next `times` matching calls, after `skip` calls. place None: any place."""
        self._queues.setdefault((account, method, place), Turns()).add(fault, times=times, skip=skip)

    def clear(self, account: str | int) -> None:
        """Forget everything that is queued for an account."""
        for key in [key for key in self._queues if key[0] == account]:
            del self._queues[key]

    def take(self, account: str | int, method: str, place: str | int | None = None) -> T | None:
        """Take the fault for this call, or None."""
        if not self._queues:
            return None
        for name in (method, method.partition(".")[0] + ".*", ANY_METHOD):
            for where in (place, None) if place is not None else (None,):
                if turns := self._queues.get((account, name, where)):
                    fault = turns.next()
                    if not turns:
                        del self._queues[account, name, where]
                    return fault
        return None
