"""ChannelManager: takes committed events from the bus, decides where they belong, and posts them to conversations."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from bot.access.admission import OncePer, Verdict
from bot.commands import Call, CommandLine, asks_to_stop
from bot.conversations.actor import Edited, Resume, Task
from bot.conversations.actors import Conversations
from bot.delivery.buttons import may_be_number
from bot.inbound.button_handler import ButtonHandler
from bot.inbound.due import Prompted
from bot.inbound.gate import Gate
from bot.runs.turns import Spoken, turn_rules
from bot.skills.folders import move_owner
from bot.store import conversations
from bot.store.identity import chat_id, moved_key, person_id
from bot.store.rows import StopReason
from bot.texts import language_of, texts_for
from channels.message import (
    ButtonPressed,
    ChatMigrated,
    HookCalled,
    MembershipChanged,
    Message,
    MessageEdited,
    ScheduleDue,
    Sender,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from bot.access.admission import Decision, FloodGate
    from bot.access.editor import AccessEditor
    from bot.access.service import AccessService
    from bot.commands import Commands
    from bot.conversations.actor import Conversation
    from bot.conversations.services import ConversationPorts
    from bot.inbound.bus import Inbound, MessageBus
    from bot.store import Store
    from bot.store.access import SubjectKind
    from bot.store.rows import RunRow
    from channels.message import Address

log = logging.getLogger(__name__)

ONCE_A_MINUTE = 60.0
T = TypeVar("T")


class ChannelManager:
    """Passes every event of all accounts on to its conversation.

    editor: its book is read for each event, so that changes apply from the next message on.
    access_service: handles people and groups that are not admitted.
    gate: makes decisions before and after an event is stored.
    moved: called first when a chat of an account has a new id, for all other consequences; again after a crash.
    """

    def __init__(
        self,
        *,
        ports: ConversationPorts,
        commands: Commands,
        editor: AccessEditor,
        access_service: AccessService,
        flood: FloodGate,
        store: Store,
        moved: Callable[[str, str, str], Awaitable[None]],
    ) -> None:
        self._ports = ports
        self._commands = commands
        ports.skills.keep_free(commands.names)
        self._editor = editor
        self._access_service = access_service
        self._policies = editor.book.policy
        self.flood = flood
        self._told_too_fast = OncePer(ports.clock, ONCE_A_MINUTE)
        self.gate = Gate(
            book=editor.book,
            access_service=access_service,
            commands=commands,
            channel=ports.channel,
            background=ports.background,
            store=store,
            is_skill=ports.skills.is_shared,
        )
        self._conversations = Conversations(ports)
        self._presses = ButtonHandler(ports, commands, editor.book, self._conversations)
        self._prompted = Prompted(ports, editor.book, access_service.admins, self._conversations, self.gate.key)
        self._moved = moved
        editor.on_shut_out = self._shut_out

    async def serve(self, bus: MessageBus) -> None:
        """Handle committed events until cancelled."""
        async for inbound in bus.inbound():
            try:
                await self._handle(inbound)
            except Exception:
                # A bug in handling one event must not stop all others; its row stays for the next start.
                log.exception("event %d could not be handled", inbound.id)

    async def recover(self) -> None:
        """Resume the runs that an earlier process left."""
        for key, rows in (await self._ports.runs.left()).items():
            kept = tuple([row for row in rows if await self._may_go_on(row)])
            if kept:
                self._conversations.of(key).post(Resume(kept))

    async def _may_go_on(self, row: RunRow) -> bool:
        """Whether the run's speaker still has access; otherwise the run is dropped with an explanation. Runs of an
        account that was removed from the config are kept until its return."""
        if row.address.account not in self._editor.book.accounts:
            return True
        if self._may_speak(row.address, row.speaker):
            return True
        language = row.context.locale
        await self._ports.runs.drop(row, texts_for(language).stopped_by[StopReason.REVOKED])
        return False

    def _may_speak(self, address: Address, person: str) -> bool:
        sender = Sender(id=person.removeprefix(f"{address.account}:"), display_name="")
        return self._policies(address.account).access.may_speak(address, sender)

    @property
    def waiting(self) -> int:
        """Number of messages waiting for their turn, in all conversations."""
        return self._conversations.waiting

    def forget_background(self, person: str) -> None:
        """Forget the person's messages to others in groups: no agent is given them any more."""
        self._ports.background.forget(person)

    def in_order(
        self, key: str, do: Callable[[Conversation], Awaitable[T]], *passed_on: type[Exception]
    ) -> asyncio.Future[T]:
        """Run `do` in a conversation's order; returns a future of its result. The conversation logs an error, except
        those of the types `passed_on`, which only concern the caller."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def task(actor: Conversation) -> None:
            try:
                result = await do(actor)
            except BaseException as error:
                if not done.done():
                    done.set_exception(error)
                    done.exception()  # the future may never be awaited
                if not isinstance(error, passed_on):
                    raise
            else:
                if not done.done():
                    done.set_result(result)

        self._conversations.of(key).post(Task(task))
        return done

    async def rest(self, key: str = "") -> None:
        await self._conversations.rest(key)

    @property
    def idle(self) -> bool:
        return not self._conversations

    async def _handle(self, inbound: Inbound) -> None:
        match inbound.event:
            case Message() as message:
                await self._message(inbound.id, message, self.gate.after_inbox(message, inbound.decision))
            case MessageEdited() as edit:
                await self._edited(inbound.id, edit, inbound.decision)
            case ButtonPressed() as press:
                await self._presses.take(inbound.id, press)
            case ChatMigrated() as moved:
                await self._migrated(inbound.id, moved)
            case MembershipChanged() as change:
                if not change.present:
                    await self._prompted.left(change)
                await self._access_service.joined(inbound.id, change)
            case ScheduleDue() as due:
                await self._prompted.due(inbound.id, due)
            case HookCalled() as called:
                await self._prompted.called(inbound.id, called)
            case _:
                await self._ports.responder.settle([inbound.id], "unreadable")

    async def _message(self, event_id: int, message: Message, decision: Decision) -> None:
        policy, line = self._policies(message.account), decision.command
        person = person_id(message.account, message.sender.id)
        language = language_of(policy.locale, message.sender.locale, message.text)
        if await self._access_service.takes_code(event_id, message, line, decision):
            return
        admitted = decision.verdict is Verdict.ADMIT
        unsure = decision.verdict is Verdict.CONTEXT and self.gate.threads.goes_on(message) is None
        if admitted:
            self.gate.admitted(message)
        if admitted and not self.flood.passes(person):
            await self._too_fast(event_id, message, person, language)
        elif admitted and message.unread:
            await self._cannot_read(event_id, message, language)
        elif admitted and line is not None:
            self._command_called(event_id, message, line, language)
        elif (admitted or unsure) and not message.unread:
            is_admin, rule = policy.access.is_admin(person), self._editor.book.rule(message)
            spoken = Spoken(event_id, message, language, is_admin, turn_rules(message, policy.turns), rule=rule)
            self._spoken(spoken, sure=not unsure)
        elif decision.verdict is Verdict.GREET:
            await self._access_service.greet(event_id, message, decision)
        elif decision.verdict is Verdict.INTRODUCE:
            await self._access_service.introduce(event_id, message, decision.reason)
        else:
            self._ports.responder.settle_soon(event_id, decision.reason)

    def _spoken(self, spoken: Spoken, *, sure: bool) -> None:
        """Post a message to its conversation. sure: otherwise it is for the agent only if its conversation has begun,
        which the cache does not know; the conversation itself finds out, so that no other one has to wait."""
        literal = spoken.message.turn is not None and spoken.message.turn.literal
        stops = asks_to_stop(spoken.message.text) and not (spoken.message.attachments or literal)

        async def hear(actor: Conversation) -> None:
            if not sure and await actor.stored() is None:
                await self._ports.responder.settle([spoken.id], "not addressed")
            elif stops and actor.active is not None:
                stop = CommandLine("stop", None, "")
                await self._commands.handle(actor, self._call(spoken.id, spoken.message, stop, spoken.language))
            elif literal or not await self._presses.number(actor, spoken):
                await self._said(actor, spoken)

        conversation = self._conversations.of(self.gate.key(spoken.message.address, spoken.message.sender))
        plain = sure and not stops and (literal or not may_be_number(spoken.message))
        conversation.post(spoken if plain else Task(hear))

    async def _said(self, actor: Conversation, spoken: Spoken) -> None:
        """Pass a message to the agent, unless an admin was admitted only to answer the question of /allow."""
        message = spoken.message
        if self._policies(message.account).access.may_speak(message.address, message.sender):
            await actor.hear(spoken)
        else:
            await self._ports.responder.settle([spoken.id], "unknown group")

    async def _cannot_read(self, event_id: int, message: Message, language: str) -> None:
        """Answer a sticker or the like in a direct message, where the sender expects an answer; this needs no model."""
        if message.address.kind != "dm":
            self._ports.responder.settle_soon(event_id, "cannot be read")
            return
        texts = texts_for(language)
        await self._ports.responder.say(event_id, message, texts.cannot_read[message.unread], "cannot be read")

    async def _too_fast(self, event_id: int, message: Message, person: str, language: str) -> None:
        if self._told_too_fast.first(person):
            text = texts_for(language).too_fast.format(limit=f"{self.flood.per_minute:g}")
            await self._ports.responder.say(event_id, message, text, "flood")
        else:
            self._ports.responder.settle_soon(event_id, "flood")

    def _call(self, event_id: int, message: Message, line: CommandLine, language: str) -> Call:
        person, policy = person_id(message.account, message.sender.id), self._policies(message.account)
        return Call(
            event_id=event_id,
            message=message,
            line=line,
            language=language,
            person=person,
            is_admin=policy.access.is_admin(person),
            may_control=policy.access.may_control(message.address, person),
            progress=policy.turns.progress,
        )

    def _command_called(self, event_id: int, message: Message, line: CommandLine, language: str) -> None:
        call, turns = self._call(event_id, message, line, language), self._policies(message.account).turns

        async def handle(actor: Conversation) -> None:
            if message.continues or message.address.kind == "dm":
                # A command begins a conversation too: its thread can continue, and an admin can be reached there.
                await actor.row(message)
            known = self._commands.knows(line.name)
            if await self._commands.is_for_agent(actor, call) or (not known and await actor.calls_skill(message)):
                rule = self._editor.book.rule(message)
                spoken = Spoken(event_id, message, language, call.is_admin, turns, rule=rule)
                await self._said(actor, spoken)
            elif not known and line.bot is None and not message.mention:
                # A skill of this name is off here: an unaddressed command may have been meant for another bot.
                await self._ports.responder.settle([event_id], "a skill that is off")
            else:
                await self._commands.handle(actor, call, placed=self._is_placed(message.address))

        self._conversations.of(self.gate.key(message.address, message.sender)).post(Task(handle))

    def _is_placed(self, address: Address) -> bool:
        """Whether a conversation can take place at this address."""
        channel = self._ports.channel(address.account)
        threaded = channel is not None and channel.capabilities.group_threads
        return not threaded or address.kind == "dm" or address.topic is not None

    async def _edited(self, event_id: int, edit: MessageEdited, known: Decision | None) -> None:
        message = edit.message
        if message.address.kind != "dm":
            decision = self.gate.after_inbox(message, known)
            if await self._access_service.takes_code(event_id, message, None, decision):
                return None
        if not self._policies(message.account).access.may_speak(message.address, message.sender):
            return await self._ports.responder.settle([event_id], "edit by a stranger")
        conversation = self._conversations.standing(self.gate.key(message.address, message.sender))
        if conversation is None:
            return await self._ports.responder.settle([event_id], "edited after its turn began")
        conversation.post(Edited(event_id, message, edit.recalled))

    async def _migrated(self, event_id: int, moved: ChatMigrated) -> None:
        await self.migrate(moved.account, moved.old_chat, moved.new_chat)
        await self._ports.responder.settle([event_id], "migrated")

    async def migrate(self, account: str, old_chat: str, new_chat: str) -> None:
        """Move a chat's conversations, and its right to be answered, to its new id."""
        await self._moved(account, old_chat, new_chat)
        for owner in await self._ports.store.read(lambda tx: conversations.owners(tx, account)):
            moved = moved_key(owner, account, old_chat, new_chat)
            if moved is not None and moved != owner:
                move_owner(self._ports.data_dir, owner, moved)
        change = self._editor.moved(account, old_chat, new_chat)

        def unit(tx: Connection) -> None:
            conversations.migrate_chat(tx, account, old_chat, new_chat)
            if change is not None:
                change.write(tx)

        await self._ports.store.write(unit)
        if change is not None:
            change.committed()
        self._conversations.move(account, old_chat, new_chat)
        self.gate.threads.forget()
        log.warning("%s: chat %s is now %s; put the new id into the config", account, old_chat, new_chat)

    def _shut_out(self, kind: SubjectKind, subject: str) -> None:
        """End everything in progress for a person or a group whose access was revoked."""

        def concerns(address: Address, person: str) -> bool:
            return kind == "group" or person == subject

        for active in list(self._ports.runs.active.values()):
            if subject == (active.row.speaker if kind == "person" else chat_id(active.row.address)):
                self._ports.runs.stop(active.row.run_id, StopReason.REVOKED)
        if kind == "person":
            self._ports.background.forget(subject)
        self._conversations.expel(subject if kind == "group" else None, concerns)

    def review_access(self) -> None:
        """Expel those who have no access any more after a change of the config, as if it had been revoked."""

        def shut_out(address: Address, person: str) -> bool:
            # Work of an account that was removed from the config waits for its return.
            return address.account in self._editor.book.accounts and not self._may_speak(address, person)

        for active in list(self._ports.runs.active.values()):
            if shut_out(active.row.address, active.row.speaker):
                self._ports.runs.stop(active.row.run_id, StopReason.REVOKED)
        self._ports.background.drop(shut_out)
        self._conversations.expel(None, shut_out)
