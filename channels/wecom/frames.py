"""The format of the long connection: frames, the relevant callbacks in them, and ids built from both.

A frame is JSON text with a command, headers and a body. The id of a message is "msgid|req_id": WeCom lets a bot answer
a message only under the req_id of its callback, so the id carries what an answer needs after a restart. Pure.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from channels.adapter import Raw, Several, Spare, Text

Body = dict[str, Any]

SUBSCRIBE = "aibot_subscribe"
PING = "ping"
RESPOND = "aibot_respond_msg"
WELCOME = "aibot_respond_welcome_msg"
UPDATE_CARD = "aibot_respond_update_msg"
PUSH = "aibot_send_msg"
UPLOAD_BEGIN = "aibot_upload_media_init"
UPLOAD_CHUNK = "aibot_upload_media_chunk"
UPLOAD_FINISH = "aibot_upload_media_finish"

MESSAGE = "aibot_msg_callback"
EVENT = "aibot_event_callback"

_BETWEEN = "|"
_OF_CORP = "/"
# JSON may contain half of a surrogate pair; text with one can neither be stored nor sent back.
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """An event reported by the platform. req_id: the id under which it can be answered."""

    cmd: str
    req_id: str
    body: Body

    @property
    def event_type(self) -> str:
        """The kind of an event, "" for a message."""
        event = self.body.get("event")
        kind = event.get("eventtype") if self.cmd == EVENT and isinstance(event, dict) else None
        return kind if isinstance(kind, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """The platform's answer to a frame that was sent."""

    req_id: str
    errcode: int
    errmsg: str = ""
    body: Body = field(default_factory=dict)


def read(text: str | bytes) -> Callback | Ack | None:
    """A frame of the platform; None for anything else, which is ignored."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match frame:
        case {"headers": {"req_id": str(req_id)}} if _HALF.search(req_id):
            return None
        case {"cmd": "aibot_msg_callback" | "aibot_event_callback" as cmd, "headers": {"req_id": str(req_id)}}:
            return Callback(cmd=cmd, req_id=req_id, body=_body(frame))
        case {"cmd": "aibot_msg_callback" | "aibot_event_callback" as cmd}:
            return Callback(cmd=cmd, req_id="", body=_body(frame))  # its answer is pushed
        case {"errcode": int(errcode), "headers": {"req_id": str(req_id)}}:
            return Ack(req_id=req_id, errcode=errcode, errmsg=_text(frame.get("errmsg")), body=_body(frame))
    return None


def request(cmd: str, req_id: str, body: Body | None = None) -> str:
    """The text of a frame to send."""
    frame: Body = {"cmd": cmd, "headers": {"req_id": req_id}}
    return json.dumps(frame if body is None else {**frame, "body": body}, ensure_ascii=False)


def new_req_id(cmd: str) -> str:
    """A new req_id for a frame that is not an answer."""
    return f"{cmd}_{uuid.uuid4().hex}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _body(frame: Body) -> Body:
    body = frame.get("body")
    return body if isinstance(body, dict) else {}


class RawText(Raw):
    content: Text = ""


class RawMedia(Raw):
    """A file. url: valid for five minutes. aeskey: base64, for this file alone. Without them the file is lost."""

    url: Text = ""
    aeskey: Text = ""
    filename: Spare[Text] = None


class RawContent(Raw):
    """The content of a message, a part of a mixed one or a quoted one: the field that msgtype names."""

    msgtype: Text
    text: RawText | None = None
    voice: RawText | None = None
    image: Spare[RawMedia] = None
    file: Spare[RawMedia] = None
    video: Spare[RawMedia] = None
    mixed: RawMixed | None = None


class RawMixed(Raw):
    msg_item: Several[RawContent] = ()


class RawFrom(Raw):
    userid: Text = Field(min_length=1)
    corpid: Text | None = None


class RawEnvelope(Raw):
    msgid: Text = Field(min_length=1)
    chattype: Spare[Literal["single", "group"]] = None
    chatid: Text | None = None
    sender: RawFrom = Field(alias="from")
    create_time: Spare[int] = None


class RawMessage(RawEnvelope, RawContent):
    quote: Spare[RawContent] = None


class RawCardEvent(Raw):
    event_key: Text = ""
    task_id: Text = ""


class RawEvent(Raw):
    eventtype: Text
    template_card_event: RawCardEvent | None = None


class RawEventCallback(RawEnvelope):
    event: RawEvent


def message_id(msgid: str, req_id: str) -> str:
    """The platform_message_id of a message received with this req_id."""
    return f"{msgid}{_BETWEEN}{req_id}"


def press_id(req_id: str, key: str) -> str:
    """The callback_id of a press: its req_id and the key of the button, which describes its card."""
    return f"{req_id}{_BETWEEN}{key}"


def of_press(callback_id: str) -> tuple[str, str]:
    """(req_id, key) of a press."""
    req_id, _, key = callback_id.partition(_BETWEEN)
    return req_id, key


def req_id_of(message: str | None) -> str | None:
    """The req_id in a message's id, None for an id that has none."""
    return None if message is None else message.partition(_BETWEEN)[2] or None


def person(user: str, corp: str | None) -> str:
    """The id of a person. WeCom gives the corp only if one robot serves several corps, whose user ids may be equal."""
    return f"{corp}{_OF_CORP}{user}" if corp else user


def native_user(person_id: str) -> str:
    """The user id in a person's id, as the platform expects it."""
    return person_id.rpartition(_OF_CORP)[2]
