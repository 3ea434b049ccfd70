"""Lays out a reply as Feishu messages (pages of the card's Markdown, then files) and writes them as JSON. Pure.

`layout` is called for every edit of a growing reply. Sources: "Card JSON 2.0 structure", "Message content".
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from channels.adapter import Keyboard, keyboard
from channels.base import Part
from channels.text.blocks import texts
from channels.text.marks import Dialect, escape_marks
from channels.text.outline import pages
from channels.text.parse import parse
from channels.text.sanitize import one_line, seen_line, seen_lines
from channels.text.split import shortened

if TYPE_CHECKING:
    from channels.message import Address, OutboundFile, OutboundMessage

PAGE_UNITS = 24_000
"""Limit of one card's text, in bytes of JSON within JSON; a card may have 30 KB."""
TABLES = 5
"""Most tables in one card; the platform publishes no limit and has been observed to refuse more."""
_STATUS_CHARACTERS = 1000
_DONE_CHARACTERS = 1900
_BUTTONS_ONLY = "👇"
_HTML = re.compile(r"[<>|]|&(?=[#A-Za-z])|:(?=\w+:)")

TEXT, STATUS = "text", "status"
"""Ids of the streaming elements."""
NOTHING = "\u200b"
"""Content of an empty streaming element, which must not be empty."""
_SUMMARY_CHARACTERS = 80
_SUMMARY_SOURCE = 1000
_MENTION = re.compile(r"<(?=/?at\b)", re.IGNORECASE)
# Faster than the default of one character in 70 ms, so that the text does not lag behind the answer.
_STREAMING = {
    "print_frequency_ms": {"default": 40},
    "print_step": {"default": 4},
    "print_strategy": "fast",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeishuPart(Part):
    """One message. text: the platform's Markdown, "" for a file. growing: more text follows, so it streams.

    awaited: an answer will grow here, once its buttons are gone.
    """

    text: str = ""
    status: str = ""
    done: tuple[str, ...] = ()
    keyboard: Keyboard = ()
    growing: bool = False
    awaited: bool = False
    file: OutboundFile | None = None


def measure(text: str) -> int:
    """Bytes of the text as JSON within JSON, as it is sent in a card."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text)
    inner = json.dumps(text, ensure_ascii=False)[1:-1]
    return len(json.dumps(inner, ensure_ascii=False).encode()) - 2


def escape(text: str) -> str:
    """Text that is shown literally: the platform needs entities instead of backslashes (page "Rich text component").

    A < would begin an element such as a mention of all, and a word between colons would be an emoji.
    """
    return escape_marks(_HTML.sub(lambda found: _entity(found[0]), text), _entity)


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


DIALECT = Dialect(
    measure=measure,
    escape=escape,
    escape_code=str,
    tables=TABLES,
    task_lists=False,
    literal=_entity,
)


def layout(message: OutboundMessage) -> tuple[FeishuPart, ...]:
    """The messages that show a reply: its text, then its files; () if nothing is visible."""
    open_end = not message.final
    texts = list(pages(message.text, DIALECT, PAGE_UNITS, growing=open_end))
    status = escape(shortened(seen_lines(message.status, _STATUS_CHARACTERS), _STATUS_CHARACTERS))
    status = status if open_end or not texts else ""
    done = tuple(filter(None, map(seen_line, message.done))) if message.final else ()
    if not texts and message.buttons and not status:
        texts = [_BUTTONS_ONLY]
    elif not texts and status:
        texts = [""]
    rows = keyboard(message.buttons)
    last = len(texts) - 1
    parts = [
        FeishuPart(
            index,
            text=text,
            status=status if index == last else "",
            done=done if index == last else (),
            keyboard=rows if index == last else (),
            growing=open_end and index == last and not rows,
            awaited=open_end and index == last and bool(rows),
        )
        for index, text in enumerate(texts)
    ]
    return (*parts, *(FeishuPart(len(parts) + index, file=file) for index, file in enumerate(message.files)))


def tables_as_code(text: str) -> str:
    """The page with its tables in code blocks, in case the platform accepts fewer tables than expected."""
    lines: list[str] = []
    fenced = inside = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```") and not inside:
            fenced = not fenced
        row = not fenced and line.lstrip().startswith("|")
        if row != inside:
            lines.append("```")
            inside = row
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def without_tables(part: FeishuPart) -> FeishuPart:
    return replace(part, text=tables_as_code(part.text))


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def card(part: FeishuPart, address: Address, *, streams: bool = False, card_id: str = "") -> str:
    """The whole card. streams: its text and status grow in place. card_id: its entity.

    Its buttons carry what a press must report about the card: its place and its entity.
    """
    elements: list[dict[str, Any]] = [_markdown(TEXT, part.text or NOTHING)]
    if part.status or streams:
        elements.append(_markdown(STATUS, part.status or NOTHING, text_size="notation"))
    if part.done:
        elements.append(_panel(*part.done))
    elements += _buttons(part.keyboard, _origin(address, card_id))
    config: dict[str, Any] = {"update_multi": True, "streaming_mode": streams}
    if streams:
        config["streaming_config"] = _STREAMING
    else:
        config["summary"] = {"content": summary(part)}
    return dumps({"schema": "2.0", "config": config, "body": {"elements": elements}})


def settings(part: FeishuPart, *, streams: bool) -> str:
    """Settings of an entity: streaming on, or off with the line shown in the list of chats from then on."""
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
    """A text message, which shows Markdown literally. Anything that would mention someone is broken up."""
    plain = html.unescape(_with_the_rest(part))
    return dumps({"text": _MENTION.sub("<" + NOTHING, plain)})


def summary(part: FeishuPart) -> str:
    """The line shown for the answer in the list of chats and in notifications, which show Markdown literally."""
    beginning = parse((part.text or part.status)[:_SUMMARY_SOURCE], growing=True)
    return shortened(one_line(" ".join(texts(beginning))), _SUMMARY_CHARACTERS)


def _with_the_rest(part: FeishuPart) -> str:
    return "\n\n".join(piece for piece in (part.text, part.status) if piece) or NOTHING


def _panel(head: str, *lines: str) -> dict[str, Any]:
    """Lines below a heading that expands them (page "Collapsible panel component")."""
    text = escape(shortened("\n".join(lines), _DONE_CHARACTERS))
    return {
        "tag": "collapsible_panel",
        "expanded": False,
        "header": {"title": {"tag": "plain_text", "content": head}},
        "elements": [{"tag": "markdown", "content": text or NOTHING, "text_size": "notation"}],
    }


def _markdown(element_id: str, content: str, **more: str) -> dict[str, Any]:
    return {"tag": "markdown", "element_id": element_id, "content": content, **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressed:
    """The value of a pressed button. direct: whether its chat is a DM, None if not given.

    topic: meaningful only where `direct` is known.
    """

    data: str
    card_id: str = ""
    direct: bool | None = None
    topic: str | None = None


def read_value(value: object, chat: str) -> Pressed | None:
    """Parse a value written by `card` and pressed in `chat`; None for any other value.

    Its information about the place counts only in that place: a card may have been forwarded.
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
    """Rows of buttons. Their value is an object: the platform refuses others when a button is pressed."""
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
