"""Faults that tests request for the next calls."""

import dataclasses
from dataclasses import dataclass

from tests.simulators.faults import CallFault

ENDPOINT = "ws.endpoint"
UPGRADE = "ws.connect"
TOKEN = "auth.token"


@dataclass(frozen=True)
class Fault(CallFault):
    """See CallFault.

    answer "error": a refusal with `code` and `msg`, as HTTP `status`, with `headers`. "handshake" is for UPGRADE,
    "truncated" for downloads only.
    """

    status: int = 400
    code: int = 0
    msg: str = ""
    headers: dict[str, str] | None = None


slow = Fault.slow
apply_then_hang = Fault.apply_then_hang
reset = Fault.reset
garbage = Fault.garbage
hold = Fault.hold


def error(code: int, msg: str = "simulated", *, status: int = 400, apply: bool = False) -> Fault:
    """Any refusal; apply: the call was nevertheless applied."""
    return Fault(f"error {code}", "error", apply, status=status, code=code, msg=msg)


def rate_limited(reset: int = 1, *, status: int = 429) -> Fault:
    """99991400 with x-ogw-ratelimit-reset in seconds; some old endpoints use HTTP 400."""
    headers = {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": str(reset)}
    return dataclasses.replace(
        error(99991400, "request trigger frequency limit", status=status), name="rate limited", headers=headers
    )


def invalid_token() -> Fault:
    """99991663: the tenant token is not accepted (or no longer)."""
    return error(99991663, "Invalid access token for authorization. Please make a test attempt after the token is...")


def frequency_limit() -> Fault:
    """230020: too many calls in this chat, or on this message."""
    return error(230020, "This operation triggers the frequency limit.")


def too_many_tables() -> Fault:
    """230099 with the inner code 11310: the card has too many tables."""
    return error(
        230099,
        "Failed to create card content, ext=ErrCode: 11310; ErrMsg: card table number over limit; ErrorValue: table; ",
    )


def too_long() -> Fault:
    """230025: the message is too large."""
    return error(230025, "The length of the message content reaches its limit.")


def streaming_closed() -> Fault:
    """300309: the card is not in streaming mode."""
    return error(300309, "streaming mode is closed")


def sequence_conflict() -> Fault:
    """300317: the operation's number was not higher than the last one."""
    return error(300317, "sequence number compare failed")


def audit_failed() -> Fault:
    """230028: data loss prevention refused the text."""
    return error(230028, "The messages do NOT pass the audit.")


def missing_scope(scopes: str = "im:message:send_as_bot") -> Fault:
    """99991672: the app lacks a scope; the message lists scopes and a link."""
    link = "https://open.feishu.cn/app/cli_simulated/auth?q=" + scopes
    return error(99991672, f"Access denied. One of the following scopes is required: [{scopes}]. 点击链接申请: {link}")


def busy_endpoint() -> Fault:
    """For ENDPOINT: code 1, which the SDK treats as a temporary fault."""
    return error(1, "system busy", status=200)


def refused_connection(status: int = 514, auth_code: int | None = 1000040350, msg: str = "refused") -> Fault:
    """For UPGRADE: the websocket handshake is refused; the reasons are in the answer's headers."""
    headers = {"handshake-status": str(status), "handshake-msg": msg}
    if auth_code is not None:
        headers["handshake-autherrcode"] = str(auth_code)
    return Fault(f"handshake {status}", "handshake", status=403, headers=headers)


def server_error(status: int = 500, *, apply: bool = False) -> Fault:
    """A 5xx with an HTML body, as the load balancer answers."""
    return Fault(f"http {status}", "html", apply=apply, status=status)


def truncated() -> Fault:
    """For "im.resource.get": the connection breaks after half of the file."""
    return Fault("truncated", "truncated", status=200)
