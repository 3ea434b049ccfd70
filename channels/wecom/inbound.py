"""Converts callbacks into events; pure."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.adapter import storable, unparsed
from channels.message import Address, ButtonPressed, Message, Quote, Sender, Unparsed
from channels.text.sanitize import one_line
from channels.wecom import frames
from channels.wecom.frames import RawContent, RawEventCallback, RawMessage
from channels.wecom.media import attachment
from channels.wecom.outbound import PRESSED_KEY, SAYS, Pressed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from channels.message import Attachment, InboundEvent
    from channels.wecom.frames import Callback, RawEnvelope, RawMedia

_FIRST_MENTION = re.compile(r"\s*@[^\s@]+(?:\s+|$)")
_KINDS = frozenset({"text", "image", "mixed", "voice", "file", "video"})


class Reader:
    """Reader of one account's callbacks. bot_name: what people type after @ in groups, "" if unknown."""

    def __init__(self, account: str, bot_name: str) -> None:
        self._account = account
        # The name ends at whitespace or the end of the text, so that "@Bot" is not cut out of "@Bottle".
        self._mention = re.compile(rf"(?<!\S)@{re.escape(bot_name)}(?=\s|$)[ \t\u2005]?") if bot_name else None

    def read(self, callback: Callback, now: datetime) -> InboundEvent | None:
        """The event of a callback, None for an irrelevant one. now: when it was received."""
        try:
            if callback.cmd == frames.MESSAGE:
                return self._message(callback, now)
            if callback.event_type == "template_card_event":
                return self._press(callback, now)
        except Exception as error:  # a callback may contain anything: set it aside as dead
            return self._unparsed(callback, error, now)
        return None

    def _message(self, callback: Callback, now: datetime) -> Message:
        raw = RawMessage.model_validate(callback.body)
        address, quote = self._address(raw), raw.quote
        parts = (raw,) if quote is None else (raw, quote)
        text = "\n".join(_texts(raw))
        attachments = tuple(found for part in parts for found in _attachments(part))
        nothing = not text and not attachments and quote is None
        if raw.msgtype not in _KINDS or (nothing and raw.msgtype != "text"):  # its sender waits for an answer
            text = f"[{one_line(raw.msgtype)}: its content cannot be read here]"
        elif nothing:
            raise ValueError(f"a message of type {raw.msgtype} without content")
        return Message(
            account=self._account,
            dedupe_keys=(f"m:{raw.msgid}",),
            sent_at=_sent_at(raw, now),
            received_at=now,
            address=address,
            platform_message_id=frames.message_id(raw.msgid, callback.req_id),
            sender=_sender(raw),
            text=self._without_mention(text) if address.kind == "group" else text.strip(),
            mention=True,  # groups deliver nothing else
            reply_to=None if quote is None else _quote(quote),
            attachments=attachments,
            dictated=raw.msgtype == "voice",
        )

    def _press(self, callback: Callback, now: datetime) -> ButtonPressed | Message | None:
        raw = RawEventCallback.model_validate(callback.body)
        card = raw.event.template_card_event
        if card is None or card.event_key in ("", PRESSED_KEY):
            return None
        data = Pressed.read(card.event_key).data
        if data.startswith(SAYS):
            return Message(
                account=self._account,
                dedupe_keys=(f"m:{raw.msgid}",),
                sent_at=_sent_at(raw, now),
                received_at=now,
                address=self._address(raw),
                platform_message_id=frames.message_id(raw.msgid, callback.req_id),
                sender=replace(_sender(raw), locale="zh"),  # the card's language, see WecomChannel.describe
                text=data.removeprefix(SAYS),
                mention=True,
            )
        return ButtonPressed(
            account=self._account,
            dedupe_keys=(f"m:{raw.msgid}",),
            sent_at=_sent_at(raw, now),
            received_at=now,
            address=self._address(raw),
            platform_message_id=card.task_id,
            sender=_sender(raw),
            data=data,
            callback_id=frames.press_id(callback.req_id, card.event_key),
        )

    def _address(self, raw: RawEnvelope) -> Address:
        # Only groups have a chatid: if the kind is missing, a group must not be mistaken for a private chat.
        if raw.chattype == "group" or (raw.chattype is None and raw.chatid):
            if not raw.chatid:
                raise ValueError("a group without chatid")
            return Address(account=self._account, chat=raw.chatid, kind="group")
        return Address(account=self._account, chat=frames.person(raw.sender.userid, raw.sender.corpid))

    def _without_mention(self, text: str) -> str:
        if self._mention is None:
            found = _FIRST_MENTION.match(text)
            return text[found.end() :] if found is not None else text.strip()
        return self._mention.sub("", text).strip()

    def _unparsed(self, callback: Callback, error: Exception, now: datetime) -> Unparsed:
        try:
            body = _without_keys(callback.body)
        except RecursionError:
            body = None
        msgid = callback.body.get("msgid")
        dead = unparsed(self._account, {"cmd": callback.cmd, "body": body}, error, now)
        if not isinstance(msgid, str) or not msgid:
            return dead
        return replace(dead, dedupe_keys=(f"m:{msgid.encode('utf-8', 'replace').decode()}",))


def _texts(content: RawContent) -> Iterator[str]:
    if content.msgtype == "mixed" and content.mixed is not None:
        for item in content.mixed.msg_item:
            yield from _texts(item)
    elif content.msgtype == "text" and content.text is not None:
        yield storable(content.text.content)
    elif content.msgtype == "voice" and content.voice is not None:
        yield storable(content.voice.content)


def _attachments(content: RawContent) -> Iterator[Attachment]:
    if content.msgtype == "mixed" and content.mixed is not None:
        for item in content.mixed.msg_item:
            yield from _attachments(item)
        return
    media: RawMedia | None
    match content.msgtype:
        case "image":
            media = content.image
        case "file":
            media = content.file
        case "video":
            media = content.video
        case _:
            media = None
    if media is not None:
        yield attachment(media, content.msgtype)


def _quote(quote: RawContent) -> Quote:
    """The quoted message; WeCom gives neither its author nor its id."""
    return Quote(message_id="", text="\n".join(_texts(quote)), author="", from_bot=False)


def _sender(raw: RawEnvelope) -> Sender:
    """The sender. People are known only by their user id, which is what colleagues see as well."""
    return Sender(id=frames.person(raw.sender.userid, raw.sender.corpid), display_name=raw.sender.userid)


def _sent_at(raw: RawEnvelope, now: datetime) -> datetime:
    try:
        return datetime.fromtimestamp(raw.create_time, UTC) if raw.create_time else now
    except (ValueError, OverflowError, OSError):  # a date out of range
        return now


def _without_keys(value: object) -> object:
    """The value without the keys of its files, which must not be in any table that people read."""
    if isinstance(value, dict):
        return {name: _without_keys(item) for name, item in value.items() if name != "aeskey"}
    return [_without_keys(item) for item in value] if isinstance(value, list) else value
