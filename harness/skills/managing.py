"""SkillManager: a change of a skill that the agent proposes, from its arguments to the new version; for the tool
skill_manage and, before it is made, for the guardrail.

A change is made in two steps with a person in between. Both come to the same content and the same verdict, or the
second one does nothing: what was shown is what is kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.guardrails.shown import shows_whole
from harness.skills.editing import Changed, SkillHome, Stamp, remove, standing, write
from harness.skills.errors import SkillError
from harness.skills.history import diff
from harness.skills.proposed import BadChange, Request, changed, check
from harness.skills.scan import scan_files
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.context import RunContext
    from harness.ports import Clock
    from harness.skills.checking import Checker
    from harness.skills.editing import Standing
    from harness.skills.files import Files
    from harness.skills.history import Version
    from harness.skills.judge import TellUsage
    from harness.skills.verdict import Verdict

TOO_LONG = (
    "The change is too long to be shown to the person who has to agree to it. Make it in steps of at most 10000 "
    "characters, such as one file at a time."
)
MOST_REASONS = 6
LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class SkillHomes:
    """Where skills can be changed. home: of a run, the owner's own or the shared one. taken: names that a new one there
    must not have."""

    home: Callable[[RunContext, bool], SkillHome]
    taken: Callable[[RunContext, bool], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A change as it would be made. after: None: the skill goes. verdict: None of what takes away only."""

    home: SkillHome
    request: Request
    before: Standing
    after: Files | None
    verdict: Verdict | None
    difference: str

    @property
    def shown(self) -> str:
        """For the person who is asked: what would change, and what the check says of it."""
        where = "shared" if self.home.place == "custom" else "own"
        lines = [f"{self.request.action} {self.request.name} ({where})"]
        lines += [f"why: {self.request.reason[:LONGEST_REASON]}"] if self.request.reason else []
        if self.verdict is not None:
            lines.append(f"check: {self.verdict.level}")
            lines += [f"- {reason}" for reason in self.verdict.reasons[:MOST_REASONS] if self.verdict.level]
        return "\n".join([*lines, "", self.difference])


@dataclass(frozen=True, slots=True)
class Done:
    """version: the one that was made. before: the one to go back to, None for none."""

    version: Version
    before: int | None
    pending: bool


class SkillManager:
    def __init__(self, homes: SkillHomes, checker: Checker, clock: Clock) -> None:
        self._homes = homes
        self._checker = checker
        self._clock = clock

    async def plan(self, ctx: RunContext, request: Request, *, shared: bool, tell: TellUsage | None) -> Plan:
        """tell: None: no model is asked any more. Raises BadChange, also for a content that must not be kept."""
        home = self._homes.home(ctx, shared)
        before = await self._standing(home, request.name)
        if request.action == "create":
            taken = await asyncio.to_thread(self._homes.taken, ctx, shared)
            if request.name in taken:
                raise BadChange(f"{request.name} is the name of another skill. Choose another one.")
        after = await asyncio.to_thread(_after, home, request, before)
        verdict = await self._verdict(home, request, after, tell) if after is not None else None
        if verdict is not None and verdict.level is Level.BLOCK:
            raise BadChange(_refusal(verdict))
        difference = await asyncio.to_thread(_difference, before.files or {}, after)
        if request.action not in ("rollback", "delete") and not shows_whole(difference):
            raise BadChange(TOO_LONG)
        return Plan(home, request, before, after, verdict, difference)

    async def _verdict(self, home: SkillHome, request: Request, after: Files, tell: TellUsage | None) -> Verdict:
        """To go back needs no model: what was said of that version holds."""
        if request.action != "rollback":
            return await self._checker.check(request.name, after, home.history, tell)
        verdict = await asyncio.to_thread(scan_files, after)
        versions = await asyncio.to_thread(home.versions.versions, request.name)
        return _as_before(verdict, next(each for each in versions if each.number == request.version))

    async def state(self, ctx: RunContext, request: Request, call: str, *, shared: bool) -> str:
        """What a change depends on besides its arguments. After the change that this call made, still the one before:
        the call can be made again when nobody knows whether it was."""
        home = self._homes.home(ctx, shared)
        before = await self._standing(home, request.name)
        made = await asyncio.to_thread(_made_by, home, request.name, call)
        return f"{home.place}:{before.digest if made is None else made.base}"

    async def carry_out(self, ctx: RunContext, request: Request, call: str, *, shared: bool) -> Done:
        """Make the change, once. Raises BadChange."""
        home = self._homes.home(ctx, shared)
        made = await asyncio.to_thread(_made_by, home, request.name, call)
        if made is not None and (await self._standing(home, request.name)).digest == made.digest:
            return Done(made, await asyncio.to_thread(_number, home, request.name, made.base), made.level != "allow")
        plan = await self.plan(ctx, request, shared=shared, tell=None)
        at = self._clock.now().isoformat(timespec="seconds")
        reason = " ".join(request.reason.split())[:LONGEST_REASON]
        stamp = Stamp(at=at, action=request.action, author=ctx.speaker.id, reason=reason, call=call)
        try:
            return await asyncio.to_thread(_make, plan, stamp)
        except Changed as error:
            raise BadChange(f"Nothing was changed: {error}. Look at it again.") from error
        except (SkillError, OSError) as error:
            detail = error.strerror if isinstance(error, OSError) else str(error)
            raise BadChange(f"Nothing was changed: {detail}.") from error

    async def versions(self, ctx: RunContext, name: str, *, shared: bool) -> list[Version]:
        """Oldest first. Raises BadChange."""
        home = self._homes.home(ctx, shared)
        await self._standing(home, name)
        try:
            return await asyncio.to_thread(home.versions.versions, name)
        except SkillError as error:
            raise BadChange(f"{error}.") from error

    async def compared(self, ctx: RunContext, name: str, number: int, *, shared: bool) -> str:
        """From a version to how it is now. Raises BadChange."""
        home = self._homes.home(ctx, shared)
        now = await self._standing(home, name)
        request = Request(action="rollback", name=name, version=number)
        return diff(await asyncio.to_thread(_version, home, request), now.files or {})

    async def _standing(self, home: SkillHome, name: str) -> Standing:
        try:
            return await asyncio.to_thread(standing, home, name)
        except SkillError as error:
            raise BadChange(f"{error}.") from error


