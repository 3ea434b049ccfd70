"""The one error tree of the channel port, sorted by what the caller does next and by how far a failure reaches.

An adapter's `api.py` is the only place that turns an SDK's exceptions into these. The narrowest error that is true is
the right one: what concerns one file, message or topic must not end what is said elsewhere.

    ChannelError
      Temporary             try again later, nothing was applied
        RateLimited         ... after retry_after seconds, for this chat
        NotCommitted        ... with an event: the gateway has not stored it, so it must not be acknowledged
      OutcomeUnknown        it may have been applied: look before repeating
      Permanent             repeating does not help
        Rejected            the content was refused: simplify it; of a file: leave it out
          ButtonsRefused    ... only the buttons: the words above them are shown
          NotAllowed        ... for want of a right that can be granted: do without, and tell the operator
        MessageGone         the message to edit does not exist any more: send a new one
          EditRefused       ... it stands and stays as it is: send a new one, and do not count on edits
        TopicClosed         this topic takes nothing more: give up what is to be said in it, and only that
        ChatGone            the chat is closed to us (not found, blocked, kicked): give up what waits for it
        ChatMoved           the chat has a new id: use it
        AttachmentFailed    a file cannot be fetched
      Fatal                 nothing at all works until a person changes something: stop, and try again now and then
        TakenOver           ... namely the other program that has the account now
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


class ButtonsRefused(Rejected):
    """The words of the message were taken and are shown, its buttons were not."""


class NotAllowed(Rejected):
    """hint: what the operator should grant, in one sentence."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class MessageGone(Permanent):
    """The message was deleted, or was never there."""


class EditRefused(MessageGone):
    """The message can no longer be edited: too old, edited too often, or edits are forbidden."""


class TopicClosed(Permanent):
    """The topic (or the chat, outside topics) is closed, locked, deleted, or not open to the bot's messages."""


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


class TakenOver(Fatal):
    """Another program has taken the account over; to come back would throw that one out."""
