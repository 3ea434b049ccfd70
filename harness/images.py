"""Makes a picture fit to be sent to a vision model: small, without metadata, and safe to open; called by prompt.py."""

from __future__ import annotations

import base64
import io
import logging
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from PIL import Image, ImageOps

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""Of the encoded picture; base64 makes a third more of it on the wire."""
MAX_PIXELS = 40_000_000
MAX_SIDE = 2048
LOSSLESS_PIXELS = 2_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""Only these are tried: every other parser is a way in for a crafted file."""

# Our own limit is checked before anything is decoded; Pillow's would only warn, and from any thread.
Image.MAX_IMAGE_PIXELS = None


class UnreadableImage(Exception):
    """The file is no picture that can be shown to a model; the text says why, in words for the model."""


def upload_data_url(path: Path) -> str:
    """`image_data_url` of a file among the uploads, where a command may have put a link or a pipe in its place.

    Raises UnreadableImage.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableImage("it cannot be opened any more") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableImage("it is not a regular file any more")
    with os.fdopen(handle, "rb") as file:
        return image_data_url(file)


def image_data_url(source: BinaryIO) -> str:
    """The picture as a data URL, below MAX_BYTES, upright, first frame, no EXIF. Blocking: call it in a thread.

    Raises UnreadableImage.
    """
    try:
        with Image.open(source, formats=FORMATS) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise UnreadableImage(f"it has more than {MAX_PIXELS // 1_000_000} million pixels")
            opened.draft("RGB", (MAX_SIDE, MAX_SIDE))
            picture = _plain(opened)
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:
        log.info("unreadable image: %s", error)
        raise UnreadableImage("it is not a readable PNG, JPEG, WEBP or GIF file") from error
    kind, data = _encoded(picture)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _plain(opened: Image.Image) -> Image.Image:
    """Upright, at most MAX_SIDE, RGB on white; a new picture, so nothing of the file's metadata comes along."""
    upright = ImageOps.exif_transpose(opened)
    upright.thumbnail((MAX_SIDE, MAX_SIDE))
    plain = Image.new("RGB", upright.size, "white")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layer = upright.convert("RGBA")
        plain.paste(layer, mask=layer.getchannel("A"))
    else:
        plain.paste(upright.convert("RGB"))
    return plain


def _encoded(picture: Image.Image) -> tuple[str, bytes]:
    """PNG where it is small (screenshots keep their sharp text), else JPEG, smaller until it fits."""
    if picture.width * picture.height <= LOSSLESS_PIXELS:
        data = _save(picture, "PNG")
        if len(data) <= MAX_BYTES // 4:
            return "png", data
    quality = 88
    while len(data := _save(picture, "JPEG", quality=quality)) > MAX_BYTES:
        if quality > 50:
            quality -= 15
        else:
            picture = picture.resize((max(1, picture.width // 2), max(1, picture.height // 2)))
    return "jpeg", data


def _save(picture: Image.Image, kind: str, **options: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()
