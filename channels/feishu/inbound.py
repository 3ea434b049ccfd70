"""Converts a raw event into an event of the port. Pure: it depends only on its arguments.

Sources: the platform's pages of the events named below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from channels.adapter import unparsed
from channels.feishu.content import (
    SHARED_PERSON,
    Content,
    Names,
    RawEnvelope,
    RawMembership,
    RawPressed,
    RawRecalled,
    RawReceived,
    read_content,
    shared_person,
    unread,
)
from channels.feishu.lookup import Chat, Context, MessageId
from channels.feishu.outbound import read_value
from channels.message import Address, ButtonPressed, MembershipChanged, Message, MessageEdited, Quote, Sender, Unparsed
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from channels.feishu.content import RawHeader, RawItem, RawMessage

ADDED = "im.chat.member.bot.added_v1"
_LONGEST_QUOTE = 4000
_LONGEST_CHILD = 2000

Found = Message | MessageEdited | ButtonPressed | MembershipChanged | Unparsed
Body = RawReceived | RawRecalled | RawPressed | RawMembership


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself. open_id: its id in mentions; app_id: its id as a sender."""

    app_id: str
    open_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Event:
    """An event whose structure was validated."""

    header: RawHeader
    body: Body


def parse(raw: Mapping[str, Any]) -> Event | None:
    """The event, None for a kind that the adapter does not handle. Raises pydantic's ValidationError, a ValueError."""
    envelope = RawEnvelope.model_validate(raw)
    match envelope.header.event_type:
        case "im.message.receive_v1":
            return Event(envelope.header, RawReceived.model_validate(envelope.event))
        case "im.message.recalled_v1":
            return Event(envelope.header, RawRecalled.model_validate(envelope.event))
        case "card.action.trigger":
            return Event(envelope.header, RawPressed.model_validate(envelope.event))
        case "im.chat.member.bot.added_v1" | "im.chat.member.bot.deleted_v1":
            return Event(envelope.header, RawMembership.model_validate(envelope.event))
    return None


