"""/skills: list and describe skills, and turn them off and on in a conversation."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from bot.commands.group import CommandGroup, log_act
from bot.control.actions import Action, log_action
from bot.store import conversations
from bot.texts.markdown import inline, plain
from harness.skills.document import LONGEST_DESCRIPTION, SkillError
from harness.skills.files import BROKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.skills.service import SkillService
    from bot.store.rows import ConversationRow
    from bot.texts.command_line import Call
    from harness.skills.document import SkillDocument
    from harness.skills.library import Skill, SkillProblem, SkillView

LONGEST_TOLD = 90
MOST_PROBLEMS = 20
MOST_OFF = 500
"""Maximum number of names that a conversation remembers as turned off."""
ON, OFF = "on", "off"
DIGEST_SHOWN = 12


class SkillCommands(CommandGroup):
    """The /skills command. agent_of: the agent that answers in a conversation."""

    def __init__(self, answers: Answers, skills: SkillService, agent_of: Callable[[ConversationRow], str]) -> None:
        super().__init__(answers)
        self._service = skills
        self._agent_of = agent_of
        self.commands = {"skills": self._skills}

    async def _skills(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        verb, *names = call.line.arguments.split() or [""]
        view = self._service.view(row.owner, self._agent_of(row))
        if verb.lower() == ON and names and names[0] in view.waiting:
            await self._turn_on(call, row, view, *names[:2])
        elif verb.lower() in (ON, OFF) and names:
            await self._switch(conversation, call, row, view, verb.lower() == ON, names)
        elif verb in view.waiting and view.get(verb) is None:
            await self._turn_on(call, row, view, verb)
        elif verb:
            await self._answers.say(call, self._described(call, row, view, verb), "/skills")
        else:
            await self._answers.say(call, self._listed(call, row, view), "/skills")

    async def _switch(
        self, conversation: Conversation, call: Call, row: ConversationRow, view: SkillView, on: bool, names: list[str]
    ) -> None:
        """Turn all of the names on or off, or none."""
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        words, disabled = call.texts.skills, self._service.disabled
        for name in names:
            if view.get(name) is None:
                return await self._answers.say(call, _unknown(call, view, name), "/skills")
            if on and name in disabled:
                return await self._answers.say(call, words["disabled"].format(name=name), "/skills")
        off = set(row.skills_off) - set(names) if on else set(row.skills_off) | set(names)
        # Names that this agent does not have now may become available again, but only so many are kept.
        kept = off if len(off) <= MOST_OFF else {name for name in off if view.get(name) is not None}
        text = words["switched_on" if on else "switched_off"].format(names=", ".join(f"`{name}`" for name in names))

        await self._answers.say(call, text, "/skills", lambda tx: conversations.set_skills_off(tx, row.key, kept))
        conversation.forget_row()
        log_act(Action.SKILLS_ON if on else Action.SKILLS_OFF, call, conversation, what=", ".join(names))

    async def _turn_on(
        self, call: Call, row: ConversationRow, view: SkillView, name: str, shown_digest: str = ""
    ) -> None:
        """Turn on a waiting skill; an administrator approves exactly the content that was shown."""
        words, (origin, waiting) = call.texts.skills, view.waiting[name]
        if not call.is_admin:
            return await self._answers.say(call, words["waiting_not_yours"].format(name=name), "not allowed")
        digest = waiting.digest
        done = False
        if shown_digest and digest[:DIGEST_SHOWN] == shown_digest.lower():
            try:
                done = await self._service.turn_on(origin, name, digest, owner=row.owner, admin=call.person)
            except SkillError as error:
                return await self._answers.say(call, f"⚠️ {plain(str(error))}", "/skills")
        if done:
            about = {"account": call.message.account, "conversation": row.key}
            log_action(Action.SKILL_APPROVE, call.person, **about, what=f"{name} {digest[:DIGEST_SHOWN]}")
            return await self._answers.say(call, words["turned_on"].format(name=name), "/skills")
        reasons = "\n".join(f"- {plain(reason)}" for reason in waiting.reasons)
        if digest in ("", BROKEN):  # unreadable content cannot be approved
            return await self._answers.say(call, f"{words['problems']}\n{reasons}", "/skills")
        text = words["waiting_ask"].format(name=name, reasons=reasons, digest=digest[:DIGEST_SHOWN])
        await self._answers.say(call, text, "/skills")

    def _listed(self, call: Call, row: ConversationRow, view: SkillView) -> str:
        words = call.texts.skills
        settings = self._service.settings
        if not settings.enabled:
            return words["none_at_all"]
        if not self._service.works():
            return words["no_sandbox"]
        off, disabled = set(row.skills_off), self._service.disabled
        on = [skill for skill in view.skills if skill.name not in off | disabled]
        lines = [_line(call, skill) for skill in on]
        not_on = [skill for skill in view.skills if skill.name in off | disabled]
        lines += [words["line_disabled" if s.name in disabled else "line_off"].format(name=s.name) for s in not_on]
        lines += [words["line_waiting"].format(name=name) for name in sorted(view.waiting)]
        head = words["head"].format(count=len(on)) if lines else words["none"]
        blocks = ["\n".join([head, *lines]), *([words["hint"]] if lines else [])]
        if problems := self._problems(call, view):
            blocks.append("\n".join([words["problems"], *problems]))
        return "\n\n".join(blocks)

    def _problems(self, call: Call, view: SkillView) -> list[str]:
        """Problems that the person may see: all for an administrator, else those of their own skills."""
        told = [problem for problem in view.problems if call.is_admin or _is_own(call, problem)]
        more = [call.texts.skills["more"].format(count=len(told) - MOST_PROBLEMS)] if len(told) > MOST_PROBLEMS else []
        return [f"- {plain(str(problem))}" for problem in told[:MOST_PROBLEMS]] + more

    def _described(self, call: Call, row: ConversationRow, view: SkillView, name: str) -> str:
        skill = view.get(name)
        if skill is None:
            return _unknown(call, view, name)
        words, document = call.texts.skills, skill.document
        state = "disabled_state" if name in self._service.disabled else OFF if name in row.skills_off else ON
        facts = [
            words["place"].format(place=words[skill.origin] + (f" (`{skill.place}`)" if "/" in skill.place else "")),
            words["state"].format(state=words[state]),
            *([words["version"].format(version=plain(document.version))] if document.version else []),
            *([words["author"].format(author=plain(document.author))] if document.author else []),
            *([words["license"].format(license=plain(document.license))] if document.license else []),
        ]
        if document.allowed_tools is not None:
            tools = ", ".join(f"`{inline(tool)}`" for tool in document.allowed_tools) or "–"
            facts.append(words["tools"].format(tools=tools))
        return f"**{skill.name}**: {plain(_told(document, call.language))}\n\n" + "\n".join(
            f"- {fact}" for fact in facts
        )


def _is_own(call: Call, problem: SkillProblem) -> bool:
    return problem.origin == "mine" and call.message.address.kind == "dm"


def _line(call: Call, skill: Skill) -> str:
    words, told = call.texts.skills, _told(skill.document, call.language)
    if len(told) > LONGEST_TOLD:
        end = max(told.rfind(sign, 1, LONGEST_TOLD) for sign in " ，、；：。")
        told = told[: end if end > 0 else LONGEST_TOLD].rstrip(" ,;:.，、；：。") + "…"
    place = "" if skill.origin == "public" else words["mark"].format(place=words[skill.origin])
    return words["line"].format(name=skill.name, detail=plain(told), place=place)


def _told(document: SkillDocument, language: str) -> str:
    """The skill's description, in the person's language if its metadata has one."""
    translated = document.metadata.get(f"description-{language}")
    said = " ".join(translated.split())[:LONGEST_DESCRIPTION] if isinstance(translated, str) else ""
    return said or document.description


def _unknown(call: Call, view: SkillView, name: str) -> str:
    known: Sequence[str] = [skill.name for skill in view.skills]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    text = call.texts.skills["unknown"].format(name=inline(name))
    return text + (call.texts.did_you_mean.format(suggestion=f"`{near[0]}`") if near else "")
