"""One folder of skills: read when something in it changed on disk, and only what changed; used by library.py."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harness.skills.document import LARGEST_FILE, LONGEST_NAME, SKILL_FILE, SkillDocument, parse_bytes, valid_name
from harness.skills.errors import Problem, SkillError
from harness.skills.pins import PinWatch
from sandbox.base import SKILLS
from sandbox.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from harness.skills.pins import Waiting

Place = Literal["public", "custom", "mine"]
"""public: shipped with Antler. custom: this installation's. mine: the owner's own."""
MOST_SKILLS = 200
"""In one folder; what comes later in the alphabet is left out and said so."""

_Signature = tuple[int, int, int, int]
_NOTHING: _Signature = (0, 0, 0, 0)
_LINKS = {
    errno.ELOOP: "is a link, and links are not followed",
    errno.ENOTDIR: "is below a link, and links are not followed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One that can be used. document: without its body, which `read` brings. folder: on this machine. path: where the
    agent finds its SKILL.md. digest: of that file, sha256 in hex."""

    document: SkillDocument
    place: Place
    folder: Path
    path: str
    digest: str

    @property
    def name(self) -> str:
        return self.document.name

    def read(self) -> SkillDocument:
        """All of it, as it is now. Raises SkillError."""
        return parse_bytes(read_skill(self.folder), self.folder.name)


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """What is wrong with a skill. name: of its folder, "" for the whole place. skipped: it is not used for it."""

    place: Place
    name: str
    problem: Problem
    skipped: bool = True

    def __str__(self) -> str:
        return f"{self.place}/{self.name}: {self.problem}" if self.name else f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class _Read:
    """What one subfolder held when it was read."""

    signature: _Signature
    skill: Skill | None
    problems: tuple[SkillProblem, ...]


def virtual_path(place: Place, name: str) -> str:
    """Where the agent finds a skill's SKILL.md."""
    return f"{SKILLS}/{place}/{name}/{SKILL_FILE}"


def read_skill(folder: Path) -> bytes:
    """The content of a skill's SKILL.md; links are not followed, as in the sandbox. Raises SkillError."""
    try:
        below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
            with os.fdopen(os.open(SKILL_FILE, flags, dir_fd=below), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise SkillError([Problem(SKILL_FILE, "", "is not a file")])
                return file.read(LARGEST_FILE + 1)
        finally:
            os.close(below)
    except FileNotFoundError as error:
        raise SkillError([Problem(SKILL_FILE, "", "is missing")]) from error
    except OSError as error:
        why = _LINKS.get(error.errno or 0) or f"cannot be read: {os.strerror(error.errno or 0)}"
        raise SkillError([Problem(SKILL_FILE, "", why)]) from error


def _shown(name: str) -> str:
    """A folder's name, which can be anything, for people."""
    return shown(name[:LONGEST_NAME])


class Shelf:
    """The skills of one folder, which may be missing. Not for several threads at once.

    waiting: by name, those that are off until an administrator turns them on.
    """

    def __init__(self, place: Place, folder: Path) -> None:
        self.folder = folder
        self.waiting: Mapping[str, Waiting] = {}
        self.place = place
        self._read: dict[str, _Read] = {}
        self._troubles: tuple[SkillProblem, ...] = ()
        # What ships with Antler is nobody's to agree to.
        self._pins = PinWatch(folder) if place != "public" else None

    def refresh(self) -> bool:
        """Look at the disk; True if something is different now."""
        names, troubles = self._names()
        waiting = self._unpinned(names)
        changed = (troubles, waiting) != (self._troubles, self.waiting) or names != list(self._read)
        now: dict[str, _Read] = {}
        for name in names:
            before, signature = self._read.get(name), self._signature(name)
            if before is not None and before.signature == signature:
                now[name] = before
                continue
            now[name] = read = self._open(name, signature)
            changed = changed or before is None or (before.skill, before.problems) != (read.skill, read.problems)
        self._read, self._troubles, self.waiting = now, troubles, waiting
        return changed

    def _unpinned(self, names: list[str]) -> Mapping[str, Waiting]:
        if self._pins is None:
            return {}
        self._pins.refresh()
        found = ((name, self._pins.waiting(name)) for name in names if valid_name(name))
        return {name: waiting for name, waiting in found if waiting is not None}

    def skills(self) -> Iterator[Skill]:
        """By name."""
        for name, read in self._read.items():
            if read.skill is not None and name not in self.waiting:
                yield read.skill

    def problems(self) -> Iterator[SkillProblem]:
        yield from self._troubles
        for read in self._read.values():
            yield from read.problems
        for name, waiting in self.waiting.items():
            why = f"waits for an administrator: {'; '.join(waiting.reasons)}"
            yield SkillProblem(self.place, _shown(name), Problem("", "", why))

    def _names(self) -> tuple[list[str], tuple[SkillProblem, ...]]:
        """Of the subfolders, and links to some, sorted; and what is wrong with the whole."""
        try:
            with os.scandir(self.folder) as entries:
                names = sorted(entry.name for entry in entries if self._counts(entry))
        except (FileNotFoundError, NotADirectoryError):
            return [], ()
        except OSError as error:
            return [], (self._trouble(f"cannot be read: {os.strerror(error.errno or 0)}"),)
        if len(names) > MOST_SKILLS:
            more = f"holds {len(names)} folders; those after the first {MOST_SKILLS} are left out"
            return names[:MOST_SKILLS], (self._trouble(more),)
        return names, ()

    @staticmethod
    def _counts(entry: os.DirEntry[str]) -> bool:
        return not entry.name.startswith((".", "_")) and (entry.is_symlink() or entry.is_dir(follow_symlinks=False))

    def _trouble(self, message: str) -> SkillProblem:
        return SkillProblem(self.place, "", Problem("", "", message))

    def _signature(self, name: str) -> _Signature:
        """What changes whenever the file does: a change that keeps time and size still changes the inode's own time."""
        try:
            found = os.stat(os.path.join(self.folder, name, SKILL_FILE), follow_symlinks=False)
        except OSError:
            return _NOTHING
        return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)

    def _open(self, name: str, signature: _Signature) -> _Read:
        folder, place = self.folder / name, self.place
        shown = _shown(name)
        try:
            raw = read_skill(folder)
            document = parse_bytes(raw, name).without_body()
        except SkillError as error:
            return _Read(signature, None, tuple(SkillProblem(place, shown, problem) for problem in error.problems))
        path, digest = virtual_path(place, name), hashlib.sha256(raw).hexdigest()
        skill = Skill(document=document, place=place, folder=folder, path=path, digest=digest)
        unknown = (Problem(SKILL_FILE, key, "unknown key, it means nothing here") for key in document.unknown_keys)
        return _Read(signature, skill, tuple(SkillProblem(place, shown, each, skipped=False) for each in unknown))
