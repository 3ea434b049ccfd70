"""ChannelManager: takes committed events from the bus, decides whose they are, and posts them to conversations."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.admission import Background, FloodGate, OncePer, Verdict, decide
from bot.commands import Call, CommandLine, Press, parse
from bot.conversations import Conversation
from bot.identity import chat_id, conversation_key, moved_key, person_id
from bot.mailbox import Edited, Resume, Task
from bot.recovery import left_runs
from bot.store import access, conversations, outbox, prompts
from bot.texts import language_of, texts_for
from bot.turns import Spoken
from channels.message import (
    ButtonPressed,
    ChatMigrated,
    MembershipChanged,
    Message,
    MessageEdited,
    OutboundMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from bot.admission import AccessRules
    from bot.bus import Inbound, MessageBus
    from bot.commands import Commands
    from bot.conversations import ConversationPorts
    from bot.delivery import Delivery
    from bot.identity import GroupScope
    from bot.store.rows import PromptRow
    from channels.base import Channel, Clock
    from channels.message import Address, Sender

log = logging.getLogger(__name__)

ONCE_A_DAY = 86_400.0
ONCE_A_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """One account's rules, resolved from the config. locale: "auto", "en" or "zh"."""

    access: AccessRules
    group_scope: GroupScope = "chat"
    group_context: bool = True
    locale: str = "auto"


