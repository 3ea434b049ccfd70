"""SkillManager: a skill change that the agent proposes, from its arguments to the new version.

A change is made in two steps with a person in between. Both must produce the same content and the same verdict, or the
second one does nothing: what was shown is what is stored.
"""

from __future__ import annotations

import asyncio
import posixpath
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from harness.guardrails.shown import shows_whole
from harness.skills.document import SKILL_FILE, SkillError, parse_bytes
from harness.skills.editing import Changed, SkillHome, Written, lookalikes, newest_with, remove, standing, write
from harness.skills.history import Version, diff
from harness.skills.judge import checked
from harness.skills.scan import scan_files
from harness.skills.verdict import Level

if TYPE_CHECKING:
    from harness.context import RunContext
    from harness.ports import Clock
    from harness.skills.editing import Standing
    from harness.skills.files import Files
    from harness.skills.judge import Judge, TellUsage
    from harness.skills.library import SkillEditing
    from harness.skills.verdict import Verdict

LARGEST_TEXT = 100_000
"""Characters of one written file."""
FILE_TOO_LONG = f"The file would be too long: at most {LARGEST_TEXT} characters."
FOLDERS = ("references", "scripts", "assets")
"""Folders of a skill's other files."""

Change = Literal["create", "edit", "patch", "delete", "write_file", "remove_file", "rollback"]
TOO_LONG = (
    "The change is too long to be shown to the person who has to approve it. Make it in steps of at most 10000 "
    "characters, such as one file at a time."
)
MOST_REASONS = 6
LONGEST_REASON = 300


class BadChange(Exception):
    """A change is refused. The text tells the model why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A change requested by the agent. file: within the skill's folder, "" for SKILL.md. version: for a rollback."""

    action: Change
    name: str
    content: str = ""
    file: str = ""
    old: str = ""
    new: str = ""
    replace_all: bool = False
    version: int = 0
    reason: str = ""


def content_after(request: Request, files: Files | None) -> Files:
    """Files after any change except `delete` and `rollback`. files: None: no such skill exists. Raises BadChange."""
    if request.action == "create" and files is not None:
        raise BadChange(f"A skill {request.name} already exists. Change it with edit or patch, or use another name.")
    if request.action != "create" and files is None:
        raise BadChange(f"There is no skill {request.name} here. Check with ls, or use create.")
    after = dict(files or {})
    match request.action:
        case "create" | "edit":
            after[SKILL_FILE] = _text(request.content)
        case "patch":
            path = _path(request.file or SKILL_FILE, after)
            after[path] = _patched(request, path, after)
        case "write_file":
            after[_path(request.file)] = _text(request.content)
        case "remove_file":
            _remove(_path(request.file, after), after)
    if after == (files or {}):
        raise BadChange("Nothing would change.")
    check(request.name, after)
    return after


def check(name: str, files: Files) -> None:
    """Raise BadChange for files that are not a valid skill."""
    try:
        parse_bytes(files[SKILL_FILE], name, strict=True)
    except SkillError as error:
        raise BadChange(f"That would not be a valid skill: {error}. Nothing was changed.") from error


def _text(content: str) -> bytes:
    if not content.strip():
        raise BadChange("Give the content: the whole text of the file.")
    if len(content) > LARGEST_TEXT:
        raise BadChange(FILE_TOO_LONG)
    return (content if content.endswith("\n") else f"{content}\n").encode("utf-8", "replace")


def _path(file: str, known: Files | None = None) -> str:
    """A checked path within the skill. known: existing files, which may be anywhere."""
    path = posixpath.normpath(file.strip()) if file.strip() else ""
    if path == SKILL_FILE or path in (known or {}) or path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
        return path
    raise BadChange(f"Give the file's path within the skill: {SKILL_FILE}, or one below {', '.join(FOLDERS)}.")


