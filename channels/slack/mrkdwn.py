"""Slack's own text (mrkdwn) -> what a person meant: entities undone, links and mentions readable. Pure.

Source: "Formatting text for app surfaces". Called by reading.py for messages without rich text blocks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(r"<([^<>\n]+)>")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def readable(text: str, mention: Callable[[str], str]) -> str:
    """mention: what to write for a person's id."""
    pieces, position = [], 0
    for found in _TOKEN.finditer(text):
        pieces += [_unescaped(text[position : found.start()]), _token(found[1], mention)]
        position = found.end()
    return "".join([*pieces, _unescaped(text[position:])])


def link(url: str, label: str) -> str:
    """A link as text: the address alone where the label says no more than that."""
    if not label or label == url or url in (f"http://{label}", f"https://{label}", f"mailto:{label}", f"tel:{label}"):
        return url if "://" in url else label or url
    return f"{label} ({url})"


def _token(content: str, mention: Callable[[str], str]) -> str:
    target, _, label = content.partition("|")
    label = _unescaped(label)
    match target[:1]:
        case "@":
            return mention(target[1:])
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return _special(target[1:], label)
    return link(_unescaped(target), label)


def _special(target: str, label: str) -> str:
    """<!here>, <!subteam^S1|@group>, <!date^…|as it was then>."""
    name, _, rest = target.partition("^")
    if name == "date":
        return label
    return label if label.startswith("@") else f"@{label or rest or name}"


def _unescaped(text: str) -> str:
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text
