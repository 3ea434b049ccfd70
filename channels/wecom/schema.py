"""The callbacks of the platform as far as they matter here; everything else in them is ignored."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Raw(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class RawText(Raw):
    content: str = ""


class RawMedia(Raw):
    """url: valid for five minutes. aeskey: base64, of this file alone."""

    url: str
    aeskey: str
    filename: str | None = None


class RawContent(Raw):
    """What a message, a part of a mixed one or a quoted one holds: the field that msgtype names."""

    msgtype: str
    text: RawText | None = None
    voice: RawText | None = None
    image: RawMedia | None = None
    file: RawMedia | None = None
    video: RawMedia | None = None
    mixed: RawMixed | None = None


class RawMixed(Raw):
    msg_item: tuple[RawContent, ...] = ()


class RawFrom(Raw):
    userid: str = Field(min_length=1)
    corpid: str | None = None


class RawEnvelope(Raw):
    msgid: str = Field(min_length=1)
    chattype: Literal["single", "group"] = "single"
    chatid: str | None = None
    sender: RawFrom = Field(alias="from")
    create_time: int | None = None


class RawMessage(RawEnvelope, RawContent):
    quote: RawContent | None = None


class RawCardEvent(Raw):
    event_key: str = ""
    task_id: str = ""


class RawEvent(Raw):
    eventtype: str
    template_card_event: RawCardEvent | None = None


class RawEventCallback(RawEnvelope):
    event: RawEvent
