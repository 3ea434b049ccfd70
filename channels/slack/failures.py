"""Translates refusals of the Web API: every answer except ok becomes a ChannelError. Pure.

The error names are Slack's own; sources: the "Errors" section of each method's reference page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.errors import (
    AttachmentFailed,
    ChannelError,
    ChatGone,
    EditRefused,
    Fatal,
    MessageGone,
    NotAllowed,
    OutcomeUnknown,
    RateLimited,
    Rejected,
    Temporary,
    TopicClosed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_RETRY = 10.0
"""Seconds to wait if a 429 does not specify a time."""

_TOKEN_DEAD = {
    "invalid_auth": "Slack does not know this token: copy it again from the app's settings",
    "not_authed": "Slack received no token: copy it again from the app's settings",
    "account_inactive": "the app was removed from the workspace: install it again, and copy the new token",
    "token_revoked": "the token was revoked: install the app again, and copy the new token",
    "token_expired": "the token has expired: switch token rotation off in the app's settings, and copy the new token",
    "org_login_required": "the workspace is being moved into an organisation: install the app again afterwards",
}
_NOT_GRANTED = {
    "not_allowed_token_type": "this is a token of another kind: bot tokens begin with xoxb-, app tokens with xapp-",
    "team_access_not_granted": "the token is not for this workspace: install the app there, and copy its token",
    "enterprise_is_restricted": "the organisation does not allow this app: ask its administrator",
    "no_permission": "ask an administrator of the workspace to let the app do this",
    "access_denied": "ask an administrator of the workspace to let the app do this",
    "unknown_method": "this Slack does not support the call",
    "method_deprecated": "this Slack no longer supports the call",
    "feature_not_enabled": "the workspace's plan does not include it",
}
"""Refusals of one call: others may be allowed."""
_MESSAGE_GONE = frozenset(
    {
        "message_not_found",
        "cant_delete_message",
        "message_not_in_streaming_state",
    }
)
_EDIT_REFUSED = frozenset({"cant_update_message", "edit_window_closed", "message_not_owned_by_app"})
_TOPIC_CLOSED = frozenset(
    {
        "restricted_action",
        "restricted_action_read_only_channel",
        "restricted_action_non_threadable_channel",
        "restricted_action_thread_only_channel",
        "restricted_action_thread_locked",
        "thread_locked",
        "thread_not_found",
        "cannot_reply_to_message",
        "ekm_access_denied",
    }
)
_CHAT_GONE = frozenset(
    {
        "channel_not_found",
        "not_in_channel",
        "is_archived",
        "is_inactive",
        "user_not_found",
        "user_disabled",
        "messages_tab_disabled",
        "channel_is_archived",
        "team_not_found",
    }
)
_NEEDED = frozenset({"auth.test", "apps.connections.open", "chat.postMessage"})
"""Calls without which nothing can be received or answered; every other call is optional."""
_NOTHING_DONE = frozenset({"service_unavailable", "request_timeout", "team_added_to_org", "accesslimited"})
# "It's possible some aspect of the operation succeeded before the error was raised."
_MAYBE_DONE = frozenset({"fatal_error", "internal_error"})
_FILE_GONE = frozenset({"file_not_found", "file_deleted", "file_not_found_or_deleted"})
_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_BLOCKS = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "unsupported_block"})


class BlocksRefused(Rejected):
    """The blocks were not accepted: plain text may be."""


class StillStreaming(Rejected):
    """The message is an open stream, which cannot be edited until it is stopped."""


class StoppedByUser(MessageGone):
    """A person pressed the stop button of a stream."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer other than ok. error: "" if the body is not the Web API's. retry_after: seconds, if specified."""

    status: int
    error: str
    details: Mapping[str, Any]
    retry_after: float | None = None


def sorted_out(method: str, refusal: Refusal, repeatable: bool, setting: str) -> ChannelError:
    """The error to raise. repeatable: making the call twice does no harm. setting: the token's place in the config."""
    error = refusal.error
    text = f"{method}: {error or f'HTTP {refusal.status} without a Web API response'}"
    if refusal.status == 429 or error in _LIMITED:
        return RateLimited(text, refusal.retry_after or DEFAULT_RETRY)
    if error in _TOKEN_DEAD:
        return Fatal(f"Slack refuses {setting} ({error})", f"{_TOKEN_DEAD[error]}; it belongs in {setting}")
    if error in _NOT_GRANTED:
        hint = f"{_NOT_GRANTED[error]} ({setting})"
        return Fatal(text, hint) if method in _NEEDED else NotAllowed(text, hint)
    if error == "missing_scope":
        return missing_scope(method, str(refusal.details.get("needed", "")), setting)
    if error == "streaming_state_conflict":
        return StillStreaming(text)
    if error in _NOTHING_DONE:
        return Temporary(text)
    if error in _MAYBE_DONE or not error:
        return Temporary(text) if repeatable else OutcomeUnknown(text)
    return _permanent(text, error, refusal)


def _permanent(text: str, error: str, refusal: Refusal) -> ChannelError:
    if error == "stopped_by_user":
        return StoppedByUser(text)
    if error in _MESSAGE_GONE:
        return MessageGone(text)
    if error in _EDIT_REFUSED:
        return EditRefused(text)
    if error in _TOPIC_CLOSED:
        return TopicClosed(text)
    if error in _CHAT_GONE:
        return ChatGone(text)
    if error in _FILE_GONE:
        return AttachmentFailed(text, "gone")
    if error in _BLOCKS:
        return BlocksRefused(f"{text}: {_details(refusal.details)}")
    return Rejected(text)


def missing_scope(method: str, needed: str, setting: str) -> ChannelError:
    """The error for a call, or a similar request, that lacks a scope."""
    text = f"{method}: the token lacks the scope {needed or '(Slack does not say which)'}"
    if needed == "connections:write":
        return Fatal(f"{setting} lacks the scope connections:write", f"create an app-level token with it for {setting}")
    hint = f"add the scope {needed or 'that is missing'} under OAuth & Permissions, Scopes, and install the app again"
    if method in _NEEDED:
        return Fatal(text, hint)
    return NotAllowed(text, hint)


def _details(details: Mapping[str, Any]) -> str:
    """Slack's details about refused blocks, as one short line."""
    errors = details.get("errors")
    lines = [str(error) for error in errors] if isinstance(errors, list) else []
    return " ".join("; ".join(lines).split())[:300]
