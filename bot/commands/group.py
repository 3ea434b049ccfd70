"""Groups of commands, and how they answer. A new command is a method in its group, or a new group."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from bot.control.actions import log_action
from bot.delivery.buttons import question, row_of
from bot.runs.turns import Spoken
from bot.store import conversations, prompts
from bot.texts.command_line import Call
from channels.message import Message, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from sqlalchemy import Connection

    from bot.control.actions import Action
    from bot.conversations.actor import Conversation
    from bot.delivery.respond import Responder
    from bot.store.rows import PromptRow
    from bot.texts.command_line import Press
    from channels.base import Clock

CommandHandler = Callable[["Conversation", "Call"], Awaitable[None]]
"""Answers one use of a command, and settles its event."""

PressHandler = Callable[["Conversation", "PromptRow", "Press"], Awaitable[str]]
"""Carries out a button's action, settles its event, and returns the button's short answer."""

ButtonRule = Callable[["Conversation", "PromptRow", "Press"], Awaitable[bool]]
"""Whether a button is still valid and that person may press it. Changes nothing."""


@dataclass(frozen=True, slots=True)
class ButtonKind:
    """The behavior of a kind of question. open_to is checked for options answered by their number: a number that
    answers no question is an ordinary message."""

    pressed: PressHandler
    open_to: ButtonRule


class CommandGroup:
    """Related commands. commands: by name. buttons: by the kind of the prompt that shows them."""

    commands: Mapping[str, CommandHandler] = MappingProxyType({})
    buttons: Mapping[str, ButtonKind] = MappingProxyType({})

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._clock = answers.clock


def in_group(call: Call) -> bool:
    return call.message.address.kind != "dm"


def by_place(name: str, call: Call) -> str:
    """The key of a sentence that differs between a person's own chat and a group."""
    return f"{name}_group" if in_group(call) else name


def option_of(prompt: PromptRow, index: int) -> str:
    """The option of a pressed button, "" if there is none."""
    options = json.loads(prompt.options)
    return str(options[index]) if index < len(options) else ""


def log_act(
    action: Action, by: Call | Press, conversation: Conversation, *, of: str = "", run: str = "", what: str = ""
) -> None:
    """Log an action on another person's things, or on those shared by a group; what people do with their own in their
    own chat is private. of: the affected person, "" for the chat's settings."""
    address = by.message.address if isinstance(by, Call) else by.address
    if of != by.person if of else address.kind != "dm":
        other = of if of != by.person else ""
        about = {"account": address.account, "conversation": conversation.key, "person": other}
        log_action(action, by.person, **about, run=run, what=what)


def said_by(press: Press, text: str, now: datetime) -> Spoken:
    """A text that a pressed button says for its person, as if they had written it. The event of the press serves as the
    message."""
    message = Message(
        account=press.address.account,
        dedupe_keys=(),
        sent_at=now,
        received_at=now,
        address=press.address,
        platform_message_id=press.message_id,
        sender=press.sender,
        text=text,
        mention=True,
    )
    return Spoken(press.event_id, message, press.language, press.is_admin, replace(press.turns, debounce=0.0))


class Answers:
    """Answers of commands: the reply and the command's changes are committed together with the event's settling."""

    def __init__(self, responder: Responder, clock: Clock) -> None:
        self.clock = clock
        self._responder = responder

    async def say(self, call: Call, text: str, reason: str, also: Callable[[Connection], object] | None = None) -> None:
        await self.show(call, OutboundMessage(text=text, final=True), reason, also)

    async def show(
        self, call: Call, message: OutboundMessage, reason: str, also: Callable[[Connection], object] | None = None
    ) -> None:
        origin = call.message
        await self._responder.answer(
            call.event_id, origin.address, origin.platform_message_id, message, reason=reason, also=also
        )

    async def progress(self, call: Call, text: str) -> None:
        """Show progress in the place of the answer that will follow. Does not settle the event."""
        origin, message = call.message, OutboundMessage(text=text, final=True)
        await self._responder.tell(
            f"event:{call.event_id}", origin.address, origin.platform_message_id or None, message
        )

    async def ask(
        self,
        call: Call,
        conversation: Conversation,
        kind: str,
        options: object,
        text: str,
        labels: Sequence[str],
        reason: str,
        *,
        life: timedelta,
    ) -> None:
        """Ask the sender something, with a button for each answer. kind, options, life: see `question`."""
        now, prompt_id = self.clock.now(), secrets.token_hex(8)
        prompt = question(kind, prompt_id, conversation.key, options, now, life=life, who=call.person)
        asked = OutboundMessage(text=text, buttons=(row_of(prompt_id, *labels),), final=True)
        await self.show(call, asked, reason, also=lambda tx: prompts.create(tx, prompt))

    async def choose(
        self,
        call: Call,
        conversation: Conversation,
        what: conversations.Choosable,
        chosen: str | None,
        text: str,
        reason: str,
    ) -> None:
        """Record a setting of the conversation, None for the default, and say so."""
        await self.say(call, text, reason, lambda tx: conversations.choose(tx, conversation.key, what, chosen))
        conversation.forget_row()

    async def nothing(self, event_id: int, reason: str, also: Callable[[Connection], object] | None = None) -> None:
        """Settle without a reply: the result is visible by itself."""
        await self._responder.settle([event_id], reason, also)

    def settled(self, event_id: int, reason: str) -> Callable[[Connection], None]:
        """The function that settles an event, for the caller's own transaction."""
        return lambda tx: self._responder.answered(tx, [event_id], reason)

    async def without_buttons(self, press: Press, reason: str) -> None:
        """Remove the buttons from their message; its text stays."""
        await self._responder.take_buttons_off(press.event_id, press.reply_key, press.address, reason)

    async def change(
        self, press: Press, message: OutboundMessage, reason: str, also: Callable[[Connection], object] | None = None
    ) -> None:
        """Edit the message with the button."""
        await self._responder.answer(
            press.event_id, press.address, None, message, reason=reason, also=also, reply_key=press.reply_key
        )
