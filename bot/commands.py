"""The commands of people: /new, /stop, /status, /models, /memory, /whoami, /help.

They run in their conversation's own order and never wait for a run. Rights: in a DM everything for oneself; in a group
/status, /help and /whoami for everybody, /stop for one's own runs, /new and /models by `group_control`.
"""

from __future__ import annotations

import difflib
import json
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.identity import chat_id
from bot.runs import StopReason
from bot.store import conversations, prompts
from bot.store.rows import PromptRow
from bot.texts import texts_for
from channels.message import Button, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy import Connection

    from bot.conversations import Conversation
    from bot.respond import Responder
    from bot.status import StatusPage
    from bot.texts.catalogue import Texts
    from channels.base import Clock
    from channels.message import Address, ButtonPressed, Message

_LINE = re.compile(r"/([A-Za-z][\w-]{0,31})(?:@(\S+))?(?:\s+(.*))?", re.DOTALL)

PROMPT_LIFE = timedelta(days=1)
MODEL_PROMPT = "model"


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What was typed: `/name@bot arguments`, the name in lower case; bot is None when it was not named."""

    name: str
    bot: str | None
    arguments: str


def parse(text: str) -> CommandLine | None:
    """The command that a message is, or None: `/usr/bin/x` and text that merely holds a slash are not."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        return None
    return CommandLine(match[1].lower(), match[2], (match[3] or "").strip())


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a command. person: who typed it; may_control: whether /new and /models are theirs to use here."""

    event_id: int
    message: Message
    line: CommandLine
    language: str
    person: str
    is_admin: bool
    may_control: bool

    @property
    def texts(self) -> Texts:
        return texts_for(self.language)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A configured model, as /models shows it. detail: what it is called elsewhere, or empty."""

    name: str
    detail: str


