"""Skill folders on this machine: shipped, shared and per owner, and where they are changed."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from bot.store.identity import folder_name, users_folder
from harness.files.durable import write_atomically
from harness.skills.editing import SkillHome
from harness.skills.library import SkillEditing, SkillLibrary, shipped_folder
from harness.skills.places import find_places, name_of

if TYPE_CHECKING:
    from pathlib import Path

    from bot.settings import Settings
    from harness.context import RunContext
    from harness.skills.library import Origin

log = logging.getLogger(__name__)

SKILLS, HISTORY = "skills", "skill-history"
OFF = "off.json"
SHIPPED_PAUSE = 5.0
"""Seconds between two checks of the shipped skills, two dozen files that only a new version or a developer changes."""


def library_of(settings: Settings, **options: Any) -> SkillLibrary:
    """The skill library that the settings describe. options: passed to SkillLibrary."""
    skills = settings.skills
    if not skills.enabled:
        return SkillLibrary(None, None, **options)
    public = shipped_folder() if skills.public else None
    users = users_folder(settings.data_dir)
    return SkillLibrary(public, settings.custom_skills, users, pause=SHIPPED_PAUSE, **options)


def home_of(settings: Settings, origin: Origin, owner: str) -> SkillHome:
    """A folder of skills that can be changed, and the folder of their former versions. owner: used for "mine"."""
    if origin == "mine":
        own = users_folder(settings.data_dir) / folder_name(owner)
        return SkillHome(origin, own / SKILLS, own / HISTORY)
    return SkillHome("custom", settings.custom_skills, settings.data_dir / "skills" / "history")


class SwitchedOff:
    """Names of skills that administrators turned off for everyone, in addition to those of the config. They are stored
    in the data folder, for all processes that share it. Blocking."""

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / SKILLS / OFF
        self._known: tuple[object, frozenset[str]] = (None, frozenset())

    def names(self) -> frozenset[str]:
        """The current names; the file is read only after a change."""
        state, known = self._state(), self._known
        if known[0] != state:
            self._known = known = (state, self._named(known[1]))
        return known[1]

    def _state(self) -> object:
        try:
            found = self._file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.errno
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _named(self, before: frozenset[str]) -> frozenset[str]:
        try:
            return self._read()
        except OSError as error:
            log.warning(
                "%s: skills that stay turned off on the page: %s", error, ", ".join(sorted(before)) or "nothing"
            )
            return before

    def switch(self, name: str, *, on: bool) -> None:
        """Turn one skill on or off. Raises OSError, also if the file is unreadable: then nobody knows what is off."""
        names = self._read() - {name} if on else self._read() | {name}
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, json.dumps(sorted(names)).encode())

    def _read(self) -> frozenset[str]:
        try:
            return frozenset(map(str, json.loads(self._file.read_bytes())))
        except FileNotFoundError:
            return frozenset()
        except (ValueError, TypeError) as error:
            raise OSError(f"{self._file} cannot be read: {error}") from error


def disabled(settings: Settings) -> frozenset[str]:
    """Names of skills that the config or an administrator turned off for everyone."""
    return frozenset(settings.skills.disabled) | SwitchedOff(settings.data_dir).names()


def editing_of(settings: Settings) -> SkillEditing | None:
    """The agent's means to propose changes of skills; None if the settings forbid that."""
    if not (settings.skill_evolution.enabled and settings.skills.enabled):
        return None
    library = library_of(settings)

    def home(ctx: RunContext, shared: bool) -> SkillHome:
        return home_of(settings, "custom" if shared else "mine", ctx.owner)

    def taken(ctx: RunContext, shared: bool) -> frozenset[str]:
        """Shipped names, turned off or not, and for an own skill also the shared ones, which take precedence."""
        shipped = frozenset(map(name_of, find_places(shipped_folder()).paths))
        return shipped if shared else shipped | frozenset(library.of(None).by_name)

    return SkillEditing(home, taken, settings.skill_evolution.model)


def move_owner(data_dir: Path, old: str, new: str) -> None:
    """Rename an owner's skill folders after their id changed; existing folders of the new id stay. Blocking."""
    source, target = (users_folder(data_dir) / folder_name(owner) for owner in (old, new))
    if not (source / SKILLS).is_dir() or (target / SKILLS).exists():
        return
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (HISTORY, SKILLS):
        # An existing folder stays: it may hold versions of skills that were deleted.
        if (source / name).is_dir() and not (target / name).exists():
            (source / name).rename(target / name)