def _after(home: SkillHome, request: Request, before: Standing) -> Files | None:
    """Raises BadChange."""
    if request.action == "delete":
        if not before.digest:
            raise BadChange(f"There is no skill {request.name} here.")
        return None
    if request.action != "rollback":
        return changed(request, before.files)
    after = _version(home, request)
    if after == before.files:
        raise BadChange(f"{request.name} is as it was in version {request.version}.")
    check(request.name, after)
    return after


def _difference(before: Files, after: Files | None) -> str:
    if after is None:
        return "\n".join(f"{path} (gone)" for path in sorted(before))
    return diff(before, after)


def _version(home: SkillHome, request: Request) -> Files:
    try:
        files = home.versions.files(request.name, request.version)
    except SkillError as error:
        raise BadChange(f"{error}.") from error
    if files is None:
        raise BadChange(f"There is no version {request.version} of {request.name} to go back to. Look with history.")
    return files


def _as_before(verdict: Verdict, version: Version) -> Verdict:
    """Of a former version: the rules of today, but what an administrator agreed to, they agreed to."""
    if verdict.level is Level.BLOCK:
        return verdict
    if version.approved_by:
        return replace(verdict, level=Level.ALLOW)
    return replace(verdict, level=max(verdict.level, Level.WARN if version.level == str(Level.WARN) else Level.ALLOW))


def _make(plan: Plan, stamp: Stamp) -> Done:
    home, name, base = plan.home, plan.request.name, plan.before.digest
    if plan.after is None or plan.verdict is None:
        written = remove(home, name, base=base, stamp=stamp)
    else:
        written = write(home, name, plan.after, base=base, stamp=stamp, verdict=plan.verdict)
    return Done(written.version, written.before, written.pending)


def _made_by(home: SkillHome, name: str, call: str) -> Version | None:
    """The newest version, if this call made it."""
    try:
        versions = home.versions.versions(name)
    except SkillError:
        return None
    return versions[-1] if versions and versions[-1].call == call else None


def _number(home: SkillHome, name: str, digest: str) -> int | None:
    versions = home.versions.versions(name) if digest else []
    return next((each.number for each in reversed(versions) if each.digest == digest), None)


def _refusal(verdict: Verdict) -> str:
    reasons = "; ".join(verdict.reasons[:MOST_REASONS])
    return f"This must not be kept, nothing was changed: {reasons}. Do not try to get it past this check."
