"""Command `antler skills`: list, check, install and remove skills, and approve waiting ones. Returns exit codes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from bot.clock import SystemClock
from bot.control.actions import Action, tell
from bot.settings.load import agents_of
from bot.skills.folders import HISTORY, SKILLS, disabled, home_of, library_of
from bot.store.identity import users_folder
from harness.skills.archive import install as put_in
from harness.skills.document import SKILL_FILE, Problem, SkillError, parse_bytes
from harness.skills.editing import SkillHome, place_of, standing, turn_on
from harness.skills.editing import remove as delete
from harness.skills.history import Version
from harness.skills.library import SkillLibrary, read_skill, shipped_folder
from harness.skills.places import find_places
from harness.skills.scan import scan
from harness.skills.verdict import Level
from harness.text.plain import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from langchain_core.messages.ai import UsageMetadata

    from bot.settings import Settings
    from harness.skills.archive import Installed
    from harness.skills.files import Files
    from harness.skills.judge import Opinion
    from harness.skills.library import SkillProblem, SkillView
    from harness.skills.pins import Waiting
    from harness.skills.verdict import Verdict

FAILURE = 1
LONGEST_TOLD = 70
SHOWN = 12
"""Characters shown of a digest, and of an owner's key."""


def list_skills(settings: Settings, *, as_json: bool = False) -> int:
    """Print the shared skills, and the problems of others."""
    if not settings.skills.enabled:
        typer.echo("[]" if as_json else "skills are turned off (skills.enabled)")
        return 0
    view, off = _shared(settings), disabled(settings)
    if as_json:
        facts = [
            {
                "name": skill.name,
                "origin": skill.origin,
                "place": skill.place,
                "on": skill.name not in off,
                "description": skill.document.description,
            }
            for skill in view.skills
        ]
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        _tell(view.problems)
        return 0
    for skill in view.skills:
        state = "off" if skill.name in off else "on"
        typer.echo(f"{skill.name:<32} {skill.shelf:<7} {state:<4} {cut(skill.document.description, LONGEST_TOLD)}")
    if not view.skills:
        typer.echo(f"no skills; put your own into {settings.custom_skills}")
    _tell(view.problems)
    return 0


def summary(settings: Settings) -> str:
    """A summary of the skills in one line."""
    counts, *wrong = standings(settings)
    return "; ".join([counts, *wrong])


def standings(settings: Settings) -> list[str]:
    """The number of skills, and then a sentence for each problem of others."""
    if not settings.skills.enabled:
        return ["off"]
    view = _shared(settings)
    counts = [sum(skill.origin == origin for skill in view.skills) for origin in ("public", "custom")]
    wrong = [*(str(problem) for problem in view.problems), *_unknown_names(settings, view)]
    return [f"{counts[0]} public, {counts[1]} custom", *wrong]


def _unknown_names(settings: Settings, view: SkillView) -> Iterator[str]:
    """Names in the settings that are no shared skills. They may refer to an owner's skills, so this is no fault."""
    types = settings.subagents.types
    named: dict[str, Iterable[str]] = {"skills.disabled": settings.skills.disabled}
    named |= {f"subagents.types.{name}.skills": kind.skills or () for name, kind in types.items()}
    named |= {f"agent {name}": each.settings.skills or () for name, each in agents_of(settings).definitions.items()}
    for place, names in named.items():
        for name in names:
            if view.get(name) is None and name not in view.waiting:
                yield f"{place}: no skill {name} here"


def validate(settings: Settings) -> int:
    """Print the problems of the configured skills."""
    view = _shared(settings)
    _tell(view.problems)
    for remark in _unknown_names(settings, view):
        typer.echo(f"remark   {remark}", err=True)
    broken = sum(problem.skipped for problem in view.problems)
    typer.echo(f"{_counted(len(view.skills), 'skill')} can be used; {_counted(broken, 'problem')} with others")
    return FAILURE if broken else 0


def validate_folder(folder: Path) -> int:
    """Print the problems of one skill, or of each in a folder, with the strict checks of an installation."""
    top, found = folder.resolve(), dict(_checked(folder))
    for path, problems in found.items():
        place = path.relative_to(top) if path != top else path.name
        typer.echo(f"{place}: OK" if not problems else f"{place}:")
        for problem in problems:
            typer.echo(f"  {problem}")
        for finding in scan(path).findings:
            if finding.level is Level.WARN:
                typer.echo(f"  an administrator would be asked about: {finding}")
    if not found:
        typer.echo(f"antler: no skill in {folder}", err=True)
    return FAILURE if not found or any(found.values()) else 0


