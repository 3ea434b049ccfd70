"""Files on their way to a platform and back: opened without being tricked, and no more bytes than are wanted.

Used by the adapters' uploads and downloads.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from channels.errors import AttachmentFailed, Rejected

if TYPE_CHECKING:
    from pathlib import Path

    from channels.base import Sink


def open_regular(path: Path) -> BinaryIO:
    """Open what the agent made without following a link or waiting on a pipe that it may have put there instead.

    Raises Rejected.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Rejected(f"the file cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Rejected("this is not a regular file")
    return os.fdopen(handle, "rb")


def capped(sink: Sink, most: int, declared: int | None = None) -> Sink:
    """`sink`, which takes at most so many bytes: what is declared is only a claim, and may be nothing at all.

    Raises AttachmentFailed("too_large"), at once where more is declared.
    """
    if declared is not None and declared > most:
        raise AttachmentFailed(f"declared {declared} bytes, at most {most} are taken", "too_large")
    return _Capped(sink, most)


class _Capped:
    def __init__(self, sink: Sink, most: int) -> None:
        self._sink = sink
        self._most = self._left = most

    async def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise AttachmentFailed(
                f"the file has more than the {self._most} bytes that are taken (max_download_mb)", "too_large"
            )
        await self._sink.write(chunk)
