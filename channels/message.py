"""The values exchanged between a platform and the gateway: events in, messages out.

Every value here is frozen and free of SDK types. Adapters build the events (`inbound.py`) and render the messages
(`outbound.py`); the gateway in bot/ does the rest and does not know which platform it is talking to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

ChatKind = Literal["dm", "group", "channel"]
AttachmentKind = Literal["image", "voice", "audio", "video", "file"]
UNREAD = frozenset(
    {
        *("sticker", "story", "game", "invoice", "checklist", "giveaway", "paid_media"),
        *("shared_group", "shared_contact", "task", "poll", "red_packet", "folder", "event", "video_call"),
    }
)
"""Kinds of content that is neither text nor files, and that a bot cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The place of a message, and so the place that its answer is sent to.

    account: the configured account's permanent id. chat and topic: the platform's own ids as strings; topic is None
    outside forums and threads. kind: "dm" is one person and the bot, "group" several people, "channel" a broadcast.
    """

    account: str
    chat: str
    topic: str | None = None
    kind: ChatKind = "dm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The author. Only `id` is an identity (native, immutable); display_name is untrusted text for display only."""

    id: str
    display_name: str
    locale: str | None = None
    kind: Literal["user", "bot", "channel"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A reference to a file stored by the platform; `Channel.fetch` gets its bytes.

    ref: the adapter's own handle, contains no secret. name: as declared by the sender, untrusted. size: declared bytes,
    None when not declared; the stream may be longer.
    """

    ref: str
    kind: AttachmentKind
    name: str | None = None
    mime_type: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The message that this one replies to. text: the quoted text (all or part of it), possibly empty.
    attachments: its files, where the platform reports them and they are not among the message's own."""

    message_id: str
    text: str
    author: str
    from_bot: bool
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The fields common to all events.

    dedupe_keys: from the event's own fields, never from our clock; one known key makes the event a duplicate.
    sent_at: the platform's time; received_at: ours. Both are timezone-aware UTC.
    """

    account: str
    dedupe_keys: tuple[str, ...]
    sent_at: datetime
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptions:
    """Options that a program sets on a message it sends. The message is a separate turn: nothing is merged into it.

    literal: the text is passed to the agent verbatim, never as a command or an answer to buttons. busy: what happens
    while another answer is in progress; None: the account's setting. note: the program's own data as JSON text.
    """

    literal: bool = True
    busy: Literal["queue", "interrupt", "rollback", "reject"] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Event):
    """A person's message.

    mention: the bot is addressed (named, replied to, or by a command meant for it); in a DM always True.
    text: as typed, the mention of the bot removed, newlines as \\n.
    continues: it is in a separate thread (`address.topic`), where a conversation that has begun continues without
    mentioning the bot; False where the operator does not want that, and outside threads.
    bundle_key: equal for events that the platform split from one message (an album, a long paste), else None.
    dictated: the text was spoken and transcribed by the platform; it is never a command.
    chat_title: of a group, untrusted text for display.
    chat_handle: a group's public name in links to its messages, in lower case, where the platform has such names.
    unread: the kind of unreadable content (a sticker, a story: see `UNREAD`), where the message holds nothing else.
    turn: the options set by the program that sent it; None for what people write.
    """

    address: Address
    platform_message_id: str
    sender: Sender
    text: str
    mention: bool
    reply_to: Quote | None = None
    attachments: tuple[Attachment, ...] = ()
    continues: bool = False
    bundle_key: str | None = None
    dictated: bool = False
    chat_title: str = ""
    chat_handle: str = ""
    unread: str = ""
    turn: TurnOptions | None = None
    type: Literal["message"] = "message"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEdited(Event):
    """The sender changed a message; `message` is its new state (with this event's own dedupe keys).

    recalled: it was taken back; `message` is empty.
    """

    message: Message
    recalled: bool = False
    type: Literal["message_edited"] = "message_edited"


@dataclass(frozen=True, slots=True, kw_only=True)
class ButtonPressed(Event):
    """A button was pressed. callback_id: for `Channel.acknowledge`; data: the Button.data that we sent."""

    address: Address
    platform_message_id: str
    sender: Sender
    data: str
    callback_id: str
    type: Literal["button_pressed"] = "button_pressed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMigrated(Event):
    """The platform gave a chat a new id; everything known about old_chat now belongs to new_chat."""

    old_chat: str
    new_chat: str
    type: Literal["chat_migrated"] = "chat_migrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChanged(Event):
    """The bot itself was added to or removed from a chat (a DM: unblocked or blocked) by `sender`."""

    address: Address
    sender: Sender
    present: bool
    chat_title: str = ""
    type: Literal["membership_changed"] = "membership_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDue(Event):
    """A scheduled task is due: created by the gateway itself, never by an adapter, on behalf of `sender`.

    sent_at: when it was due; received_at: when that was noticed. language: to answer in. timezone: for showing times.
    reply_to: a message of its topic, where it is in one.
    """

    schedule_id: str
    address: Address
    reply_to: str | None = None
    sender: Sender
    text: str
    language: str
    timezone: str
    type: Literal["schedule_due"] = "schedule_due"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCalled(Event):
    """A program called a webhook that starts a task of the agent: created by the gateway itself, never by an adapter,
    on behalf of `sender`.

    hook: its name in the config. prompt: the operator's instructions. text: what the program sent, untrusted data.
    """

    hook: str
    address: Address
    sender: Sender
    prompt: str
    text: str
    type: Literal["hook_called"] = "hook_called"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed(Event):
    """An event that the adapter could not read: stored raw (JSON text) as dead, so that nothing is lost silently."""

    raw: str
    error: str
    type: Literal["unparsed"] = "unparsed"


InboundEvent = Annotated[
    Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | ScheduleDue | HookCalled | Unparsed,
    Field(discriminator="type"),
]
INBOUND_EVENT: TypeAdapter[
    Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | ScheduleDue | HookCalled | Unparsed
] = TypeAdapter(InboundEvent)
"""Converts events to JSON and back, for the inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """A button. label: what a person sees (at most 64 characters). data: returned in ButtonPressed (at most 64 bytes).
    stays: a press does not settle the other buttons of the message, which can still be pressed afterwards."""

    label: str
    data: str
    stays: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundFile:
    """A file on this machine to deliver. name: shown to people; never the host path.

    instead: Markdown to send where the platform does not accept the file; "" for nothing.
    """

    path: Path
    name: str
    mime_type: str = "application/octet-stream"
    kind: AttachmentKind = "file"
    instead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundMessage:
    """The whole state of one reply, growing until `final`; a channel lays it out as one or more parts.

    text: Markdown (CommonMark, tables, strikethrough, ||spoiler||), possibly with an unclosed fence while it grows.
    status: plain lines that describe the current activity, shown below the text; only the last one is shown where there
    is room for one. "" for none.
    done: plain lines about the work behind a final text, the first one being their heading; shown collapsed below it,
    and left out where a platform cannot collapse text.
    reply_to: the platform message that the first part answers, None for none.
    plain: the platform refused the reply as it was: everything in `text` is escaped, and a channel that has an even
    simpler way to show it uses that.
    asks_reply: the recipient is expected to reply to this message; a platform that can opens the reply field. Such a
    message is final from the start and never changes, because some platforms cannot edit it.
    """

    text: str = ""
    status: str = ""
    done: tuple[str, ...] = ()
    buttons: tuple[tuple[Button, ...], ...] = ()
    files: tuple[OutboundFile, ...] = ()
    final: bool = False
    reply_to: str | None = None
    plain: bool = False
    asks_reply: bool = False


OUTBOUND_MESSAGE: TypeAdapter[OutboundMessage] = TypeAdapter(OutboundMessage)
"""Converts a reply's state to JSON and back, for the outbox (Markdown, never a platform's payload)."""
