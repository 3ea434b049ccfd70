"""Whether a message speaks to the bot, and what it says without the bot's name. Pure; called by inbound.py.

All positions are UTF-16 code units, as the Bot API counts them, so the text is handled as UTF-16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.text import utf16_length

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.telegram.schema import RawEntity

_CLOSING = tuple(",.;:!?)")
_AFTER_NAME = " \t,:;"


@dataclass(frozen=True, slots=True)
class Spoken:
    """text: without the bot's name. named: the bot is mentioned or the command is its own.

    for_another: the message is a command for another bot, which is then left in the text as it stands.
    """

    text: str
    named: bool
    for_another: bool = False


def listen(text: str, entities: Sequence[RawEntity], bot_id: int, username: str) -> Spoken:
    """Find what in `text` names the bot, and take it out."""
    raw = text.encode("utf-16-le")
    own = f"@{username}".casefold() if username else None
    cuts: list[tuple[int, int]] = []
    for entity in sorted(entities, key=lambda entity: entity.offset):
        start, end = entity.offset, entity.offset + entity.length
        covered = raw[2 * start : 2 * end].decode("utf-16-le", "replace")
        if entity.type == "bot_command" and "@" in covered:
            command, _, target = covered.partition("@")
            if own is not None and f"@{target}".casefold() == own:
                cuts.append((start + utf16_length(command), end))
            elif start == 0:
                return Spoken(text, named=False, for_another=True)
        elif (entity.type == "mention" and covered.casefold() == own) or (
            entity.type == "text_mention" and entity.user is not None and entity.user.id == bot_id
        ):
            cuts.append((start, end))
    return Spoken(_without(raw, cuts), named=True) if cuts else Spoken(text, named=False)


def _without(raw: bytes, cuts: Sequence[tuple[int, int]]) -> str:
    """The text between the cuts; no doubled blank where one was, no orphaned comma where the text begins."""
    kept, position = "", 0
    for start, end in (*cuts, (len(raw) // 2, len(raw) // 2)):
        piece = raw[2 * position : 2 * max(start, position)].decode("utf-16-le", "replace")
        if position and (not kept or kept.isspace()):
            kept, piece = "", piece.lstrip(_AFTER_NAME)
        elif position and kept[-1:] in (" ", "\n") and piece[:1] == " ":
            piece = piece[1:]
        elif position and kept[-1:] == " " and piece[:1] in _CLOSING:
            kept = kept[:-1]
        kept, position = kept + piece, max(end, position)
    return kept.strip(" ") if cuts else kept
