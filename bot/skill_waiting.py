"""`antler skills waiting` and `antler skills on`: skills that wait for an administrator, owners' own ones too, whose
chats no administrator sees. Returns exit codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from bot.skill_folders import HISTORY, SKILLS, home_of
from bot.store.identity import users_folder
from harness.skills.editing import SkillHome, turn_on
from harness.skills.errors import SkillError
from harness.skills.library import SkillLibrary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.settings import Settings
    from harness.skills.pins import Waiting

FAILURE = 1
SHOWN = 12
"""Characters of a digest, and of an owner's key."""


@dataclass(frozen=True, slots=True)
class Found:
    """whose: "shared", or the beginning of the name of the owner's folder."""

    home: SkillHome
    name: str
    whose: str
    waiting: Waiting


def list_waiting(settings: Settings) -> int:
    """Print each with its reasons, and what `on` wants to be given."""
    found = list(_found(settings))
    for each in found:
        typer.echo(f"{each.name} {each.waiting.digest[:SHOWN]}  ({each.whose}, in {each.home.folder / each.name})")
        for reason in each.waiting.reasons:
            typer.echo(f"  {reason}")
    if not found:
        typer.echo("no skill waits for an administrator")
    return 0


def agree(settings: Settings, name: str, digest: str) -> int:
    """Let a skill be used that holds exactly this."""
    wanted = [
        each for each in _found(settings) if each.name == name and digest and each.waiting.digest.startswith(digest)
    ]
    if len(digest) < SHOWN or len(wanted) != 1:
        typer.echo(f"antler: no skill {name} with this content waits; see antler skills waiting", err=True)
        return FAILURE
    (each,) = wanted
    try:
        done = turn_on(each.home, name, each.waiting.digest, "")
    except (SkillError, OSError) as error:
        typer.echo(f"antler: {name}: {error}", err=True)
        return FAILURE
    typer.echo(
        f"{name} ({each.whose}) is on, as it is now" if done else f"antler: {name} has just changed", err=not done
    )
    return 0 if done else FAILURE


def _found(settings: Settings) -> Iterator[Found]:
    """In all homes; an owner's is known by its folder alone."""
    users = users_folder(settings.data_dir)
    library = SkillLibrary(None, settings.custom_skills, users, tell=_nothing)
    shared = home_of(settings, "custom", "")
    for name, (_, waiting) in sorted(library.of(None).waiting.items()):
        yield Found(shared, name, "shared", waiting)
    for folder in sorted(users.glob(f"*/{SKILLS}")):
        owner = folder.parent.name
        home = SkillHome("mine", folder, folder.parent / HISTORY)
        for name, (place, waiting) in sorted(library.of(owner).waiting.items()):
            if place == "mine":
                yield Found(home, name, owner[:SHOWN], waiting)


def _nothing(problem: str) -> None:
    """It is printed by `antler skills list`."""
