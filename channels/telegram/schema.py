"""The part of the Bot API's objects that the adapter reads, validated when read; the rest is ignored.

Names are the API's own. A file's reference contains the file_id and never a URL: the API's file URLs contain the token.
"""

from __future__ import annotations

import json

from pydantic import Field, StrictBool, StrictInt

from channels.adapter import Name, Raw, Several, Spare, Text, told_place, told_poll
from channels.errors import AttachmentFailed
from channels.message import Attachment, AttachmentKind
from channels.text.sanitize import one_line


class RawUser(Raw):
    id: StrictInt
    is_bot: StrictBool = False
    first_name: Name = ""
    last_name: Name = ""
    username: Name = ""
    language_code: Spare[Text] = None


class RawChat(Raw):
    """A chat. type: private, group, supergroup, channel, or an unknown one."""

    id: StrictInt
    type: Name = ""
    title: Name = ""
    username: Name = ""


class RawEntity(Raw):
    """A message entity. offset and length are UTF-16 code units."""

    type: Text
    offset: StrictInt = Field(ge=0)
    length: StrictInt = Field(ge=0)
    user: Spare[RawUser] = None


class RawFile(Raw):
    """The fields common to photos, documents, voices, videos and stickers."""

    file_id: Text
    file_name: Spare[Text] = None
    mime_type: Spare[Text] = None
    file_size: Spare[StrictInt] = None
    is_animated: StrictBool = False
    is_video: StrictBool = False
    emoji: Text = ""


class RawOrigin(Raw):
    """The origin of a forwarded or externally quoted message; which field is set depends on its type."""

    sender_user: Spare[RawUser] = None
    sender_user_name: Name = ""
    sender_chat: Spare[RawChat] = None
    chat: Spare[RawChat] = None


class RawQuote(Raw):
    text: Name = ""


class RawExternalReply(Raw):
    origin: RawOrigin = RawOrigin()
    message_id: Spare[StrictInt] = None


class RawMarker(Raw):
    """The content of a service message, of which only the presence matters."""


class RawLocation(Raw):
    latitude: float
    longitude: float


class RawVenue(Raw):
    location: RawLocation
    title: Text = ""
    address: Text = ""


class RawContact(Raw):
    phone_number: Text = ""
    first_name: Text = ""
    last_name: Text = ""


class RawOption(Raw):
    text: Text = ""


class RawPoll(Raw):
    question: Text = ""
    options: Several[RawOption] = ()


class RawDice(Raw):
    emoji: Text = ""
    value: StrictInt


class RawMessage(Raw):
    message_id: StrictInt
    date: StrictInt
    chat: RawChat
    from_user: RawUser | None = Field(None, alias="from")
    sender_chat: RawChat | None = None
    message_thread_id: StrictInt | None = None
    is_topic_message: StrictBool = False
    edit_date: StrictInt | None = None
    text: Text | None = None
    entities: Several[RawEntity] = ()
    caption: Text | None = None
    caption_entities: Several[RawEntity] = ()
    reply_to_message: Spare[RawMessage] = None
    quote: Spare[RawQuote] = None
    external_reply: Spare[RawExternalReply] = None
    forward_origin: RawOrigin | None = None
    media_group_id: Spare[Text] = None
    migrate_to_chat_id: StrictInt | None = None
    forum_topic_created: Spare[RawMarker] = None
    photo: tuple[RawFile, ...] = ()
    document: RawFile | None = None
    voice: RawFile | None = None
    audio: RawFile | None = None
    video: RawFile | None = None
    video_note: RawFile | None = None
    animation: RawFile | None = None
    sticker: RawFile | None = None
    location: RawLocation | None = None
    venue: RawVenue | None = None
    contact: RawContact | None = None
    poll: RawPoll | None = None
    dice: RawDice | None = None
    story: RawMarker | None = None
    game: RawMarker | None = None
    invoice: RawMarker | None = None
    checklist: RawMarker | None = None
    giveaway: RawMarker | None = None
    paid_media: RawMarker | None = None


class RawCallbackMessage(Raw):
    """The message of a pressed button. date is 0 if it is no longer accessible; then nothing else is known."""

    message_id: StrictInt
    chat: RawChat
    date: StrictInt = 0
    message_thread_id: StrictInt | None = None
    is_topic_message: StrictBool = False


