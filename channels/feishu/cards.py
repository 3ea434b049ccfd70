"""Writes a rendered part as a card, a post or plain text, in the platform's JSON. Pure.

Sources: "Card JSON 2.0 structure", "Message content".
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from channels.text import one_line, safe_cut

if TYPE_CHECKING:
    from channels.feishu.outbound import FeishuPart, Keyboard
    from channels.message import Address

TEXT, STATUS = "text", "status"
"""Ids of the elements that stream."""
NOTHING = "\u200b"
"""An element that streams cannot be empty."""
_SUMMARY_CHARACTERS = 80
_MENTION = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
# Faster than the default of one character in 70 ms, so that the text does not lag behind the answer.
_STREAMING = {
    "print_frequency_ms": {"default": 40},
    "print_step": {"default": 4},
    "print_strategy": "fast",
}


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def card(part: FeishuPart, address: Address, *, streams: bool = False, card_id: str = "") -> str:
    """The whole card. streams: its text and status grow in place. card_id: its entity.

    Its buttons carry what a press must tell of the card: where it stands, and its entity.
    """
    elements: list[dict[str, Any]] = [_markdown(TEXT, part.text or NOTHING)]
    if part.status or streams:
        elements.append(_markdown(STATUS, part.status or NOTHING, text_size="notation"))
    elements += _buttons(part.keyboard, _origin(address, card_id))
    config: dict[str, Any] = {"update_multi": True, "streaming_mode": streams}
    if streams:
        config["streaming_config"] = _STREAMING
    else:
        config["summary"] = {"content": summary(part)}
    return dumps({"schema": "2.0", "config": config, "body": {"elements": elements}})


def settings(part: FeishuPart, *, streams: bool) -> str:
    """Settings of an entity: streaming on, or off with the line that the list of chats shows from then on."""
    if streams:
        return dumps({"config": {"streaming_mode": True, "streaming_config": _STREAMING}})
    return dumps({"config": {"streaming_mode": False, "summary": {"content": summary(part)}}})


def entity(card_id: str) -> str:
    """The content of the message that shows a card entity."""
    return dumps({"type": "card", "data": {"card_id": card_id}})


def post(part: FeishuPart) -> str:
    """A post with one Markdown node; it has no buttons."""
    return dumps({"zh_cn": {"title": "", "content": [[{"tag": "md", "text": _with_the_rest(part)}]]}})


def text(part: FeishuPart) -> str:
    """A text message, which shows Markdown's signs as they are. What would mention somebody is taken apart."""
    plain = html.unescape(_with_the_rest(part))
    return dumps({"text": _MENTION.sub("<" + NOTHING, plain)})


def summary(part: FeishuPart) -> str:
    """The line that the list of chats shows of the answer."""
    line = one_line(html.unescape(part.text or part.status)).lstrip("#> ")
    return line if len(line) <= _SUMMARY_CHARACTERS else line[: safe_cut(line, _SUMMARY_CHARACTERS - 1)] + "…"


def _with_the_rest(part: FeishuPart) -> str:
    return "\n\n".join(piece for piece in (part.text, part.status) if piece) or NOTHING


def _markdown(element_id: str, content: str, **more: str) -> dict[str, Any]:
    return {"tag": "markdown", "element_id": element_id, "content": content, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The value of a pressed button. direct: whether its chat is a DM, None where it does not say.

    topic: meaningful only where `direct` is known.
    """

    data: str
    card_id: str = ""
    direct: bool | None = None
    topic: str | None = None


def read_value(value: object, chat: str) -> Pressed | None:
    """A value as `card` wrote it, pressed in `chat`; None for any other.

    What it says of its place counts only in that place: a card may have been forwarded.
    """
    if not isinstance(value, dict) or not isinstance(data := value.get("data"), str):
        return None
    entity_id, kind, topic = value.get("card"), value.get("kind"), value.get("topic")
    known = value.get("chat") == chat and kind in ("dm", "group")
    return Pressed(
        data=data,
        card_id=entity_id if isinstance(entity_id, str) and entity_id.isalnum() else "",
        direct=kind == "dm" if known else None,
        topic=topic if known and isinstance(topic, str) and topic else None,
    )


def _origin(address: Address, card_id: str) -> dict[str, str]:
    origin = {"chat": address.chat, "kind": "dm" if address.kind == "dm" else "group"}
    if address.topic is not None:
        origin["topic"] = address.topic
    if card_id:
        origin["card"] = card_id
    return origin


def _buttons(keyboard: Keyboard, origin: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of buttons. Their value is an object: the platform refuses others when they come back."""
    rows = []
    for row in keyboard:
        columns = [
            {"tag": "column", "width": "auto", "elements": [_button(label, {"data": data, **origin})]}
            for label, data in row
        ]
        rows.append({"tag": "column_set", "flex_mode": "flow", "columns": columns})
    return rows


def _button(label: str, value: dict[str, str]) -> dict[str, Any]:
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": label},
        "type": "default",
        "behaviors": [{"type": "callback", "value": value}],
    }
