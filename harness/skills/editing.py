"""Changing a folder of skills: each change is kept as a version, agreed to by its digest, and made in one step.

For the tool skill_manage, `antler skills install` and /skills. Blocking. One process at a time changes a home; what a
change is based on must still be there.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.skills.document import SKILL_FILE, valid_name
from harness.skills.errors import Problem, SkillError
from harness.skills.files import BROKEN, digest_of, put, read_files
from harness.skills.history import Action, History, Version
from harness.skills.pins import Pin, load_pins, save_pins
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from harness.skills.files import Files
    from harness.skills.shelf import Place
    from harness.skills.verdict import Verdict

LOCK = ".lock"
LOCK_SECONDS = 10.0
MOST_FINDINGS = 10


class Changed(SkillError):
    """The skill is not any more what the change was made for; nothing was done."""


@dataclass(frozen=True, slots=True)
class SkillHome:
    """A folder of skills that can be changed. history: where former versions are, out of the sandboxes' sight. In it
    at most so many can be made, and of each at most so many versions are kept."""

    place: Place
    folder: Path
    history: Path
    most_skills: int = 100
    most_versions: int = 20

    @property
    def versions(self) -> History:
        return History(self.history, self.most_versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Of a change: when (ISO time), what, for whom (a person's id, "" for the machine's owner), why, by which call."""

    at: str
    action: Action
    author: str = ""
    reason: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """A skill as it is. files: None where there is none. digest: "" for none, BROKEN for one that holds more than
    files."""

    files: Files | None
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """version: the new one. before: the one to go back to, None for none. pending: it stays off until an administrator
    turns it on."""

    version: Version
    before: int | None
    pending: bool


def standing(home: SkillHome, name: str) -> Standing:
    """Raises SkillError for what cannot be a skill's name."""
    if not valid_name(name):
        raise SkillError([Problem("", "name", "should be of a-z, 0-9 and single hyphens between them")])
    folder = home.folder / name
    if not folder.is_symlink() and not folder.exists():
        return Standing(None, "")
    files = read_files(folder)
    return Standing(files, BROKEN if files is None else digest_of(files))


def write(home: SkillHome, name: str, files: Files, *, base: str, stamp: Stamp, verdict: Verdict) -> Written:
    """Make the skill hold these files. base: the digest of what the change was made for, "" for none. Raises Changed,
    and SkillError for what must not be written; OSError where the disk is full or not to be written to."""
    if verdict.level is Level.BLOCK:
        raise SkillError([Problem("", "", reason) for reason in verdict.reasons[:MOST_FINDINGS]])
    if SKILL_FILE not in files:
        raise SkillError([Problem(SKILL_FILE, "", "is missing")])
    _make_home(home.folder)
    with _locked(home):
        now, history = _based(home, name, base, stamp.at), home.versions
        if now.files is None and len(_names(home)) >= home.most_skills:
            raise SkillError([Problem("", "", f"there are {home.most_skills} skills already, which is the most")])
        digest, pending = digest_of(files), verdict.level is Level.WARN
        before = _newest(history.versions(name), now.digest)
        pins = load_pins(home.folder)
        pin = pins.get(name, Pin((now.digest,) if now.files is not None else ()))
        # Before the folder changes: whenever the process dies, what is there is what somebody agreed to.
        reasons = tuple(map(str, verdict.findings[:MOST_FINDINGS]))
        known = digest in pin.on
        pins[name] = pin.holding(digest, reasons) if pending and not known else pin.allowing(digest)
        save_pins(home.folder, pins)
        version = _version(stamp, digest, now.digest, str(verdict.level), reasons)
        version = history.add(name, version, files)
        put(home.folder, name, files)
        history.prune(_names(home))
        return Written(version, before, pending and not known)


def remove(home: SkillHome, name: str, *, base: str, stamp: Stamp) -> Written:
    """Delete it; its former versions stay. Raises as `write`."""
    with _locked(home):
        now, history = _based(home, name, base, stamp.at), home.versions
        if not now.digest:
            raise SkillError([Problem("", "name", f"there is no {name}")])
        before = _newest(history.versions(name), now.digest)
        version = history.add(name, _version(stamp, "", now.digest, "allow", ()), None)
        put(home.folder, name, None)
        pins = load_pins(home.folder)
        if pins.pop(name, None) is not None:
            save_pins(home.folder, pins)
        return Written(version, before, pending=False)


def turn_on(home: SkillHome, name: str, digest: str, by: str) -> bool:
    """An administrator agrees to what a skill holds: exactly that content may be used from now on. False when it holds
    something else by now."""
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
    """Where it is missing; as its skills, for whoever runs commands to read."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _based(home: SkillHome, name: str, base: str, at: str) -> Standing:
    """As it is; what nobody has a version of becomes one, so that every change can be undone. Raises Changed."""
    now = standing(home, name)
    if now.digest != base:
        raise Changed([Problem("", "", f"{name} has changed meanwhile")])
    history = home.versions
    if now.files is not None and _newest(history.versions(name), now.digest) is None:
        history.add(name, Version(number=0, at=at, action="found", digest=now.digest), now.files)
    return now


def _newest(versions: list[Version], digest: str) -> int | None:
    return next((each.number for each in reversed(versions) if each.digest == digest), None) if digest else None


def _version(stamp: Stamp, digest: str, base: str, level: str, findings: tuple[str, ...]) -> Version:
    return Version(
        number=0,
        at=stamp.at,
        action=stamp.action,
        author=stamp.author,
        reason=stamp.reason,
        call=stamp.call,
        level=level,
        findings=findings,
        digest=digest,
        base=base,
    )


def _names(home: SkillHome) -> list[str]:
    return [entry.name for entry in home.folder.iterdir() if entry.is_dir() and not entry.name.startswith((".", "_"))]


@contextmanager
def _locked(home: SkillHome) -> Iterator[None]:
    """Outside of what a sandbox sees, which could hold it for ever. Raises SkillError when another process does."""
    home.history.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(home.history / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _taken(fd):
            if time.monotonic() > deadline:
                raise SkillError([Problem("", "", "another process changes skills at the moment")])
            time.sleep(0.02)
        yield
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
