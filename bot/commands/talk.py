"""/new, /stop, /status, /whoami and /help: a person's own conversation.

In a DM everything for oneself; in a group /status, /help and /whoami for everybody, /stop for one's own runs, /new by
`group_control`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store import conversations
from bot.store.identity import chat_id
from bot.store.rows import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from bot.agents.profiles import AgentChoices
    from bot.commands.group import Answers, ButtonKind, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.operations.status import StatusPage
    from bot.texts.catalogue import Texts
    from bot.texts.command_line import Call
    from channels.base import Clock


class TalkCommands:
    """agents: what answers in a conversation."""

    def __init__(
        self,
        answers: Answers,
        status: StatusPage,
        agents: AgentChoices,
        clock: Clock,
    ) -> None:
        self._answers = answers
        self._status = status
        self._agents = agents
        self._clock = clock
        self.commands: Mapping[str, CommandHandler] = {
            "new": self._new,
            "stop": self._stop,
            "status": self._show_status,
            "whoami": self._whoami,
            "help": self._help,
        }
        self.buttons: Mapping[str, ButtonKind] = {}

    async def _new(self, conversation: Conversation, call: Call) -> None:
        if not call.may_control:
            return await self._answers.say(call, call.texts.not_allowed, "not allowed")
        stopped = conversation.stop_active(StopReason.NEW_THREAD)
        stop = conversation.stop_unit(StopReason.NEW_THREAD)
        dropped = await conversation.drop_waiting(lambda texts: texts.dropped_by_new)
        await conversation.row(call.message)
        title, texts = " ".join(call.line.arguments.split())[:100], call.texts
        text = texts.new_thread_titled.format(title=title) if title else texts.new_thread
        text += texts.new_stopped_run if stopped else ""
        text += texts.new_dropped.format(count=dropped) if dropped else ""
        now = self._clock.now()

        def also(tx: Connection) -> None:
            conversations.new_thread(tx, conversation.key, title, now)
            stop(tx)

        await self._answers.say(call, text, "/new", also)
        conversation.forget_row()

    async def _stop(self, conversation: Conversation, call: Call) -> None:
        run = conversation.active
        if run is None:
            return await self._answers.say(call, call.texts.stop_nothing, "/stop")
        if run.speaker != call.person and not call.is_admin:
            return await self._answers.say(call, call.texts.stop_not_yours, "not allowed")
        if conversation.stop_active(StopReason.STOPPED):
            # The answer itself says that it was stopped.
            return await self._answers.nothing(call.event_id, "/stop", conversation.stop_unit(StopReason.STOPPED))
        await self._answers.say(call, call.texts.stop_nothing, "/stop")

    async def _show_status(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        model, agent = self._agents.answering(row)
        text = await self._status.for_chat(conversation, row, model, call.texts, agent=agent, is_admin=call.is_admin)
        await self._answers.say(call, text, "/status")

    async def _whoami(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.whoami.format(person=call.person, conversation=conversation.key)
        if call.message.address.kind != "dm":
            text += call.texts.whoami_group.format(chat=chat_id(call.message.address))
        await self._answers.say(call, text, "/whoami")

    async def _help(self, conversation: Conversation, call: Call) -> None:
        texts = call.texts
        blocks = [texts.help_intro, _menu(texts.command_menu, texts)]
        if call.is_admin:
            blocks += [texts.help_admin, _menu(texts.admin_menu, texts)]
        await self._answers.say(call, "\n\n".join(blocks), "/help")


def _menu(menu: Mapping[str, str], texts: Texts) -> str:
    return "\n".join(texts.help_line.format(command=name, description=text) for name, text in menu.items())
