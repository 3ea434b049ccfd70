"""The error hierarchy of the channel port, organized by what the caller does next and by how far a failure reaches.

An adapter's `api.py` is the only place that turns an SDK's exceptions into these. Raise the narrowest error that
applies: a failure that affects one file, message or topic must not stop deliveries elsewhere.

    ChannelError
      Temporary             try again later, nothing was applied
        RateLimited         ... after retry_after seconds, for this chat
        NotCommitted        ... with an event: the gateway has not stored it, so it must not be acknowledged
      OutcomeUnknown        it may have been applied: check before repeating
      Permanent             repeating does not help
        Rejected            the content was refused: simplify it; leave a file out
          ButtonsRefused    ... only the buttons: the text above them is shown
          NotAllowed        ... a permission that can be granted is missing: do without it, and notify the operator
        MessageGone         the message to edit no longer exists: send a new one
          EditRefused       ... it exists but cannot be changed: send a new one, and do not rely on edits
        TopicClosed         this topic accepts nothing more: abandon what is pending for it, and only that
        ChatGone            the chat is closed to us (not found, blocked, kicked): abandon what is pending for it
        ChatMoved           the chat has a new id: use it
        AttachmentFailed    a file cannot be fetched
      Fatal                 nothing works until a person changes something: stop, and retry occasionally
        TakenOver           ... namely the other program that now holds the account
"""

from __future__ import annotations


class ChannelError(Exception):
    """Base class of everything a channel raises. The text is for logs and operators and contains no secrets."""


class Temporary(ChannelError):
    """The call failed and certainly changed nothing (refused connection, 5xx before sending)."""


class RateLimited(Temporary):
    """The rate limit was hit. retry_after: seconds to wait before the next call for this chat."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotCommitted(Temporary):
    """Events were published but not committed; the cause says why."""


class OutcomeUnknown(ChannelError):
    """No response arrived; the platform may or may not have applied the call."""


class Permanent(ChannelError):
    """The platform refused, and will refuse again."""


class Rejected(Permanent):
    """The content or the request was not accepted."""


class ButtonsRefused(Rejected):
    """The text of the message was accepted and is shown, its buttons were not."""


class NotAllowed(Rejected):
    """A permission is missing. hint: what the operator should grant, in one sentence."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class MessageGone(Permanent):
    """The message was deleted or never existed."""


class EditRefused(MessageGone):
    """The message can no longer be edited: too old, edited too often, or edits are forbidden."""


class TopicClosed(Permanent):
    """The topic (or the chat, outside topics) is closed, locked, deleted, or not open to the bot's messages."""


class ChatGone(Permanent):
    """Blocked by the user, removed from the group, or the chat does not exist."""


class ChatMoved(Permanent):
    """The chat has a new id. new_chat: the id to use from now on."""

    def __init__(self, message: str, new_chat: str) -> None:
        super().__init__(message)
        self.new_chat = new_chat


class AttachmentFailed(Permanent):
    """A file cannot be fetched. reason: "too_large" (over the platform's or our cap) or "gone" (expired, deleted)."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Fatal(ChannelError):
    """Nothing works until a person steps in. hint: what the operator should change, in one sentence."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class TakenOver(Fatal):
    """Another program has taken over the account; reconnecting would disconnect it."""
