"""The callbacks of the platform as far as they matter here; everything else in them is ignored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from channels.unreadable import Raw


def _clean(value: object) -> object:
    """U+FFFD for each lone surrogate: JSON can carry them, nothing behind the adapter can."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


Text = Annotated[str, BeforeValidator(_clean)]


class RawText(Raw):
    content: Text = ""


class RawMedia(Raw):
    """url: valid for five minutes. aeskey: base64, of this file alone."""

    url: Text
    aeskey: Text
    filename: Text | None = None


class RawContent(Raw):
    """What a message, a part of a mixed one or a quoted one holds: the field that msgtype names."""

    msgtype: Text
    text: RawText | None = None
    voice: RawText | None = None
    image: RawMedia | None = None
    file: RawMedia | None = None
    video: RawMedia | None = None
    mixed: RawMixed | None = None


class RawMixed(Raw):
    msg_item: tuple[RawContent, ...] = ()


class RawFrom(Raw):
    userid: Text = Field(min_length=1)
    corpid: Text | None = None


class RawEnvelope(Raw):
    msgid: Text = Field(min_length=1)
    chattype: Literal["single", "group"] | None = None
    chatid: Text | None = None
    sender: RawFrom = Field(alias="from")
    create_time: int | None = None


class RawMessage(RawEnvelope, RawContent):
    quote: RawContent | None = None


class RawCardEvent(Raw):
    event_key: Text = ""
    task_id: Text = ""


class RawEvent(Raw):
    eventtype: Text
    template_card_event: RawCardEvent | None = None


class RawEventCallback(RawEnvelope):
    event: RawEvent