def _shared(settings: Settings) -> SkillView:
    return library_of(settings, tell=_nothing).of(None)


def _nothing(problem: str) -> None:
    """Do not log problems: they are printed."""


def _checked(folder: Path) -> Iterator[tuple[Path, tuple[Problem, ...]]]:
    folder = folder.resolve()
    inside = find_places(folder)
    seen: dict[str, str] = {}
    for skill in [folder] if (folder / SKILL_FILE).exists() else [folder / path for path in inside.paths]:
        place = str(skill.relative_to(folder))
        if (first := seen.setdefault(skill.name, place)) != place:
            yield skill, (Problem("", "name", f"has the name of {first}"),)
            continue
        try:
            parse_bytes(read_skill(skill), skill.name, strict=True)
        except SkillError as error:
            yield skill, error.problems
        else:
            verdict = scan(skill)
            forbidden = verdict.reasons if verdict.level is Level.BLOCK else []
            yield skill, tuple(Problem("", "", reason) for reason in forbidden)


def install(settings: Settings, archive: Path, *, replace: bool) -> int:
    """Install the skill of an archive for everyone, if no check refuses it."""
    try:
        done = installed(settings, archive, replace=replace, tell=lambda text: typer.echo(f"antler: {text}", err=True))
    except (SkillError, OSError) as error:
        for reason in error.problems if isinstance(error, SkillError) else [error]:
            typer.echo(f"antler: {archive.name}: {reason}", err=True)
        return FAILURE
    tell(settings, Action.SKILL_INSTALL, what=done.name)
    place = place_of(home_of(settings, "custom", ""), done.name)
    typer.echo(f"{'replaced' if done.replaced else 'installed'} {done.name} in {place}")
    if done.pending:
        typer.echo(f"It is off until an administrator approves it: /skills on {done.name} in a chat, or here:")
        typer.echo(f"  antler skills on {done.name} {done.digest[:SHOWN]}")
    for finding in done.verdict.findings:
        typer.echo(f"  {finding}")
    return 0


def installed(settings: Settings, archive: Path, *, replace: bool, tell: Callable[[str], None]) -> Installed:
    """Add the skill of an archive to the shared ones. Takes as long as a model's answer, so run it in a thread. tell:
    called if no model judged it. Raises SkillError, OSError."""
    built_in = {skill.name for skill in SkillLibrary(shipped_folder(), None, tell=_nothing).of(None).skills}
    # Private, as when the gateway creates it.
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    home, judging = home_of(settings, "custom", ""), _judging(settings, tell)
    return put_in(archive, home, built_in=built_in, at=_now(), replace=replace, judging=judging)


def _judging(settings: Settings, tell: Callable[[str], None]) -> Callable[[str, Files, Verdict], Verdict]:
    """A judge of installed skills: the model that judges the agent's own changes. Scripts that it cannot judge wait for
    an administrator instead of being refused."""
    from harness.models.build import DEMO
    from harness.skills.judge import with_opinion

    model = settings.skill_evolution.model or settings.models[0].name

    def judging(name: str, files: Files, verdict: Verdict) -> Verdict:
        if any(each.name == model and each.use == DEMO for each in settings.models):
            tell(f"{name} was checked only by rules: no model is available to judge it (models)")
            return verdict
        opinion = asyncio.run(_opinion(settings, model, name, files, verdict))
        if opinion is None:
            tell(f"{name} was checked only by rules: the model {model} returned no judgment")
        return with_opinion(verdict, opinion, without=Level.WARN)

    return judging


async def _opinion(settings: Settings, model: str, name: str, files: Files, verdict: Verdict) -> Opinion | None:
    from harness.models.health import ModelHealth
    from harness.models.pool import ModelPool
    from harness.skills.judge import Judge

    clock = SystemClock()
    pool = ModelPool(settings.models, settings.model_route, clock)
    try:
        return await Judge(lambda: pool.built(model), model, clock, ModelHealth()).opinion(
            name, files, verdict, _untold
        )
    finally:
        await pool.close()


def _untold(model: str, usage: UsageMetadata) -> None:
    """Do not count tokens: the command line works for no chat."""


