"""Faults for the next calls: what tests ask for (`Fault` and its constructors) and the queue that hands them out."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["normal", "error", "html", "garbage", "reset"]
ANY_METHOD = "*"
FILE_DOWNLOAD = "file"


@dataclass(frozen=True)
class Fault:
    """What happens to one call, in this order: delay, hold_before, apply, hang, hold_after, answer.

    `delay` and `hang` are seconds. A held call waits until the test releases it (`TelegramSimulator.release`).
    """

    name: str
    answer: Answer = "normal"
    apply: bool = False
    delay: float = 0.0
    hang: float = 0.0
    hold_before: bool = False
    hold_after: bool = False
    code: int = 200
    description: str = ""
    parameters: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control surface."""
        return dataclasses.asdict(self)


def error(code: int, description: str, **parameters: Any) -> Fault:
    """Any refusal, the call is not applied."""
    return Fault(f"error {code}", "error", code=code, description=description, parameters=parameters or None)


def flood(retry_after: int) -> Fault:
    """429 with parameters.retry_after in seconds."""
    return error(429, f"Too Many Requests: retry after {retry_after}", retry_after=retry_after)


def bad_request(reason: str) -> Fault:
    """400; the "Bad Request: " prefix is added here."""
    return error(400, f"Bad Request: {reason}")


def blocked() -> Fault:
    """403 as after a person blocked the bot."""
    return error(403, "Forbidden: bot was blocked by the user")


def unauthorized() -> Fault:
    """401 as for a revoked token."""
    return error(401, "Unauthorized")


def not_found() -> Fault:
    """404 as for an unknown method or a malformed token."""
    return error(404, "Not Found")


def conflict() -> Fault:
    """409 as when another process polls with the same token."""
    return error(
        409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
    )


def bad_gateway(*, apply: bool = False) -> Fault:
    """502 with an HTML body, as the load balancer in front of the Bot API answers."""
    return Fault("bad gateway", "html", apply=apply, code=502)


def slow(seconds: float) -> Fault:
    """The call is applied and answered, but only after a delay."""
    return Fault("slow", apply=True, delay=seconds)


def apply_then_hang(seconds: float) -> Fault:
    """The call is applied at once; its answer comes later than the client waits."""
    return Fault("apply then hang", apply=True, hang=seconds)


def reset(*, apply: bool = False) -> Fault:
    """The connection is reset, before or after the call was applied."""
    return Fault("reset", "reset", apply=apply)


def garbage(*, apply: bool = False) -> Fault:
    """200 with a body that is not JSON."""
    return Fault("garbage", "garbage", apply=apply)


def hold(*, apply: bool = False) -> Fault:
    """The call stops until `release`: before it is applied, or (apply=True) after that and before its answer."""
    return Fault("hold", apply=True, hold_before=not apply, hold_after=apply)


@dataclass
class _Entry:
    fault: Fault
    skip: int
    times: int


class FaultQueue:
    """Queued faults by (bot, method, chat); the most specific queue is served first, each in its order."""

    def __init__(self) -> None:
        self._queues: dict[tuple[int, str, int | None], deque[_Entry]] = {}

    def add(self, bot_id: int, method: str, chat_id: int | None, fault: Fault, *, times: int, skip: int) -> None:
        """After `skip` matching calls, let the next `times` ones meet this fault."""
        key = (bot_id, method.lower(), chat_id)
        self._queues.setdefault(key, deque()).append(_Entry(fault, skip, times))

    def clear(self) -> None:
        """Forget everything that is queued."""
        self._queues.clear()

    def take(self, bot_id: int, method: str, chat_id: int | None) -> Fault | None:
        """The fault for this call, which is used up by it, or None."""
        if not self._queues:
            return None
        for name in (method, ANY_METHOD):
            for chat in (chat_id, None) if chat_id is not None else (None,):
                queue = self._queues.get((bot_id, name, chat))
                if queue is not None:
                    return self._next((bot_id, name, chat), queue)
        return None

    def _next(self, key: tuple[int, str, int | None], queue: deque[_Entry]) -> Fault | None:
        entry = queue[0]
        if entry.skip > 0:
            entry.skip -= 1
            return None
        entry.times -= 1
        if entry.times <= 0:
            queue.popleft()
            if not queue:
                del self._queues[key]
        return entry.fault
