"""The buttons below a question that the agent asked: a pressed option is what its presser says next."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.commands.group import ButtonKind
from bot.delivery.buttons import CLARIFY
from bot.runs.turns import Spoken
from channels.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.commands.group import Answers, CommandHandler
    from bot.conversations.actor import Conversation
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Press
    from channels.base import Clock


class QuestionCommands:
    """No commands, only buttons."""

    def __init__(self, answers: Answers, clock: Clock) -> None:
        self._answers = answers
        self._clock = clock
        self.commands: Mapping[str, CommandHandler] = {}
        self.buttons: Mapping[str, ButtonKind] = {CLARIFY: ButtonKind(self._pressed, self._is_open)}

    async def _is_open(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        """Nothing was said since: later an answer would be one to something else."""
        last = None if conversation.busy else await conversation.last_run()
        in_range = press.option < len(json.loads(prompt.options))
        return press.may_speak and in_range and last is not None and last.run_id == prompt.run_id

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        if not press.may_speak:
            await self._answers.nothing(press.event_id, "button refused")
            return press.texts.not_allowed
        if not await self._is_open(conversation, prompt, press):
            await self._answers.without_buttons(press, "button too late")
            return press.texts.pressed["over"]
        option = json.loads(prompt.options)[press.option]
        await conversation.hear(self._said(press, option))
        return "" if press.typed else press.texts.working

    def _said(self, press: Press, option: str) -> Spoken:
        """The event of the press is the message; that it answers the question is recorded when its run is opened, as
        for a typed answer."""
        now = self._clock.now()
        message = Message(
            account=press.address.account,
            dedupe_keys=(),
            sent_at=now,
            received_at=now,
            address=press.address,
            platform_message_id=press.message_id,
            sender=press.sender,
            text=option,
            mention=True,
        )

        rules = replace(press.turns, debounce=0.0)
        return Spoken(press.event_id, message, press.language, press.is_admin, rules)
