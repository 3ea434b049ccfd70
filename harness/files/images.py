"""Prepares a picture for a vision model: small, without metadata, and safe to open.

A file of a few bytes can decode to a gigabyte, so it is decoded in a helper process with a memory limit, one at a time
in the whole gateway. The process ends with its picture: pictures are rare, and nothing needs to be released.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from pathlib import Path

from harness.files.helpers import HelperFailed, Helpers
from harness.files.slots import FairSlots

log = logging.getLogger(__name__)

HELPER = Path(__file__).with_name("image_helper.py")
SECONDS = 20.0
MOST_BYTES = 50_000_000
"""Limit of an uploaded file, which a command may have made larger than any that can be sent."""

_helpers = Helpers(HELPER, at_once=1, idle_seconds=0)
_one_at_a_time = FairSlots(1)
"""One per process: after a reload the old harness finishes its runs while the new one is active."""


class UnreadableImage(Exception):
    """The file is not a picture that a model can be shown; the text says why, worded for the model."""


async def upload_data_url(path: Path, whose: str) -> str:
    """`image_data_url` of an uploaded file, where a command may have put a link or a pipe in its place.

    Raises UnreadableImage.
    """
    async with _one_at_a_time.slot(whose):  # the file's bytes are in memory only here
        return await _data_url(await asyncio.to_thread(_content, path))


async def image_data_url(content: bytes, whose: str) -> str:
    """The picture as a data URL, of at most 2 MB, upright, first frame, no EXIF.

    whose: the person it is done for; one person's many pictures do not hold up those of others. Raises UnreadableImage.
    """
    async with _one_at_a_time.slot(whose):
        return await _data_url(content)


async def _data_url(content: bytes) -> str:
    try:
        answer = await _helpers.call({}, content, seconds=SECONDS, whose="")
    except (TimeoutError, HelperFailed):
        raise UnreadableImage("it takes too much time or memory to open") from None
    if "url" not in answer:
        log.info("unreadable image: %s", answer.get("problem"))
        raise UnreadableImage(str(answer.get("problem")))
    return str(answer["url"])


def _content(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableImage("it can no longer be opened") from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableImage("it is no longer a regular file")
    with os.fdopen(handle, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise UnreadableImage(f"it has more than {MOST_BYTES // 1_000_000} MB")
    return content
