"""Where skills are on this machine, and how an owner's own go with them when they get another id; for skills.py, the
command line and maintenance.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bot.store.identity import folder_name, users_folder
from harness.skills.editing import SkillHome
from harness.skills.library import SkillLibrary
from harness.skills.shipped import shipped_folder

if TYPE_CHECKING:
    from pathlib import Path

    from bot.settings import Settings
    from harness.skills.shelf import Place

SKILLS, HISTORY = "skills", "skill-history"


def library_of(settings: Settings, **options: Any) -> SkillLibrary:
    """The skills that the settings point to. options: of SkillLibrary."""
    skills = settings.skills
    if not skills.enabled:
        return SkillLibrary(None, None, **options)
    public = shipped_folder() if skills.public else None
    return SkillLibrary(public, settings.custom_skills, users_folder(settings.data_dir), **options)


def home_of(settings: Settings, place: Place, owner: str) -> SkillHome:
    """A folder of skills that can be changed, with its former versions beside it. owner: whose, for "mine"."""
    if place == "mine":
        own = users_folder(settings.data_dir) / folder_name(owner)
        return SkillHome(place, own / SKILLS, own / HISTORY)
    return SkillHome("custom", settings.custom_skills, settings.data_dir / "skills" / "history")


def move_owner(data_dir: Path, old: str, new: str) -> None:
    """An owner has another id. What is there under the new one already stays, as for a chat that went on. Blocking."""
    source, target = (users_folder(data_dir) / folder_name(owner) for owner in (old, new))
    if not (source / SKILLS).is_dir() or (target / SKILLS).exists():
        return
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in (HISTORY, SKILLS):
        # A folder that stands there stays as it is: it holds versions of what was there once.
        if (source / name).is_dir() and not (target / name).exists():
            (source / name).rename(target / name)
