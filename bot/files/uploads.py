"""Fetches the attachments of admitted messages to disk, under the thread's uploads: bounded, counted, safely named."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
import mimetypes
import os
import secrets
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from cachetools import LRUCache

from bot.store import runs
from bot.store.identity import harmless_name
from channels.errors import AttachmentFailed, ChannelError, NotAllowed, Temporary
from harness.context import InputFile, Voice
from harness.files.slots import FairSlots
from harness.files.spool import HEAD, UNKNOWN, mime_type_of
from sandbox.base import until_done

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from bot.settings.sections import UploadSettings
    from bot.store import Store
    from channels.base import Channel, Clock
    from channels.message import Attachment
    from sandbox.files.beneath import Owner


log = logging.getLogger(__name__)
TRIES = 3
AT_ONCE = 4
"""Concurrent downloads of one account; at most half of them for one person."""
AT_ONCE_IN_ALL = 16
MEGABYTE = 1_000_000
Problem = Literal[
    "too_large", "message_quota", "quota", "person_quota", "too_large_there", "gone", "not_allowed", "no_room", "failed"
]
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of the operator's share of it, that is full."""
T = TypeVar("T")

HOUR = 3600.0
HOURS = 24
PERSONS = 10_000
"""People whose files are counted; beyond that the one who has been silent the longest starts again at zero."""
Exceeded = Literal["too_large", "message_quota", "quota", "person_quota"]


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits in bytes: for one file, and for all files of a thread, of a message, and of a person within 24 hours."""

    file: int
    thread: int
    message: int
    person: int

    @classmethod
    def of(cls, settings: UploadSettings) -> UploadLimits:
        return cls(
            file=int(settings.max_file_mb * MEGABYTE),
            thread=int(settings.max_thread_mb * MEGABYTE),
            message=int(settings.max_message_mb * MEGABYTE),
            person=int(settings.max_person_mb_per_day * MEGABYTE),
        )


class PersonQuotas:
    """The bytes that each person sent within the last 24 hours, by the hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hours: LRUCache[str, dict[int, int]] = LRUCache(PERSONS)

    def used(self, person: str) -> int:
        oldest = self._hour() - HOURS
        return sum(size for hour, size in self._hours.get(person, {}).items() if hour > oldest)

    def add(self, person: str, size: int, at: datetime | None = None) -> None:
        """Count bytes of a person. size: negative for what was not kept in the end. at: when; now by default."""
        hours = self._hours.setdefault(person, {})
        oldest = self._hour() - HOURS
        for hour in [hour for hour in hours if hour <= oldest]:
            del hours[hour]
        then = self._hour(at)
        hours[then] = hours.get(then, 0) + size

    @property
    def since(self) -> datetime:
        """The time before which uploads no longer count."""
        return self._clock.now() - timedelta(hours=HOURS)

    def _hour(self, at: datetime | None = None) -> int:
        return int((at or self._clock.now()).timestamp() // HOUR)


@dataclass(slots=True)
class Allowance:
    """What the files of one message may still use. thread: what the thread's uploads have left, once that is known."""

    person: str
    limits: UploadLimits
    book: PersonQuotas
    thread: int | None = None
    message: int = field(init=False)

    def __post_init__(self) -> None:
        self.message = self.limits.message

    def exceeded(self, size: int, more: int = 0) -> Exceeded | None:
        """The limit that a file of that size exceeds. more: how many of its bytes are not counted yet."""
        if size > self.limits.file:
            return "too_large"
        if more > self.message:
            return "message_quota"
        if self.thread is not None and size > self.thread:
            return "quota"
        return "person_quota" if self.book.used(self.person) + more > self.limits.person else None

    def take(self, size: int) -> None:
        """Count bytes of a file. size: negative to give them back."""
        self.message -= size
        self.book.add(self.person, size)

    def limit(self, exceeded: Exceeded) -> int:
        """The limit in bytes."""
        match exceeded:
            case "too_large":
                return self.limits.file
            case "message_quota":
                return self.limits.message
            case "quota":
                return self.limits.thread
            case "person_quota":
                return self.limits.person


@dataclass(frozen=True, slots=True)
class Refused:
    """A rejected attachment, and why. limit: the megabytes that were exceeded, where that is the reason.

    too_large_there: the platform's own limit was exceeded, which only the platform knows.
    """

    name: str
    problem: Problem
    limit: float = 0


class Uploads:
    """Fetches attachments; one per process. owner: of the files, where commands run as another user than this process.

    Neither a person who sends many files nor a platform whose file server hangs delays the downloads of others.
    """

    def __init__(self, limits: UploadLimits, clock: Clock, owner: Owner | None = None) -> None:
        self.limits = limits
        self._clock = clock
        self._owner = owner
        self._book = PersonQuotas(clock)
        self._sent = PersonQuotas(clock)
        self._slots = FairSlots(AT_ONCE_IN_ALL, share=AT_ONCE)
        self._of_account: defaultdict[str, FairSlots] = defaultdict(partial(FairSlots, AT_ONCE))
        self._told: set[tuple[str, str]] = set()

    async def recall(self, store: Store) -> None:
        """Count what people sent before this process began, as far as it became part of a run. Raises StoreError."""
        since, known = self._book.since, set[Path]()
        for run in await store.read(lambda tx: runs.with_files(tx, since)):
            for file in run.input.files:
                if file.path not in known:  # a file whose message was answered again was sent once
                    self._book.add(run.speaker, file.size, run.created_at)
                known.add(file.path)

    def allowance(self, person: str) -> Allowance:
        """The allowance for all files of one message of that person."""
        return Allowance(person, self.limits, self._book)

    def sending(self, person: str) -> Allowance:
        """The allowance for a file that the person sends by HTTP before a message brings it into a thread, where it
        counts like any other: the daily limit also covers files that no message ever brings."""
        return Allowance(person, self.limits, self._sent)

    async def fetch(
        self, channel: Channel, attachment: Attachment, folder: Path, allowance: Allowance
    ) -> InputFile | Refused:
        """Store one attachment in `folder` (created, 0700). A refused or cancelled download leaves no file behind."""
        name = display_name(attachment)
        account = channel.account
        async with self._of_account[account].slot(allowance.person), self._slots.slot(account):
            sink = _FileSink(folder, f"{secrets.token_hex(4)}-{name}", allowance, self._owner)
            kept = False
            try:
                sink.check(attachment.size or 0)
                await _in_thread(sink.open)
                sink.check(attachment.size or 0)
                await self._download(channel, attachment, sink)
                told, mime_type = _told_by_content(attachment, sink)
                if told != attachment.name:
                    name = display_name(replace(attachment, name=told))
                    await _in_thread(sink.rename, f"{secrets.token_hex(4)}-{name}")
                kept = True
                voice = Voice() if attachment.kind == "voice" else None
                return InputFile(
                    path=sink.path,
                    name=name,
                    mime_type=mime_type,
                    size=sink.size,
                    voice=voice,
                    sha256=sink.sha256,
                )
            except AttachmentFailed as error:
                return self._refused(_name_so_far(attachment, sink), sink, error)
            except NotAllowed as error:
                if (account, error.hint) not in self._told:
                    self._told.add((account, error.hint))
                    log.error("account %s: no files are fetched: %s; %s", account, error, error.hint)
                return Refused(name, "not_allowed")
            except (ChannelError, OSError) as error:
                full = isinstance(error, OSError) and error.errno in NO_ROOM
                log.log(logging.ERROR if full else logging.WARNING, "an attachment was not fetched: %s", error)
                return Refused(_name_so_far(attachment, sink), "no_room" if full else "failed")
            finally:
                await _in_thread(sink.close, kept)

    def _refused(self, name: str, sink: _FileSink, error: AttachmentFailed) -> Refused:
        if sink.exceeded is not None:
            return Refused(name, sink.exceeded, sink.allowance.limit(sink.exceeded) / MEGABYTE)
        log.info("an attachment was not fetched: %s", error)
        return Refused(name, "too_large_there" if error.reason == "too_large" else "gone")

    async def _download(self, channel: Channel, attachment: Attachment, sink: _FileSink) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                return await channel.fetch(attachment, sink)
            except Temporary:
                if attempt == TRIES:
                    raise
                await _in_thread(sink.restart)
                await self._clock.sleep(attempt)


class _FileSink:
    """A file that counts the bytes written to it: the size that the sender declares is not trusted.

    The folder is opened once and everything happens inside it, so that a link put in its place, or in that of the file,
    leads nowhere. exceeded: the limit that was exceeded. head: the first bytes.
    """

    def __init__(self, folder: Path, name: str, allowance: Allowance, owner: Owner | None) -> None:
        self.path = folder / name
        self.size = 0
        self.head = b""
        self.exceeded: Exceeded | None = None
        self.told: str | None = None
        self.allowance = allowance
        self._owner = owner
        # Of the bytes received, not of the file later on: a command may have changed it by then.
        self._hash = hashlib.sha256()
        self._folder: int | None = None
        self._fd: int | None = None

    def open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self.allowance.thread = self.allowance.limits.thread - _used(self._folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self._fd = os.open(self.path.name, flags, 0o600, dir_fd=self._folder)
        if self._owner is not None:
            os.fchown(self._fd, self._owner.uid, self._owner.gid)

    @property
    def sha256(self) -> str:
        """The hash of all bytes written."""
        return self._hash.hexdigest()

    def check(self, size: int) -> None:
        """Raise AttachmentFailed when a file of that many bytes is too large."""
        self.exceeded = self.allowance.exceeded(size, size - self.size)
        if self.exceeded is not None:
            raise AttachmentFailed("the file is larger than allowed", "too_large")

    async def write(self, chunk: bytes) -> None:
        self.check(self.size + len(chunk))
        self.size += len(chunk)
        self.head += chunk[: HEAD - len(self.head)]
        self.allowance.take(len(chunk))
        self._hash.update(chunk)
        if self._fd is not None:
            await _in_thread(_write_all, self._fd, chunk)

    def called(self, name: str) -> None:
        """Take the name that only the download revealed (NamedSink)."""
        self.told = name

    def rename(self, name: str) -> None:
        os.rename(self.path.name, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self.path = self.path.with_name(name)

    def restart(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        self._give_back()

    def _give_back(self) -> None:
        self.allowance.take(-self.size)
        self.size = 0
        self.head = b""
        self._hash = hashlib.sha256()

    def close(self, kept: bool) -> None:
        """Close the file, and remove it without `kept`. Idempotent."""
        if not kept:
            self._give_back()
        if self._fd is not None:
            os.close(self._fd)
            if not kept:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path.name, dir_fd=self._folder)
        if self._folder is not None:
            os.close(self._folder)
        self._fd = self._folder = None


async def _in_thread(work: Callable[..., T], *args: object) -> T:
    """Like asyncio.to_thread, but a cancelled caller waits for the thread, which uses our descriptors."""
    working = asyncio.ensure_future(asyncio.to_thread(work, *args))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await until_done(working)
        raise


def _told_by_content(attachment: Attachment, sink: _FileSink) -> tuple[str | None, str]:
    """The name and MIME type of a downloaded file: not every platform declares them, or the right ones, and a model is
    only shown what is known to be a picture."""
    name, mime_type = attachment.name or sink.told, attachment.mime_type or UNKNOWN
    found = mime_type_of(name or "", sink.head)
    if mime_type == UNKNOWN or (attachment.kind == "image" and found != UNKNOWN):
        mime_type = found
    if name is None and mime_type.startswith("image/"):
        name = f"{attachment.kind}{mimetypes.guess_extension(mime_type) or ''}"
    return name, mime_type


def _name_so_far(attachment: Attachment, sink: _FileSink) -> str:
    return display_name(replace(attachment, name=attachment.name or sink.told))


def display_name(attachment: Attachment) -> str:
    """The declared name made harmless: no path, no control character, no leading dot or dash, and short."""
    return harmless_name(attachment.name or "", attachment.kind)


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def _used(folder: int) -> int:
    """Bytes in an open folder of uploads, which is flat and written by _FileSink alone."""
    with os.scandir(folder) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
