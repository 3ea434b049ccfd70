"""Faults that tests request for the next calls."""

from dataclasses import dataclass
from typing import Any

from tests.simulators.faults import CallFault

FILE_DOWNLOAD = "file"
FILE_UPLOAD = "upload"
SOCKET_UPGRADE = "link"
RESPONSE_URL = "response"


@dataclass(frozen=True)
class Fault(CallFault):
    """See CallFault.

    answer "error": a Web API refusal with `error` and `fields`, as HTTP `status`; retry_after sets that header.
    """

    status: int = 200
    error: str = ""
    fields: dict[str, Any] | None = None
    retry_after: int | None = None


slow = Fault.slow
apply_then_hang = Fault.apply_then_hang
reset = Fault.reset
garbage = Fault.garbage
hold = Fault.hold


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
    """The token is unknown."""
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
