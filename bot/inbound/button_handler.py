"""Handles pressed buttons, and numbers typed instead: finds the question and checks who may answer it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bot.commands import Press
from bot.conversations.actor import Task
from bot.delivery.buttons import may_be_number, questions, typed_number
from bot.runs.approval_cards import APPROVAL
from bot.store import outbox, prompts
from bot.store.identity import chat_id, conversation_key, is_in_chat, person_id
from bot.texts import language_of, texts_for
from bot.texts.commands import unmarked
from channels.message import OutboundMessage

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.access.store import AccessStore
    from bot.commands import Commands
    from bot.conversations.actor import Conversation
    from bot.conversations.actors import Conversations
    from bot.conversations.services import ConversationPorts
    from bot.delivery.buttons import Standing
    from bot.runs.turns import Spoken
    from bot.store.rows import PromptRow
    from channels.message import Address, ButtonPressed


RECORDING_SECONDS = 6.0
"""Longest time that a press waits for its message to be recorded: people may see a message, and press its button,
before the platform has answered the send and the id is recorded."""
_AGAIN_SECONDS = 0.25


class ButtonHandler:
    def __init__(
        self,
        ports: ConversationPorts,
        commands: Commands,
        book: AccessStore,
        conversations: Conversations,
    ) -> None:
        self._ports = ports
        self._commands = commands
        self._book = book
        self._conversations = conversations

    async def take(self, event_id: int, press: ButtonPressed, waited: float = 0.0) -> None:
        """Post the press to the conversation that asked; refuse it if no question is open or the person may not answer.

        waited: seconds that the press has already waited for its message to be recorded.
        """
        policy, (prompt_id, _, option) = self._book.policy(press.account), press.data.partition(":")
        rules, person = policy.access, person_id(press.account, press.sender.id)
        language = language_of(policy.locale, press.sender.locale, "")
        prompt, reply_key, place, now = None, None, None, self._ports.clock.now()
        # An admin may answer the question of /allow in a group that is not admitted yet.
        if (rules.is_admin(person) or rules.may_speak(press.address, press.sender)) and option.isdecimal():
            prompt, reply_key, place = await self._ports.store.read(lambda tx: _prompt(tx, prompt_id, press, now))
        if prompt is not None and reply_key is None and waited < RECORDING_SECONDS:
            self._ports.tasks.spawn(f"press {press.account}", self._take_later(event_id, press, waited))
            return
        if place is not None:
            press = replace(press, address=place)
        key = conversation_key(press.address, press.sender, policy.group_scope)
        is_theirs = prompt is not None and _is_asked_there(prompt, key, press.address, is_admin=rules.is_admin(person))
        if prompt is None or reply_key is None or not is_theirs:
            await self._ports.responder.settle([event_id], "button refused")
            self._acknowledge(press, texts_for(language).button_expired)
            return
        pressed = Press(
            event_id=event_id,
            address=press.address,
            sender=press.sender,
            message_id=press.platform_message_id,
            option=int(option),
            reply_key=reply_key,
            person=person,
            language=language,
            is_admin=rules.is_admin(person),
            may_control=rules.may_control(press.address, person),
            may_speak=rules.may_speak(press.address, press.sender),
            turns=policy.turns,
            at_home=prompt.conversation == key,
        )

        async def answer(actor: Conversation) -> None:
            self._acknowledge(press, await self._commands.pressed(actor, prompt, pressed))

        self._conversations.of(prompt.conversation).post(Task(answer))

    async def _take_later(self, event_id: int, press: ButtonPressed, waited: float) -> None:
        await self._ports.clock.sleep(_AGAIN_SECONDS)
        await self.take(event_id, press, waited + _AGAIN_SECONDS)

    # Platforms without buttons.

    async def number(self, actor: Conversation, spoken: Spoken) -> bool:
        """Take a number as the answer to the newest open question that its writer may answer. False if there is no
        such question or option: the agent gets the message then."""
        message, now = spoken.message, self._ports.clock.now()
        number, channel = typed_number(message.text), self._ports.channel(message.account)
        if number is None or channel is None or not may_be_number(message):
            return False
        for question in await self._ports.store.read(lambda tx: questions(tx, actor.key, message.address, now)):
            if channel.capabilities.buttons and not question.numbered:
                continue
            presses = [self._typed(spoken, question, data) for data in question.data]
            open_ones = [press for press in presses if await self._commands.open_to(actor, question.prompt, press)]
            if not open_ones:
                continue
            if number > len(presses) or presses[number - 1] not in open_ones:
                return False
            await self._tell(spoken, await self._commands.pressed(actor, question.prompt, presses[number - 1]))
            return True
        return False

    def _typed(self, spoken: Spoken, question: Standing, data: str) -> Press:
        message = spoken.message
        person = person_id(message.account, message.sender.id)
        rules = self._book.policy(message.account).access
        return Press(
            event_id=spoken.id,
            address=message.address,
            sender=message.sender,
            message_id=message.platform_message_id,
            option=int(data.partition(":")[2]),
            reply_key=question.reply_key,
            person=person,
            language=spoken.language,
            is_admin=rules.is_admin(person),
            may_control=rules.may_control(message.address, person),
            may_speak=rules.may_speak(message.address, message.sender),
            turns=spoken.rules,
            typed=True,
        )

    async def _tell(self, spoken: Spoken, text: str) -> None:
        """Reply with the text that would be the short acknowledgement of a button."""
        if text:
            message, answer = spoken.message, OutboundMessage(text=text, final=True)
            await self._ports.responder.tell(f"event:{spoken.id}", message.address, message.platform_message_id, answer)

    def _acknowledge(self, press: ButtonPressed, text: str) -> None:
        """Acknowledge the press, without waiting for it: a slow platform must not hold up other conversations."""
        channel = self._ports.channel(press.account)
        if channel is not None:
            self._ports.tasks.spawn(f"acknowledge {press.account}", channel.acknowledge(press, unmarked(text)))


def _is_asked_there(prompt: PromptRow, key: str, address: Address, *, is_admin: bool) -> bool:
    """Whether the question is in the person's own conversation; admins may answer approvals in any of a group's."""
    if prompt.conversation == key:
        return True
    return is_admin and prompt.kind == APPROVAL and is_in_chat(prompt.conversation, chat_id(address))


def _prompt(
    tx: Connection, prompt_id: str, press: ButtonPressed, now: datetime
) -> tuple[PromptRow | None, str | None, Address | None]:
    """The open question behind a button, the reply that shows it, and the reply's address, since the platform may not
    report the topic of an old message; None for all three if that message shows no open question. A settled approval
    counts as well: a late press is answered with the decision.

    None for the reply alone: its message is not known, but may be one that is being sent there right now.
    """
    prompt, chat = prompts.load(tx, prompt_id), press.address.chat
    if prompt is None or (prompt.kind != APPROVAL and (prompt.answer is not None or prompt.expires_at <= now)):
        return None, None, None
    reply_key = outbox.reply_of(tx, press.account, chat, press.platform_message_id)
    if reply_key is None and not outbox.is_sending(tx, press.account, chat):
        return None, None, None
    return prompt, reply_key, None if reply_key is None else outbox.load(tx, reply_key)[0].address
