"""Former versions of skills: the content of each change, who requested it and why, and the differences. Blocking.

Versions are hidden from the sandboxes. Bounded: the oldest ones are deleted.
"""

from __future__ import annotations

import difflib
import io
import shutil
import zipfile
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError

from harness.files.durable import write_atomically
from harness.skills.document import Problem, SkillError
from harness.skills.files import MEGABYTE, digest_of, recover

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from harness.skills.files import Files

MOST_BYTES = 50 * MEGABYTE
"""Packed size of one skill's former versions."""
MOST_SKILLS = 300
"""Number of skills whose history is kept; those deleted longest ago are dropped first."""
LOG = "log.json"
CONTEXT = 2
"""Unchanged lines shown around a change."""
MOST_COMPARED = 1000
"""Lines between the first and the last that differ."""
_MOMENT = (2020, 1, 1, 0, 0, 0)
"""Timestamp of every entry, so that equal contents are equal bytes."""

Action = Literal["found", "create", "edit", "patch", "write_file", "remove_file", "delete", "rollback", "install"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a skill.

    at: ISO time.
    number: from 1, never reused; 0 until it is stored.
    author: a person's id, "" for the operator.
    level, findings: of its check.
    digest: of its content, "" for a deletion.
    base: digest of the content that was changed.
    call: the tool call that made it, "" for none.
    approved_by: the administrator who turned it on.
    """

    at: str
    action: Action
    number: int = 0
    author: str = ""
    reason: str = ""
    level: str = "allow"
    findings: tuple[str, ...] = ()
    digest: str = ""
    base: str = ""
    call: str = ""
    approved_by: str = ""


_LOG: TypeAdapter[list[Version]] = TypeAdapter(list[Version])


class History:
    """Histories of all skills of one home, in one folder. most: versions kept of each. Writers hold the home's lock."""

    def __init__(self, folder: Path, most: int) -> None:
        self._folder = folder
        self._most = most

    def versions(self, name: str) -> list[Version]:
        """Versions of a skill, oldest first. Raises SkillError if the record is damaged."""
        try:
            return _LOG.validate_json((self._folder / name / LOG).read_bytes())
        except FileNotFoundError:
            return []
        except (ValidationError, OSError) as error:
            raise SkillError([Problem("", "", f"the history of {name} cannot be read")]) from error

    def files(self, name: str, number: int) -> Files | None:
        """Content of a version; None if it is gone or was a deletion. Raises SkillError if it is damaged."""
        version = next((each for each in self.versions(name) if each.number == number), None)
        if version is None or not version.digest:
            return None
        try:
            packed = self._archive(name, number).read_bytes()
        except FileNotFoundError:
            return None
        files = _unpacked(packed)
        if files is None or digest_of(files) != version.digest:
            raise SkillError([Problem("", "", f"version {number} of {name} is damaged")])
        return files

    def add(self, name: str, version: Version, files: Files | None) -> Version:
        """Store another version; returns it with its number."""
        known = self.versions(name)
        version = replace(version, number=known[-1].number + 1 if known else 1)
        (self._folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        recover(self._folder / name)
        if files is not None:
            write_atomically(self._archive(name, version.number), _packed(files))
        self._save(name, [*known, version])
        return version

    def note_approval(self, name: str, digest: str, by: str) -> None:
        """Record that an administrator turned on this content."""
        known = self.versions(name)
        self._save(name, [replace(each, approved_by=by) if each.digest == digest else each for each in known])

    def prune(self, living: Sequence[str]) -> None:
        """Delete the histories of skills deleted long ago. living: names of existing skills."""
        dead = [folder for folder in self._folder.iterdir() if folder.is_dir() and folder.name not in living]
        surplus = max(0, len(dead) + len(living) - MOST_SKILLS)
        for folder in sorted(dead, key=lambda folder: folder.stat().st_mtime)[:surplus]:
            shutil.rmtree(folder)

    def _save(self, name: str, versions: list[Version]) -> None:
        kept = versions[-self._most :]
        while len(kept) > 1 and sum(self._size(name, each.number) for each in kept) > MOST_BYTES:
            kept = kept[1:]
        write_atomically(self._folder / name / LOG, _LOG.dump_json(kept, indent=1))
        for archive in (self._folder / name).glob("*.zip"):
            if archive.stem not in {f"{each.number:04}" for each in kept}:
                archive.unlink()

    def _size(self, name: str, number: int) -> int:
        archive = self._archive(name, number)
        return archive.stat().st_size if archive.exists() else 0

    def _archive(self, name: str, number: int) -> Path:
        return self._folder / name / f"{number:04}.zip"


def _packed(files: Files) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(path, _MOMENT), files[path], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _unpacked(packed: bytes) -> Files | None:
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            return {info.filename: archive.read(info) for info in archive.infolist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        return None


def diff(before: Files, after: Files) -> str:
    """Differences file by file as a unified diff; files that are not text are only named."""
    return "\n".join(line for path in sorted({*before, *after}) for line in _file_diff(path, before, after))


def _file_diff(path: str, before: Files, after: Files) -> Iterator[str]:
    old, new = before.get(path), after.get(path)
    if old == new:
        return
    change = "new" if old is None else "gone" if new is None else "changed"
    yield f"{path} ({change})"
    try:
        was, becomes = ((data or b"").decode("utf-8").split("\n") for data in (old, new))
    except UnicodeDecodeError:
        yield f"  no text, {len(new or b'')} bytes"
        return
    yield from _changes(was, becomes)


def _changes(was: list[str], becomes: list[str]) -> Iterator[str]:
    """Differing lines. Only the differing middle is compared, and a long one is shown as a whole: comparison time is
    quadratic."""
    shortest = min(len(was), len(becomes))
    start = next((place for place in range(shortest) if was[place] != becomes[place]), shortest)
    rest = shortest - start
    end = next((place for place in range(rest) if was[-1 - place] != becomes[-1 - place]), rest)
    start, end = max(start - CONTEXT, 0), max(end - CONTEXT, 0)
    old, new = was[start : len(was) - end], becomes[start : len(becomes) - end]
    if max(len(old), len(new)) > MOST_COMPARED:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for line in list(difflib.unified_diff(old, new, n=CONTEXT, lineterm=""))[2:]:
        yield "…" if line.startswith("@@") else line
