"""Reads one HTTP request into a `Call` with typed access to its parameters."""

import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from tests.simulators.feishu.errors import FeishuError, missing_field
from tests.simulators.feishu.limits import FILE_BYTES

Json = dict[str, Any]

SECRETS = ("app_secret", "AppSecret", "ClientAssertion")
SHOWN_HEADERS = ("user-agent", "content-type", "locale", "x-request-id")


@dataclass
class Upload:
    """A file part of a multipart body."""

    name: str | None
    mime: str
    content: bytes


@dataclass
class Call:
    """A parsed request: path parameters, query, and the JSON body or the form's fields with its files by field."""

    token: str
    path: dict[str, str]
    query: dict[str, str]
    body: Json = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    def given(self, name: str) -> bool:
        """Whether the body has the parameter."""
        return self.body.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        """A string of the body; raises FeishuError for another type."""
        value = self.body.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise FeishuError(9499, f"Invalid parameter type in json: {name}. Invalid parameter value.")
        return value

    def required(self, name: str) -> str:
        """A required, non-empty string of the body; raises FeishuError."""
        value = self.text(name)
        if not value:
            raise missing_field(name)
        return value

    def number(self, name: str) -> int | None:
        """A whole number of the body, or None; raises FeishuError for another type."""
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            raise FeishuError(9499, f"Invalid parameter type in json: {name}. Invalid parameter value.")
        return value

    def shown(self) -> Json:
        """The body for the record: secrets masked, files by their name, type and size."""
        masked = {name: "***" if name in SECRETS else value for name, value in self.body.items()}
        files = {n: {"name": f.name, "type": f.mime, "size": len(f.content)} for n, f in self.files.items()}
        return {**masked, **files}


async def read_call(request: web.Request) -> Call:
    """Parse the request; raises FeishuError for a body that does not match its content type."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    call = Call(token if scheme == "Bearer" else "", dict(request.match_info), dict(request.query))
    if not request.body_exists:
        return call
    if request.content_type == "multipart/form-data":
        await _read_form(request, call)
        return call
    raw = await request.read()
    if not raw:
        return call
    # The SDK requests its token without a content type.
    if "Content-Type" in request.headers and request.content_type != "application/json":
        raise FeishuError(9499, f"Bad Request: content type {request.content_type}")
    try:
        body = json.loads(raw)
    except ValueError:
        raise FeishuError(9499, "Bad Request: invalid json") from None
    if not isinstance(body, dict):
        raise FeishuError(9499, "Bad Request: the body is no object")
    call.body = body
    return call


def shown_headers(request: web.Request) -> dict[str, str]:
    """The headers that records keep."""
    return {name: value for name, value in request.headers.items() if name.lower() in SHOWN_HEADERS}


async def _read_form(request: web.Request, call: Call) -> None:
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader) or part.name is None:
            continue
        # The SDK gives no file name in its uploads; the field identifies a part as a file.
        if part.filename is None and part.name not in ("file", "image"):
            call.body[part.name] = await part.text()
            continue
        content = bytes(await part.read(decode=False))
        if len(content) > 2 * FILE_BYTES:
            raise FeishuError(234006, "The file size exceed the max value.")
        call.files[part.name] = Upload(
            part.filename, part.headers.get("Content-Type", "application/octet-stream"), content
        )
