"""Errors of simulated Web API methods; the server turns them into answers (HTTP 200 with ok: false, or 429)."""

from typing import Any


class SlackError(Exception):
    """A refusal in the Web API's wording: {ok: false, error, ...}. `fields` are further members of the body."""

    def __init__(self, error: str, **fields: Any) -> None:
        super().__init__(error)
        self.error = error
        self.fields = fields

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"ok": False, "error": self.error, **self.fields}


class RateLimitedError(SlackError):
    """HTTP 429 with a Retry-After header in whole seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__("ratelimited")
        self.retry_after = retry_after


def invalid_arguments(*messages: str) -> SlackError:
    """The answer of the schema check that runs before a method."""
    return SlackError("invalid_arguments", response_metadata={"messages": [f"[ERROR] {text}" for text in messages]})


def missing_required(name: str) -> SlackError:
    """A required argument is absent."""
    return invalid_arguments(f"missing required field: {name}")
