"""Reads one Bot API request, whatever its encoding, into a `Call` with typed access to its parameters."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import BodyPartReader, web

from tests.simulators.telegram.errors import ApiError, bad_request
from tests.simulators.telegram.files import MAX_UPLOAD_BYTES, Upload, UploadReader

# Parameters that arrive as JSON text inside a form field or a query.
JSON_PARAMETERS = frozenset(
    {"allowed_updates", "caption_entities", "commands", "entities", "link_preview_options", "media", "reaction"}
    | {"reply_markup", "reply_parameters", "rich_message", "scope"}
)
UPLOAD_CHUNK = 256 * 1024


@dataclass
class Call:
    """A parsed request: method in its original spelling, parameters, uploaded files by field name."""

    method: str
    params: dict[str, Any] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the parameter was given at all."""
        return self.params.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        """A string parameter."""
        value = self.params.get(name)
        return default if value is None else str(value)

    def optional_integer(self, name: str) -> int | None:
        """An integer parameter, None when absent; raises ApiError 400 for anything else."""
        value = self.params.get(name)
        if value is None:
            return None
        try:
            return int(value)
        except (TypeError, ValueError):
            raise bad_request(f"parameter {name} must be an integer") from None

    def integer(self, name: str, default: int = 0) -> int:
        """An integer parameter with a default."""
        value = self.optional_integer(name)
        return default if value is None else value

    def flag(self, name: str) -> bool:
        """A boolean parameter; absent means False."""
        return str(self.params.get(name, "")).lower() in ("true", "1")

    def objects(self, name: str) -> list[dict[str, Any]]:
        """An array of objects; absent means empty."""
        value = self.params.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise bad_request(f"can't parse {name}: expected an Array of objects")
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """A JSON object, None when absent."""
        value = self.params.get(name)
        if value is not None and not isinstance(value, dict):
            raise bad_request(f"can't parse {name}: expected an Object")
        return value

    @property
    def chat_id(self) -> int | None:
        """The numeric chat_id, or None if it is missing or a @username (the simulator has no public names)."""
        value = str(self.params.get("chat_id", ""))
        return int(value) if value.lstrip("-").isdigit() else None


async def read_call(request: web.Request, method: str) -> Call:
    """Parse query, form, multipart or JSON alike; raises ApiError 400 or 413 if the real server would refuse it."""
    call = Call(method, dict(request.query))
    kind = request.content_type if request.body_exists else ""
    if kind == "multipart/form-data":
        await _read_multipart(request, call)
    elif kind == "application/json":
        body = _decoded(await request.read())
        call.params.update(_json_object(body))
    elif kind == "application/x-www-form-urlencoded":
        _read_form(await request.read(), call)
    for name in JSON_PARAMETERS & call.params.keys():
        if isinstance(call.params[name], str):
            call.params[name] = _json(call.params[name], name)
    return call


def _read_form(body: bytes, call: Call) -> None:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except UnicodeDecodeError:
        raise bad_request("strings must be encoded in UTF-8") from None
    call.params.update(pairs)


async def _read_multipart(request: web.Request, call: Call) -> None:
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        if not isinstance(part, BodyPartReader) or part.name is None:
            raise bad_request("nested multipart bodies are not supported")
        if part.filename is None:
            call.params[part.name] = _decoded(bytes(await part.read()))
        else:
            call.uploads[part.name] = await _read_upload(part, part.name, part.filename)
    if sum(upload.size for upload in call.uploads.values()) > MAX_UPLOAD_BYTES:
        raise ApiError(413, "Request Entity Too Large")


async def _read_upload(part: BodyPartReader, field_name: str, file_name: str) -> Upload:
    reader = UploadReader()
    while chunk := await part.read_chunk(UPLOAD_CHUNK):
        reader.feed(chunk)
    return reader.finish(field_name, file_name, part.headers.get("Content-Type", "application/octet-stream"))


def _decoded(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise bad_request("strings must be encoded in UTF-8") from None


def _json_object(text: str) -> dict[str, Any]:
    value = _json(text, "request") if text else {}
    if not isinstance(value, dict):
        raise bad_request("can't parse request: expected an Object")
    return value


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise bad_request(f"can't parse {name} JSON object") from None
