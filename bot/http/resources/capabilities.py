"""The skills of the agent, changed as `antler skills` changes them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from bot.control.actions import Action
from bot.http.errors import HttpProblem
from bot.http.resources.sight import log_act, unknown
from bot.skills.installing import InstallRefused
from bot.skills.tool import removed, waiting_skills
from harness.agents.profiles import DEFAULT
from harness.skills.document import SkillError
from harness.skills.editing import turn_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.skills.installing import Install

SHOWN_DIGEST = 12
"""Characters of a digest, as in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A usable skill. origin: public: shipped; custom: this installation's; mine: the caller's own. place: of its
    folder among those of its origin. on: it is not off for everyone. in_config: skills.disabled of the config turns it
    off, so that nothing else can turn it on."""

    name: str
    origin: str
    place: str
    description: str
    on: bool
    in_config: bool
    removable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSkill:
    """A skill that is off until an administrator approves its content. whose: "shared", or the beginning of a hashed
    key."""

    name: str
    whose: str
    digest: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillList:
    """The skills of a caller. problems: of unusable skills; like waiting, only for operators."""

    enabled: bool
    skills: tuple[Skill, ...]
    waiting: tuple[WaitingSkill, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An installed skill. pending: waits for an administrator. findings: of the checks. notes: what was not checked."""

    name: str
    digest: str
    replaced: bool
    pending: bool
    findings: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The progress or result of an installation. source: the archive's name. received: bytes so far. name: of the
    skill, "" while it is unknown. problems: why it is refused."""

    source: str
    by: str
    began_at: datetime
    state: Literal["receiving", "checking", "installed", "waiting", "refused"]
    received: int
    name: str
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    problems: tuple[str, ...]


class Skills:
    """The skills of everyone and of the caller."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def list(self, caller: Caller) -> SkillList:
        """All skills that the caller's own chats have with the default agent."""
        settings, operates, off = self._parts.settings(), caller.may("operate"), self._parts.skills.disabled
        view = await asyncio.to_thread(self._parts.skills.view, caller.person, DEFAULT)
        waiting = await asyncio.to_thread(lambda: list(waiting_skills(settings))) if operates else []
        return SkillList(
            enabled=settings.skills.enabled,
            skills=tuple(
                Skill(
                    name=skill.name,
                    origin=skill.origin,
                    place=skill.place,
                    description=skill.document.description,
                    on=skill.name not in off,
                    in_config=skill.name in settings.skills.disabled,
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
        """Turn on a skill that has exactly this content."""
        found = await asyncio.to_thread(lambda: list(waiting_skills(self._parts.settings())))
        each = next((each for each in found if (each.name, each.waiting.digest) == (name, digest)), None)
        if each is None:
            raise HttpProblem(404, "not_found", "no skill of this name is waiting with this content any longer")
        try:
            done = await asyncio.to_thread(turn_on, each.home, name, digest, caller.person)
        except (SkillError, OSError) as error:
            raise _refused(error) from error
        if not done:
            raise HttpProblem(409, "changed", "it has just changed: reload it")
        log_act(caller, Action.SKILL_APPROVE, what=f"{name} {digest[:SHOWN_DIGEST]}")

    async def switch(self, caller: Caller, name: str, *, on: bool) -> None:
        """Turn a shared skill on or off for everyone."""
        skills = self._parts.skills
        if await asyncio.to_thread(lambda: skills.library.of(None).get(name)) is None:
            raise unknown("skill for everyone")
        if on and name in self._parts.settings().skills.disabled:
            raise HttpProblem(409, "in_config", f"the config turns it off: remove {name} from skills.disabled")
        try:
            await skills.switch(name, on=on)
        except OSError as error:
            raise _refused(error) from error
        log_act(caller, Action.SKILL_ON if on else Action.SKILL_OFF, what=name)

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove one of this installation's own skills; its earlier versions are kept."""
        try:
            if not await asyncio.to_thread(removed, self._parts.settings(), name):
                raise unknown("skill of this installation")
        except (SkillError, OSError) as error:
            raise _refused(error) from error
        log_act(caller, Action.SKILL_REMOVE, what=name)

    async def upload(self, caller: Caller, file_name: str, chunks: AsyncIterable[bytes], *, replace: bool) -> Installed:
        """Install the skill in an archive for everyone, if no check refuses it."""
        installs = self._parts.installs
        return await self._installed(caller, installs.from_archive(file_name, chunks, replace=replace, by=caller.by))

    async def fetch(self, caller: Caller, address: str, *, replace: bool) -> Installed:
        """Install the skill in an archive at an address, likewise."""
        installs = self._parts.installs
        return await self._installed(caller, installs.from_address(address, replace=replace, by=caller.by))

    async def _installed(self, caller: Caller, installing: Awaitable[Install]) -> Installed:
        try:
            done = await installing
        except InstallRefused as refused:
            raise HttpProblem(422, "skill_refused", str(refused), problems=list(refused.problems)) from None
        log_act(caller, Action.SKILL_INSTALL, what=f"{done.name} {done.digest[:SHOWN_DIGEST]}", state=done.state)
        return Installed(
            name=done.name,
            digest=done.digest,
            replaced=done.replaced,
            pending=done.state == "waiting",
            findings=done.findings,
            notes=done.notes,
        )

    def installations(self) -> tuple[Installation, ...]:
        """The installations of this process, newest first."""
        return tuple(
            Installation(
                source=each.source,
                by=each.by,
                began_at=each.began_at,
                state=each.state,
                received=each.received,
                name=each.name,
                findings=each.findings,
                notes=each.notes,
                problems=each.problems,
            )
            for each in self._parts.installs.recent
        )


def _refused(error: SkillError | OSError) -> HttpProblem:
    problems = [str(each) for each in error.problems] if isinstance(error, SkillError) else [error.strerror or "failed"]
    return HttpProblem(422, "skill_refused", "; ".join(problems), problems=problems)
