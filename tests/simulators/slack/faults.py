"""Faults for the next calls: what tests ask for (`Fault` and its constructors) and the queue that hands them out."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["normal", "error", "html", "garbage", "reset"]
ANY_METHOD = "*"
FILE_DOWNLOAD = "file"
FILE_UPLOAD = "upload"
SOCKET_UPGRADE = "link"
RESPONSE_URL = "response"


@dataclass(frozen=True)
class Fault:
    """What happens to one call, in this order: delay, hold_before, apply, hang, hold_after, answer.

    `delay` and `hang` are seconds. A held call waits until the test releases it (`SlackSimulator.release`).
    answer "error": a Web API refusal with `error` and `fields`, as HTTP `status`; retry_after sets that header.
    """

    name: str
    answer: Answer = "normal"
    apply: bool = False
    delay: float = 0.0
    hang: float = 0.0
    hold_before: bool = False
    hold_after: bool = False
    status: int = 200
    error: str = ""
    fields: dict[str, Any] | None = None
    retry_after: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control surface."""
        return dataclasses.asdict(self)


def error(code: str, **fields: Any) -> Fault:
    """Any refusal (HTTP 200, ok: false); the call is not applied."""
    return Fault(f"error {code}", "error", error=code, fields=fields or None)


def ratelimited(retry_after: int) -> Fault:
    """429 with Retry-After in seconds."""
    return Fault("ratelimited", "error", status=429, error="ratelimited", retry_after=retry_after)


def missing_scope(needed: str, provided: str = "chat:write") -> Fault:
    """The token lacks a scope."""
    return error("missing_scope", needed=needed, provided=provided)


def invalid_auth() -> Fault:
    """The token is not known."""
    return error("invalid_auth")


def token_revoked() -> Fault:
    """The app was uninstalled or its token rotated away."""
    return error("token_revoked")


def server_error(status: int = 500, *, apply: bool = False) -> Fault:
    """A 5xx with an HTML body, as the load balancer answers."""
    return Fault(f"http {status}", "html", apply=apply, status=status)


def login_page() -> Fault:
    """For FILE_DOWNLOAD: 200 with the HTML login page instead of the file."""
    return Fault("login page", "html", status=200)


def refused_upgrade(status: int = 408) -> Fault:
    """For SOCKET_UPGRADE: the websocket handshake is answered with a plain HTTP status."""
    return Fault(f"upgrade refused {status}", "html", status=status)


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
    """Queued faults by (app, method, channel); the most specific queue is served first, each in its order."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, str | None], deque[_Entry]] = {}

    def add(self, app_id: str, method: str, channel: str | None, fault: Fault, *, times: int, skip: int) -> None:
        """After `skip` matching calls, let the next `times` ones meet this fault."""
        self._queues.setdefault((app_id, method, channel), deque()).append(_Entry(fault, skip, times))

    def clear(self, app_id: str) -> None:
        """Forget everything that is queued for an app."""
        for key in [key for key in self._queues if key[0] == app_id]:
            del self._queues[key]

    def take(self, app_id: str, method: str, channel: str | None) -> Fault | None:
        """The fault for this call, which is used up by it, or None."""
        if not self._queues:
            return None
        for name in (method, ANY_METHOD):
            for place in (channel, None) if channel is not None else (None,):
                queue = self._queues.get((app_id, name, place))
                if queue is not None:
                    return self._next((app_id, name, place), queue)
        return None

    def _next(self, key: tuple[str, str, str | None], queue: deque[_Entry]) -> Fault | None:
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
