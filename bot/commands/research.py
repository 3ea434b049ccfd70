"""/research: its state, and all uses that do not involve the agent. A question itself goes to the agent.

Also the buttons below a report: a press sends the person's request to make something of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act, said_by
from bot.control.actions import Action
from bot.delivery.buttons import DEEPER, OFFER, offered
from bot.runs.research import DEFAULT, BadOption, asked, chosen_style, said_of_offer, told_of
from bot.settings.busy_policies import Busy
from bot.store import conversations, runs
from bot.store.rows import RunState
from bot.texts.commands import unmarked
from bot.texts.markdown import inline, plain
from channels.message import OutboundMessage
from harness.research.config import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.delivery.buttons import Offered
    from bot.delivery.presented import Presented
    from bot.runs.manager import RunManager
    from bot.store.retrying import RetryingStore
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Call, Press
    from bot.usage.days import Days
    from harness.context import ResearchView


SHOWN = 30
"""Maximum number of a conversation's threads whose research is listed."""
TYPES = {"report.md": "text/markdown", "record.json": "application/json"}


class ResearchCommands(CommandGroup):
    """The /research command. problem: why research is unavailable, a key of Texts.research; "" if it is available.
    usual: the configured style. days: of chats without a chosen time zone. files: keeps exports until delivery."""

    def __init__(
        self,
        answers: Answers,
        runs: RunManager,
        problem: Callable[[], str],
        usual: Callable[[], Style],
        *,
        store: RetryingStore,
        days: Days,
        files: Presented,
    ) -> None:
        super().__init__(answers)
        self._runs = runs
        self._problem = problem
        self._usual = usual
        self._store = store
        self._days = days
        self._files = files
        self.commands = {"research": self._research}
        self.buttons = {OFFER: ButtonKind(self._pressed, self._is_open)}

    async def is_for_agent(self, conversation: Conversation, call: Call) -> bool:
        """Whether a use of the command goes to the agent like any other message."""
        try:
            request = asked(call.line) if not self._problem() else None
        except BadOption:
            return False
        if request is None or not request[0].resumes:
            return request is not None
        known = await self._known(conversation)
        return known is not None and known.can_resume and not conversation.busy

    async def _research(self, conversation: Conversation, call: Call) -> None:
        """Handle the uses that are not for the agent."""
        words = call.texts.research
        if problem := self._problem():
            return await self._answers.say(call, words[problem], "no research")
        try:
            resumes = asked(call.line) is not None
        except BadOption as error:
            return await self._bad(call, error)
        if resumes:
            key = "busy" if conversation.busy else "nothing_to_resume"
            return await self._answers.say(call, words[key], "/research")
        match told_of(call.line):
            case ("list", _):
                await self._list(conversation, call)
            case ("export", _):
                await self._export(conversation, call)
            case ("style", named):
                await self._style(conversation, call, named)
            case _:
                known = await self._known(conversation)
                text = _told(known, words) if known is not None else words["none"]
                await self._answers.say(call, f"{text}\n\n{words['usage']}", "/research")

    async def _bad(self, call: Call, error: BadOption) -> None:
        styles = ", ".join(f"`{style}`" for style in Style)
        text = call.texts.research[error.key].format(value=inline(error.value), styles=styles)
        await self._answers.say(call, text, "bad option")

    async def _list(self, conversation: Conversation, call: Call) -> None:
        """List the research of the conversation's threads, newest first."""
        words, row = call.texts.research, await conversation.row(call.message)
        threads = await self._store.read(lambda tx: conversations.threads_of(tx, row, SHOWN))
        lines: list[str] = []
        days = self._days.of(row)
        for thread in threads:
            known = await self._runs.research(thread.thread_id)
            if known is None:
                continue
            newest = (known.title or known.question[:200], known.phase, known.sources)
            here = words["list_here"] if thread.thread_id == row.thread_id else days.told(thread.last_at)
            for title, phase, sources in (newest, *reversed(known.past)):
                told = words["list_line"].format(title=plain(title), phase=words[f"phase_{phase}"], sources=sources)
                lines.append(f"{len(lines) + 1}. {told} · {here}")
        text = "\n".join([words["list_head"], *lines, "", words["list_hint"]]) if lines else words["none_at_all"]
        await self._answers.say(call, text, "/research list")

    async def _export(self, conversation: Conversation, call: Call) -> None:
        """Send the thread's newest research as files: the report with the findings, and the whole record."""
        words, stored = call.texts.research, await conversation.stored()
        found = await self._runs.research_files(stored.thread_id) if stored is not None else None
        if found is None:
            return await self._answers.say(call, words["none"], "/research export")
        contents = {"report.md": found.markdown, "record.json": found.record}
        async with self._files.written(f"event:{call.event_id}", contents, TYPES, instead=found.markdown) as files:
            message = OutboundMessage(text=words["exported"], files=files, final=True)
            await self._answers.show(call, message, "/research export")

    async def _style(self, conversation: Conversation, call: Call, named: str) -> None:
        """Show, choose or reset the style of the conversation's reports."""
        words, row = call.texts.research, await conversation.row(call.message)
        styles = ", ".join(f"`{style}`" for style in Style)
        if not named:
            text = words["style_shown"].format(style=row.research_style or self._usual(), styles=styles)
            return await self._answers.say(call, text, "/research style")
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        try:
            chosen = chosen_style(named)
        except BadOption as error:
            return await self._bad(call, error)
        text = words["style_changed"].format(style=chosen or self._usual())
        await self._answers.choose(call, conversation, "research_style", chosen, text, "/research style")
        log_act(Action.RESEARCH_STYLE, call, conversation, what=chosen or DEFAULT)

    # Offers below a report.

    async def _is_open(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        offer = offered(prompt, press.option)
        return offer is not None and not await self._why_not(conversation, prompt, press, offer)

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Handle a press. The buttons stay: each can be used once."""
        offer = offered(prompt, press.option)
        if offer is None:  # from another version
            await self._answers.nothing(press.event_id, "button refused")
            return press.texts.button_expired
        refusal = await self._why_not(conversation, prompt, press, offer)
        if not refusal:
            text = unmarked(press.texts.offer_says[offer.what])
            text = text.format(report=said_of_offer(offer.title, offer.path))
            # It waits for its turn, whatever the chat's busy policy: a button never stops an answer.
            quiet = replace(press, turns=replace(press.turns, busy=Busy.QUEUE, join=0.0))
            said = replace(said_by(quiet, text, self._store.clock.now()), offer=f"{prompt.id}:{press.option}")
            if offer.what != DEEPER and not await conversation.calls_skill(said.message):
                refusal = press.texts.pressed["not_here"]
            elif not await conversation.hear_offer(said):
                refusal = press.texts.pressed["making"]
        if refusal:
            await self._answers.nothing(press.event_id, "button refused")
            return refusal
        return "" if press.typed else f"☑ {press.texts.offers[offer.what]} · {press.texts.working}"

    async def _why_not(self, conversation: Conversation, prompt: PromptRow, press: Press, offer: Offered) -> str:
        """Why a press starts nothing, as a sentence; "" if it does."""
        texts, stored = press.texts, await conversation.stored()
        if not press.may_speak:
            return texts.not_allowed
        if offer.what == DEEPER and (problem := self._problem()):
            return texts.research[problem]
        of, last = await self._store.read(
            lambda tx: (runs.load(tx, prompt.run_id or ""), runs.load(tx, offer.run_id) if offer.run_id else None)
        )
        if of is None or stored is None or of.thread_id != stored.thread_id:
            return texts.pressed["other_thread"]  # the report's file is in that thread
        if not offer.run_id:
            return ""
        if last is None or last.state is RunState.SUCCESS:
            return texts.pressed["made"]
        return "" if last.state.ended else texts.pressed["making"]

    async def _known(self, conversation: Conversation) -> ResearchView | None:
        stored = await conversation.stored()
        return None if stored is None else await self._runs.research(stored.thread_id)


def _told(known: ResearchView, words: Mapping[str, str]) -> str:
    """Describe a thread's research: its question, its progress, its steps."""
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
