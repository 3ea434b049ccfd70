"""/forget me, and the deletion of a thread. People are told what will be deleted and what stays; a button confirms."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind, CommandGroup, log_act
from bot.control.actions import Action
from bot.forgetting.service import report
from bot.store import forgetting, prompts
from bot.store.forgetting import DeletionKind, DeletionRow
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from bot.commands.group import Answers
    from bot.conversations.actor import Conversation
    from bot.forgetting.service import Forgetting
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Call, Press

FORGET, DELETE_THREAD = "forget", "delete_thread"
DELETE, CANCEL = range(2)
PROMPT_LIFE = timedelta(hours=1)
ME = "me"


class DeletingCommands(CommandGroup):
    """The /forget command, and the buttons of deletions. service: carries out confirmed deletions."""

    def __init__(self, answers: Answers, service: Callable[[], Forgetting]) -> None:
        super().__init__(answers)
        self._service = service
        self.commands = {"forget": self._forget}
        self.buttons = {
            FORGET: ButtonKind(self._pressed_forget, self._is_theirs),
            DELETE_THREAD: ButtonKind(self._pressed_thread, self._may_delete),
        }

    async def _forget(self, conversation: Conversation, call: Call) -> None:
        say = call.texts.forgetting
        if call.line.arguments.casefold() != ME:
            return await self._answers.say(call, say["usage"], "/forget")
        if call.message.address.kind != "dm":
            return await self._answers.say(call, say["where"], "/forget")
        await self._ask(conversation, call, FORGET, call.person, say["ask"])

    async def ask_thread(self, conversation: Conversation, call: Call, thread_id: str, title: str) -> None:
        """Ask, for /threads, whether to delete a thread of this conversation. title: as it is shown."""
        await self._ask(
            conversation, call, DELETE_THREAD, thread_id, call.texts.forgetting["ask_thread"].format(title=title)
        )

    async def _ask(self, conversation: Conversation, call: Call, kind: str, subject: str, text: str) -> None:
        labels = (call.texts.forgetting["button_delete"], call.texts.forgetting["button_cancel"])
        await self._answers.ask(call, conversation, kind, [subject, ""], text, labels, f"/{kind}", life=PROMPT_LIFE)

    async def _is_theirs(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return prompt.who == press.person

    async def _may_delete(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return prompt.who == press.person and press.may_control

    async def _pressed_forget(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        return await self._pressed(conversation, prompt, press, DeletionKind.PERSON, allowed=prompt.who == press.person)

    async def _pressed_thread(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        allowed = prompt.who == press.person and press.may_control
        return await self._pressed(conversation, prompt, press, DeletionKind.THREAD, allowed=allowed)

    async def _pressed(
        self, conversation: Conversation, prompt: PromptRow, press: Press, kind: DeletionKind, *, allowed: bool
    ) -> str:
        """Record the decision. Once that is committed, the deletion is carried out even if this process dies."""
        texts, now = press.texts, self._clock.now()
        if not allowed:
            await self._answers.nothing(press.event_id, "button refused")
            return texts.not_yours
        if press.option != DELETE:
            kept = OutboundMessage(text=texts.forgetting["kept"], final=True)
            await self._answers.change(
                press, kept, "kept", lambda tx: prompts.answer(tx, prompt.id, press.person, "kept", now)
            )
            return ""
        row = DeletionRow(
            id=prompt.id,
            kind=kind,
            subject=press.person if kind is DeletionKind.PERSON else json.loads(prompt.options)[DELETE],
            account=press.address.account,
            asked_by=press.person,
            asked_at=now,
            address=press.address,
            reply_key=press.reply_key,
            language=press.language,
        )

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, "delete", now)
            forgetting.ask_deletion(tx, row)

        message = OutboundMessage(text=report(kind, "under_way", {}, texts), final=True)
        await self._answers.change(press, message, f"delete {kind}", also)
        if kind is DeletionKind.THREAD:
            log_act(Action.DELETE_THREAD, press, conversation)
        await self._service().begin(row)
        return ""
