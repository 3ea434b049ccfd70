"""The helper process that prepares pictures for a vision model; imports nothing of Antler."""

from __future__ import annotations

import base64
import io
import json
import resource
import sys

from PIL import Image, ImageOps

MEMORY = 512 << 20
PROCESSOR_SECONDS = 60
MAX_BYTES = 2_000_000
"""Limit of the encoded picture; base64 adds a third on the wire."""
MEGAPIXELS = 12
MAX_PIXELS = MEGAPIXELS << 20
"""Limit for decoding, in binary millions, since 12-megapixel cameras produce slightly more than 12 million."""
MAX_SIDE = 2048
LOSSLESS_PIXELS = 2_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
"""Only these are tried: every other parser is attack surface for a crafted file."""

# MAX_PIXELS is checked before anything is decoded; Pillow's own limit would only warn.
Image.MAX_IMAGE_PIXELS = None


class TooManyPixels(Exception):
    """The picture exceeds MAX_PIXELS."""


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while line := sys.stdin.buffer.readline():
        source = io.BytesIO(sys.stdin.buffer.read(json.loads(line)["size"]))
        sys.stdout.write(json.dumps(answer(source)) + "\n")
        sys.stdout.flush()


def answer(source: io.BytesIO) -> dict[str, str]:
    """`url`, or `problem`, worded for the model."""
    try:
        kind, data = _encoded(_plain(source))
    except TooManyPixels:
        return {"problem": f"it has more than {MEGAPIXELS} megapixels"}
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError):
        return {"problem": "it is not a readable PNG, JPEG, WEBP or GIF file"}
    return {"url": f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"}


def _plain(source: io.BytesIO) -> Image.Image:
    """The picture upright, at most MAX_SIDE, RGB on white; a new picture, so none of the file's metadata is kept."""
    with Image.open(source, formats=FORMATS) as opened:
        opened.draft("RGB", (MAX_SIDE, MAX_SIDE))  # a large JPEG is decoded at a lower resolution, never below this
        if opened.width * opened.height > MAX_PIXELS:
            raise TooManyPixels
        opened.thumbnail((MAX_SIDE, MAX_SIDE))
        upright = ImageOps.exif_transpose(opened)
    plain = Image.new("RGB", upright.size, "white")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layer = upright.convert("RGBA")
        plain.paste(layer, mask=layer.getchannel("A"))
    else:
        plain.paste(upright.convert("RGB"))
    return plain


def _encoded(picture: Image.Image) -> tuple[str, bytes]:
    """The picture as PNG if that is small (screenshots keep their sharp text), else as JPEG, reduced until it fits."""
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


if __name__ == "__main__":
    main()
