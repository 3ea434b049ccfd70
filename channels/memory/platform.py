"""What the in-memory channel consists of: what its platform can do, its messages, how a reply becomes some of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from channels.base import Part
from channels.capabilities import Capabilities, TextUnit

if TYPE_CHECKING:
    from channels.errors import ChannelError
    from channels.message import Button, OutboundFile, OutboundMessage

KEPT = 10_000
"""Messages per chat, states per message and calls that are remembered; older ones are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMode:
    """What the platform can do. stream_ttl: seconds a stream may stay open. previews: ephemeral drafts in DMs.

    findable: `find` can tell where a lost send went; adopts: it is also asked for drafts of an earlier process.
    replies: an answer can only be given to a certain message. buttons: without them a message's are left out.
    resumes: an open stream does not end with its process.
    """

    edits: bool = True
    append_only: bool = False
    idempotent: bool = True
    findable: bool = True
    adopts: bool = True
    previews: bool = False
    buttons: bool = True
    replies: bool = False
    resumes: bool = False
    typing: bool = True
    stream_ttl: float | None = None
    stream_sign: float | None = None
    max_unit: int = 4000

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            edits=self.edits,
            append_only_stream=self.append_only,
            stream_ttl=self.stream_ttl,
            stream_sign=self.stream_sign,
            buttons=self.buttons,
            files=True,
            typing=self.typing,
            text_unit=TextUnit.CHARACTERS,
            max_unit=self.max_unit,
            idempotent_send=self.idempotent,
            findable_after_crash=self.findable and self.adopts,
            edit_interval_dm=1.0,
            edit_interval_group=3.0,
            preview_dm=self.previews,
            replies_to_message=self.replies,
        )


FULL = MemoryMode()
APPEND_ONLY = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False)
NO_EDIT = MemoryMode(edits=False)
NO_IDEMPOTENCY = MemoryMode(idempotent=False, findable=False)
SEARCHED = MemoryMode(idempotent=False)
"""A send cannot be repeated, but looked for."""
NO_BUTTONS = MemoryMode(buttons=False)
REPLIES = MemoryMode(replies=True)
RESUMED = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, replies=True, resumes=True)
"""As APPEND_ONLY, and an open stream outlives its process."""


@dataclass(frozen=True, slots=True)
class MemoryPart(Part):
    """One message: a piece of the text with what hangs on it, or one file."""

    text: str
    buttons: tuple[tuple[Button, ...], ...] = ()
    file: OutboundFile | None = None


@dataclass(slots=True, kw_only=True)
class Bubble:
    """A message as a person sees it. history: everything that it ever showed, oldest first. sent_at: monotonic.

    resumed: a stream that another process goes on with, for which what it shows does not count.
    """

    message_id: str
    idem_key: str
    part: MemoryPart
    reply_to: str | None
    sent_at: float
    history: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    streaming: bool = False
    resumed: bool = False

    @property
    def text(self) -> str:
        return self.part.text


@dataclass(frozen=True, slots=True)
class Call:
    """One call of delivery. at: monotonic."""

    method: str
    chat: str
    at: float


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong. applied: the platform did it, only its answer is lost."""

    error: ChannelError
    applied: bool = False


def layout(message: OutboundMessage, mode: MemoryMode) -> tuple[MemoryPart, ...]:
    """The text's pieces, the status below the last, the buttons on the last; then one part for each file."""
    pieces = split(message.text, mode.max_unit, at_lines=not mode.append_only)
    if message.status or (message.buttons and not pieces):
        pieces = _with_status(pieces, message.status, mode.max_unit)
    parts = [MemoryPart(index, piece) for index, piece in enumerate(pieces)]
    if parts and message.buttons and mode.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    parts += [MemoryPart(len(parts) + number, file.name, (), file) for number, file in enumerate(message.files)]
    return tuple(parts)


def split(text: str, limit: int, at_lines: bool) -> list[str]:
    """Pieces of at most `limit` characters that joined are `text` again.

    at_lines: cut at line ends where there are any. A stream cannot: its first piece would shrink when it is full.
    """
    pieces = []
    while len(text) > limit:
        end = (text.rfind("\n", 0, limit) + 1 if at_lines else 0) or limit
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text] if text else pieces


def _with_status(pieces: list[str], status: str, limit: int) -> list[str]:
    if not pieces:
        return [status[:limit]]
    last = f"{pieces[-1]}\n\n{status}"
    return [*pieces[:-1], last] if len(last) <= limit else pieces
