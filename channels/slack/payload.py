"""A rendered part and its place as parameters of the Web API. Pure; called by channel.py, streams.py and finding.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from channels.slack.outbound import PLAIN_CHARACTERS, escaped
from channels.text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from channels.message import Address
    from channels.slack.outbound import SlackPart

Params = dict[str, Any]

METADATA_EVENT = "antler_reply"
FALLBACK_CHARACTERS = 3900
"""Of a message's `text`; chat.update refuses more than 4000."""
_LABEL_CHARACTERS = 75
_MOST_BLOCKS = 50
_MOST_BUTTONS = 25
"""In one row."""
_TIMESTAMP = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")


def place(address: Address) -> Params:
    """Where to send: the channel, and the thread if it has one."""
    params: Params = {"channel": address.chat}
    if address.topic is not None:
        params["thread_ts"] = address.topic
    return params


def content(part: SlackPart) -> Params:
    """What is shown. blocks are always given: chat.update leaves what it is not told about."""
    if part.plain:
        return plain_content(part)
    return {"text": _fallback(part), "blocks": _blocks(part)}


def fits_plain(part: SlackPart) -> bool:
    """Whether `plain_content` shows all of it."""
    return len(escaped(part.markdown)) <= PLAIN_CHARACTERS


def plain_content(part: SlackPart) -> Params:
    """The same for a platform that did not take the blocks: text, with a section only where buttons need one."""
    text = _fallback(part)
    if not part.keyboard:
        return {"text": text, "blocks": []}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text}}
    return {"text": text, "blocks": [section, *_actions(part, _MOST_BLOCKS - 1)]}


def quiet() -> Params:
    """On every message: fetching a previewed link leaks to its owner without a click."""
    return {"unfurl_links": False, "unfurl_media": False}


def marked(idem_key: str) -> Params:
    """By this a message is found again whose send was not answered."""
    return {"metadata": {"event_type": METADATA_EVENT, "event_payload": {"key": idem_key}}}


def mark_of(message: Mapping[str, Any]) -> str | None:
    """The key that `marked` put on a message of ours."""
    match message.get("metadata"):
        case {"event_type": str(kind), "event_payload": {"key": str(key)}} if kind == METADATA_EVENT:
            return key
    return None


def is_timestamp(message_id: str | None) -> bool:
    """Whether it is a message's id (files and slash commands have others)."""
    return message_id is not None and _TIMESTAMP.fullmatch(message_id) is not None


def order(ts: str) -> tuple[int, int]:
    """For comparing message ids of one channel."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds), int(fraction.ljust(9, "0"))


def _blocks(part: SlackPart) -> list[Params]:
    blocks: list[Params] = []
    if part.markdown:
        blocks.append({"type": "markdown", "text": part.markdown})
    if part.status:
        line = {"type": "plain_text", "text": part.status, "emoji": False}
        blocks.append({"type": "context", "elements": [line]})
    if part.keyboard:
        # The Markdown block counts as the blocks that Slack makes of it.
        blocks += _actions(part, _MOST_BLOCKS - len(parse(part.markdown)) - bool(part.status))
    return blocks


def _actions(part: SlackPart, room: int) -> list[Params]:
    """The buttons in at most `room` blocks: in their rows, or in full ones where those are too many."""
    rows = [piece for row in part.keyboard for piece in _in_blocks(row)]
    if len(rows) > room:
        rows = _in_blocks([button for row in rows for button in row])
    return [
        {
            "type": "actions",
            "elements": [_button(f"{row_number}.{number}", *button) for number, button in enumerate(row)],
        }
        for row_number, row in enumerate(rows)
    ]


def _in_blocks(buttons: Sequence[tuple[str, str]]) -> list[Sequence[tuple[str, str]]]:
    return [buttons[start : start + _MOST_BUTTONS] for start in range(0, len(buttons), _MOST_BUTTONS)]


def _button(action_id: str, label: str, data: str) -> Params:
    text = {"type": "plain_text", "text": label[:_LABEL_CHARACTERS] or "…", "emoji": True}
    return {"type": "button", "action_id": action_id, "text": text, "value": data}


def _fallback(part: SlackPart) -> str:
    """For notifications, searches and clients that know no blocks; escaping makes it longer, so it is cut last."""
    labels = " ".join(f"[{label}]" for row in part.keyboard for label, _ in row)
    text = escaped(part.markdown or part.status or labels or "…")
    if len(text) <= FALLBACK_CHARACTERS:
        return text
    text = text[: FALLBACK_CHARACTERS - 1]
    # Not inside an entity, which would become an ampersand and some letters.
    start = text.rfind("&", len(text) - 5)
    return (text if start < 0 or ";" in text[start:] else text[:start]) + "…"
