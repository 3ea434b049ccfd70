"""SkillLibrary: the skills of an owner's agent, according to the current state of the folders.

A change on disk is noticed at the next query, in skills that ship with Antler a few seconds later: only developers
change those. Unchanged files are not read again.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import os
import stat
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Literal

from harness.skills.document import (
    LARGEST_FILE,
    LONGEST_NAME,
    SKILL_FILE,
    Problem,
    SkillDocument,
    SkillError,
    parse_bytes,
    valid_name,
)
from harness.skills.pins import PinWatch, signature
from harness.skills.places import DEEPEST, find_places, name_of
from sandbox.base import SKILLS
from sandbox.files.paths import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from harness.context import RunContext
    from harness.skills.editing import SkillHome
    from harness.skills.pins import Waiting

Origin = Literal["public", "custom", "mine"]
"""public: shipped with Antler. custom: this installation's. mine: the owner's own."""
MOST_SKILLS = 200
"""Skills of one folder; those later in the alphabet are omitted, which is reported."""

_LINKS = {
    errno.ELOOP: "is a link, and links are not followed",
    errno.ENOTDIR: "is below a link, and links are not followed",
}
log = logging.getLogger(__name__)
MOST_OWNERS = 128
"""Owners whose skills are kept in memory; others are read again on demand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A usable skill.

    document: without its body, which `read` returns.
    place: of its folder within its origin, `team/meeting-notes` in a folder of folders.
    folder: on this machine.
    path: of its SKILL.md, as the agent sees it.
    digest: of that file, sha256 in hex.
    """

    document: SkillDocument
    origin: Origin
    place: str
    folder: Path
    path: str
    digest: str

    @property
    def name(self) -> str:
        return self.document.name

    @property
    def shelf(self) -> str:
        """Its origin, with the folders that contain it: `custom`, `custom/team`."""
        return f"{self.origin}/{self.place}".rpartition("/")[0]

    def read(self) -> SkillDocument:
        """The whole document, in its current state. Raises SkillError."""
        return parse_bytes(read_skill(self.folder), self.folder.name)


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """A problem of a skill. name: the place of its folder, "" for the whole origin. skipped: the skill is not used."""

    origin: Origin
    name: str
    problem: Problem
    skipped: bool = True

    def __str__(self) -> str:
        return f"{self.origin}/{self.name}: {self.problem}" if self.name else f"{self.origin}: {self.problem}"


@dataclass(frozen=True, slots=True)
class _Read:
    """Content of a skill's folder when it was last read."""

    signature: tuple[int, ...]
    skill: Skill | None
    problems: tuple[SkillProblem, ...]


def virtual_path(origin: Origin, place: str) -> str:
    """Path of a skill's SKILL.md, as the agent sees it."""
    return f"{SKILLS}/{origin}/{place}/{SKILL_FILE}"


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


def _shown(place: str) -> str:
    """A folder's place in displayable form, as it may contain anything."""
    return shown(place[: LONGEST_NAME * DEEPEST])


