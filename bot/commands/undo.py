"""/undo: the agent forgets the last exchange. /compact: what is older in the thread becomes a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store import runs
from bot.texts.markdown import inline
from bot.usage.budgets import Payer
from harness.context import RUN_INPUT
from harness.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers, ButtonKind, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.runs.manager import RunManager
    from bot.store.retrying import PatientStore
    from bot.store.rows import RunRow
    from bot.texts.command_line import Call
    from bot.usage.budgets import Budgets


class UndoCommands:
    def __init__(
        self, answers: Answers, store: PatientStore, manager: RunManager, budgets: Budgets, agents: AgentChoices
    ) -> None:
        self._answers = answers
        self._store = store
        self._runs = manager
        self._budgets = budgets
        self._agents = agents
        self.commands: Mapping[str, CommandHandler] = {"undo": self._undo, "compact": self._compact}
        self.buttons: Mapping[str, ButtonKind] = {}

    async def _undo(self, conversation: Conversation, call: Call) -> None:
        """The agent forgets first, then the store: after a crash in between the event comes again, and so does this."""
        texts = call.texts
        if conversation.busy:
            return await self._answers.say(call, texts.undo["busy"], "/undo")
        last = await self._last_kept(conversation)
        if last is None:
            return await self._answers.say(call, texts.undo["nothing"], "/undo")
        if last.speaker != call.person and not call.is_admin:
            return await self._answers.say(call, texts.undo["not_yours"], "not allowed")
        try:
            await self._runs.rewind(last)
        except LookupError:  # pruned
            return await self._answers.say(call, texts.undo["lost"], "/undo")
        text = texts.undo["done"].format(text=_first_words(last))
        await self._answers.say(call, text, "/undo", also=lambda tx: runs.undo(tx, last))

    async def _last_kept(self, conversation: Conversation) -> RunRow | None:
        known = await conversation.stored()
        if known is None:
            return None
        return await self._store.read(lambda tx: runs.last_kept(tx, known.key, known.thread_id))

    async def _compact(self, conversation: Conversation, call: Call) -> None:
        texts = call.texts
        if not call.may_control:
            return await self._answers.say(call, texts.not_allowed, "not allowed")
        if conversation.busy:
            return await self._answers.say(call, texts.undo["busy"], "/compact")
        row = await conversation.row(call.message)
        payer = Payer(conversation.key, call.person, thread_id=row.thread_id)
        if (refused := await self._budgets.refusal(payer, texts)) is not None:
            return await self._answers.say(call, refused[1], "/compact")
        try:
            gone = await self._runs.compact(payer, self._agents.model_of(row))
        except HarnessError:
            return await self._answers.say(call, texts.compact["failed"], "/compact")
        text = texts.compact["done"].format(count=gone) if gone else texts.compact["nothing"]
        await self._answers.say(call, text, "/compact")


def _first_words(run: RunRow) -> str:
    said = RUN_INPUT.validate_json(run.input)
    return inline(said.text.strip() or ", ".join(file.name for file in said.files)) or "…"
