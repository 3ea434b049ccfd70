"""The one error that a simulated Bot API method raises; the server turns it into the answer's status and body."""

from typing import Any


class ApiError(Exception):
    """A refusal in the Bot API's wording: {ok: false, error_code, description, parameters?}."""

    def __init__(self, code: int, description: str, parameters: dict[str, Any] | None = None) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        body: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        if self.parameters:
            body["parameters"] = self.parameters
        return body


def bad_request(reason: str) -> ApiError:
    """A 400 with the Bot API's prefix before the reason."""
    return ApiError(400, f"Bad Request: {reason}")
