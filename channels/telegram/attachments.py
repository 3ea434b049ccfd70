"""What a message holds besides its words: files as references (and back to a file_id), places and such as text. Pure.

A reference holds the file_id and never a URL: the Bot API's file URLs contain the token.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from channels.errors import AttachmentFailed
from channels.message import Attachment, AttachmentKind
from channels.text import one_line

if TYPE_CHECKING:
    from channels.telegram.schema import RawFile, RawLocation, RawMessage


def read_attachments(raw: RawMessage) -> tuple[Attachment, ...]:
    """What hangs on the message; at most one file, as Telegram sends an album's items one by one."""
    if raw.photo:
        return (_attachment(raw.photo[-1], "image", "image/jpeg"),)  # sizes ascend
    if raw.animation is not None:  # before document, which an animation also sets
        return (_attachment(raw.animation, "video", "video/mp4"),)
    if raw.sticker is not None:
        return () if unread(raw) else (_attachment(raw.sticker, "image", "image/webp"),)
    kinds: tuple[tuple[RawFile | None, AttachmentKind, str | None], ...] = (
        (raw.voice, "voice", "audio/ogg"),
        (raw.audio, "audio", "audio/mpeg"),
        (raw.video, "video", "video/mp4"),
        (raw.video_note, "video", "video/mp4"),
        (raw.document, "file", None),
    )
    return tuple(_attachment(file, kind, mime_type) for file, kind, mime_type in kinds if file is not None)[:1]


def described(raw: RawMessage) -> str:
    """What is neither words nor a file, as a line for the agent; "" where there is nothing of the kind."""
    if raw.venue is not None:  # before location, which a venue also sets
        name = ", ".join(one_line(part) for part in (raw.venue.title, raw.venue.address) if part)
        return f"[place: {name} ({_point(raw.venue.location)})]"
    if raw.location is not None:
        return f"[location: {_point(raw.location)}]"
    if raw.contact is not None:
        name = one_line(f"{raw.contact.first_name} {raw.contact.last_name}")
        return f"[contact: {name}, {one_line(raw.contact.phone_number)}]"
    if raw.poll is not None:
        options = " / ".join(one_line(option.text) for option in raw.poll.options)
        return f"[poll: {one_line(raw.poll.question)} {options}]"
    if raw.dice is not None:
        return f"[{one_line(raw.dice.emoji)} shows {raw.dice.value}]"
    return ""


def unread(raw: RawMessage) -> str:
    """The kind of what no model can read, "" for all else. A sticker that does not move is a picture."""
    if raw.sticker is not None and (raw.sticker.is_animated or raw.sticker.is_video):
        return "sticker"
    kinds = ("story", "game", "invoice", "checklist", "giveaway", "paid_media")
    return next((kind for kind in kinds if getattr(raw, kind) is not None), "")


def _point(location: RawLocation) -> str:
    return f"{location.latitude:.6g}, {location.longitude:.7g}"


def file_id(attachment: Attachment) -> str:
    """The file_id in an attachment's reference. Raises AttachmentFailed("gone") when it is of another platform."""
    try:
        found = json.loads(attachment.ref)["file_id"]
    except (ValueError, TypeError, KeyError):
        found = None
    if not isinstance(found, str):
        raise AttachmentFailed("the attachment's reference is not one of Telegram's", "gone")
    return found


def _attachment(file: RawFile, kind: AttachmentKind, mime_type: str | None) -> Attachment:
    declared = file.mime_type or mime_type
    if kind == "file" and declared is not None and declared.startswith("image/"):
        kind = "image"  # a picture sent uncompressed
    return Attachment(
        ref=json.dumps({"file_id": file.file_id}),
        kind=kind,
        name=None if file.file_name is None else file.file_name.replace("\0", ""),
        mime_type=declared,
        size=file.file_size,
    )