def _patched(request: Request, path: str, files: Files) -> bytes:
    try:
        text = files[path].decode("utf-8")
    except KeyError:
        raise BadChange(f"There is no {path} in this skill.") from None
    except UnicodeDecodeError:
        raise BadChange(f"{path} is not text.") from None
    count = text.count(request.old) if request.old else 0
    if count == 0:
        raise BadChange(f"The text `old` is not in {path}. Copy it exactly, with all spaces.")
    if count > 1 and not request.replace_all:
        raise BadChange(f"The text `old` is in {path} {count} times. Give more of the text, or set replace_all.")
    if len(text) + count * (len(request.new) - len(request.old)) > LARGEST_TEXT:
        raise BadChange(FILE_TOO_LONG)
    return _text(text.replace(request.old, request.new))


def _remove(path: str, files: dict[str, bytes]) -> None:
    if path == SKILL_FILE:
        raise BadChange("A skill needs its SKILL.md. Use delete to remove the whole skill.")
    if files.pop(path, None) is None:
        raise BadChange(f"There is no {path} in this skill.")


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned change. after: None: the skill is deleted. verdict: None for a deletion."""

    home: SkillHome
    request: Request
    before: Standing
    after: Files | None
    verdict: Verdict | None
    difference: str

    @property
    def shown(self) -> str:
        """Text for the person who decides: the changes, and the results of the check."""
        where = "shared" if self.home.origin == "custom" else "own"
        lines = [f"{self.request.action} {self.request.name} ({where})"]
        lines += [f"why: {self.request.reason[:LONGEST_REASON]}"] if self.request.reason else []
        if self.verdict is not None:
            lines.append(f"check: {self.verdict.level}")
            lines += [f"- {reason}" for reason in self.verdict.reasons[:MOST_REASONS] if self.verdict.level]
        return "\n".join([*lines, "", self.difference])


class SkillManager:
    """Plans and makes changes to skills. judge: None: only the static rules check them, no model."""

    def __init__(self, editing: SkillEditing, judge: Judge | None, clock: Clock) -> None:
        self._editing = editing
        self._judge = judge
        self._clock = clock

    async def plan(self, ctx: RunContext, request: Request, *, shared: bool, tell: TellUsage | None) -> Plan:
        """The planned change. tell: None: call no model. Raises BadChange, also for blocked content."""
        home = self._editing.home(ctx, shared)
        before = await self._standing(home, request.name)
        if request.action == "create":
            taken = await asyncio.to_thread(self._editing.taken, ctx, shared)
            if request.name in taken:
                raise BadChange(f"{request.name} is the name of another skill. Choose another one.")
            if alike := lookalikes(request.name, taken):
                raise BadChange(f"{alike[0].message}. Choose another one.")
        after = await asyncio.to_thread(_after, home, request, before)
        verdict = await self._verdict(home, request, after, tell) if after is not None else None
        if verdict is not None and verdict.level is Level.BLOCK:
            raise BadChange(_refusal(verdict))
        difference = await asyncio.to_thread(_difference, before.files or {}, after)
        if request.action not in ("rollback", "delete") and not shows_whole(difference):
            raise BadChange(TOO_LONG)
        return Plan(home, request, before, after, verdict, difference)

    async def _verdict(self, home: SkillHome, request: Request, after: Files, tell: TellUsage | None) -> Verdict:
        """Check the new content; a rollback needs no model, since the verdict on that version still holds."""
        if request.action != "rollback":
            return await checked(self._judge, request.name, after, home.history, tell)
        verdict = await asyncio.to_thread(scan_files, after)
        versions = await asyncio.to_thread(home.versions.versions, request.name)
        return _as_before(verdict, next(each for each in versions if each.number == request.version))

    async def state(self, ctx: RunContext, request: Request, call: str, *, shared: bool) -> str:
        """The state that a change depends on, without its arguments. The call that made a change still sees the state
        before it, so it can be repeated if it is unknown whether it was made."""
        home = self._editing.home(ctx, shared)
        before = await self._standing(home, request.name)
        made = await asyncio.to_thread(_made_by, home, request.name, call)
        return f"{home.origin}:{before.digest if made is None else made.base}"

    async def carry_out(self, ctx: RunContext, request: Request, call: str, *, shared: bool) -> Written:
        """Make the change, once per call. Raises BadChange."""
        home = self._editing.home(ctx, shared)
        made = await asyncio.to_thread(_made_by, home, request.name, call)
        if made is not None and (await self._standing(home, request.name)).digest == made.digest:
            versions = await asyncio.to_thread(home.versions.versions, request.name)
            return Written(made, newest_with(versions, made.base), made.level != "allow")
        plan = await self.plan(ctx, request, shared=shared, tell=None)
        at = self._clock.now().isoformat(timespec="seconds")
        reason = " ".join(request.reason.split())[:LONGEST_REASON]
        change = Version(at=at, action=request.action, author=ctx.speaker.id, reason=reason, call=call)
        try:
            return await asyncio.to_thread(_make, plan, change)
        except Changed as error:
            raise BadChange(f"Nothing was changed: {error}. Read it again.") from error
        except (SkillError, OSError) as error:
            detail = error.strerror if isinstance(error, OSError) else str(error)
            raise BadChange(f"Nothing was changed: {detail}.") from error

    async def versions(self, ctx: RunContext, name: str, *, shared: bool) -> list[Version]:
        """Versions of a skill, oldest first. Raises BadChange."""
        home = self._editing.home(ctx, shared)
        await self._standing(home, name)
        try:
            return await asyncio.to_thread(home.versions.versions, name)
        except SkillError as error:
            raise BadChange(f"{error}.") from error

    async def compared(self, ctx: RunContext, name: str, number: int, *, shared: bool) -> str:
        """Difference between a version and the skill's current state. Raises BadChange."""
        home = self._editing.home(ctx, shared)
        now = await self._standing(home, name)
        request = Request(action="rollback", name=name, version=number)
        return diff(await asyncio.to_thread(_version, home, request), now.files or {})

    async def _standing(self, home: SkillHome, name: str) -> Standing:
        try:
            return await asyncio.to_thread(standing, home, name)
        except SkillError as error:
            raise BadChange(f"{error}.") from error