class Shelf:
    """The skills of one folder, which may be missing. Not thread-safe.

    waiting: skills that are off until an administrator turns them on, by name.
    closed: virtual paths of those skills.
    """

    def __init__(self, origin: Origin, folder: Path) -> None:
        self.folder = folder
        self.waiting: Mapping[str, Waiting] = {}
        self.closed = frozenset[str]()
        self.origin = origin
        self._read: dict[str, _Read] = {}
        self._first: Mapping[str, str] = {}
        self._unpinned_then: Mapping[str, Waiting] = {}
        self._faults: tuple[SkillProblem, ...] = ()
        # Shipped skills need no approval.
        self._pins = PinWatch(folder) if origin != "public" else None

    def refresh(self) -> bool:
        """Check the disk; True if something has changed."""
        places, faults = self._places()
        waiting = self._unpinned(places)
        changed = (faults, waiting) != (self._faults, self._unpinned_then) or places != list(self._read)
        now: dict[str, _Read] = {}
        for place in places:
            before, seen = self._read.get(place), signature(f"{self.folder}/{place}/{SKILL_FILE}")
            if before is not None and before.signature == seen:
                now[place] = before
                continue
            now[place] = read = self._open(place, seen)
            changed = changed or before is None or (before.skill, before.problems) != (read.skill, read.problems)
        self._read, self._faults, self._unpinned_then = now, faults, waiting
        self._first = {name_of(place): place for place in reversed(places)}
        self.waiting = {name_of(place): why for place, why in waiting.items() if self._counts(place)}
        self.closed = frozenset(virtual_path(self.origin, place) for place in waiting)
        return changed

    def _counts(self, place: str) -> bool:
        """Whether the place is the first one with its name."""
        return self._first[name_of(place)] == place

    def _unpinned(self, places: list[str]) -> Mapping[str, Waiting]:
        """The waiting skills, by place."""
        if self._pins is None:
            return {}
        self._pins.refresh()
        found = ((place, self._pins.waiting(place)) for place in places if valid_name(name_of(place)))
        return {place: waiting for place, waiting in found if waiting is not None}

    def skills(self) -> Iterator[Skill]:
        """Usable skills, with distinct names."""
        for place, read in self._read.items():
            if read.skill is not None and place not in self._unpinned_then and self._counts(place):
                yield read.skill

    def problems(self) -> Iterator[SkillProblem]:
        yield from self._faults
        for place, read in self._read.items():
            yield from read.problems
            if not self._counts(place):
                first = f"{self.origin}/{_shown(self._first[name_of(place)])}"
                yield self._problem(place, f"has the same name as {first}, which is used; rename one of them")
        for place, waiting in self._unpinned_then.items():
            yield self._problem(place, f"waits for an administrator: {'; '.join(waiting.reasons)}")

    def _places(self) -> tuple[list[str], tuple[SkillProblem, ...]]:
        """Where skills are, or should be, and problems of the folder as a whole."""
        found = find_places(self.folder)
        faults = [self._problem(each.file, each.message) for each in found.problems]
        if len(found.paths) > MOST_SKILLS:
            more = f"holds {len(found.paths)} skills; those after the first {MOST_SKILLS} are left out"
            faults.append(self._problem("", more))
        return list(found.paths[:MOST_SKILLS]), tuple(faults)

    def _problem(self, place: str, message: str) -> SkillProblem:
        return SkillProblem(self.origin, _shown(place), Problem("", "", message))

    def _open(self, place: str, seen: tuple[int, ...]) -> _Read:
        folder = self.folder / place
        shown = _shown(place)
        try:
            raw = read_skill(folder)
            document = replace(parse_bytes(raw, folder.name), body="")
        except SkillError as error:
            return _Read(seen, None, tuple(SkillProblem(self.origin, shown, each) for each in error.problems))
        path, digest = virtual_path(self.origin, place), hashlib.sha256(raw).hexdigest()
        skill = Skill(document=document, origin=self.origin, place=place, folder=folder, path=path, digest=digest)
        unknown = (Problem(SKILL_FILE, key, "unknown key, ignored") for key in document.unknown_keys)
        return _Read(seen, skill, tuple(SkillProblem(self.origin, shown, each, skipped=False) for each in unknown))


@dataclass(frozen=True, slots=True)
class SkillView:
    """The skills of one owner.

    skills: sorted by name.
    problems: of skipped skills, and remarks on used ones.
    waiting: origin and reasons of those that an administrator must turn on, by name.
    off: paths of those that were excluded.
    closed: paths of those that wait.
    """

    skills: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()
    waiting: Mapping[str, tuple[Origin, Waiting]] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    closed: frozenset[str] = frozenset()
    by_name: Mapping[str, Skill] = field(init=False, repr=False, compare=False)
    by_path: Mapping[str, Skill] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {skill.name: skill for skill in self.skills})
        object.__setattr__(self, "by_path", {skill.path: skill for skill in self.skills})

    def get(self, name: str) -> Skill | None:
        return self.by_name.get(name)

    def only(self, names: Collection[str] | None) -> SkillView:
        """Only the skills with these names; None: all."""
        if names is None or all(name in names for name in self.by_name):
            return self
        kept = tuple(skill for skill in self.skills if skill.name in names)
        off = frozenset(skill.path for skill in self.skills if skill.name not in names)
        return replace(self, skills=kept, off=self.off | off)

    def without(self, names: Collection[str]) -> SkillView:
        """All skills except those with these names."""
        return self.only(self.by_name.keys() - set(names)) if names else self

    def forbids(self, path: str) -> bool:
        """Whether a path is the SKILL.md of a skill that was excluded or is waiting, so it must not be followed."""
        return path in self.off or path in self.closed


NO_SKILLS = SkillView()


def _logged(problem: str) -> None:
    log.warning("skill %s", problem)


