"""Faults for the next calls: what tests ask for (`Fault` and its constructors) and the queue that hands them out."""

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

Answer = Literal["normal", "error", "html", "garbage", "reset", "handshake", "truncated"]
ANY_METHOD = "*"
ENDPOINT = "ws.endpoint"
UPGRADE = "ws.connect"
TOKEN = "auth.token"


@dataclass(frozen=True)
class Fault:
    """What happens to one call, in this order: delay, hold_before, apply, hang, hold_after, answer.

    `delay` and `hang` are seconds. A held call waits until the test releases it (`FeishuSimulator.release`).
    answer "error": a refusal with `code` and `msg`, as HTTP `status`, with `headers`. "handshake" is for UPGRADE,
    "truncated" for downloads only.
    """

    name: str
    answer: Answer = "normal"
    apply: bool = False
    delay: float = 0.0
    hang: float = 0.0
    hold_before: bool = False
    hold_after: bool = False
    status: int = 400
    code: int = 0
    msg: str = ""
    headers: dict[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The wire form for the control surface."""
        return dataclasses.asdict(self)


def error(code: int, msg: str = "simulated", *, status: int = 400, apply: bool = False) -> Fault:
    """Any refusal; apply: although the call was in fact applied."""
    return Fault(f"error {code}", "error", apply, status=status, code=code, msg=msg)


def rate_limited(reset: int = 1, *, status: int = 429) -> Fault:
    """99991400 with x-ogw-ratelimit-reset in seconds; some old endpoints answer it as HTTP 400."""
    headers = {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": str(reset)}
    return dataclasses.replace(
        error(99991400, "request trigger frequency limit", status=status), name="rate limited", headers=headers
    )


def invalid_token() -> Fault:
    """99991663: the tenant token is not accepted (any more)."""
    return error(99991663, "Invalid access token for authorization. Please make a test attempt after the token is...")


def frequency_limit() -> Fault:
    """230020: too often in this chat, or on this message."""
    return error(230020, "This operation triggers the frequency limit.")


def too_many_tables() -> Fault:
    """230099 with the inner code 11310: the card has too many tables."""
    return error(
        230099,
        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit; ErrorValue: table; ",
    )


def too_long() -> Fault:
    """230025: the message is over its size."""
    return error(230025, "The length of the message content reaches its limit.")


def streaming_closed() -> Fault:
    """300309: the card is not in streaming mode."""
    return error(300309, "streaming mode is closed")


def sequence_conflict() -> Fault:
    """300317: the operation's number was not above the last one."""
    return error(300317, "sequence number compare failed")


def audit_failed() -> Fault:
    """230028: data loss prevention refused the text."""
    return error(230028, "The messages do NOT pass the audit.")


def missing_scope(scopes: str = "im:message:send_as_bot") -> Fault:
    """99991672: the app lacks a scope; the message lists scopes and a link."""
    link = "https://open.feishu.cn/app/cli_simulated/auth?q=" + scopes
    return error(99991672, f"Access denied. One of the following scopes is required: [{scopes}]. 点击链接申请: {link}")


def busy_endpoint() -> Fault:
    """For ENDPOINT: code 1, which the SDK takes for a passing fault."""
    return error(1, "system busy", status=200)


def refused_connection(status: int = 514, auth_code: int | None = 1000040350, msg: str = "refused") -> Fault:
    """For UPGRADE: the websocket handshake is refused; the reasons stand in headers of the answer."""
    headers = {"handshake-status": str(status), "handshake-msg": msg}
    if auth_code is not None:
        headers["handshake-autherrcode"] = str(auth_code)
    return Fault(f"handshake {status}", "handshake", status=403, headers=headers)


def server_error(status: int = 500, *, apply: bool = False) -> Fault:
    """A 5xx with an HTML body, as the load balancer answers."""
    return Fault(f"http {status}", "html", apply=apply, status=status)


def slow(seconds: float) -> Fault:
    """The call is applied and answered, but only after a delay."""
    return Fault("slow", apply=True, delay=seconds)


def apply_then_hang(seconds: float) -> Fault:
    """The call is applied at once; its answer comes later than the client waits."""
    return Fault("apply then hang", apply=True, hang=seconds)


def reset(*, apply: bool = False) -> Fault:
    """The connection is reset, before or after the call was applied."""
    return Fault("reset", "reset", apply=apply)


def truncated() -> Fault:
    """For "im.resource.get": the connection breaks after half of the file."""
    return Fault("truncated", "truncated", status=200)


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
    """Queued faults by (app, method, chat); the most specific queue is served first, each in its order.

    A method may be a whole name, a family such as "cardkit.*", or "*".
    """

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, str | None], deque[_Entry]] = {}

    def add(self, app_id: str, method: str, chat: str | None, fault: Fault, *, times: int, skip: int) -> None:
        """After `skip` matching calls, let the next `times` ones meet this fault."""
        self._queues.setdefault((app_id, method, chat), deque()).append(_Entry(fault, skip, times))

    def clear(self, app_id: str) -> None:
        """Forget everything that is queued for an app."""
        for key in [key for key in self._queues if key[0] == app_id]:
            del self._queues[key]

    def take(self, app_id: str, method: str, chat: str | None) -> Fault | None:
        """The fault for this call, which is used up by it, or None."""
        if not self._queues:
            return None
        for name in (method, method.partition(".")[0] + ".*", ANY_METHOD):
            for place in (chat, None) if chat is not None else (None,):
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
