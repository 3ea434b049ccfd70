"""Copies of the files that the agent presents, one folder per run, until they are delivered.

The contents of a run's folder are what the run presents: they outlive a restart, a summary of the thread, and every
later change in the sandbox. The owner of the folder deletes a run's folder once its files are delivered.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import mimetypes
import os
import re
import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, BinaryIO

from harness.events import ReadyFile
from sandbox.base import Problem

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.base import Sandbox

FOLDER = "spool"
"""The usual name, in the data folder."""
MEGABYTE = 1_000_000
HEAD = 16
IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
"""Full signatures: the package filetype checks only four of a PNG's eight bytes, and three of a GIF's six."""
UNKNOWN = "application/octet-stream"
CARD = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """folder: for the copies of all runs, made 0700. In bytes: of one file; of all files of a run, and their number."""

    folder: Path
    most_bytes: int = 50 * MEGABYTE
    most_bytes_of_run: int = 100 * MEGABYTE
    most_files: int = 10


class NotTaken(Exception):
    """A file cannot be presented. The text says why, worded for the model."""


class Spool:
    """The presented files of all runs. Calls of take() for one run must not overlap."""

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings

    async def take(self, run_id: str, path: str, sandbox: Sandbox) -> ReadyFile | Problem:
        """Copy a file out of the sandbox in its current state. Raises NotTaken."""
        known = await self.files(run_id)
        others = [file for file in known if file.path != path]
        if len(others) >= self._settings.most_files:
            raise NotTaken(f"a turn presents at most {self._settings.most_files} files; put more into an archive")
        left = self._settings.most_bytes_of_run - sum(file.size for file in others)
        try:
            return await self._copied(run_id, path, sandbox, min(left, self._settings.most_bytes))
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise NotTaken(f"the copy for the person cannot be stored ({reason}); an operator has to fix it") from None

    async def files(self, run_id: str) -> tuple[ReadyFile, ...]:
        """The files that the run presents, in order."""
        return await asyncio.to_thread(self._cards, self._folder(run_id))

    async def begun(self, run_id: str, place: str) -> bool:
        """Record that a call begins that must not be paid for twice; returns whether it had already begun. place: the
        call's name within the run. Raises OSError."""
        return await asyncio.to_thread(self._begin, self._folder(run_id), place)

    def _begin(self, folder: Path, place: str) -> bool:
        mark = folder / f"begun-{hashlib.sha256(place.encode()).hexdigest()[:32]}"
        if mark.exists():
            return True
        with _opened(self._settings.folder, mark) as file:
            os.fsync(file.fileno())
        return False

    async def _copied(self, run_id: str, path: str, sandbox: Sandbox, most: int) -> ReadyFile | Problem:
        folder = self._folder(run_id)
        copy = folder / secrets.token_hex(8)
        file = await asyncio.to_thread(_opened, self._settings.folder, copy)
        kept = False
        try:
            found = await sandbox.fetch(path, _Writer(file).write, max_bytes=max(most, 0))
            if isinstance(found, Problem):
                return found
            ready = await asyncio.to_thread(_closed, file, copy, path, run_id)
            await asyncio.to_thread(self._keep, folder, ready)
            kept = True
            return ready
        finally:
            file.close()
            if not kept:
                copy.unlink(missing_ok=True)

    def _folder(self, run_id: str) -> Path:
        if not re.fullmatch(r"[\w-]{1,128}", run_id):
            raise ValueError(f"{run_id!r} cannot name a folder")
        return self._settings.folder / run_id

    def _cards(self, folder: Path) -> tuple[ReadyFile, ...]:
        cards = [json.loads(card.read_text("utf-8")) for card in folder.glob(f"*{CARD}")]
        return tuple(ReadyFile(**card["file"]) for card in sorted(cards, key=lambda card: int(card["place"])))

    def _keep(self, folder: Path, ready: ReadyFile) -> None:
        """Write the file's card, replacing an earlier one for the same path; then delete the old copy."""
        card = folder / (hashlib.sha256(ready.path.encode()).hexdigest()[:16] + CARD)
        old = json.loads(card.read_text("utf-8")) if card.exists() else None
        place = old["place"] if old else len(list(folder.glob(f"*{CARD}")))
        fresh = card.with_suffix(".part")
        with _private(fresh) as file:
            file.write(json.dumps({"place": place, "file": asdict(ready)}).encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(card)
        if old and old["file"]["spooled"] != ready.spooled:
            (self._settings.folder / old["file"]["spooled"]).unlink(missing_ok=True)


class _Writer:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(self._file.write, data)


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w+b")


def _opened(base: Path, copy: Path) -> BinaryIO:
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy.parent.mkdir(mode=0o700, exist_ok=True)
    return _private(copy)


def _closed(file: BinaryIO, copy: Path, path: str, run_id: str) -> ReadyFile:
    """Flush the copy to disk and describe it."""
    file.flush()
    os.fsync(file.fileno())
    size = file.tell()
    file.seek(0)
    name = path.rpartition("/")[2]
    mime_type = mime_type_of(name, file.read(HEAD))
    kind = "image" if mime_type in {known for _, known in IMAGES} else "file"
    return ReadyFile(
        name=name,
        path=path,
        mime_type=mime_type,
        size=size,
        kind="image" if kind == "image" else "file",
        spooled=f"{run_id}/{copy.name}",
    )


def mime_type_of(name: str, head: bytes) -> str:
    """MIME type by content for pictures, else by name; unknown for a file that is a picture only by name."""
    for pattern, mime_type in IMAGES:
        if pattern.match(head):
            return mime_type
    guessed = mimetypes.guess_type(name)[0] or UNKNOWN
    return UNKNOWN if guessed in {known for _, known in IMAGES} else guessed
