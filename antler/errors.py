"""What goes wrong for a program that asks the gateway, by what it can do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from antler.values import Approval


class AntlerError(Exception):
    """The text is for people; there is no secret in it."""


class Unreachable(AntlerError):
    """No gateway answered, for as long as the client was to try. What was asked for may have been done."""


class NotStarted(AntlerError):
    """The embedded gateway cannot start, or has stopped by itself."""


class RequestFailed(AntlerError):
    """The gateway refused a request.

    status: of HTTP.
    code: for programs, such as `missing_scope`.
    details: further members of the error.
    retry_after: seconds to wait before another try, None where the gateway gave none.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.details = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.status} {self.code})"


class NotSignedIn(RequestFailed):
    """There is no token, or it is not good any more (401)."""


class NotAllowed(RequestFailed):
    """The token or its person may not do this (403)."""


class NotFound(RequestFailed):
    """There is no such thing, or it is somebody else's (404, 410)."""


class Conflict(RequestFailed):
    """It cannot be done as things are now (409)."""


class Invalid(RequestFailed):
    """The request is not as it should be (400, 413, 415, 422)."""


class TooMany(RequestFailed):
    """Too much at once (429)."""


class Unavailable(RequestFailed):
    """The gateway, or a proxy before it, cannot answer now (500 and above)."""


class RunFailed(AntlerError):
    """A run ended without an answer. code: the kind of failure, such as `quota` or `timeout`."""

    def __init__(self, thread_id: str, run_id: str, code: str, message: str) -> None:
        super().__init__(message)
        self.thread_id = thread_id
        self.run_id = run_id
        self.code = code

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.code})"


class ApprovalRequired(AntlerError):
    """A run waits for the decision on a tool call, and nobody was there to ask. It goes on once that is decided."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(f"the call of {approval.tool} waits for a decision")
        self.approval = approval


_BY_STATUS: Mapping[int, type[RequestFailed]] = {
    400: Invalid,
    401: NotSignedIn,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: TooMany,
}


def refused(status: int, body: Any, retry_after: str | None = None) -> RequestFailed:
    """The error that an answer tells. body: its JSON, None where it is none."""
    told = body.get("error") if isinstance(body, dict) else None
    told = dict(told) if isinstance(told, dict) else {}
    message = str(told.pop("message", "") or "the answer says no more")
    code = str(told.pop("code", "") or "unknown")
    kind = Unavailable if status >= 500 else _BY_STATUS.get(status, RequestFailed)
    seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
    return kind(status, code, message, told, seconds)