class Commands:
    def __init__(self, responder: Responder, status: StatusPage, models: Sequence[ModelChoice], clock: Clock) -> None:
        self._responder = responder
        self._status = status
        self._models = {model.name: model for model in models}
        self._default_model = models[0].name
        self._clock = clock
        self._table: dict[str, Callable[[Conversation, Call], Awaitable[None]]] = {
            "new": self._new,
            "stop": self._stop,
            "status": self._show_status,
            "models": self._show_models,
            "memory": self._memory,
            "whoami": self._whoami,
            "help": self._help,
        }

    def knows(self, name: str) -> bool:
        return name in self._table

    async def handle(self, conversation: Conversation, call: Call) -> None:
        await self._table.get(call.line.name, self._unknown)(conversation, call)

    async def _new(self, conversation: Conversation, call: Call) -> None:
        if not call.may_control:
            return await self._say(call, call.texts.not_allowed, "not allowed")
        stopped = conversation.stop_active(StopReason.NEW_THREAD)
        dropped = await conversation.drop_waiting(lambda language: texts_for(language).dropped_by_new)
        await conversation.row(call.message)
        title, texts = " ".join(call.line.arguments.split())[:100], call.texts
        text = texts.new_thread_titled.format(title=title) if title else texts.new_thread
        text += texts.new_stopped_run if stopped else ""
        text += texts.new_dropped.format(count=dropped) if dropped else ""
        now = self._clock.now()
        await self._say(call, text, "/new", also=lambda tx: conversations.new_thread(tx, conversation.key, title, now))
        conversation.forget_row()

    async def _stop(self, conversation: Conversation, call: Call) -> None:
        run = conversation.active
        if run is None:
            return await self._say(call, call.texts.stop_nothing, "/stop")
        if run.speaker != call.person and not call.is_admin:
            return await self._say(call, call.texts.stop_not_yours, "not allowed")
        if conversation.stop_active(StopReason.STOPPED):
            # The answer itself says that it was stopped.
            return await self._responder.settle([call.event_id], "/stop")
        await self._say(call, call.texts.stop_nothing, "/stop")

    async def _show_status(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        text = await self._status.for_chat(conversation, row, row.model or self._default_model, call.texts)
        await self._say(call, text, "/status")

    async def _show_models(self, conversation: Conversation, call: Call) -> None:
        row = await conversation.row(call.message)
        name, texts = call.line.arguments, call.texts
        if not name:
            current = row.model or self._default_model
            message, prompt = self._model_list(conversation.key, current, texts)
            await self._respond(call, message, "/models", also=prompt)
        elif not call.may_control:
            await self._say(call, texts.not_allowed, "not allowed")
        elif name not in self._models:
            known = ", ".join(f"`{model}`" for model in self._models)
            await self._say(call, texts.model_unknown.format(name=_inline(name), known=known), "/models")
        else:
            text = texts.model_switched.format(model=name)
            await self._say(call, text, "/models", also=lambda tx: conversations.set_model(tx, conversation.key, name))
            conversation.forget_row()

    def _model_list(
        self, conversation: str, current: str, texts: Texts
    ) -> tuple[OutboundMessage, Callable[[Connection], None]]:
        """The list with its buttons, and the unit that makes the buttons wait for a press."""
        prompt = PromptRow(
            id=secrets.token_hex(8),
            kind=MODEL_PROMPT,
            conversation=conversation,
            run_id=None,
            who=None,
            options=json.dumps(list(self._models)),
            args_hash=None,
            message_id=None,
            expires_at=self._clock.now() + PROMPT_LIFE,
            answer=None,
            answered_by=None,
        )
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

    async def pressed(self, conversation: Conversation, prompt: PromptRow, press: Press) -> str:
        """A model's button: switch, and show the list anew in the same message. Returns the button's short answer."""
        texts = texts_for(press.language)
        if not press.may_control:
            await self._responder.settle([press.event_id], "not allowed")
            return texts.not_allowed
        name = _option(prompt, press.option)
        if name not in self._models:
            await self._responder.settle([press.event_id], "expired")
            return texts.button_expired
        message, new_prompt = self._model_list(conversation.key, name, texts)

        now = self._clock.now()

        def also(tx: Connection) -> None:
            prompts.answer(tx, prompt.id, press.person, name, now)
            conversations.set_model(tx, conversation.key, name)
            new_prompt(tx)

        await self._responder.answer(
            press.event_id, press.address, None, message, reason="model button", also=also, reply_key=press.reply_key
        )
        conversation.forget_row()
        return name

    async def _memory(self, conversation: Conversation, call: Call) -> None:
        await self._say(call, call.texts.memory_not_yet, "/memory")

    async def _whoami(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.whoami.format(person=call.person, conversation=conversation.key)
        if call.message.address.kind != "dm":
            text += call.texts.whoami_group.format(chat=chat_id(call.message.address))
        await self._say(call, text, "/whoami")

    async def _help(self, conversation: Conversation, call: Call) -> None:
        menu = call.texts.command_menu.items()
        lines = [call.texts.help_line.format(command=name, description=text) for name, text in menu]
        await self._say(call, call.texts.help_intro + "\n\n" + "\n".join(lines), "/help")

    async def _unknown(self, conversation: Conversation, call: Call) -> None:
        text = call.texts.unknown_command.format(command=f"`/{call.line.name}`")
        near = difflib.get_close_matches(call.line.name, self._table, n=1, cutoff=0.5)
        text += call.texts.did_you_mean.format(suggestion=f"`/{near[0]}`") if near else call.texts.see_help
        await self._say(call, text, "unknown command")

    async def _say(
        self, call: Call, text: str, reason: str, also: Callable[[Connection], object] | None = None
    ) -> None:
        await self._respond(call, OutboundMessage(text=text, final=True), reason, also)

    async def _respond(
        self, call: Call, message: OutboundMessage, reason: str, also: Callable[[Connection], object] | None = None
    ) -> None:
        origin = call.message
        await self._responder.answer(
            call.event_id, origin.address, origin.platform_message_id, message, reason=reason, also=also
        )


@dataclass(frozen=True, slots=True)
class Press:
    """A press of one of our buttons. option: its index; reply_key: of the message that has the button."""

    event_id: int
    address: Address
    event: ButtonPressed
    option: int
    reply_key: str
    language: str
    person: str
    may_control: bool


def _option(prompt: PromptRow, index: int) -> str:
    options = json.loads(prompt.options)
    return str(options[index]) if index < len(options) else ""


def _inline(text: str) -> str:
    """Foreign text inside backquotes: short, on one line, without backquotes of its own."""
    return " ".join(text.replace("`", "'").split())[:80]
