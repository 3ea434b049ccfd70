"""skill_manage: the agent creates, changes and restores skills; a person is shown each change first."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from langchain_core.tools import tool
from pydantic import TypeAdapter, ValidationError

from harness.graph.calls import IDEMPOTENT, place_of
from harness.graph.messages import usage_event
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import Told, scope_of, tell
from harness.guardrails.approvals import PROPOSES, Proposal, Refused
from harness.memory.taint import ALL, LASTS
from harness.models.build import DEMO
from harness.skills.judge import Judge
from harness.skills.managing import BadChange, Request, SkillManager
from harness.text.plain import clean_text
from sandbox.base import SKILLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.tools import BaseTool

    from harness.graph.signals import HasWriter
    from harness.guardrails.approvals import Proposing
    from harness.models.health import ModelHealth
    from harness.models.pool import ModelPool
    from harness.ports import Clock
    from harness.skills.editing import Written
    from harness.skills.history import Version
    from harness.skills.judge import TellUsage
    from harness.skills.library import SkillEditing

log = logging.getLogger(__name__)

SKILL_MANAGE = "skill_manage"
MOST_VERSIONS_TOLD = 20
LONGEST_DIFFERENCE = 15_000
ONLY_ADMINS = (
    "Shared skills are for everybody, so an administrator has to agree, and none can be asked here. Keep it as the "
    "person's own skill, or tell the person to ask for it in a group with an administrator."
)
NOT_A_PERSON = "Only a person can have skills changed, and this message was sent anonymously or in the name of a chat."
DESCRIPTION = f"""\
Keep a workflow as a skill, so that it is there in later conversations, or change one; only when the person asks for it
or agreed to it. After work of many steps that is likely to recur you may offer it. Skills of the person are own
ones ({SKILLS}/mine), those of everybody here shared ones ({SKILLS}/custom); the built-in ones cannot be changed. What
would change is checked and shown to the person, who has to agree.
- create: name, content (the whole SKILL.md: front matter with name and description, which says when to use it; then the
  workflow, below 500 lines; nothing secret, nothing about individual people)
- edit: name, content (the whole new SKILL.md). patch: name, old, new, and file unless it is SKILL.md
- write_file, remove_file: name, file (below references/, scripts/ or assets/), content
- delete: name. rollback: name, version
- history: name. diff: name, version (from it to the current one)"""

Action = Literal["create", "edit", "patch", "delete", "write_file", "remove_file", "rollback", "history", "diff"]
_REQUEST: TypeAdapter[Request] = TypeAdapter(Request)
READING = frozenset({"history", "diff"})


@dataclass(frozen=True, slots=True)
class SkillManaging:
    """The tool, and the proposals that the guardrail shows for its calls."""

    tool: BaseTool
    proposing: Proposing


def skill_managing(editing: SkillEditing, models: ModelPool, clock: Clock, health: ModelHealth) -> SkillManaging:
    """The tool with its judging model; the demo model judges nothing."""
    name = editing.model or models.default
    judge = None if models.settings(name).use == DEMO else Judge(lambda: models.built(name), name, clock, health)
    manager = SkillManager(editing, judge, clock)
    return SkillManaging(skill_manage_tool(manager), SkillProposals(manager))


def skill_manage_tool(manager: SkillManager) -> BaseTool:
    """The tool. A call makes its change only once, so it may be repeated."""

    @tool(SKILL_MANAGE, description=DESCRIPTION)
    async def skill_manage(
        action: Action,
        name: Annotated[str, "Name of the skill: a-z, 0-9 and hyphens"],
        runtime: Runtime,
        scope: Annotated[Literal["own", "shared"], "Whose skill it is"] = "own",
        content: str = "",
        file: Annotated[str, "Path within the skill's folder"] = "",
        old: Annotated[str, "The text to replace, exactly"] = "",
        new: str = "",
        replace_all: bool = False,
        version: int = 0,
        reason: Annotated[str, "Why, in one sentence, for the history"] = "",
    ) -> Answer:
        ctx, shared = scope_of(runtime).ctx, scope == "shared"
        try:
            if action == "history":
                return done(runtime, SKILL_MANAGE, _history(await manager.versions(ctx, name, shared=shared)))
            if action == "diff":
                text = await manager.compared(ctx, name, version, shared=shared)
                return done(runtime, SKILL_MANAGE, text[:LONGEST_DIFFERENCE] or "There is no difference.")
            given = {"content": content, "file": file, "old": old, "new": new, "replace_all": replace_all}
            more = {"action": action, "name": name, "version": version, "reason": reason}
            request, _ = _request(given | more)
            made = await manager.carry_out(ctx, request, place_of(runtime), shared=shared)
        except BadChange as error:
            return failed(runtime, SKILL_MANAGE, str(error))
        return done(runtime, SKILL_MANAGE, _told(request, made, shared=shared))

    skill_manage.metadata = {IDEMPOTENT: True, PROPOSES: True, LASTS: ALL}
    return skill_manage


class SkillProposals:
    """Proposals of skill_manage's calls (harness.guardrails.approvals.Proposing)."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    async def state(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> str:
        try:
            request, shared = _request(args)
            return await self._manager.state(scope_of(runtime).ctx, request, call, shared=shared)
        except (BadChange, OSError):
            return ""  # the proposal says why

    async def proposal(self, runtime: HasWriter, args: Mapping[str, Any], call: str) -> Proposal | Refused | None:
        if args.get("action") in READING:
            return None
        ctx = scope_of(runtime).ctx
        try:
            request, shared = _request(args)
            if not ctx.speaker.is_person:
                return Refused(NOT_A_PERSON)
            if shared and not (ctx.is_group or ctx.speaker.is_admin):
                return Refused(ONLY_ADMINS)
            plan = await self._manager.plan(ctx, request, shared=shared, tell=_teller(runtime))
        except BadChange as error:
            return Refused(str(error))
        except OSError as error:
            log.error("change of a skill could not be checked", exc_info=error)
            return Refused(f"Nothing was changed: {os.strerror(error.errno or 0)}. An operator has to fix it.")
        return Proposal(plan.shown, admins_only=shared)


