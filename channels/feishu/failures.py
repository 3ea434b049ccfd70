"""Translates the open platform's refusals: every answer except code 0 becomes a ChannelError. Pure.

Codes: the "server error codes" page of the platform.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from channels.errors import (
    AttachmentFailed,
    ChannelError,
    ChatGone,
    EditRefused,
    Fatal,
    MessageGone,
    NotAllowed,
    OutcomeUnknown,
    Permanent,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_STALE = frozenset({99991661, 99991663, 99991664, 99991668})
MISSING_SCOPE = 99991672
TABLES = 11310
"""Too many tables in one card; reported inside a 230099."""
SEQUENCE = 300317
STREAMING_CLOSED = frozenset({300309, 200850})
ELEMENT_MISSING = 300313

_RATE = frozenset({99991400, 230020, 11232, 11233})
_CREDENTIAL = frozenset({10003, 10012, 10013, 10014, 10015, 99991543})
_BOT_OFF = frozenset({230006, 11205})
_IP_DENIED = 99991401
_CHAT_GONE = frozenset({230002, 230013, 232009, 232010})
_TOPIC_CLOSED = frozenset({230027, 230035})
"""No permission to write here: the chat is muted for all but some, or open only to its own organisation."""
_NO_RIGHT = frozenset({230027, 99991679})
"""No permission to read a file; these answers do not always name the scopes, which are then _READING."""
_READING = ("im:resource", "im:message:readonly")
_MESSAGE_GONE = frozenset({230011, 230110, 231003})
_EDIT_REFUSED = frozenset({230031, 230054, 230071, 230072, 230075, 200740, 200750, 300311})
"""Too old, edited too often, or sent by someone else; the last three are card entities that have expired."""
_BUSY = frozenset({1, 2200, 230049, 1000040343})
_DEFAULT_RETRY = 1.0
_SCOPES = re.compile(r"\[([a-z0-9_:., -]+)\]")
_INNER = re.compile(r"ErrCode:\s*([0-9]{2,9})")


class Refused(Rejected):
    """The content was refused. code: the platform's; of a refused card the inner one, which is more specific."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class StaleToken(Temporary):
    """The access token is no longer valid: get a new one and retry once."""


class MissingScope(NotAllowed):
    """A scope is missing; any of `scopes` suffices. Fatal only if no form of text can be sent: sending.py."""

    def __init__(self, message: str, scopes: tuple[str, ...], account: str) -> None:
        names = ", ".join(scopes) if scopes else "named in the message"
        super().__init__(
            message,
            f"add one of the scopes {names} to the app of account {account} in its console, and publish a version",
        )
        self.scopes = scopes


@dataclass(frozen=True, slots=True)
class Refusal:
    """An unsuccessful answer. status: HTTP; code: the body's, or the status if the body has none."""

    status: int
    code: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


def read_refusal(status: int, payload: bytes, headers: Mapping[str, str]) -> Refusal | None:
    """The refusal as far as it can be read (a load balancer answers in HTML); None for a success."""
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    code, said = fields.get("code"), fields.get("msg")
    message = said if isinstance(said, str) else ""
    if isinstance(code, int):
        return None if code == 0 and status < 400 else Refusal(status, code or status, message, headers)
    return Refusal(status, status, message or "not an API response", headers)


def sorted_out(what: str, refusal: Refusal, repeatable: bool, account: str) -> ChannelError:
    """The error to raise. repeatable: making the call twice does no harm; account: for the hint to the operator."""
    text = f"{what}: {refusal.message or 'no message'} ({refusal.code})"
    code = refusal.code
    if code in _RATE or refusal.status == 429:
        return RateLimited(text, _retry_after(refusal))
    if code in TOKEN_STALE:
        return StaleToken(text)
    if code == MISSING_SCOPE:
        return MissingScope(text, _scopes(refusal.message), account)
    fatal = _fatal(text, refusal, account)
    if fatal is not None:
        return fatal
    if code in _CHAT_GONE:
        return ChatGone(text)
    if code in _TOPIC_CLOSED:
        return TopicClosed(text)
    if code in _EDIT_REFUSED:
        return EditRefused(text)
    if code in _MESSAGE_GONE or (code == 230001 and "message_id" in refusal.message):
        return MessageGone(text)
    if refusal.status in (407, 408) or code in _BUSY or refusal.status >= 500 or 300 <= refusal.status < 400:
        certain = repeatable or refusal.status in (407, 408) or refusal.status < 400
        return Temporary(text) if certain else OutcomeUnknown(text)
    if refusal.status == code and 200 <= refusal.status < 300:
        return Temporary(text) if repeatable else OutcomeUnknown(text)
    return Refused(text, _inner(refusal))


def refused_download(refusal: Refusal, account: str) -> ChannelError:
    """The error to raise for a file: a permanent refusal means it is gone, unless a permission is missing."""
    error = sorted_out("download", refusal, True, account)
    if refusal.code in _NO_RIGHT:
        return MissingScope(str(error), _scopes(refusal.message) or _READING, account)
    if isinstance(error, Permanent) and not isinstance(error, NotAllowed):
        return AttachmentFailed(str(error), "gone")
    return error


def asked_to_wait(error: ChannelError) -> tuple[str, float] | None:
    """A `channels.supervision.Judge`: what to report for a rate limit, and how long it lasts."""
    if isinstance(error, RateLimited):
        return f"rate-limited by Feishu for {error.retry_after:.0f} s", error.retry_after + 0.5
    return None


def bad_credential(text: str, account: str) -> Fatal:
    return Fatal(
        text,
        f"set channels.{account}.app_id and app_secret to what Credentials & Basic Info shows, and check domain "
        "(feishu or lark: an app exists on one of them only)",
    )


def _fatal(text: str, refusal: Refusal, account: str) -> Fatal | None:
    if refusal.code in _CREDENTIAL:
        return bad_credential(text, account)
    if refusal.code in _BOT_OFF:
        return Fatal(text, f"add the bot capability to the app of account {account} and publish a version")
    if refusal.code == _IP_DENIED:
        return Fatal(text, f"add this machine's address to the IP allow list of the app of account {account}")
    return None


def _scopes(message: str) -> tuple[str, ...]:
    found = _SCOPES.search(message)
    return tuple(name.strip() for name in found[1].split(",") if name.strip()) if found else ()


def _inner(refusal: Refusal) -> int:
    found = _INNER.search(refusal.message)
    return int(found[1]) if found else refusal.code


def _retry_after(refusal: Refusal) -> float:
    """Seconds until the limit is lifted; without a header a short time, which delivery extends if necessary."""
    for name in ("x-ogw-ratelimit-reset", "retry-after"):
        said = refusal.headers.get(name, "")
        if said.isascii() and said.isdecimal() and int(said) > 0:
            return min(float(said), 3600.0)
    return _DEFAULT_RETRY