def remove(settings: Settings, name: str) -> int:
    """Remove one of this installation's own skills; its former versions are kept."""
    home = home_of(settings, "custom", "")
    try:
        place = place_of(home, name)
        if removed(settings, name):
            tell(settings, Action.SKILL_REMOVE, what=name)
            typer.echo(f"removed {place}; its versions are kept in {home.history / name}")
            return 0
    except (SkillError, OSError) as error:
        typer.echo(f"antler: {name}: {error}", err=True)
        return FAILURE
    shared = _shared(settings).get(name)
    if shared is not None:
        typer.echo(f"antler: {name} ships with Antler; turn it off with skills.disabled in the config", err=True)
    else:
        typer.echo(f"antler: no skill {name} in {settings.custom_skills}", err=True)
    return FAILURE


def removed(settings: Settings, name: str) -> bool:
    """Remove one of this installation's own skills; False if there is none. Raises SkillError, OSError."""
    home = home_of(settings, "custom", "")
    known = standing(home, name)
    if known.digest:
        delete(home, name, base=known.digest, change=Version(at=_now(), action="delete"))
    return bool(known.digest)


@dataclass(frozen=True, slots=True)
class WaitingSkill:
    """A waiting skill. whose: "shared", or the beginning of the name of the owner's folder."""

    home: SkillHome
    name: str
    whose: str
    waiting: Waiting


def waiting_names(settings: Settings) -> list[str]:
    """The skills that are off until an administrator approves them."""
    return [each.name for each in waiting_skills(settings)]


def list_waiting(settings: Settings, *, as_json: bool = False) -> int:
    """Print the skills that wait for an administrator, with the reasons and the arguments for `on`."""
    found = list(waiting_skills(settings))
    if as_json:
        facts = [
            {
                "name": each.name,
                "digest": each.waiting.digest,
                "whose": each.whose,
                "folder": str(place_of(each.home, each.name)),
                "reasons": list(each.waiting.reasons),
            }
            for each in found
        ]
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return 0
    for each in found:
        typer.echo(f"{each.name} {each.waiting.digest[:SHOWN]}  ({each.whose}, in {place_of(each.home, each.name)})")
        for reason in each.waiting.reasons:
            typer.echo(f"  {reason}")
    if not found:
        typer.echo("no skill is waiting for an administrator")
    return 0


def agree(settings: Settings, name: str, digest: str) -> int:
    """Approve a skill with exactly this content."""
    wanted = [
        each
        for each in waiting_skills(settings)
        if each.name == name and digest and each.waiting.digest.startswith(digest)
    ]
    if len(digest) < SHOWN or len(wanted) != 1:
        typer.echo(f"antler: no skill {name} with this content is waiting; see antler skills waiting", err=True)
        return FAILURE
    (each,) = wanted
    try:
        done = turn_on(each.home, name, each.waiting.digest, "")
    except (SkillError, OSError) as error:
        typer.echo(f"antler: {name}: {error}", err=True)
        return FAILURE
    if done:
        tell(settings, Action.SKILL_APPROVE, what=f"{name} {each.waiting.digest[:SHOWN]}")
    typer.echo(
        f"{name} ({each.whose}) is now on in this form" if done else f"antler: {name} has just changed", err=not done
    )
    return 0 if done else FAILURE


def waiting_skills(settings: Settings) -> Iterator[WaitingSkill]:
    """Waiting skills of all homes; an owner is identified only by the folder."""
    users = users_folder(settings.data_dir)
    library = SkillLibrary(None, settings.custom_skills, users, tell=_nothing)
    shared = home_of(settings, "custom", "")
    for name, (_, waiting) in sorted(library.of(None).waiting.items()):
        yield WaitingSkill(shared, name, "shared", waiting)
    for folder in sorted(users.glob(f"*/{SKILLS}")):
        owner = folder.parent.name
        home = SkillHome("mine", folder, folder.parent / HISTORY)
        for name, (origin, waiting) in sorted(library.of(owner).waiting.items()):
            if origin == "mine":
                yield WaitingSkill(home, name, owner[:SHOWN], waiting)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tell(problems: Iterable[SkillProblem]) -> None:
    for problem in problems:
        typer.echo(f"{'skipped' if problem.skipped else 'remark '}  {problem}", err=True)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
