"""Pictures: into another format or size, and together as a PDF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image, ImageOps, UnidentifiedImageError
from report import CannotConvert, Report

if TYPE_CHECKING:
    from pathlib import Path

A4 = (1654, 2339)
"""Pixels of a page at 200 dpi."""
EDGE = 60


def opened(path: Path) -> Image.Image:
    """Turned as the camera was held. Raises CannotConvert."""
    try:
        return ImageOps.exif_transpose(Image.open(path))
    except FileNotFoundError:
        raise CannotConvert(f"{path} does not exist") from None
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise CannotConvert(
            f"{path.name} is no picture that can be read here ({error}); HEIC and SVG are not"
        ) from None


def convert(path: Path, output: Path, report: Report, *, longest: int, quality: int) -> None:
    """longest: pixels of the longer side at most, 0 for as it is. quality: of JPEG and WEBP, 1 to 100."""
    image = opened(path)
    frames = getattr(Image.open(path), "n_frames", 1)
    before = image.size
    if longest and max(image.size) > longest:
        image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    if output.suffix.lower() in (".jpg", ".jpeg", ".bmp"):
        if _see_through(image):
            report.lost["see-through areas (white now)"] = 1
        image = flattened(image)
    output.parent.mkdir(parents=True, exist_ok=True)
    image.save(output, quality=quality)
    if frames > 1:
        report.lost["further pages or frames"] = frames - 1
    report.notes.append(
        f"{before[0]} x {before[1]} pixels, now {image.size[0]} x {image.size[1]}; place and camera are not kept"
    )
    report.written.append(output)


def as_pdf(paths: list[Path], output: Path, report: Report, *, fit: bool) -> None:
    """A page for each picture, in this order. fit: on A4, landscape or portrait as the picture; else its own size."""
    pages = [_on_a4(flattened(opened(path))) if fit else flattened(opened(path)) for path in paths]
    output.parent.mkdir(parents=True, exist_ok=True)
    pages[0].save(output, save_all=True, append_images=pages[1:], resolution=200)
    report.kept["pages"] = len(pages)
    report.notes.append("its text cannot be searched: there is no OCR here")
    report.written.append(output)


def flattened(image: Image.Image) -> Image.Image:
    """On white, in three colours."""
    if not _see_through(image):
        return image.convert("RGB")
    ground = Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image.convert("RGBA"))
    return ground.convert("RGB")


def _see_through(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info


def _on_a4(image: Image.Image) -> Image.Image:
    size = A4 if image.height >= image.width else A4[::-1]
    page = Image.new("RGB", size, "white")
    room = (size[0] - 2 * EDGE, size[1] - 2 * EDGE)
    scale = min(room[0] / image.width, room[1] / image.height, 2)
    image = image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.LANCZOS)
    page.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return page