def _after(home: SkillHome, request: Request, before: Standing) -> Files | None:
    """Files after the change, None if it deletes the skill. Raises BadChange."""
    if request.action == "delete":
        if not before.digest:
            raise BadChange(f"There is no skill {request.name} here.")
        return None
    if request.action != "rollback":
        return content_after(request, before.files)
    after = _version(home, request)
    if after == before.files:
        raise BadChange(f"{request.name} is already as in version {request.version}.")
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
        raise BadChange(f"There is no version {request.version} of {request.name} to go back to. See history.")
    return files


def _as_before(verdict: Verdict, version: Version) -> Verdict:
    """Verdict on a former version: today's rules, but an administrator's approval still holds."""
    if verdict.level is Level.BLOCK:
        return verdict
    if version.approved_by:
        return replace(verdict, level=Level.ALLOW)
    return replace(verdict, level=max(verdict.level, Level.WARN if version.level == str(Level.WARN) else Level.ALLOW))


def _make(plan: Plan, change: Version) -> Written:
    home, name, base = plan.home, plan.request.name, plan.before.digest
    if plan.after is None or plan.verdict is None:
        return remove(home, name, base=base, change=change)
    return write(home, name, plan.after, base=base, change=change, verdict=plan.verdict)


def _made_by(home: SkillHome, name: str, call: str) -> Version | None:
    """The newest version if this call made it."""
    try:
        versions = home.versions.versions(name)
    except SkillError:
        return None
    return versions[-1] if versions and versions[-1].call == call else None


def _refusal(verdict: Verdict) -> str:
    reasons = "; ".join(verdict.reasons[:MOST_REASONS])
    return f"This must not be kept; nothing was changed: {reasons}. Do not try to get it past this check."
