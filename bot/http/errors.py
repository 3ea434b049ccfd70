"""Error answers of the HTTP service, all in the same form: `{"error": {"code", "message"}}`."""

from __future__ import annotations

import http
import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from bot.files.uploads import NO_ROOM
from bot.store.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import FastAPI, Request, Response

log = logging.getLogger(__name__)

ANYTHING = "/{path:path}"
"""The path of the route after all others, which pages have for GET: it makes an unknown path one of a wrong method."""


class Trouble(BaseModel):
    """An error. code: for programs. message: for people. Some codes have more members."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """The form of every error answer."""

    error: Trouble


ANY_ERROR: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorAnswer, "description": "What is wrong with the request"},
    "5XX": {"model": ErrorAnswer, "description": "Why it cannot be served now"},
}
"""The errors in OpenAPI's description, the same for every route."""
PLAIN = {"content": {"text/plain": {"schema": {"type": "string"}}}}
"""OpenAPI's description of an answer that is plain text."""


class HttpProblem(Exception):
    """Ends a request. code: for programs. message: for people, without secrets. more: further members of the error."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.more = more


class PageRefused(Exception):
    """A page that the caller may not open. response: what they see instead."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def not_found(what: str = "there is nothing here") -> HttpProblem:
    """The problem of a missing thing, also used for those of other people, so that no one learns that they exist."""
    return HttpProblem(404, "not_found", what)


def too_many(what: str = "too many requests") -> HttpProblem:
    return HttpProblem(429, "too_many_requests", f"{what}; wait a little", {"Retry-After": "10"})


def error_response(
    status: int, code: str, message: str, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, **more}}, status, headers=dict(headers or {}))


def answer_to(error: HttpProblem | StoreError) -> JSONResponse:
    """The answer to a request that ended with this error."""
    if isinstance(error, HttpProblem):
        return error_response(error.status, error.code, str(error), error.headers, **error.more)
    log.error("a request could not be served: %s", error)
    return error_response(503, "store_unavailable", "the store does not answer; try again", {"Retry-After": "5"})


def tell_errors(app: FastAPI) -> None:
    """Have all errors of an application answered in that form."""

    async def problem(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HttpProblem | StoreError)
        return answer_to(error)

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        # Without the input: it may be long, or a secret.
        told = ((each["loc"], each["msg"].removeprefix("Value error, ")) for each in error.errors())
        wrong = [{"place": _place(place), "message": message} for place, message in told]
        first = f"{wrong[0]['place'].removeprefix('body.')}: {wrong[0]['message']}" if wrong else "no request"
        return error_response(422, "invalid", first, details=wrong)

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 405 and getattr(request.scope.get("route"), "path", "") == ANYTHING:
            return answer_to(not_found())  # only that route knows the path
        code = http.HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
        return error_response(error.status_code, code, str(error.detail), error.headers)

    async def full(request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, OSError) or error.errno not in NO_ROOM:
            raise error
        log.error("a request could not be served: %s", error)
        return error_response(507, "no_room", "the disk is full; the operator has to make room")

    async def instead(request: Request, error: Exception) -> Response:
        assert isinstance(error, PageRefused)
        return error.response

    app.add_exception_handler(HttpProblem, problem)
    app.add_exception_handler(PageRefused, instead)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(StoreError, problem)
    app.add_exception_handler(OSError, full)


def _place(parts: Sequence[int | str]) -> str:
    """The place of a fault in a request. Keys are chosen by the sender, and may contain lone surrogates."""
    return ".".join(map(str, parts)).encode(errors="replace").decode()