@dataclass(frozen=True, slots=True)
class Reader:
    """Converts the events of one account into those of the port. thread_follow: see FeishuConfig."""

    account: str
    me: Me
    thread_follow: bool = True

    def read(self, event: Event, context: Context, now: datetime) -> Found | None:
        """The event of the port, None if it contains nothing for an agent.

        Raises ValueError if a message's content cannot be read.
        """
        match event.body:
            case RawReceived():
                return self._message(event.header, event.body, context, now)
            case RawRecalled():
                return None if context.said is None else self._recalled(event.header, context.said, now)
            case RawPressed():
                return self._pressed(event.header, event.body, context, now)
            case RawMembership():
                return self._membership(event.header, event.body, context, now)

    def unparsed(self, payload: bytes, error: Exception, now: datetime) -> Unparsed:
        """An event that could not be read, kept as received."""
        return unparsed(self.account, payload, error, now)

    def _message(self, header: RawHeader, body: RawReceived, context: Context, now: datetime) -> Message | None:
        raw = body.message
        sender = body.sender.sender_id.open_id
        if not sender and body.sender.sender_type == "user":
            raise ValueError("its sender has no open_id")
        if not sender or sender == self.me.open_id:
            return None
        content = read_content(raw.message_type, raw.content, Names.of(raw.mentions, self.me.open_id), raw.message_id)
        shared = context.names.get(shared_person(raw.content)) if raw.message_type == SHARED_PERSON else None
        if shared:
            content = Content(f"[contact: {one_line(shared)}]")
        elif content is None and _is_direct(raw, context.chat):
            content = unread(raw.message_type)
        if content is None:
            return None
        if raw.message_type == "merge_forward":
            content = replace(content, text=self._forwarded(context))
        address = self._address(raw, context.chat)
        quote = None if context.quoted is None else self._quote(context.quoted, context)
        mention = address.kind == "dm" or content.named or (quote is not None and quote.from_bot)
        return Message(
            account=self.account,
            dedupe_keys=(f"e:{header.event_id}", f"m:{raw.message_id}"),
            sent_at=_time(raw.create_time or header.create_time, now),
            received_at=now,
            address=address,
            platform_message_id=raw.message_id,
            sender=Sender(
                id=sender,
                display_name=one_line(context.names.get(sender, "")),
                kind="user" if body.sender.sender_type == "user" else "bot",
            ),
            text=sanitize(content.text),
            mention=mention,
            reply_to=quote,
            attachments=content.files,
            continues=self.thread_follow and address.topic is not None and address.kind == "group",
            chat_title=one_line(context.chat.title) if context.chat is not None else "",
            unread=content.unread,
        )

    def _recalled(self, header: RawHeader, said: Message, now: datetime) -> MessageEdited:
        keys, sent_at = (f"e:{header.event_id}",), _time(header.create_time, now)
        message = replace(said, dedupe_keys=keys)
        return MessageEdited(
            account=self.account, dedupe_keys=keys, sent_at=sent_at, received_at=now, message=message, recalled=True
        )

    def _address(self, raw: RawMessage, chat: Chat | None) -> Address:
        return Address(
            account=self.account,
            chat=raw.chat_id,
            topic=raw.thread_id or None,
            kind="dm" if _is_direct(raw, chat) else "group",
        )

    def _quote(self, item: RawItem, context: Context) -> Quote:
        from_bot = item.sender.sender_type == "app" and item.sender.id == self.me.app_id
        author = self.me.name if from_bot else context.names.get(item.sender.id, "")
        said = Content(self._forwarded(context)) if item.msg_type == "merge_forward" else self._said(item)
        return Quote(
            message_id=item.message_id,
            text=sanitize(said.text)[:_LONGEST_QUOTE],
            author=one_line(author),
            from_bot=from_bot,
            attachments=said.files,
        )

    def _forwarded(self, context: Context) -> str:
        """The text of a forwarded bundle's messages; the bot's name in them does not count as a mention."""
        lines = []
        for item in context.children:
            said = self._said(item)
            text = said.text or (f"[{item.msg_type}]" if said.files or item.msg_type else "")
            author = one_line(context.names.get(item.sender.id, "")) or "somebody"
            lines.append(f"{author}: {text[:_LONGEST_CHILD]}")
        return "\n".join(["[forwarded messages]", *lines])

    def _said(self, item: RawItem) -> Content:
        """Content of a fetched message; empty if it cannot be read."""
        names = Names({mention.key: mention.name for mention in item.mentions})
        try:
            return read_content(item.msg_type, item.body.content, names, item.message_id) or Content("")
        except ValueError:
            return Content("")

    def _pressed(self, header: RawHeader, body: RawPressed, context: Context, now: datetime) -> ButtonPressed | None:
        pressed = read_value(body.action.value, body.context.open_chat_id)
        if pressed is None or not body.operator.open_id:
            return None
        message_id = MessageId(body.context.open_message_id, card_id=pressed.card_id)
        chat = context.chat or Chat()
        return ButtonPressed(
            account=self.account,
            dedupe_keys=(f"e:{header.event_id}",),
            sent_at=_time(header.create_time, now),
            received_at=now,
            address=Address(
                account=self.account,
                chat=body.context.open_chat_id,
                topic=context.topic,
                kind="dm" if chat.direct else "group",
            ),
            platform_message_id=str(message_id),
            sender=Sender(
                id=body.operator.open_id, display_name=one_line(context.names.get(body.operator.open_id, ""))
            ),
            data=sanitize(pressed.data),
            callback_id=header.event_id,
        )

    def _membership(self, header: RawHeader, body: RawMembership, context: Context, now: datetime) -> MembershipChanged:
        person = body.operator_id.open_id
        return MembershipChanged(
            account=self.account,
            dedupe_keys=(f"e:{header.event_id}",),
            sent_at=_time(header.create_time, now),
            received_at=now,
            address=Address(account=self.account, chat=body.chat_id, kind="group"),
            sender=Sender(id=person, display_name=one_line(context.names.get(person, ""))),
            present=header.event_type == ADDED,
            chat_title=one_line(body.name),
        )


def _is_direct(raw: RawMessage, chat: Chat | None) -> bool:
    """Whether the chat is a DM: according to the event, else according to what is known about the chat."""
    return raw.chat_type == "p2p" if raw.chat_type else chat is not None and chat.direct


def _time(milliseconds: int, now: datetime) -> datetime:
    """The platform's time, `now` if it gives none. Raises ValueError for a date out of range."""
    if not milliseconds:
        return now
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError) as error:
        raise ValueError("its date is out of range") from error
