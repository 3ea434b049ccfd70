"""Messages as clients send them, in LangChain's and OpenAI's forms: their roles, words and files."""

from __future__ import annotations

import base64
import mimetypes
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from bot.http.errors import HttpProblem
from bot.store.sql import storable
from harness.context import HistoryEntry, Removal

Role = Literal["user", "assistant", "system", "tool"]
ROLES: Mapping[str, Role] = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}
TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
MOST_MESSAGES = 1_000
MOST_FILES = 20
LONGEST_ID = 200
REMOVE_ALL = "__remove_all__"
"""The id by which LangGraph's `remove` refers to every message."""


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of a message. upload_id: of an earlier upload, "" where the bytes came with the message."""

    name: str
    mime_type: str
    data: bytes
    upload_id: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """One message. id: the client's own, "" where it sent none."""

    role: Role
    text: str
    files: tuple[SentFile, ...] = ()
    id: str = ""


def invalid(text: str, place: str) -> HttpProblem:
    """The problem of an invalid request, with the place of the fault."""
    return HttpProblem(422, "invalid", f"{place}: {text}", param=place, type="invalid_request_error")


def read_messages(raw: Any, place: str = "messages") -> list[Said]:
    """Messages in chronological order; a single message, or just its text, gives a list of one. Raises HttpProblem."""
    return [_message(each, at) for at, each in _each(raw, place)]


def read_changes(raw: Any) -> list[HistoryEntry | Removal]:
    """Messages to put into a thread, or to remove from it where their type is `remove`. Raises HttpProblem."""
    return [_change(each, at) for at, each in _each(raw, "values.messages")]


def _each(raw: Any, place: str) -> Iterator[tuple[str, Any]]:
    found = raw if isinstance(raw, list) else [raw]
    if len(found) > MOST_MESSAGES:
        raise invalid(f"there are more than {MOST_MESSAGES} messages", place)
    return ((f"{place}[{index}]", each) for index, each in enumerate(found))


def _change(raw: Any, place: str) -> HistoryEntry | Removal:
    about = raw if isinstance(raw, Mapping) else {}
    if isinstance(kwargs := about.get("kwargs"), Mapping):  # LangChain's constructor form
        about = kwargs
    message_id = about.get("id") or ""
    if not isinstance(message_id, str) or len(message_id) > LONGEST_ID:
        raise invalid(f"id must be a string of at most {LONGEST_ID} characters", place)
    if "remove" in (about.get("type"), about.get("role")):
        if not message_id:
            raise invalid("the id of the message to remove is missing", place)
        return Removal(None if message_id == REMOVE_ALL else message_id)
    said = _message(raw, place)
    if said.files:
        raise invalid("files must be sent with the input of a run", place)
    if said.role == "tool" or about.get("tool_calls"):
        raise invalid("tool calls and their results belong to the agent; they can only be removed", place)
    if (entry := entry_of(said)) is None:
        raise invalid("the message is empty", place)
    return entry


def entry_of(said: Said) -> HistoryEntry | None:
    """A message as a thread holds it, under its own id or a new one; None for an empty one.

    A system message of the client is passed on as the person's words: the agent has its own instructions, and a client
    has no authority to change them.
    """
    if not said.text.strip():
        return None
    text = f"[Instructions of the program that I write with]\n{said.text}" if said.role == "system" else said.text
    role = "assistant" if said.role == "assistant" else "user"
    return HistoryEntry(message_id=said.id or f"s{uuid.uuid4().hex}", role=role, text=text)


def _message(raw: Any, place: str) -> Said:
    match raw:
        case str():
            return Said("user", raw)
        case [str() as role, content]:
            return _said(role, content, "", place)
        case {"id": list(), "kwargs": Mapping() as kwargs}:  # LangChain's constructor form
            return _message(kwargs, place)
        case Mapping():
            role = raw.get("role") or raw.get("type") or ""
            message_id = raw.get("id")
            return _said(str(role), raw.get("content"), message_id if isinstance(message_id, str) else "", place)
    raise invalid("a message must be an object with role and content", place)


