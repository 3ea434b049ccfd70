"""Faults that tests request for the next calls."""

from dataclasses import dataclass

from tests.simulators.faults import CallFault

TRANSCRIBE = "transcriptions"


@dataclass(frozen=True)
class Fault(CallFault):
    """See CallFault. answer "error": an API error of HTTP `status`; retry_after: that header's value."""

    status: int = 500
    code: str = ""
    retry_after: str = ""


reset = Fault.reset
garbage = Fault.garbage
hold = Fault.hold
slow = Fault.slow


def error(status: int, code: str = "", retry_after: str = "") -> Fault:
    """The service refuses; its sentence quotes the key, as services do."""
    return Fault(f"error {status}", "error", status=status, code=code, retry_after=retry_after)


def page(status: int = 502) -> Fault:
    """A proxy in front of the service answers with HTML."""
    return Fault(f"page {status}", "html", status=status)
