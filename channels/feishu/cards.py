"""What is sent: a rendered part as a card, a post or plain text, in the platform's JSON. Pure; called by the senders.

Sources: "Card JSON 2.0 structure", "Message content".
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

from channels.text import one_line, safe_cut

if TYPE_CHECKING:
    from channels.feishu.outbound import FeishuPart, Keyboard

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


def card(part: FeishuPart, *, streams: bool = False, card_id: str = "") -> str:
    """The whole card. streams: its text and status grow in place. card_id: its entity, which its buttons then name."""
    elements: list[dict[str, Any]] = [_markdown(TEXT, part.text or NOTHING)]
    if part.status or streams:
        elements.append(_markdown(STATUS, part.status or NOTHING, text_size="notation"))
    elements += _buttons(part.keyboard, card_id)
    config: dict[str, Any] = {"update_multi": True, "streaming_mode": streams}
    if streams:
        config["streaming_config"] = _STREAMING
    else:
        config["summary"] = {"content": summary(part)}
    return dumps({"schema": "2.0", "config": config, "body": {"elements": elements}})


def settings(part: FeishuPart, *, streams: bool) -> str:
    """For PATCH settings: on, or off with what the list of chats shows from then on."""
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
    """What the list of chats shows of the answer."""
    line = one_line(html.unescape(part.text or part.status)).lstrip("#> ")
    return line if len(line) <= _SUMMARY_CHARACTERS else line[: safe_cut(line, _SUMMARY_CHARACTERS - 1)] + "…"


def _with_the_rest(part: FeishuPart) -> str:
    return "\n\n".join(piece for piece in (part.text, part.status) if piece) or NOTHING


def _markdown(element_id: str, content: str, **more: str) -> dict[str, Any]:
    return {"tag": "markdown", "element_id": element_id, "content": content, **more}


def _buttons(keyboard: Keyboard, card_id: str) -> list[dict[str, Any]]:
    """Rows of buttons. Their value is an object: the platform refuses others when they come back."""
    rows = []
    for row in keyboard:
        columns = [
            {"tag": "column", "width": "auto", "elements": [_button(label, data, card_id)]} for label, data in row
        ]
        rows.append({"tag": "column_set", "flex_mode": "flow", "columns": columns})
    return rows


def _button(label: str, data: str, card_id: str) -> dict[str, Any]:
    value = {"data": data, "card": card_id} if card_id else {"data": data}
    return {
        "tag": "button",
        "text": {"tag": "plain_text", "content": label},
        "type": "default",
        "behaviors": [{"type": "callback", "value": value}],
    }