def _request(args: Mapping[str, Any]) -> tuple[Request, bool]:
    """The change, and whether it is to a shared skill, from the model's arguments. Raises BadChange."""
    known = {name: value for name, value in args.items() if name in Request.__dataclass_fields__}
    try:
        request = _REQUEST.validate_python(known)
    except ValidationError as error:
        problems = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise BadChange(f"The arguments are wrong: {problems}") from error
    return _clean(request), args.get("scope") == "shared"


def _clean(request: Request) -> Request:
    return replace(
        request, content=clean_text(request.content), old=clean_text(request.old), new=clean_text(request.new)
    )


def _teller(runtime: HasWriter) -> TellUsage:
    def told(model: str, usage: UsageMetadata) -> None:
        tell(runtime, Told(usage_event(model, usage)))

    return told


def _told(request: Request, made: Written, *, shared: bool) -> str:
    whose = "shared" if shared else "own"
    what = {"create": "is kept", "delete": "is deleted", "rollback": f"is as it was in version {request.version}"}
    lines = [f"The {whose} skill {request.name} {what.get(request.action, 'is changed')}."]
    if made.pending:
        lines.append(
            f"It stays off until an administrator turns it on, with /skills on {request.name} in this chat or on the "
            f"machine with antler skills waiting, because: {'; '.join(made.version.findings[:3])}. Tell the person."
        )
    elif request.action != "delete":
        lines.append("It is used from the next message on.")
    undo = f'action "rollback", version {made.before}' if made.before is not None else 'action "delete"'
    lines.append(f"This is version {made.version.number}. To undo it: {SKILL_MANAGE} with {undo}, scope {whose}.")
    return " ".join(lines)


def _history(versions: list[Version]) -> str:
    lines = [_line(version) for version in reversed(versions[-MOST_VERSIONS_TOLD:])]
    return "\n".join(lines) or "No such skill is known here."


def _line(version: Version) -> str:
    why = f": {version.reason}" if version.reason else ""
    by = f" by {version.author}" if version.author else ""
    check = f", {version.level}" if version.level != "allow" else ""
    return f"{version.number}: {version.action} at {version.at}{by}{check}{why}"