class SkillLibrary:
    """All skill folders of an installation. Folders may appear later; safe to use from several threads.

    public, custom: folders of skills, None: without.
    users: the folder in which each owner has `<hash>/skills`.
    tell: called with each new problem.
    pause: seconds between two checks of the public folder.
    """

    def __init__(
        self,
        public: Path | None,
        custom: Path | None,
        users: Path | None = None,
        *,
        tell: Callable[[str], None] = _logged,
        pause: float = 0.0,
    ) -> None:
        self._public = Shelf("public", public) if public is not None else None
        self._custom = Shelf("custom", custom) if custom is not None else None
        self._users = users
        self._mine: OrderedDict[str, Shelf] = OrderedDict()
        self._views: dict[str, SkillView] = {}
        self._report = tell
        self._told: dict[Origin | str, frozenset[str]] = {}
        self._lock = Lock()
        self._moments = count(1)
        self._looked = 0
        self._pause = pause
        self._public_until = -math.inf
        """Monotonic time until which the last state of the public folder is valid."""

    def of(self, owner: str | None) -> SkillView:
        """The skills of an owner, by the name of the owner's folder; None: those common to all. Blocking, though mostly
        for a fraction of a millisecond."""
        came = next(self._moments)
        with self._lock:
            shared = [shelf for shelf in (self._public, self._custom) if shelf is not None]
            # Of concurrent callers, one checks the disk for all: the check began after each of them had called.
            if self._looked < came:
                self._looked = next(self._moments)
                if any([shelf.refresh() for shelf in shared if shelf is not self._public or self._is_due()]):
                    self._views.clear()
            mine = self._shelf(owner)
            key = owner or ""
            if (mine is not None and mine.refresh()) or key not in self._views:
                self._views[key] = self._view(shared, mine, key)
            return self._views[key]

    def _is_due(self) -> bool:
        """Whether the public folder is due for a check, which then counts for a pause."""
        if (now := time.monotonic()) < self._public_until:
            return False
        self._public_until = now + self._pause
        return True

    def folders(self, owner: str | None) -> dict[str, Path]:
        """Existing folders on this machine, by origin."""
        shelves = {"public": self._public, "custom": self._custom}
        known = {origin: shelf.folder for origin, shelf in shelves.items() if shelf is not None}
        if owner and self._users is not None:
            known["mine"] = self._users / owner / "skills"
        return {origin: folder for origin, folder in known.items() if folder.is_dir()}

    def _shelf(self, owner: str | None) -> Shelf | None:
        if not owner or self._users is None:
            return None
        shelf = self._mine.get(owner)
        if shelf is None:
            shelf = self._mine[owner] = Shelf("mine", self._users / owner / "skills")
        self._mine.move_to_end(owner)
        if len(self._mine) > MOST_OWNERS:
            gone, _ = self._mine.popitem(last=False)
            self._views.pop(gone, None)
            self._told.pop(gone, None)
        return shelf

    def _view(self, shared: Iterable[Shelf], mine: Shelf | None, key: str) -> SkillView:
        found: dict[str, Skill] = {}
        problems: list[SkillProblem] = []
        for shelf in shared:
            problems += shelf.problems()
            for skill in shelf.skills():
                if skill.name in found:
                    problems.append(_note(skill, "replaces the public one of the same name", skipped=False))
                found[skill.name] = skill
        self._tell("", problems)
        own = list(mine.problems()) if mine is not None else []
        for skill in mine.skills() if mine is not None else ():
            if skill.name in found:
                own.append(_note(skill, f"has the name of a {found[skill.name].origin} skill; choose another one"))
            else:
                found[skill.name] = skill
        if key:
            self._tell(key, own)
        skills = tuple(found[name] for name in sorted(found))
        shelves = [*shared, *([mine] if mine is not None else [])]
        closed = frozenset[str]().union(*(shelf.closed for shelf in shelves))
        return SkillView(skills, (*problems, *own), _waiting(shelves), closed=closed)

    def _tell(self, key: str, problems: Iterable[SkillProblem]) -> None:
        now = frozenset(map(str, problems))
        for text in sorted(now - self._told.get(key, frozenset())):
            self._report(text)
        self._told[key] = now


def _waiting(shelves: Iterable[Shelf]) -> dict[str, tuple[Origin, Waiting]]:
    return {name: (shelf.origin, waiting) for shelf in shelves for name, waiting in shelf.waiting.items()}


def _note(skill: Skill, message: str, *, skipped: bool = True) -> SkillProblem:
    return SkillProblem(skill.origin, skill.place, Problem(SKILL_FILE, "name", message), skipped=skipped)


def shipped_folder() -> Path:
    """The skills that ship with Antler: inside this package in a wheel, `skills/public` next to it in a checkout."""
    packages = Path(__file__).resolve().parents[2]
    packed = packages / "harness" / "built_in_skills"
    return packed if packed.is_dir() else packages / "skills" / "public"


@dataclass(frozen=True, slots=True)
class SkillEditing:
    """Where the agent may propose changes to skills.

    home: the folder of a run's own or shared skills.
    taken: names that a new skill there must not have.
    model: judges the changes, "" for the default one.
    """

    home: Callable[[RunContext, bool], SkillHome]
    taken: Callable[[RunContext, bool], frozenset[str]]
    model: str = ""


@dataclass(frozen=True, slots=True)
class SkillSource:
    """The skills as the harness sees them.

    of: the skills of a run, in the folders' current state; called in a thread.
    prompt_tokens: the current budget of their list.
    editing: None: the agent cannot change any.
    """

    of: Callable[[RunContext], SkillView]
    prompt_tokens: Callable[[], int]
    editing: SkillEditing | None = None
