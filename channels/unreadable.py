"""What the adapters do with events that cannot be read: each becomes one Unparsed and is acked.

Nothing here raises: an event that broke its reader would come again and again, and hold up those behind it.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from channels.message import Unparsed

if TYPE_CHECKING:
    from datetime import datetime

TOO_DEEP = "nested too deeply to be kept"
LONGEST_KEY = 80
_LONGEST_REASON = 500


class Raw(BaseModel):
    """Base of what adapters read of a platform's JSON. null is absent: platforms send it where there is nothing."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if isinstance(value, dict) and None in value.values():
            return {name: part for name, part in value.items() if part is not None}
        return value


def unparsed(account: str, payload: object, error: Exception, now: datetime, *, key: object = None) -> Unparsed:
    """payload: the event as JSON text, or as what was read of it. key: what the platform knows the event by."""
    if isinstance(payload, bytes):
        text, digest = payload.decode("utf-8", "replace").replace("\0", ""), hashlib.sha256(payload)
    else:
        try:
            text = json.dumps(payload, sort_keys=True)
        except (RecursionError, ValueError, TypeError):
            text = json.dumps({"key": _key(key), "note": TOO_DEEP})
        digest = hashlib.sha256(text.encode())
    return Unparsed(
        account=account,
        dedupe_keys=(f"x:{_key(key)}:{digest.hexdigest()[:32]}",),
        sent_at=now,
        received_at=now,
        raw=text,
        error=why(error),
    )


def _key(key: object) -> str:
    text: Any = key if isinstance(key, str) else str(key) if type(key) is int and abs(key) < 2**70 else ""
    return str(text).encode("utf-8", "replace").decode()[:LONGEST_KEY]


def why(error: Exception) -> str:
    """What could not be read and where, without the value."""
    if isinstance(error, ValidationError):
        places = [f"{'.'.join(str(step) for step in line['loc'])}: {line['msg']}" for line in error.errors()]
        return "; ".join(places)[:_LONGEST_REASON]
    if not isinstance(error, ValueError):
        return type(error).__name__  # of others it is not known whether they repeat what they were given
    return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()[:_LONGEST_REASON]
