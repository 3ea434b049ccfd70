"""Reads one Web API request, whatever its encoding, into a `Call` with typed access to its parameters."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import BodyPartReader, web

from tests.simulators.slack.errors import SlackError, invalid_arguments, missing_required

# Parameters that may arrive as JSON text inside a form field or a query.
JSON_PARAMETERS = frozenset(
    {"attachments", "blocks", "chunks", "files", "loading_messages", "metadata", "prompts", "view"}
)
HIDDEN_HEADERS = frozenset({"authorization", "cookie"})


@dataclass
class Call:
    """A parsed request: query, form and JSON merged. encodings: those that were present."""

    method: str
    token: str
    params: dict[str, Any] = field(default_factory=dict)
    encodings: list[str] = field(default_factory=list)

    def given(self, name: str) -> bool:
        """Whether the parameter was given at all."""
        return self.params.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        """A string parameter."""
        value = self.params.get(name)
        return default if value is None else str(value)

    def required(self, name: str) -> str:
        """A required string parameter; raises SlackError invalid_arguments."""
        value = self.text(name)
        if not value:
            raise missing_required(name)
        return value

    def integer(self, name: str, default: int) -> int:
        """An integer parameter with a default; raises SlackError invalid_arguments."""
        try:
            return int(self.text(name) or default)
        except ValueError:
            raise invalid_arguments(f"must be a valid integer [json-pointer:/{name}]") from None

    def flag(self, name: str) -> bool:
        """A boolean parameter; absent means False."""
        return self.text(name).lower() in ("true", "1")

    @property
    def channel(self) -> str | None:
        """The channel that the call is about, under any of its names."""
        value = self.text("channel") or self.text("channel_id")
        return value or None


async def read_call(request: web.Request, method: str) -> Call:
    """Parse query, form, multipart or JSON alike; raises SlackError if the real server would refuse it."""
    call = Call(method, _bearer(request), dict(request.query))
    if request.query:
        call.encodings.append("query")
    kind = request.content_type if request.body_exists else ""
    body = await request.read() if kind and kind != "multipart/form-data" else b""
    if kind == "multipart/form-data":
        call.encodings.append("multipart")
        call.params.update(await _multipart(request))
    elif kind == "application/json" and body:
        call.encodings.append("json")
        call.params.update(_json_object(body))
    elif body:
        call.encodings.append("form")
        call.params.update(parse_qsl(body.decode("utf-8"), keep_blank_values=True))
    call.token = call.token or str(call.params.pop("token", ""))
    call.params.pop("token", None)
    for name in JSON_PARAMETERS & call.params.keys():
        if isinstance(call.params[name], str):
            call.params[name] = _json(call.params[name], name)
    return call


def shown_headers(request: web.Request) -> dict[str, str]:
    """The request's headers without its secrets."""
    return {name: value for name, value in request.headers.items() if name.lower() not in HIDDEN_HEADERS}


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def _multipart(request: web.Request) -> dict[str, str]:
    fields: dict[str, str] = {}
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and part.name is not None:
            fields[part.name] = await part.text()
    return fields


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise SlackError("invalid_json") from None
    if not isinstance(value, dict):
        raise SlackError("json_not_object")
    return value


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        if name == "blocks":
            raise SlackError("invalid_blocks_format") from None
        raise invalid_arguments(f"must be valid JSON [json-pointer:/{name}]") from None
