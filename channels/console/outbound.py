"""Pure: a reply's state -> the parts that a terminal shows, safe to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.base import Part
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from channels.message import OutboundFile, OutboundMessage

MAX_UNIT = 1_000_000
"""Characters of one message: no limit of terminals, only a bound on what one edit may move."""


@dataclass(frozen=True, slots=True)
class TextPart(Part):
    """Markdown and a status line. final: nothing of it will change."""

    text: str
    status: str
    final: bool


@dataclass(frozen=True, slots=True)
class FilePart(Part):
    """One file."""

    file: OutboundFile


def layout(message: OutboundMessage) -> tuple[Part, ...]:
    """One text part (more only past MAX_UNIT characters), then one part for each file."""
    text = sanitize(message.text)
    status = one_line(message.status)
    parts: list[Part] = []
    if text or status:
        slices = [text[start : start + MAX_UNIT] for start in range(0, len(text), MAX_UNIT)] or [""]
        # A full slice with text behind it is complete, whether or not the reply is.
        parts = [TextPart(index, piece, "", True) for index, piece in enumerate(slices[:-1])]
        parts.append(TextPart(len(parts), slices[-1], status, message.final))
    return (*parts, *(FilePart(len(parts) + index, file) for index, file in enumerate(message.files)))
