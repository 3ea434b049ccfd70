"""Pictures for a vision model: small, upright, without metadata; hostile files are refused before they are decoded."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import struct
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from harness.files.image_helper import MAX_BYTES, MAX_SIDE
from harness.files.images import UnreadableImage, image_data_url, upload_data_url

if TYPE_CHECKING:
    from pathlib import Path

ANN, BOB = "telegram:1", "telegram:2"


async def shown(path: Path) -> tuple[Image.Image, int, str]:
    """The picture as the model gets it, its size in bytes, its type."""
    head, _, payload = (await upload_data_url(path, ANN)).partition(",")
    data = base64.b64decode(payload)
    return Image.open(io.BytesIO(data)), len(data), head


@pytest.mark.slow
async def test_a_large_photo_is_scaled_below_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    Image.effect_noise((3000, 2500), 120).convert("RGB").save(path)
    picture, size, head = await shown(path)
    assert head == "data:image/jpeg;base64"
    assert size <= MAX_BYTES
    assert max(picture.size) <= MAX_SIDE


async def test_a_small_screenshot_stays_lossless(tmp_path: Path) -> None:
    path = tmp_path / "screen.png"
    Image.new("RGB", (300, 200), "red").save(path)
    picture, _, head = await shown(path)
    assert head == "data:image/png;base64"
    assert picture.getpixel((0, 0)) == (255, 0, 0)


async def test_metadata_is_left_behind_and_rotation_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif[0x010F] = "SecretCamera"
    Image.new("RGB", (400, 200), "blue").save(path, exif=exif, icc_profile=b"SecretProfile")
    picture, _, _ = await shown(path)
    assert picture.size == (200, 400)
    assert dict(picture.getexif()) == {}
    assert b"Secret" not in base64.b64decode((await upload_data_url(path, ANN)).partition(",")[2])


async def test_transparency_becomes_white(tmp_path: Path) -> None:
    path = tmp_path / "logo.png"
    Image.new("RGBA", (10, 10), (0, 0, 0, 0)).save(path)
    assert (await shown(path))[0].getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "I;16"])
async def test_other_colour_modes_are_shown(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("picture.jpg" if mode == "CMYK" else "picture.png")
    Image.new(mode, (20, 20)).save(path)
    assert (await shown(path))[0].mode == "RGB"


async def test_an_animation_shows_its_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert (await shown(path))[0].getpixel((5, 5)) == (255, 0, 0)


def png_that_says(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


async def test_a_bomb_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_that_says(60_000, 60_000))
    with pytest.raises(UnreadableImage, match="megapixels"):
        await upload_data_url(path, ANN)


@pytest.mark.parametrize(
    "data", [b"", b"not a picture", png_that_says(10, 10), b"GIF89a", b"\xff\xd8\xff\xe0", b"RIFF\0\0\0\0WEBP"]
)
async def test_a_broken_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(data)
    with pytest.raises(UnreadableImage):
        await upload_data_url(path, ANN)


async def test_formats_that_models_do_not_take_are_not_even_parsed(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    Image.new("RGB", (10, 10)).save(path, "TIFF")
    with pytest.raises(UnreadableImage):
        await upload_data_url(path, ANN)


async def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImage):
        await upload_data_url(tmp_path / "gone.png", ANN)


async def test_what_was_put_in_an_uploads_place_is_not_opened(tmp_path: Path) -> None:
    picture, link, pipe = tmp_path / "host.png", tmp_path / "link.png", tmp_path / "pipe.png"
    Image.new("RGB", (10, 10), "red").save(picture)
    link.symlink_to(picture)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path):
        with pytest.raises(UnreadableImage, match="no longer"):
            await upload_data_url(path, ANN)


def encoded(picture: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "kind", "options"),
    [
        ("RGBA", "PNG", {}),
        ("P", "PNG", {"transparency": 0}),
        ("I;16", "PNG", {}),
        ("CMYK", "JPEG", {"progressive": True}),
        ("RGBA", "WEBP", {"lossless": True}),
        ("P", "GIF", {}),
    ],
)
async def test_a_whole_picture_of_a_camera_fits_into_the_helpers_memory(
    mode: str, kind: str, options: dict[str, Any]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned, which takes one more copy
    options = options if kind == "GIF" else {**options, "exif": exif}
    assert (await image_data_url(encoded(Image.new(mode, (4032, 3024)), kind, **options), ANN)).startswith("data:")


async def test_a_large_photo_is_decoded_smaller() -> None:
    photo = encoded(Image.new("RGB", (8160, 6120), "red"), "JPEG")
    data = base64.b64decode((await image_data_url(photo, ANN)).partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (2048, 1536)


@pytest.mark.slow
async def test_a_picture_of_a_few_bytes_takes_nothing_of_the_gateway() -> None:
    bomb = encoded(Image.new("RGBA", (6300, 6300)), "WEBP", lossless=True)
    assert len(bomb) < 2000
    with pytest.raises(UnreadableImage, match="more than 12 megapixels"):
        await image_data_url(bomb, ANN)
    # All of a progressive JPEG is held before its first line is made, however small it is decoded.
    progressive = encoded(Image.new("RGB", (64, 64)), "JPEG", progressive=True)
    size = progressive.index(b"\xff\xc2") + 5
    progressive = progressive[:size] + struct.pack(">HH", 16_000, 16_000) + progressive[size + 4 :]
    with pytest.raises(UnreadableImage):
        await image_data_url(progressive, ANN)
    loaded = "import sys, harness.prompt, harness.agents.tools; print([m for m in sys.modules if m == 'PIL'])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", loaded, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()
    assert told.strip() == b"[]", "nothing is decoded in the process that asks"


@pytest.mark.slow
async def test_ones_many_pictures_do_not_hold_up_anothers() -> None:
    order: list[str] = []
    picture = encoded(Image.new("RGB", (10, 10)), "PNG")

    async def look(whose: str) -> None:
        await image_data_url(picture, whose)
        order.append(whose)

    await asyncio.gather(*map(look, [*[ANN] * 4, BOB]))
    assert order.index(BOB) == 1