class ChannelManager:
    """policies: asked for each event, so that a changed one counts from the next message on. let_in: adds a group
    (account, `account:chat`) to the account's policy."""

    def __init__(
        self,
        *,
        ports: ConversationPorts,
        delivery: Delivery,
        commands: Commands,
        policies: Callable[[str], AccountPolicy],
        let_in: Callable[[str, str], None],
        channels: Mapping[str, Channel],
        background: Background,
        clock: Clock,
    ) -> None:
        self._ports = ports
        self._delivery = delivery
        self._commands = commands
        self._policies = policies
        self._let_in = let_in
        self._channels = channels
        self._background = background
        self._flood = FloodGate(clock)
        self._greeted = OncePer(clock, ONCE_A_DAY)
        self._told_too_fast = OncePer(clock, ONCE_A_MINUTE)
        self._conversations: dict[str, Conversation] = {}

    # Before the inbox.

    def overhears(self, message: Message) -> bool:
        """Whether a message was said to others in an allowed group: kept in memory as background, never stored."""
        policy = self._policies(message.account)
        if decide(message, policy.access, self._command(message) is not None).verdict is not Verdict.CONTEXT:
            return False
        if policy.group_context:
            self._background.add(self._key(message.address, message.sender), message)
        return True

    # After the inbox.

    async def serve(self, bus: MessageBus) -> None:
        """Handle committed events, for ever."""
        async for inbound in bus.inbound():
            try:
                await self._handle(inbound)
            except Exception:
                # A bug in handling one event must not make the gateway deaf; its row stays for the next start.
                log.exception("event %d could not be handled", inbound.id)

    async def recover(self) -> None:
        """Go on with what an earlier process left."""
        for key, rows in (await left_runs(self._ports.store, self._ports.runs, self._delivery)).items():
            self._conversation(key).post(Resume(rows))

    @property
    def waiting(self) -> int:
        """Messages that wait for their turn, in all conversations."""
        return sum(conversation.load for conversation in self._conversations.values())

    @property
    def idle(self) -> bool:
        return not self._conversations

    async def _handle(self, inbound: Inbound) -> None:
        match inbound.event:
            case Message() as message:
                await self._message(inbound.id, message)
            case MessageEdited() as edit:
                await self._edited(inbound.id, edit)
            case ButtonPressed() as press:
                await self._pressed(inbound.id, press)
            case ChatMigrated() as moved:
                await self._migrated(inbound.id, moved)
            case MembershipChanged() as change:
                log.info("%s %s", "joined" if change.present else "left", chat_id(change.address))
                await self._ports.responder.settle([inbound.id], "membership")
            case _:
                await self._ports.responder.settle([inbound.id], "unreadable")

    async def _message(self, event_id: int, message: Message) -> None:
        policy = self._policies(message.account)
        line = self._command(message)
        decision = decide(message, policy.access, line is not None)
        person = person_id(message.account, message.sender.id)
        language = language_of(policy.locale, message.sender.locale, message.text)
        if decision.verdict is Verdict.ADMIT and not self._flood.passes(person):
            await self._too_fast(event_id, message, person, language)
        elif decision.verdict is Verdict.ADMIT and line is not None:
            self._command_called(event_id, message, line, language)
        elif decision.verdict is Verdict.ADMIT:
            spoken = Spoken(event_id, message, language, policy.access.is_admin(person))
            self._conversation(self._key(message.address, message.sender)).post(spoken)
        elif decision.verdict is Verdict.GREET and self._greeted.first(person):
            text = texts_for(language).unknown_sender.format(person=person)
            await self._answer(event_id, message, text, decision.reason)
        else:
            self._ports.responder.settle_soon(event_id, decision.reason)

    async def _too_fast(self, event_id: int, message: Message, person: str, language: str) -> None:
        if self._told_too_fast.first(person):
            await self._answer(event_id, message, texts_for(language).too_fast, "flood")
        else:
            self._ports.responder.settle_soon(event_id, "flood")

    async def _answer(self, event_id: int, message: Message, text: str, reason: str) -> None:
        await self._ports.responder.answer(
            event_id,
            message.address,
            message.platform_message_id,
            OutboundMessage(text=text, final=True),
            reason=reason,
        )

    def _command(self, message: Message) -> CommandLine | None:
        """The command meant for us; another bot's, and an unknown one that a group says to nobody, is not."""
        line = parse(message.text)
        if line is None or message.attachments:
            return None
        if line.bot is not None:
            identity = self._channels[message.account].identity if message.account in self._channels else None
            if identity is None:  # not connected yet: the adapter knew, when the message came
                return line if message.mention else None
            return line if line.bot.lower() == identity.username.lower() else None
        return line if message.mention or self._commands.knows(line.name) else None

    def _command_called(self, event_id: int, message: Message, line: CommandLine, language: str) -> None:
        person = person_id(message.account, message.sender.id)
        policy = self._policies(message.account)
        call = Call(
            event_id=event_id,
            message=message,
            line=line,
            language=language,
            person=person,
            is_admin=policy.access.is_admin(person),
            may_control=self._may_control(message.address, person),
        )
        conversation = self._conversation(self._key(message.address, message.sender))
        conversation.post(Task(event_id, lambda actor: self._commands.handle(actor, call)))

    def _may_control(self, address: Address, person: str) -> bool:
        access = self._policies(address.account).access
        return address.kind == "dm" or access.group_control == "members" or access.is_admin(person)

    async def _edited(self, event_id: int, edit: MessageEdited) -> None:
        message = edit.message
        if not self._policies(message.account).access.may_speak(message.address, message.sender):
            return await self._ports.responder.settle([event_id], "edit by a stranger")
        conversation = self._conversations.get(self._key(message.address, message.sender))
        if conversation is None:
            return await self._ports.responder.settle([event_id], "edited after its turn began")
        conversation.post(Edited(event_id, message))

    async def _pressed(self, event_id: int, press: ButtonPressed) -> None:
        prompt_id, _, option = press.data.partition(":")
        policy = self._policies(press.account)
        person = person_id(press.account, press.sender.id)
        language = language_of(policy.locale, press.sender.locale, "")
        found, now = None, self._ports.clock.now()
        if policy.access.may_speak(press.address, press.sender) and option.isdecimal():
            found = await self._ports.store.read(lambda tx: _prompt(tx, prompt_id, press, now))
        if found is None or found[0].conversation != self._key(press.address, press.sender):
            await self._ports.responder.settle([event_id], "button refused")
            self._acknowledge(press, texts_for(language).button_expired)
            return
        prompt, reply_key = found
        pressed = Press(
            event_id=event_id,
            address=press.address,
            event=press,
            option=int(option),
            reply_key=reply_key,
            person=person,
            language=language,
            is_admin=policy.access.is_admin(person),
            may_control=self._may_control(press.address, person),
        )

        async def answer(actor: Conversation) -> None:
            self._acknowledge(press, await self._commands.pressed(actor, prompt, pressed))

        self._conversation(prompt.conversation).post(Task(event_id, answer))

    def _acknowledge(self, press: ButtonPressed, text: str) -> None:
        """Answer the button itself. Nobody waits for it: a slow platform must not hold up other conversations."""
        channel = self._channels.get(press.account)
        if channel is not None:
            self._ports.tasks.spawn(f"acknowledge {press.account}", channel.acknowledge(press, text))

    async def _migrated(self, event_id: int, moved: ChatMigrated) -> None:
        await self.migrate(moved.account, moved.old_chat, moved.new_chat)
        await self._ports.responder.settle([event_id], "migrated")

    async def migrate(self, account: str, old_chat: str, new_chat: str) -> None:
        """A chat has a new id: its conversations, and its right to be answered, go with it."""
        now = self._ports.clock.now()
        new_group = f"{account}:{new_chat}"
        was_allowed = f"{account}:{old_chat}" in self._policies(account).access.groups

        def unit(tx: Connection) -> None:
            conversations.migrate_chat(tx, account, old_chat, new_chat)
            if was_allowed:
                access.allow_group(tx, account, new_group, f"moved from {old_chat}", now)

        await self._ports.store.write(unit)
        if was_allowed:
            self._let_in(account, new_group)
        self._move(account, old_chat, new_chat)
        log.warning("%s: chat %s is now %s; put the new id into the config", account, old_chat, new_chat)

    def _move(self, account: str, old_chat: str, new_chat: str) -> None:
        """Each actor of the old chat goes on under its new key, or two would work in one thread side by side."""
        for key, conversation in list(self._conversations.items()):
            moved = moved_key(key, account, old_chat, new_chat)
            if moved is None:
                continue
            conversation.move(moved)
            del self._conversations[key]
            standing = self._conversations.setdefault(moved, conversation)
            if standing is not conversation:
                # Somebody wrote in the new chat already. What the old actor has is finished by it, unregistered.
                standing.forget_row()

    def _key(self, address: Address, sender: Sender) -> str:
        return conversation_key(address, sender, self._policies(address.account).group_scope)

    def _conversation(self, key: str) -> Conversation:
        if key not in self._conversations:
            self._conversations[key] = Conversation(key, self._ports, self._forget)
        return self._conversations[key]

    def _forget(self, conversation: Conversation) -> None:
        if self._conversations.get(conversation.key) is conversation:
            del self._conversations[conversation.key]


def _prompt(tx: Connection, prompt_id: str, press: ButtonPressed, now: datetime) -> tuple[PromptRow, str] | None:
    """The open question behind a button, and the reply that shows it; None when there is none on that message."""
    prompt = prompts.load(tx, prompt_id)
    reply_key = outbox.reply_of(tx, press.account, press.address.chat, press.platform_message_id)
    if prompt is None or reply_key is None or prompt.answer is not None or prompt.expires_at <= now:
        return None
    return prompt, reply_key