class RawCallback(Raw):
    id: Text
    from_user: RawUser = Field(alias="from")
    message: RawCallbackMessage | None = None
    data: Text | None = None


class RawMember(Raw):
    status: Text
    is_member: StrictBool = True


class RawMembership(Raw):
    chat: RawChat
    from_user: RawUser = Field(alias="from")
    date: StrictInt
    new_chat_member: RawMember


class RawUpdate(Raw):
    update_id: StrictInt
    message: RawMessage | None = None
    edited_message: RawMessage | None = None
    channel_post: RawMessage | None = None
    edited_channel_post: RawMessage | None = None
    callback_query: RawCallback | None = None
    my_chat_member: RawMembership | None = None


def read_attachments(raw: RawMessage) -> tuple[Attachment, ...]:
    """The message's attachments; at most one file, because Telegram sends an album's items one by one."""
    if raw.photo:
        return (_attachment(raw.photo[-1], "image", "image/jpeg"),)  # sizes ascend
    if raw.animation is not None:  # before document, which an animation also sets
        return (_attachment(raw.animation, "video", "video/mp4"),)
    if raw.sticker is not None:
        return () if _moves(raw.sticker) else (_attachment(raw.sticker, "image", "image/webp"),)
    kinds: tuple[tuple[RawFile | None, AttachmentKind, str | None], ...] = (
        (raw.voice, "voice", "audio/ogg"),
        (raw.audio, "audio", "audio/mpeg"),
        (raw.video, "video", "video/mp4"),
        (raw.video_note, "video", "video/mp4"),
        (raw.document, "file", None),
    )
    return tuple(_attachment(file, kind, mime_type) for file, kind, mime_type in kinds if file is not None)[:1]


def described(raw: RawMessage) -> str:
    """Content that is neither text nor a file, as a line for the agent; "" if the message has none."""
    if raw.venue is not None:  # before location, which a venue also sets
        name = ", ".join(part for part in (raw.venue.title, raw.venue.address) if part)
        return told_place(name, *_point(raw.venue.location))
    if raw.location is not None:
        return told_place("", *_point(raw.location))
    if raw.contact is not None:
        name = one_line(f"{raw.contact.first_name} {raw.contact.last_name}")
        return f"[contact: {name}, {one_line(raw.contact.phone_number)}]"
    if raw.poll is not None:
        return told_poll(raw.poll.question, (option.text for option in raw.poll.options))
    if raw.sticker is not None and raw.sticker.emoji:
        return f"[sticker: {one_line(raw.sticker.emoji)}]"
    if raw.dice is not None:
        return f"[{one_line(raw.dice.emoji)} shows {raw.dice.value}]"
    return ""


def unread(raw: RawMessage) -> str:
    """The kind of content that no model can read, "" for all else. A sticker is read as its emoji, and a static one is
    a picture as well."""
    if raw.sticker is not None and _moves(raw.sticker) and not raw.sticker.emoji:
        return "sticker"
    kinds = ("story", "game", "invoice", "checklist", "giveaway", "paid_media")
    return next((kind for kind in kinds if getattr(raw, kind) is not None), "")


def _moves(sticker: RawFile) -> bool:
    return sticker.is_animated or sticker.is_video


def _point(location: RawLocation) -> tuple[str, str]:
    return f"{location.latitude:.6g}", f"{location.longitude:.7g}"


def file_id(attachment: Attachment) -> str:
    """The file_id in an attachment's reference. Raises AttachmentFailed("gone") if it belongs to another platform."""
    try:
        found = json.loads(attachment.ref)["file_id"]
    except (ValueError, TypeError, KeyError):
        found = None
    if not isinstance(found, str):
        raise AttachmentFailed("the attachment's reference is not from Telegram", "gone")
    return found


def _attachment(file: RawFile, kind: AttachmentKind, mime_type: str | None) -> Attachment:
    declared = file.mime_type or mime_type
    if kind == "file" and declared is not None and declared.startswith("image/"):
        kind = "image"  # a picture sent uncompressed
    return Attachment(
        ref=json.dumps({"file_id": file.file_id}),
        kind=kind,
        name=None if file.file_name is None else file.file_name.replace("\0", ""),
        mime_type=declared,
        size=file.file_size,
    )
