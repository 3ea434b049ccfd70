"""What a refusal of the Bot API means for the caller: every answer but 2xx becomes a ChannelError. Pure.

Called by api.py. The texts are the server's own and compared without regard to case.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.errors import (
    AttachmentFailed,
    ChannelError,
    ChatGone,
    ChatMoved,
    EditRefused,
    Fatal,
    MessageGone,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_RETRY = 5.0
_TOKEN_METHODS = frozenset({"getMe", "deleteWebhook", "getUpdates"})
"""A 404 from these is a malformed token; from others it is a method that the server does not know."""
_MESSAGE_GONE = (
    "message to edit not found",
    "message to delete not found",
    "message can't be deleted",
    "message_id_invalid",
)
_EDIT_REFUSED = "message can't be edited"
_TOPIC_CLOSED = (
    "message thread not found",
    "topic_closed",
    "topic_deleted",
    "chat_write_forbidden",
    "chat_restricted",
    "chat_send_plain_forbidden",
    "rights to send text messages",
    "rights to send a message",
    "rights to send messages",
    "need administrator rights",
)
_KIND_REFUSED = ("rights to send", "voice_messages_forbidden", "chat_send_")
"""Rights for one kind of content, such as documents or voice messages; those for words stand above."""
_CHAT_GONE = (
    "chat not found",
    "user not found",
    "user is deactivated",
    "peer_id_invalid",
    "group chat was deactivated",
    "bot was kicked",
    "bot was blocked",
)
_FILE_GONE = ("wrong file_id", "wrong file id", "file is temporarily unavailable", "invalid file_id", "file_id_invalid")


class NotModified(Rejected):
    """The message shows that already; for an edit this is success."""


class AnotherPoller(Temporary):
    """409: another program asks for this bot's updates, or a webhook is set."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer but 2xx. description: "" and parameters: {} when the body is not the Bot API's."""

    code: int
    description: str
    parameters: Mapping[str, Any]


def read_refusal(code: int, payload: bytes) -> Refusal:
    """Read what can be read; a load balancer answers in HTML."""
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    description, parameters = fields.get("description"), fields.get("parameters")
    return Refusal(
        code,
        description if isinstance(description, str) else "",
        parameters if isinstance(parameters, dict) else {},
    )


def sorted_out(method: str, refusal: Refusal, repeatable: bool, account: str) -> ChannelError:
    """The error to raise. repeatable: doing the call twice does no harm; account: for the hint to the operator."""
    text = f"{method}: {refusal.description or 'no description'} ({refusal.code})"
    moved = refusal.parameters.get("migrate_to_chat_id")
    if isinstance(moved, int):
        return ChatMoved(text, str(moved))
    match refusal.code:
        case 429:
            return RateLimited(text, _retry_after(refusal))
        case 401:
            return _bad_token(text, account)
        case 404 if method in _TOKEN_METHODS:
            return _bad_token(text, account)
        case 409:
            return AnotherPoller(text)
        case 400 | 403:
            return _refused(text, refusal)
        case code if code < 400 or code in (407, 408):
            return Temporary(text)
        case code if code < 500:
            return Rejected(text)
        case _:
            return Temporary(text) if repeatable else OutcomeUnknown(text)


def _bad_token(text: str, account: str) -> Fatal:
    return Fatal(text, f"set channels.{account}.token to the token that @BotFather shows, and check base_url")


def _refused(text: str, refusal: Refusal) -> ChannelError:
    said = refusal.description.casefold()
    if "message is not modified" in said:
        return NotModified(text)
    if _EDIT_REFUSED in said:
        return EditRefused(text)
    if any(sign in said for sign in _MESSAGE_GONE):
        return MessageGone(text)
    if any(sign in said for sign in _CHAT_GONE):
        return ChatGone(text)
    if any(sign in said for sign in _TOPIC_CLOSED):
        return TopicClosed(text)
    if any(sign in said for sign in _KIND_REFUSED):
        return Rejected(text)
    if refusal.code == 403:
        return ChatGone(text)
    if "file is too big" in said:
        return AttachmentFailed(text, "too_large")
    if any(sign in said for sign in _FILE_GONE):
        return AttachmentFailed(text, "gone")
    return Rejected(text)


def _retry_after(refusal: Refusal) -> float:
    said = refusal.parameters.get("retry_after")
    if isinstance(said, int | float) and said > 0:
        return float(said)
    found = re.search(r"retry (?:after|in) ([0-9]{1,6})", refusal.description.casefold())
    return float(found[1]) if found else _DEFAULT_RETRY
