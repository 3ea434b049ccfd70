"""Changes to a folder of skills: each is kept as a version, approved by its digest, and made atomically.

Blocking. One process at a time changes a home, and only while the content that a change is based on is still there.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.skills.document import NAME_RULE, SKILL_FILE, Problem, SkillError, valid_name
from harness.skills.files import BROKEN, digest_of, put, read_files
from harness.skills.history import History, Version
from harness.skills.pins import Pin, load_pins, save_pins
from harness.skills.places import find_places, name_of
from harness.skills.verdict import Level
from harness.text.plain import skeleton

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from harness.skills.files import Files
    from harness.skills.library import Origin
    from harness.skills.verdict import Verdict

LOCK = ".lock"
LOCK_SECONDS = 10.0
MOST_FINDINGS = 10


class Changed(SkillError):
    """The skill has changed since the change was planned; nothing was done."""


@dataclass(frozen=True, slots=True)
class SkillHome:
    """A folder of skills that can be changed.

    history: folder of former versions, out of the sandboxes' sight.
    most_skills: the maximum number of skills.
    most_versions: the number of versions kept of each.
    """

    origin: Origin
    folder: Path
    history: Path
    most_skills: int = 100
    most_versions: int = 20

    @property
    def versions(self) -> History:
        return History(self.history, self.most_versions)


@dataclass(frozen=True, slots=True)
class Standing:
    """A skill as it is. files: None without one. digest: "" without one, BROKEN if its folder has more than files."""

    files: Files | None
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """A change that was made.

    version: the new one.
    before: number of the version to go back to, None for none.
    pending: the skill stays off until an administrator turns it on.
    """

    version: Version
    before: int | None
    pending: bool


def place_of(home: SkillHome, name: str) -> Path:
    """The folder of the skill, at whatever depth; at the top for one that does not exist. Raises SkillError for an
    invalid name, or that of a folder of skills."""
    if not valid_name(name):
        raise SkillError([Problem("", "name", NAME_RULE)])
    place, at_top = find_places(home.folder).named(name), home.folder / name
    if place is None and at_top.is_dir():
        raise SkillError([Problem("", "name", f"{name} is the name of a folder with skills in it")])
    return at_top if place is None else home.folder / place


def standing(home: SkillHome, name: str) -> Standing:
    """The current state of the skill. Raises SkillError for an invalid name."""
    folder = place_of(home, name)
    if not folder.is_symlink() and not folder.exists():
        return Standing(None, "")
    files = read_files(folder)
    return Standing(files, BROKEN if files is None else digest_of(files))


def write(home: SkillHome, name: str, files: Files, *, base: str, change: Version, verdict: Verdict) -> Written:
    """Make the skill hold these files. Raises Changed, SkillError for content that must not be written, and OSError
    when the disk is full or read-only.

    base: digest of the content that the change is based on, "" for none.
    change: when, what, for whom and why; the rest of the version is filled in here.
    """
    if verdict.level is Level.BLOCK:
        raise SkillError([Problem("", "", reason) for reason in verdict.reasons[:MOST_FINDINGS]])
    if SKILL_FILE not in files:
        raise SkillError([Problem(SKILL_FILE, "", "is missing")])
    _make_home(home.folder)
    with _locked(home):
        now, history = _based(home, name, base, change.at), home.versions
        if now.files is None and len(_names(home)) >= home.most_skills:
            raise SkillError([Problem("", "", f"there are already {home.most_skills} skills, the maximum")])
        if now.files is None and (problems := lookalikes(name, _names(home))):
            raise SkillError(problems)
        digest, pending = digest_of(files), verdict.level is Level.WARN
        before = newest_with(history.versions(name), now.digest)
        pins = load_pins(home.folder)
        pin = pins.get(name, Pin((now.digest,) if now.files is not None else ()))
        # Before the folder changes: whenever the process dies, the content of the folder is an approved one.
        reasons = tuple(map(str, verdict.findings[:MOST_FINDINGS]))
        known = digest in pin.on
        pins[name] = pin.holding(digest, reasons) if pending and not known else pin.allowing(digest)
        save_pins(home.folder, pins)
        version = replace(change, digest=digest, base=now.digest, level=str(verdict.level), findings=reasons)
        version = history.add(name, version, files)
        put(place_of(home, name).parent, name, files)
        history.prune(_names(home))
        return Written(version, before, pending and not known)


def lookalikes(name: str, others: Iterable[str]) -> list[Problem]:
    """The faults of a new skill's name that looks like another one's without being the same."""
    alike = skeleton(name)
    return [
        Problem("", "name", f"{name} looks like {other}, which is the name of another skill")
        for other in others
        if other != name and skeleton(other) == alike
    ]


def remove(home: SkillHome, name: str, *, base: str, change: Version) -> Written:
    """Delete a skill and keep its former versions. Raises as `write` does."""
    with _locked(home):
        now, history = _based(home, name, base, change.at), home.versions
        if not now.digest:
            raise SkillError([Problem("", "name", f"{name} does not exist")])
        before = newest_with(history.versions(name), now.digest)
        version = history.add(name, replace(change, base=now.digest), None)
        folder = place_of(home, name).parent
        put(folder, name, None)
        _clear(home.folder, folder)
        pins = load_pins(home.folder)
        if pins.pop(name, None) is not None:
            save_pins(home.folder, pins)
        return Written(version, before, pending=False)


def turn_on(home: SkillHome, name: str, digest: str, by: str) -> bool:
    """Approve a skill on behalf of an administrator: exactly this content may be used from now on. False if the skill's
    content has changed since."""
    with _locked(home):
        pins = load_pins(home.folder)
        if standing(home, name).digest != digest or digest in ("", BROKEN):
            return False
        pins[name] = pins.get(name, Pin()).allowing(digest)
        history = home.versions
        if history.versions(name):
            history.note_approval(name, digest, by)
        save_pins(home.folder, pins)
        return True


def _make_home(folder: Path) -> None:
    """Create a missing home, readable by the sandboxes' users like its skills."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _based(home: SkillHome, name: str, base: str, at: str) -> Standing:
    """The skill's current state, saved as a version if it is none yet, so that it can be restored. Raises Changed."""
    now = standing(home, name)
    if now.digest != base:
        raise Changed([Problem("", "", f"{name} has changed in the meantime")])
    history = home.versions
    if now.files is not None and newest_with(history.versions(name), now.digest) is None:
        history.add(name, Version(at=at, action="found", digest=now.digest), now.files)
    return now


def newest_with(versions: list[Version], digest: str) -> int | None:
    """Number of the newest version with this content."""
    return next((each.number for each in reversed(versions) if each.digest == digest), None) if digest else None


def _names(home: SkillHome) -> list[str]:
    return [name_of(path) for path in find_places(home.folder).paths]


def _clear(home: Path, folder: Path) -> None:
    """Delete folders of folders that no longer contain a skill."""
    while folder != home:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


@contextmanager
def _locked(home: SkillHome) -> Iterator[None]:
    """Hold the home's lock, a file hidden from the sandboxes. Raises SkillError if another process holds it."""
    home.history.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(home.history / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _taken(fd):
            if time.monotonic() > deadline:
                raise SkillError([Problem("", "", "another process is changing skills right now")])
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
