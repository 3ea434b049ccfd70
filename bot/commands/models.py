"""/models: the configured models as a list with buttons; who may control the conversation switches."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.buttons import question
from bot.commands.group import ButtonKind
from bot.commands.line import inline
from bot.store import conversations, prompts
from channels.message import Button, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from bot.commands.group import Answers, CommandHandler
    from bot.commands.line import Call, Press
    from bot.conversations.actor import Conversation
    from bot.store.rows import PromptRow
    from bot.texts.catalogue import Texts
    from channels.base import Clock

PROMPT_LIFE = timedelta(days=1)
MODEL_PROMPT = "model"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A configured model, as /models shows it. detail: what it is called elsewhere, or empty."""

    name: str
    detail: str


class ModelCommands:
    """models: the first one is the default."""

    def __init__(self, answers: Answers, models: Sequence[ModelChoice], clock: Clock) -> None:
        self._answers = answers
        self._models = {model.name: model for model in models}
        self._default = models[0].name
        self._clock = clock
        self.commands: Mapping[str, CommandHandler] = {"models": self._show}
        self.buttons: Mapping[str, ButtonKind] = {MODEL_PROMPT: ButtonKind(self._pressed, self._open_to)}

    async def _show(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        name, texts = call.line.arguments, call.texts
        if not name:
            message, prompt = self._list(conversation.key, row.model or self._default, texts)
            await self._answers.show(call, message, "/models", also=prompt)
        elif not call.may_control:
            await self._answers.say(call, texts.not_allowed, "not allowed")
        elif name not in self._models:
            known = ", ".join(f"`{model}`" for model in self._models)
            await self._answers.say(call, texts.model_unknown.format(name=inline(name), known=known), "/models")
        else:
            text = texts.model_switched.format(model=name)
            await self._answers.say(
                call, text, "/models", also=lambda tx: conversations.set_model(tx, conversation.key, name)
            )
            conversation.forget_row()

    def _list(
        self, conversation: str, current: str, texts: Texts
    ) -> tuple[OutboundMessage, Callable[[Connection], None]]:
        """The list with its buttons, and the unit that makes the buttons wait for a press."""
        now, prompt_id = self._clock.now(), secrets.token_hex(8)
        prompt = question(MODEL_PROMPT, prompt_id, conversation, list(self._models), now, life=PROMPT_LIFE)
        lines = [texts.models_head]
        for model in self._models.values():
            detail = f" — {model.detail}" if model.detail else ""
            mark = texts.models_current if model.name == current else ""
            lines.append(texts.models_line.format(name=model.name, detail=detail + mark))
        buttons = tuple(
            (Button(label=("● " if name == current else "") + name[:60], data=f"{prompt.id}:{index}"),)
            for index, name in enumerate(self._models)
        )
        text = "\n".join(lines) + "\n\n" + texts.models_hint
        return OutboundMessage(text=text, buttons=buttons, final=True), lambda tx: prompts.create(tx, prompt)

    async def _open_to(self, conversation: Conversation, prompt: PromptRow, press: Press) -> bool:
        return press.may_control

    async def _pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """Switch, and show the list anew in the same message."""
        if not press.may_control:
            await self._answers.nothing(press.event_id, "not allowed")
            return press.texts.not_allowed
        name = _option(prompt, press.option)
        if name not in self._models:
            await self._answers.nothing(press.event_id, "expired")
            return press.texts.button_expired
        message, new_prompt = self._list(conversation.key, name, press.texts)
        now = self._clock.now()

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, name, now)
            conversations.set_model(tx, conversation.key, name)
            new_prompt(tx)

        await self._answers.change(press, message, "model button", also)
        conversation.forget_row()
        return press.texts.model_switched.format(model=name).replace("`", "")


def _option(prompt: PromptRow, index: int) -> str:
    options = json.loads(prompt.options)
    return str(options[index]) if index < len(options) else ""
