"""Text that every database takes. PostgreSQL refuses NUL, UTF-8 has no lone surrogates, strangers send both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
REPLACEMENT = "\ufffd"


def storable(text: str) -> str:
    """`text` with each NUL and each lone surrogate replaced by U+FFFD; nearly always the same object."""
    if "\0" in text:
        text = text.replace("\0", REPLACEMENT)
    return text if text.isascii() else _without_lone_surrogates(text)


def to_json(adapter: TypeAdapter[T], value: T) -> str:
    """JSON that `adapter.validate_json` reads back. A NUL survives (as an escape), a lone surrogate becomes U+FFFD:
    it is no character, and whatever comes next (the model's HTTP body, the platform's) could not encode it either."""
    try:
        return adapter.dump_json(value).decode()
    except PydanticSerializationError:
        document = adapter.dump_python(value, mode="json")
        return _without_lone_surrogates(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def from_json(adapter: TypeAdapter[T], text: str) -> T | None:
    """What `to_json` wrote; None where another version of the program did, in another form."""
    try:
        return adapter.validate_json(text)
    except ValidationError:
        return None


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
