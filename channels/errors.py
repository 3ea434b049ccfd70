"""The one error tree of the channel port, sorted by what the caller does next.

An adapter's `api.py` is the only place that turns an SDK's exceptions into these.

    ChannelError
      Temporary             try again later, nothing was applied
        RateLimited         ... after retry_after seconds, for this chat
        NotCommitted        ... with an event: the gateway has not stored it, so it must not be acknowledged
      OutcomeUnknown        it may have been applied: look before repeating
      Permanent             repeating does not help
        Rejected            the content was refused: simplify it
        MessageGone         the message to edit does not exist any more: send a new one
        ChatGone            the chat is closed to us (blocked, kicked, deleted): stop
        ChatMoved           the chat has a new id: use it
        AttachmentFailed    a file cannot be fetched
      Fatal                 the account cannot work until a person changes something: stop the channel
"""

from __future__ import annotations


class ChannelError(Exception):
    """Base of everything a channel raises. The text is for logs and operators and holds no secret."""


class Temporary(ChannelError):
    """The call failed and certainly changed nothing (refused connection, 5xx before sending)."""


class RateLimited(Temporary):
    """retry_after: seconds to wait before the next call for this chat."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotCommitted(Temporary):
    """Events were published and not committed; the cause says why."""


class OutcomeUnknown(ChannelError):
    """The answer did not arrive; the platform may or may not have applied the call."""


class Permanent(ChannelError):
    """The platform refused, and will refuse again."""


class Rejected(Permanent):
    """The content or the request was not accepted."""


class MessageGone(Permanent):
    """The message was deleted or can no longer be edited."""


class ChatGone(Permanent):
    """Blocked by the user, removed from the group, or the chat does not exist."""


class ChatMoved(Permanent):
    """new_chat: the id to use from now on."""

    def __init__(self, message: str, new_chat: str) -> None:
        super().__init__(message)
        self.new_chat = new_chat


class AttachmentFailed(Permanent):
    """reason: "too_large" (over the platform's or our cap) or "gone" (expired, deleted)."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Fatal(ChannelError):
    """hint: what the operator should change, in one sentence."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint
