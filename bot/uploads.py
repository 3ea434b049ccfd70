"""Fetches the attachments of admitted messages to disk, under the thread's uploads: bounded, counted, safely named."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from channels.errors import AttachmentFailed, ChannelError, Temporary
from harness.context import InputFile

if TYPE_CHECKING:
    from pathlib import Path

    from channels.base import Channel, Clock
    from channels.message import Attachment

log = logging.getLogger(__name__)

TRIES = 3
AT_ONCE = 4
MEGABYTE = 1_000_000
NAME_BYTES = 160
"""File systems take 255 bytes; the random prefix needs a few."""

Problem = Literal["too_large", "gone", "quota", "failed"]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """In bytes: of one file, and of all files of one thread."""

    file: int
    thread: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An attachment that was not taken, and why. limit: the megabytes that were passed, where that is the reason."""

    name: str
    problem: Problem
    limit: int = 0


class Uploads:
    """One for the process: at most AT_ONCE downloads run at a time."""

    def __init__(self, limits: UploadLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def fetch(self, channel: Channel, attachment: Attachment, folder: Path) -> InputFile | Refused:
        """Store one attachment in `folder` (created, 0700). What is refused leaves no file behind."""
        name = display_name(attachment)
        if attachment.size is not None and attachment.size > self._limits.file:
            return Refused(name, "too_large", self._limits.file // MEGABYTE)
        async with self._slots:
            room = self._limits.thread - await asyncio.to_thread(_used, folder)
            path = folder / f"{secrets.token_hex(4)}-{name}"
            sink = _FileSink(path, min(self._limits.file, room))
            try:
                await asyncio.to_thread(sink.open)
                await self._download(channel, attachment, sink)
                return InputFile(
                    path=path, name=name, mime_type=attachment.mime_type or "application/octet-stream", size=sink.size
                )
            except AttachmentFailed as error:
                sink.discard()
                if error.reason != "too_large":
                    return Refused(name, "gone")
                over_quota = room < self._limits.file
                limit = self._limits.thread if over_quota else self._limits.file
                return Refused(name, "quota" if over_quota else "too_large", limit // MEGABYTE)
            except (ChannelError, OSError) as error:
                log.warning("an attachment was not fetched: %s", error)
                sink.discard()
                return Refused(name, "failed")
            finally:
                sink.close()

    async def _download(self, channel: Channel, attachment: Attachment, sink: _FileSink) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                return await channel.fetch(attachment, sink)
            except Temporary:
                if attempt == TRIES:
                    raise
                sink.restart()
                await self._clock.sleep(attempt)


class _FileSink:
    """A file that counts what it is given: the sender's own word on the size is not trusted."""

    def __init__(self, path: Path, cap: int) -> None:
        self._path = path
        self._cap = cap
        self._fd: int | None = None
        self.size = 0

    def open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)

    async def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if self.size > self._cap:
            raise AttachmentFailed("the file is larger than allowed", "too_large")
        if self._fd is not None:
            await asyncio.to_thread(_write_all, self._fd, chunk)

    def restart(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        self.size = 0

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def discard(self) -> None:
        self.close()
        self._path.unlink(missing_ok=True)


def display_name(attachment: Attachment) -> str:
    """The declared name made harmless: no path, no control character, no leading dot or dash, at most NAME_BYTES."""
    declared = (attachment.name or "").replace("\\", "/").rsplit("/", 1)[-1]
    name = re.sub(r"[^\w.()+ -]", "_", declared.split("\0", 1)[0]).strip(" .-_")
    stem, dot, suffix = name.rpartition(".")
    if dot and len(suffix.encode()) <= 10:
        return (_cut(stem, NAME_BYTES - 11) or attachment.kind) + dot + suffix
    return _cut(name, NAME_BYTES) or attachment.kind


def _cut(name: str, size: int) -> str:
    return name.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def _used(folder: Path) -> int:
    """Bytes in a folder of uploads, which is flat and written by this class alone."""
    if not folder.is_dir():
        return 0
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
