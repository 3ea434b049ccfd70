"""Raw update -> event of the port. Pure: depends only on its arguments and on which pastes it has just seen.

Sources: Bot API "Update", "Message", "MessageEntity". Positions in a text are UTF-16 code units, as in the Bot API.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from channels.adapter import storable, unparsed
from channels.message import (
    Address,
    ButtonPressed,
    ChatMigrated,
    MembershipChanged,
    Message,
    MessageEdited,
    Quote,
    Sender,
    Unparsed,
)
from channels.telegram.schema import (
    RawCallback,
    RawChat,
    RawMembership,
    RawMessage,
    RawOrigin,
    RawUpdate,
    RawUser,
    described,
    read_attachments,
    unread,
)
from channels.text.split import utf16_length

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from channels.telegram.schema import RawEntity

ALLOWED_UPDATES = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    "my_chat_member",
)
"""The update types requested at every poll; the server remembers the last list and its default differs."""

PASTE_UNITS = 4000
"""A client splits a paste at 4096 UTF-16 units, or slightly earlier, at a blank."""
PASTE_SECONDS = 2
"""The pieces of a paste are sent at once; dates are whole seconds."""
_CLOSING = tuple(",.;:!?)")
_AFTER_NAME = " \t,:;"
_PRESENT = frozenset({"creator", "administrator", "member"})

Found = Message | MessageEdited | ButtonPressed | ChatMigrated | MembershipChanged | Unparsed


@dataclass(frozen=True, slots=True)
class Me:
    """The bot itself. joins_groups: it can be added to groups. hears_all: in groups it also receives messages that do
    not address it (privacy mode is off)."""

    id: int
    username: str
    joins_groups: bool = True
    hears_all: bool = True


class Pastes:
    """Remembers who just sent a text of full length, so that messages sent right after it are recognized as its rest.

    Keyed by chat, topic and sender; holds at most `size` entries, the least recently used one is evicted.
    """

    def __init__(self, size: int = 1000) -> None:
        self._last: LRUCache[tuple[str, str | None, str], tuple[int, str]] = LRUCache(size)

    def key_of(self, raw: RawMessage, address: Address, sender: str) -> str | None:
        """The bundle key of a text message, None if it is on its own."""
        who = (address.chat, address.topic, sender)
        before = self._last.get(who)
        joins = before is not None and 0 <= raw.date - before[0] <= PASTE_SECONDS
        key = before[1] if before is not None and joins else f"paste:{address.chat}:{sender}:{raw.message_id}"
        if utf16_length(raw.text or "") >= PASTE_UNITS:
            self._last[who] = (raw.date, key)
            return key
        return key if joins else None


@dataclass(frozen=True, slots=True)
class Reader:
    """Converts the updates of one account into events."""

    account: str
    me: Me
    pastes: Pastes

    def read(self, update: Mapping[str, Any], now: datetime) -> Found | None:
        """The event in `update`; None if it is irrelevant, Unparsed if it cannot be read."""
        try:
            return self._read(RawUpdate.model_validate(update), now)
        except Exception as error:  # an update may contain anything: set it aside, so that it is not delivered again
            return unparsed(self.account, update, error, now, key=update.get("update_id"))

    def _read(self, update: RawUpdate, now: datetime) -> Found | None:
        if update.message is not None or update.channel_post is not None:
            return self._message(update.update_id, update.message or update.channel_post, now)
        if update.edited_message is not None or update.edited_channel_post is not None:
            return self._edited(update.update_id, update.edited_message or update.edited_channel_post, now)
        if update.callback_query is not None:
            return self._pressed(update.update_id, update.callback_query, now)
        if update.my_chat_member is not None:
            return self._membership(update.update_id, update.my_chat_member, now)
        return None

    def _message(self, update_id: int, raw: RawMessage | None, now: datetime) -> Message | ChatMigrated | None:
        if raw is None:
            return None
        keys = (f"u:{update_id}:{raw.date}",)
        if raw.migrate_to_chat_id is not None:
            return ChatMigrated(
                account=self.account,
                dedupe_keys=keys,
                sent_at=_time(raw.date),
                received_at=now,
                old_chat=str(raw.chat.id),
                new_chat=str(raw.migrate_to_chat_id),
            )
        return self._content(raw, keys, _time(raw.date), now, self.pastes)

    def _edited(self, update_id: int, raw: RawMessage | None, now: datetime) -> MessageEdited | None:
        if raw is None:
            return None
        date = raw.edit_date or raw.date
        keys, sent_at = (f"u:{update_id}:{date}",), _time(date)
        message = self._content(raw, keys, sent_at, now, None)
        if message is None:
            return None
        return MessageEdited(account=self.account, dedupe_keys=keys, sent_at=sent_at, received_at=now, message=message)

    def _content(
        self, raw: RawMessage, keys: tuple[str, ...], sent_at: datetime, now: datetime, pastes: Pastes | None
    ) -> Message | None:
        sender = _sender(raw)
        attachments = read_attachments(raw)
        written = raw.text if raw.text is not None else raw.caption
        bare = not attachments or raw.sticker is not None
        if written is None and bare and raw.edit_date is None:  # a live location is edited all the time
            written = described(raw) or None
        kind = unread(raw) if written is None and not attachments and raw.edit_date is None else ""
        if sender is None or sender.id == str(self.me.id) or (written is None and not attachments and not kind):
            return None
        address = _address(self.account, raw.chat, raw.message_thread_id if raw.is_topic_message else None)
        reply_to = self._quote(raw)
        text, mention = self._heard(raw, written or "", reply_to)
        bundle = f"album:{raw.chat.id}:{raw.media_group_id}" if raw.media_group_id else None
        if bundle is None and pastes is not None and raw.text is not None and raw.forward_origin is None:
            bundle = pastes.key_of(raw, address, sender.id)
        return Message(
            account=self.account,
            dedupe_keys=keys,
            sent_at=sent_at,
            received_at=now,
            address=address,
            platform_message_id=str(raw.message_id),
            sender=sender,
            text="" if kind else storable(text),
            mention=mention or address.kind == "dm",
            reply_to=reply_to,
            attachments=attachments,
            bundle_key=bundle,
            chat_title=_one_line(raw.chat.title),
            chat_handle="" if address.kind == "dm" else raw.chat.username.lower(),
            unread=kind,
        )

    def _heard(self, raw: RawMessage, written: str, reply_to: Quote | None) -> tuple[str, bool]:
        """The text for the agent, and whether it is addressed to the bot.

        Forwarded text is not the sender's: it is marked as such, cannot be a command and addresses no one.
        """
        if raw.forward_origin is not None:
            return f"[forwarded from {_one_line(_origin_name(raw.forward_origin))}]\n{written}".rstrip("\n"), False
        entities = raw.entities if raw.text is not None else raw.caption_entities
        spoken = listen(written, entities, self.me.id, self.me.username)
        if spoken.for_another:
            return spoken.text, False
        return spoken.text, spoken.named or (reply_to is not None and reply_to.from_bot)

    def _quote(self, raw: RawMessage) -> Quote | None:
        part = raw.quote.text if raw.quote is not None else ""
        replied = raw.reply_to_message
        if replied is not None and not _opens_topic(raw, replied):
            author = _sender(replied)
            return Quote(
                message_id=str(replied.message_id),
                text=storable(part or replied.text or replied.caption or described(replied)),
                author=author.display_name if author is not None else "",
                from_bot=author is not None and author.id == str(self.me.id),
                attachments=read_attachments(replied),
            )
        if raw.external_reply is not None:
            message_id = raw.external_reply.message_id
            author_name = _one_line(_origin_name(raw.external_reply.origin))
            return Quote(message_id=str(message_id or ""), text=storable(part), author=author_name, from_bot=False)
        return None

    def _pressed(self, update_id: int, raw: RawCallback, now: datetime) -> ButtonPressed | None:
        if raw.message is None or raw.data is None:
            return None
        topic = raw.message.message_thread_id if raw.message.is_topic_message else None
        return ButtonPressed(
            account=self.account,
            dedupe_keys=(f"u:{update_id}:{raw.id}",),
            sent_at=now,  # the Bot API does not say when
            received_at=now,
            address=_address(self.account, raw.message.chat, topic),
            platform_message_id=str(raw.message.message_id),
            sender=_person(raw.from_user),
            data=storable(raw.data),
            callback_id=raw.id,
        )

    def _membership(self, update_id: int, raw: RawMembership, now: datetime) -> MembershipChanged:
        status = raw.new_chat_member.status
        return MembershipChanged(
            account=self.account,
            dedupe_keys=(f"u:{update_id}:{raw.date}",),
            sent_at=_time(raw.date),
            received_at=now,
            address=_address(self.account, raw.chat, None),
            sender=_person(raw.from_user),
            present=status in _PRESENT or (status == "restricted" and raw.new_chat_member.is_member),
            chat_title=_one_line(raw.chat.title),
        )


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _address(account: str, chat: RawChat, topic: int | None) -> Address:
    # Only private chats have positive ids: the kind is known even if the type is missing.
    kind = {"private": "dm", "channel": "channel"}.get(chat.type, "dm" if not chat.type and chat.id > 0 else "group")
    return Address(
        account=account,
        chat=str(chat.id),
        topic=None if topic is None else str(topic),
        kind=kind,  # type: ignore[arg-type]  # the two literals above and "group"
    )


def _opens_topic(raw: RawMessage, replied: RawMessage) -> bool:
    """Whether the message only "replies" to the one that opened its topic, as all messages there do: not a quote."""
    return replied.forum_topic_created is not None or (
        raw.is_topic_message and replied.message_id == raw.message_thread_id
    )


def _sender(raw: RawMessage) -> Sender | None:
    """The accountable sender: a chat that posts as itself (anonymous admin, channel) before the account behind it."""
    if raw.sender_chat is not None:
        return Sender(id=str(raw.sender_chat.id), display_name=_one_line(raw.sender_chat.title), kind="channel")
    return _person(raw.from_user) if raw.from_user is not None else None


def _person(user: RawUser) -> Sender:
    name = _one_line(f"{user.first_name} {user.last_name}") or _one_line(user.username)
    return Sender(
        id=str(user.id),
        display_name=name,
        locale=user.language_code,
        kind="bot" if user.is_bot else "user",
    )


def _origin_name(origin: RawOrigin) -> str:
    if origin.sender_user is not None:
        return _person(origin.sender_user).display_name
    chat = origin.sender_chat or origin.chat
    return chat.title if chat is not None else origin.sender_user_name


def _one_line(name: str) -> str:
    return " ".join(storable(name).split())


@dataclass(frozen=True, slots=True)
class Spoken:
    """text: without the bot's name. named: the bot is mentioned or the command is its own.

    for_another: the message is a command for another bot, whose name is then left in the text.
    """

    text: str
    named: bool
    for_another: bool = False


def listen(text: str, entities: Sequence[RawEntity], bot_id: int, username: str) -> Spoken:
    """Find the mentions of the bot in `text` and remove them."""
    raw = text.encode("utf-16-le")
    own = f"@{username}".casefold() if username else None
    cuts: list[tuple[int, int]] = []
    for entity in sorted(entities, key=lambda entity: entity.offset):
        start, end = entity.offset, entity.offset + entity.length
        covered = raw[2 * start : 2 * end].decode("utf-16-le", "replace")
        if entity.type == "bot_command" and "@" in covered:
            command, _, target = covered.partition("@")
            if own is not None and f"@{target}".casefold() == own:
                cuts.append((start + utf16_length(command), end))
            elif start == 0:
                return Spoken(text, named=False, for_another=True)
        elif (entity.type == "mention" and covered.casefold() == own) or (
            entity.type == "text_mention" and entity.user is not None and entity.user.id == bot_id
        ):
            cuts.append((start, end))
    return Spoken(_without(raw, cuts), named=True) if cuts else Spoken(text, named=False)


def _without(raw: bytes, cuts: Sequence[tuple[int, int]]) -> str:
    """The text between the cuts, without double blanks at the cuts or an orphaned comma at the beginning."""
    kept, position = "", 0
    for start, end in (*cuts, (len(raw) // 2, len(raw) // 2)):
        piece = raw[2 * position : 2 * max(start, position)].decode("utf-16-le", "replace")
        if position and (not kept or kept.isspace()):
            kept, piece = "", piece.lstrip(_AFTER_NAME)
        elif position and kept[-1:] in (" ", "\n") and piece[:1] == " ":
            piece = piece[1:]
        elif position and kept[-1:] == " " and piece[:1] in _CLOSING:
            kept = kept[:-1]
        kept, position = kept + piece, max(end, position)
    return kept.strip(" ") if cuts else kept
