"""Commands inside texts. The catalogues contain `/new`; each channel converts that to the form that people type there.

`marked` puts an invisible mark into each command of a catalogue, so that no other text (a path, the model's words) is
ever mistaken for one; delivery lets the channel convert it, and `unmarked` is for all other uses of a text.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.texts.catalogue import Texts
    from channels.message import OutboundMessage

_SIGN = "\u2063"
_MARKED = re.compile(rf"/{_SIGN}([^\W\d][\w-]*)")
_SKILLS = ("name", "NAME", "名称")
"""Placeholders of a skill's name, which is a command as well."""


def command(name: str) -> str:
    """A command for use inside a text."""
    return f"/{_SIGN}{name}"


def marked(texts: Texts) -> Texts:
    """The same catalogue with a mark in every command."""
    names = "|".join((*texts.command_menu, *texts.admin_menu, *_SKILLS))
    found = re.compile(rf"(?<![\w/])/(?=(?:{names})\b|\{{command\}})")

    def mark(value: Any) -> Any:
        if isinstance(value, str):
            return found.sub(f"/{_SIGN}", value)
        return {key: mark(text) for key, text in value.items()}

    return replace(texts, **{field.name: mark(getattr(texts, field.name)) for field in fields(texts)})


def unmarked(text: str) -> str:
    """The text with its commands as they are in the catalogue."""
    return text.replace(_SIGN, "")


def written(message: OutboundMessage, write: Callable[[str], str]) -> OutboundMessage:
    """The message with every command in the form that people type where it is shown."""

    def rewrite(text: str) -> str:
        return _MARKED.sub(lambda match: write(match[1]), text) if _SIGN in text else text

    text, status = rewrite(message.text), rewrite(message.status)
    return message if (text, status) == (message.text, message.status) else replace(message, text=text, status=status)
