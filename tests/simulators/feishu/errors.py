"""Errors of simulated endpoints; the server turns them into {code, msg, data} with an HTTP status."""

from typing import Any


class FeishuError(Exception):
    """A refusal in the open platform's wording. status: of HTTP. fields: further members of the body."""

    def __init__(
        self, code: int, msg: str, *, status: int = 400, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(f"{code} {msg}")
        self.code = code
        self.msg = msg
        self.status = status
        self.headers = headers or {}
        self.fields = fields

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"code": self.code, "msg": self.msg, **self.fields}


def missing_field(name: str) -> FeishuError:
    """The gateway's own check of a request: a mandatory field is absent."""
    violation = {"field": name, "description": f"{name} is required"}
    return FeishuError(99992402, "field validation failed", error={"field_violations": [violation]})


def invalid_param(what: str) -> FeishuError:
    """The messaging service's 230001."""
    return FeishuError(230001, f"Your request contains an invalid request parameter, ext={what}")


def frequency_limit() -> FeishuError:
    """Too many messages in one chat, or patches of one message, within a second."""
    return FeishuError(230020, "This operation triggers the frequency limit.")


def request_limit(reset: int) -> FeishuError:
    """The gateway's rate limit; reset: seconds until the next call is allowed."""
    headers = {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": str(reset)}
    return FeishuError(99991400, "request trigger frequency limit", status=429, headers=headers)


def card_failed(inner: int, what: str) -> FeishuError:
    """The card service refused the card of a message; the real reason is the inner code."""
    return FeishuError(
        230099, f"Failed to create card content, ext=ErrCode: {inner}; ErrMsg: {what}; ErrorValue: None; "
    )
