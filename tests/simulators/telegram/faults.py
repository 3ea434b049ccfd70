"""Faults that tests request for the next calls of the Bot API."""

from dataclasses import dataclass
from typing import Any

from tests.simulators.faults import CallFault

FILE_DOWNLOAD = "file"


@dataclass(frozen=True)
class Fault(CallFault):
    """See CallFault. code, description and parameters: of the answer."""

    code: int = 200
    description: str = ""
    parameters: dict[str, Any] | None = None


slow = Fault.slow
apply_then_hang = Fault.apply_then_hang
reset = Fault.reset
garbage = Fault.garbage
hold = Fault.hold


def error(code: int, description: str, **parameters: Any) -> Fault:
    """Any refusal; the call is not applied."""
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
