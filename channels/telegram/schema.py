"""The part of the Bot API's objects that the adapter reads, checked when read; the rest is ignored.

Names are the Bot API's own. Read by inbound.py.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr

from channels.unreadable import Raw

_SURROGATE = re.compile("[\ud800-\udfff]")


def _without_surrogates(value: object) -> object:
    """U+FFFD for each lone surrogate (JSON can carry them): it is one UTF-16 unit as well, so offsets stay right."""
    if isinstance(value, str) and not value.isascii():
        return _SURROGATE.sub("\ufffd", value)
    return value


Text = Annotated[StrictStr, BeforeValidator(_without_surrogates)]


class RawUser(Raw):
    id: StrictInt
    is_bot: StrictBool = False
    first_name: Text = ""
    last_name: Text = ""
    username: Text = ""
    language_code: Text | None = None


class RawChat(Raw):
    id: StrictInt
    type: Literal["private", "group", "supergroup", "channel"]
    title: Text = ""


class RawEntity(Raw):
    """offset and length are UTF-16 code units."""

    type: Text
    offset: StrictInt = Field(ge=0)
    length: StrictInt = Field(ge=0)
    user: RawUser | None = None


class RawFile(Raw):
    """What photos, documents, voices, videos and stickers have in common."""

    file_id: Text
    file_name: Text | None = None
    mime_type: Text | None = None
    file_size: StrictInt | None = None
    is_animated: StrictBool = False
    is_video: StrictBool = False


class RawOrigin(Raw):
    """Where a forwarded or externally quoted message comes from; which field is set depends on its type."""

    type: Text
    sender_user: RawUser | None = None
    sender_user_name: Text = ""
    sender_chat: RawChat | None = None
    chat: RawChat | None = None


class RawQuote(Raw):
    text: Text = ""


class RawExternalReply(Raw):
    origin: RawOrigin
    message_id: StrictInt | None = None


class RawMarker(Raw):
    """A service message's content, of which only the presence counts."""


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
    options: tuple[RawOption, ...] = ()


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
    entities: tuple[RawEntity, ...] = ()
    caption: Text | None = None
    caption_entities: tuple[RawEntity, ...] = ()
    reply_to_message: RawMessage | None = None
    quote: RawQuote | None = None
    external_reply: RawExternalReply | None = None
    forward_origin: RawOrigin | None = None
    media_group_id: Text | None = None
    migrate_to_chat_id: StrictInt | None = None
    forum_topic_created: RawMarker | None = None
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
    """date is 0 when the message is not accessible any more; then nothing else is told."""

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
