"""SkillLibrary: which skills an owner's agent has, as the folders stand now; asked before each run and by /skills.

A change on disk is seen at the next question. Nothing is read again that did not change.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

from harness.skills.document import SKILL_FILE
from harness.skills.errors import Problem
from harness.skills.shelf import Place, Shelf, Skill, SkillProblem, virtual_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from harness.skills.pins import Waiting

__all__ = ["NO_SKILLS", "Place", "Skill", "SkillLibrary", "SkillProblem", "SkillView"]

log = logging.getLogger(__name__)

MOST_OWNERS = 128
"""Whose skills are kept in memory; an owner who comes back later is read again."""


@dataclass(frozen=True, slots=True)
class SkillView:
    """What one owner has. skills: sorted by name. problems: those skipped, and those used with a remark. waiting: by
    name, where those are that an administrator has to turn on, and why. off: the paths of those that were taken out."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()
    waiting: Mapping[str, tuple[Place, Waiting]] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    by_name: Mapping[str, Skill] = field(init=False, repr=False, compare=False)
    by_path: Mapping[str, Skill] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {skill.name: skill for skill in self.skills})
        object.__setattr__(self, "by_path", {skill.path: skill for skill in self.skills})

    def get(self, name: str) -> Skill | None:
        return self.by_name.get(name)

    def only(self, names: Collection[str] | None) -> SkillView:
        """Those of these names; None: all."""
        if names is None or all(name in names for name in self.by_name):
            return self
        kept = tuple(skill for skill in self.skills if skill.name in names)
        off = frozenset(skill.path for skill in self.skills if skill.name not in names)
        return replace(self, skills=kept, off=self.off | off)

    def without(self, names: Collection[str]) -> SkillView:
        """All but those of these names."""
        return self.only(self.by_name.keys() - set(names)) if names else self

    def forbids(self, path: str) -> bool:
        """Whether this is the SKILL.md of one that must not be followed: it was taken out, or waits."""
        if path in self.off:
            return True
        return path not in self.by_path and path in {virtual_path(at, name) for name, (at, _) in self.waiting.items()}


NO_SKILLS = SkillView()


def _logged(problem: str) -> None:
    log.warning("skill %s", problem)


class SkillLibrary:
    """public, custom: folders of skills, None: without. users: the folder in which each owner has `<hash>/skills`.

    tell: told what is wrong, when it was not before. Folders may be missing and come to exist later. Safe to be asked
    from several threads.
    """

    def __init__(
        self,
        public: Path | None,
        custom: Path | None,
        users: Path | None = None,
        *,
        tell: Callable[[str], None] = _logged,
    ) -> None:
        self._public = Shelf("public", public) if public is not None else None
        self._custom = Shelf("custom", custom) if custom is not None else None
        self._users = users
        self._mine: OrderedDict[str, Shelf] = OrderedDict()
        self._views: dict[str, SkillView] = {}
        self._tell_of = tell
        self._told: dict[Place | str, frozenset[str]] = {}
        self._lock = Lock()

    def of(self, owner: str | None) -> SkillView:
        """What an owner has, by the name of the owner's folder; None: what everybody has. Blocking, though mostly for
        a fraction of a millisecond."""
        with self._lock:
            shared = [shelf for shelf in (self._public, self._custom) if shelf is not None]
            if any([shelf.refresh() for shelf in shared]):
                self._views.clear()
            mine = self._shelf(owner)
            key = owner or ""
            if (mine is not None and mine.refresh()) or key not in self._views:
                self._views[key] = self._view(shared, mine, key)
            return self._views[key]

    def folders(self, owner: str | None) -> dict[str, Path]:
        """Where they are on this machine, by place; those that there are."""
        shelves = {"public": self._public, "custom": self._custom}
        known = {place: shelf.folder for place, shelf in shelves.items() if shelf is not None}
        if owner and self._users is not None:
            known["mine"] = self._users / owner / "skills"
        return {place: folder for place, folder in known.items() if folder.is_dir()}

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
                    problems.append(_note(skill, "takes the place of the public one of this name", skipped=False))
                found[skill.name] = skill
        self._tell("", problems)
        own = list(mine.problems()) if mine is not None else []
        for skill in mine.skills() if mine is not None else ():
            if skill.name in found:
                own.append(_note(skill, f"has the name of a {found[skill.name].place} skill, choose another one"))
            else:
                found[skill.name] = skill
        if key:
            self._tell(key, own)
        skills = tuple(found[name] for name in sorted(found))
        return SkillView(skills, (*problems, *own), _waiting([*shared, *([mine] if mine is not None else [])]))

    def _tell(self, key: str, problems: Iterable[SkillProblem]) -> None:
        now = frozenset(map(str, problems))
        for text in sorted(now - self._told.get(key, frozenset())):
            self._tell_of(text)
        self._told[key] = now


def _waiting(shelves: Iterable[Shelf]) -> dict[str, tuple[Place, Waiting]]:
    return {name: (shelf.place, waiting) for shelf in shelves for name, waiting in shelf.waiting.items()}


def _note(skill: Skill, message: str, *, skipped: bool = True) -> SkillProblem:
    return SkillProblem(skill.place, skill.name, Problem(SKILL_FILE, "name", message), skipped=skipped)
