"""The frames of the long connection: JSON text with a command, headers and a body. Pure; called by connection.py."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import Any

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


# JSON may spell half of a character; nothing that carries one can be stored or sent back.
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """What the platform tells us. req_id: under which it can be answered."""

    cmd: str
    req_id: str
    body: Body

    @property
    def event_type(self) -> str:
        """Of an event, else ""."""
        event = self.body.get("event")
        kind = event.get("eventtype") if self.cmd == EVENT and isinstance(event, dict) else None
        return kind if isinstance(kind, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """The platform's answer to a frame of ours."""

    req_id: str
    errcode: int
    errmsg: str = ""
    body: Body = field(default_factory=dict)


def read(text: str | bytes) -> Callback | Ack | None:
    """A frame of the platform; None for what is none, which is stepped over."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match frame:
        case {"headers": {"req_id": str(req_id)}} if _HALF.search(req_id):
            return None
        case {"cmd": "aibot_msg_callback" | "aibot_event_callback" as cmd, "headers": {"req_id": str(req_id)}}:
            return Callback(cmd=cmd, req_id=req_id, body=_body(frame))
        case {"errcode": int(errcode), "headers": {"req_id": str(req_id)}}:
            return Ack(req_id=req_id, errcode=errcode, errmsg=_text(frame.get("errmsg")), body=_body(frame))
    return None


def request(cmd: str, req_id: str, body: Body | None = None) -> str:
    """A frame of ours as text."""
    frame: Body = {"cmd": cmd, "headers": {"req_id": req_id}}
    return json.dumps(frame if body is None else {**frame, "body": body}, ensure_ascii=False)


def new_req_id(cmd: str) -> str:
    """For a frame that answers nothing."""
    return f"{cmd}_{uuid.uuid4().hex}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _body(frame: Body) -> Body:
    body = frame.get("body")
    return body if isinstance(body, dict) else {}
