"""What the agent has: skills, agents and models. Skills are changed as `antler skills` changes them."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.http.errors import HttpProblem
from bot.http.resources.sight import Sight, unknown
from bot.skills.tool import installed, removed, waiting_skills
from bot.store.identity import harmless_name
from harness.agents.profiles import DEFAULT
from harness.skills.document import SkillError
from harness.skills.editing import turn_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterable

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from harness.skills.archive import Installed as Put

LARGEST_ARCHIVE = 20_000_000
"""Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that can be used. origin: public: shipped; custom: this installation's; mine: the caller's own. on: it is
    not among skills.disabled of the config."""

    name: str
    origin: str
    description: str
    on: bool
    removable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSkill:
    """A skill that is off until an administrator agrees to its content. whose: "shared", or the beginning of a hashed
    key."""

    name: str
    whose: str
    digest: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillList:
    """problems: of skills that cannot be used; waiting, too: only for those who operate."""

    enabled: bool
    skills: tuple[Skill, ...]
    waiting: tuple[WaitingSkill, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """pending: it waits for an administrator. findings: what the checks say of it. notes: what was not checked."""

    name: str
    digest: str
    replaced: bool
    pending: bool
    findings: tuple[str, ...]
    notes: tuple[str, ...]


class Skills:
    """Skills of all and of the caller."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts
        self._sight = Sight(parts)

    async def list(self, caller: Caller) -> SkillList:
        """All skills that the caller's own chats have with the default agent."""
        settings, operates = self._parts.settings(), self._sight.operates(caller)
        view = await asyncio.to_thread(self._parts.skills.view, caller.person, DEFAULT)
        waiting = await asyncio.to_thread(lambda: list(waiting_skills(settings))) if operates else []
        return SkillList(
            enabled=settings.skills.enabled,
            skills=tuple(
                Skill(
                    name=skill.name,
                    origin=skill.origin,
                    description=skill.document.description,
                    on=skill.name not in settings.skills.disabled,
                    removable=skill.origin == "custom",
                )
                for skill in view.skills
            ),
            waiting=tuple(
                WaitingSkill(name=w.name, whose=w.whose, digest=w.waiting.digest, reasons=w.waiting.reasons)
                for w in waiting
            ),
            problems=tuple(map(str, view.problems)) if operates else (),
        )

    async def agree(self, caller: Caller, name: str, digest: str) -> None:
        """Turn on a skill that holds exactly this content."""
        found = await asyncio.to_thread(lambda: list(waiting_skills(self._parts.settings())))
        each = next((each for each in found if (each.name, each.waiting.digest) == (name, digest)), None)
        if each is None:
            raise HttpProblem(404, "not_found", "no skill of this name waits with this content any more")
        try:
            done = await asyncio.to_thread(turn_on, each.home, name, digest, caller.person)
        except (SkillError, OSError) as error:
            raise _refused(error) from error
        if not done:
            raise HttpProblem(409, "changed", "it has just changed: look at it again")

    async def remove(self, name: str) -> None:
        """Remove one of this installation's own skills; its former versions are kept."""
        try:
            if not await asyncio.to_thread(removed, self._parts.settings(), name):
                raise unknown("skill of this installation")
        except (SkillError, OSError) as error:
            raise _refused(error) from error

    async def install(self, file_name: str, chunks: AsyncIterable[bytes], *, replace: bool) -> Installed:
        """Put the skill of an archive among those that everybody has, if no check refuses it."""
        content = bytearray()
        async for chunk in chunks:
            content += chunk
            if len(content) > LARGEST_ARCHIVE:
                raise HttpProblem(413, "too_large", f"an archive has at most {LARGEST_ARCHIVE} bytes")
        notes: list[str] = []

        def put() -> Put:
            with tempfile.TemporaryDirectory(prefix="antler-skill-") as folder:
                archive = Path(folder) / harmless_name(file_name, "skill.zip")
                archive.write_bytes(content)
                return installed(self._parts.settings(), archive, replace=replace, tell=notes.append)

        try:
            done = await asyncio.to_thread(put)
        except (SkillError, OSError) as error:
            raise _refused(error) from error
        return Installed(
            name=done.name,
            digest=done.digest,
            replaced=done.replaced,
            pending=done.pending,
            findings=tuple(map(str, done.verdict.findings)),
            notes=tuple(notes),
        )


def _refused(error: SkillError | OSError) -> HttpProblem:
    problems = [str(each) for each in error.problems] if isinstance(error, SkillError) else [error.strerror or "failed"]
    return HttpProblem(422, "skill_refused", "; ".join(problems), problems=problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """model: its own, None: the chat's. accounts: where it answers unless a chat has chosen another."""

    name: str
    description: str
    model: str | None
    accounts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """detail: what it is called elsewhere. works: None: it was not asked yet; default: where nothing else is chosen."""

    name: str
    detail: str
    thinks: bool
    default: bool
    works: bool | None


def agents_of(parts: HttpParts) -> tuple[Agent, ...]:
    """The agents that may be chosen in a chat."""
    settings, choices = parts.settings(), parts.agents
    return tuple(
        Agent(
            name=name,
            description=choices.descriptions[name],
            model=each.settings.model,
            accounts=tuple(account for account in settings.channels if settings.agent_for(account) == name),
        )
        for name, each in choices.definitions.items()
    )


def models_of(parts: HttpParts) -> tuple[Model, ...]:
    """The models that may be chosen in a chat, the default one first."""
    known = parts.models.known()
    found = []
    for place, each in enumerate(parts.agents.models):
        state = known.get(each.name)
        found.append(
            Model(
                name=each.name,
                detail=each.detail,
                thinks=each.thinks,
                default=place == 0,
                works=None if state is None else state.works,
            )
        )
    return tuple(found)