def _said(role: str, content: Any, message_id: str, place: str) -> Said:
    who = ROLES.get(role)
    if who is None:
        raise invalid(f"role must be one of {', '.join(ROLES)}", place)
    texts: list[str] = []
    files: list[SentFile] = []
    if isinstance(content, str):
        texts.append(content)
    elif isinstance(content, Sequence):
        for index, part in enumerate(content):
            _part(part, f"{place}.content[{index}]", texts, files)
    elif content is not None:
        raise invalid("content must be a string or a list of parts", place)
    if len(files) > MOST_FILES:
        raise invalid(f"there are more than {MOST_FILES} files", place)
    return Said(who, storable("\n\n".join(texts)), tuple(files), storable(message_id))


def _part(part: Any, place: str, texts: list[str], files: list[SentFile]) -> None:
    if isinstance(part, str):
        texts.append(part)
        return
    if not isinstance(part, Mapping):
        raise invalid("a part must be an object with a type", place)
    kind = str(part.get("type", ""))
    if kind in TEXTS:
        texts.append(str(part.get("text") or part.get("refusal") or ""))
        return
    files.append(_file(kind, part, place))


def _file(kind: str, part: Mapping[str, Any], place: str) -> SentFile:
    for about in (part, part.get(kind)) if kind in ("file", "input_file", "input_image") else ():
        if isinstance(about, Mapping) and isinstance(upload := about.get("file_id"), str):
            return SentFile("", "", b"", upload)
    match kind:
        case "image_url" | "input_image":
            url = part.get("image_url")
            return _from_url(url.get("url") if isinstance(url, Mapping) else url, "image", place)
        case "image" | "audio" | "video" | "file" | "input_file" | "input_audio":
            return _inline(kind, part, place)
    raise invalid(f"parts of type {kind!r} are not accepted; text, image_url and file are", place)


def _inline(kind: str, part: Mapping[str, Any], place: str) -> SentFile:
    """A file whose bytes are in the part, in one of several forms."""
    inner = part.get(kind, part.get(kind.removeprefix("input_")))
    about = {**part, **inner} if isinstance(inner, Mapping) else dict(part)
    if isinstance(source := about.get("source"), Mapping):  # Anthropic's
        about |= {"data": source.get("data"), "mime_type": source.get("media_type")}
    data = about.get("file_data") or about.get("data") or about.get("base64") or about.get("url")
    name = str(about.get("filename") or about.get("name") or "")
    if isinstance(data, str) and data.startswith(("data:", "http:", "https:")):
        return _from_url(data, name or kind, place)
    mime_type = str(about.get("mime_type") or about.get("media_type") or mimetypes.guess_type(name)[0] or "")
    if not mime_type and isinstance(form := about.get("format"), str):
        mime_type, name = f"audio/{form}", name or f"audio.{form}"
    if not isinstance(data, str) or not data:
        raise invalid("the file's bytes are missing: send them as base64 or as a data: URL", place)
    return _made(name or kind, mime_type, _decoded(data, place))


def _from_url(url: Any, name: str, place: str) -> SentFile:
    if not isinstance(url, str) or not url.startswith("data:"):
        raise invalid("send the file itself, as a data: URL; addresses are not fetched", place)
    head, comma, body = url.removeprefix("data:").partition(",")
    if not comma:
        raise invalid("this is not a data: URL", place)
    mime_type, *options = head.split(";")
    data = _decoded(body, place) if "base64" in options else unquote_to_bytes(body)
    return _made(name, mime_type, data)


def _decoded(text: str, place: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise invalid("this is not base64", place) from None


def _made(name: str, mime_type: str, data: bytes) -> SentFile:
    ending = mimetypes.guess_extension(mime_type) or ""
    return SentFile(name if "." in name else f"{name}{ending}", mime_type or "application/octet-stream", data)
