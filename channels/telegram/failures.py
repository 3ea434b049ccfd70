"""Translates the errors of python-telegram-bot: each becomes a ChannelError. Pure.

The SDK has one class for most refusals; their cause is only in the server's own texts, which are compared
case-insensitively.
"""

from __future__ import annotations

import re
from datetime import timedelta

from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    RetryAfter,
    TelegramError,
)

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
from channels.telegram.request import Answered, NotSent

_DEFAULT_RETRY = 5.0
_TOKEN_METHODS = frozenset({"getMe", "getWebhookInfo", "deleteWebhook", "getUpdates"})
"""A 404 from these means a malformed token; from others, a method that the server does not support."""
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
"""Permissions for one kind of content, such as documents or voice messages; those for text are above."""
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
    """The message already has that content; for an edit this is success."""


class AnotherPoller(Temporary):
    """409: another program polls this bot's updates, or a webhook is set."""


def translated(method: str, error: TelegramError, text: str, *, repeatable: bool, account: str) -> ChannelError:
    """The error to raise for one of the SDK's errors.

    text: its text, without secrets. repeatable: making the call twice does no harm, so an unknown outcome is only
    Temporary. account: names the setting in the hint to the operator.
    """
    text = f"{method}: {text}"
    match error:
        case ChatMigrated():
            return ChatMoved(text, str(error.new_chat_id))
        case RetryAfter():
            waiting = error.retry_after
            return RateLimited(text, waiting.total_seconds() if isinstance(waiting, timedelta) else waiting)
        case InvalidToken():  # only 401: `Request` separates 404
            return _bad_token(f"{text} (401)", account)
        case Conflict():
            return AnotherPoller(text)
        case BadRequest() | Forbidden():
            return _refused(text, str(error).casefold(), forbidden=isinstance(error, Forbidden))
        case Answered():
            return _answered(method, error.code, text, repeatable, account)
        case NotSent():
            return Temporary(text)
        case _:  # TimedOut, another NetworkError, an unreadable answer
            return Temporary(text) if repeatable else OutcomeUnknown(text)


def _answered(method: str, code: int, text: str, repeatable: bool, account: str) -> ChannelError:
    if code == 429:
        found = re.search(r"retry (?:after|in) ([0-9]{1,6})", text.casefold())
        return RateLimited(text, float(found[1]) if found else _DEFAULT_RETRY)
    if code == 404 and method in _TOKEN_METHODS:
        return _bad_token(text, account)
    if code < 400 or code in (407, 408):
        return Temporary(text)
    if code < 500:
        return Rejected(text)
    return Temporary(text) if repeatable else OutcomeUnknown(text)


def _bad_token(text: str, account: str) -> Fatal:
    return Fatal(text, f"set channels.{account}.token to the token that @BotFather shows, and check base_url")


def _refused(text: str, said: str, *, forbidden: bool) -> ChannelError:
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
    if forbidden:
        return ChatGone(text)
    if "file is too big" in said:
        return AttachmentFailed(text, "too_large")
    if any(sign in said for sign in _FILE_GONE):
        return AttachmentFailed(text, "gone")
    return Rejected(text)
