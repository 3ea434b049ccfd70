"""/research: its state, and what it says where the agent has nothing to do. A question itself goes to the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.runs.research import BadOption, asked
from bot.texts.markdown import inline, plain
from harness.research.config import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bot.commands.group import Answers, ButtonKind, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.runs.manager import RunManager
    from bot.texts.command_line import Call
    from harness.context import ResearchView


class ResearchCommands:
    """problem: why there is no research here, a key of Texts.research; "" where there is."""

    def __init__(self, answers: Answers, runs: RunManager, problem: Callable[[], str]) -> None:
        self._answers = answers
        self._runs = runs
        self._problem = problem
        self.commands: Mapping[str, CommandHandler] = {"research": self._research}
        self.buttons: Mapping[str, ButtonKind] = {}

    async def is_for_agent(self, conversation: Conversation, call: Call) -> bool:
        """Whether the agent is to hear a use of the command, as anything else that is said to it."""
        try:
            request = asked(call.line) if not self._problem() else None
        except BadOption:
            return False
        if request is None or not request[0].resumes:
            return request is not None
        known = await self._known(conversation)
        return known is not None and known.can_resume and not conversation.busy

    async def _research(self, conversation: Conversation, call: Call) -> None:
        """What is not for the agent."""
        words = call.texts.research
        if problem := self._problem():
            return await self._answers.say(call, words[problem], "no research")
        try:
            resumes = asked(call.line) is not None
        except BadOption as error:
            styles = ", ".join(f"`{style}`" for style in Style)
            text = words[error.key].format(value=inline(error.value), styles=styles)
            return await self._answers.say(call, text, "bad option")
        if resumes:
            key = "busy" if conversation.busy else "nothing_to_resume"
            return await self._answers.say(call, words[key], "/research")
        known = await self._known(conversation)
        text = _told(known, words) if known is not None else words["none"]
        await self._answers.say(call, f"{text}\n\n{words['usage']}", "/research")

    async def _known(self, conversation: Conversation) -> ResearchView | None:
        stored = await conversation.stored()
        return None if stored is None else await self._runs.research(stored.thread_id)


def _told(known: ResearchView, words: Mapping[str, str]) -> str:
    """The research of a thread: its question, how far it is, its steps."""
    ended = sum(bool(state) for _, state in known.steps)
    lines = [
        words["status_head"].format(
            title=plain(known.title or known.question[:200]), phase=words[f"phase_{known.phase}"]
        )
    ]
    lines += [f"{words['mark_' + (state or 'open')]} {plain(title)}" for title, state in known.steps]
    if known.steps:
        lines.append(words["status_facts"].format(ended=ended, steps=len(known.steps), sources=known.sources))
    if known.can_resume:
        lines.append(words["resume_hint"])
    return "\n".join(lines)
