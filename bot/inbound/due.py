"""Events that were not typed, due schedules and webhook calls. If the person still has access, the event is shown and
passed to the agent."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from bot.conversations.actor import Task
from bot.runs.turns import Spoken
from bot.store import schedules
from bot.store.identity import HOOK, chat_id, person_id
from bot.store.schedules import ScheduleState
from bot.texts import language_of, texts_for
from bot.texts.markdown import inline, plain
from channels.message import Message, Quote, Sender
from harness.scheduling.when import local
from harness.text.plain import short_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from bot.access.admins import Admins
    from bot.access.store import AccessStore
    from bot.conversations.actor import Conversation
    from bot.conversations.actors import Conversations
    from bot.conversations.services import ConversationPorts
    from bot.texts.catalogue import Texts
    from channels.message import Address, HookCalled, MembershipChanged, ScheduleDue

log = logging.getLogger(__name__)

LATE = timedelta(minutes=2)
"""Delay from which a reminder shows when it was due."""
LONGEST_SHOWN = 500
LONGEST_LINE = 200
"""Characters of a program's text that are shown above the answer."""


class Prompted:
    """Handles due schedules and webhook calls. key: the key of a sender's conversation at an address."""

    def __init__(
        self,
        ports: ConversationPorts,
        book: AccessStore,
        admins: Admins,
        conversations: Conversations,
        key: Callable[[Address, Sender], str],
    ) -> None:
        self._ports = ports
        self._book = book
        self._admins = admins
        self._conversations = conversations
        self._key = key

    async def due(self, event_id: int, due: ScheduleDue) -> None:
        """Post a due schedule to its conversation like a message of its person, who must still have access."""
        rules = self._book.policy(due.account).access
        if not rules.may_speak(due.address, due.sender):
            return await self._end(event_id, due)
        if due.address.kind != "dm" and rules.answer == "off":
            return await self._ports.responder.settle([event_id], "answers are off")

        async def hear(actor: Conversation) -> None:
            await self._begin(actor, event_id, due)

        self._conversations.of(self._key(due.address, due.sender)).post(Task(hear))

    async def left(self, change: MembershipChanged) -> None:
        """End a chat's schedules after the bot was removed from it, or blocked by the person: no one would see them."""
        now, address = self._ports.clock.now(), change.address
        ended = await self._ports.store.write(lambda tx: schedules.end_chat(tx, address, now))
        if ended:
            log.info("%d schedule(s) were cancelled: the bot is no longer in %s", ended, chat_id(address))

    async def _begin(self, actor: Conversation, event_id: int, due: ScheduleDue) -> None:
        """Pass it to the agent in its person's name. It is shown at once above its answer, even during a run. A
        schedule deleted in the meantime is ignored."""
        if await self._ports.store.read(lambda tx: schedules.load(tx, due.schedule_id)) is None:
            return await self._ports.responder.settle([event_id], "deleted")
        rules = self._book.policy(due.account).access
        is_admin = rules.is_admin(person_id(due.account, due.sender.id))
        heading = reminder(due, texts_for(due.language))
        message = _as_message(due)
        await actor.hear(Spoken(event_id, message, due.language, is_admin, schedule=due.schedule_id, heading=heading))

    async def _end(self, event_id: int, due: ScheduleDue) -> None:
        """End a schedule whose person lost access: it never fires again. Admins are notified, the person is not."""
        now, person = self._ports.clock.now(), person_id(due.account, due.sender.id)

        def also(tx: Connection) -> None:
            schedules.end(tx, due.schedule_id, ScheduleState.REVOKED, now)

        await self._ports.responder.settle([event_id], "access was revoked", also)
        log.info("schedule %s was cancelled: %s no longer has access there", due.schedule_id, person)

        def text(texts: Texts) -> str:
            return texts.schedule_revoked_admin.format(person=person)

        self._ports.tasks.spawn(
            f"revoked {due.schedule_id}", self._admins.tell(due.account, f"revoked:{due.schedule_id}", text)
        )

    async def called(self, event_id: int, called: HookCalled) -> None:
        """Post it to its conversation: in a direct message in its person's name, in a group in the hook's own name.
        Nothing is done for a person or a group without access."""
        rules = self._book.policy(called.account).access
        if not rules.may_speak(called.address, called.sender):
            log.warning("webhook %s: ignored, as access to %s is not allowed", called.hook, chat_id(called.address))
            return await self._ports.responder.settle([event_id], "access was revoked")
        language = language_of(self._book.policy(called.account).locale, called.sender.locale, called.prompt)
        is_admin = rules.is_admin(person_id(called.account, called.sender.id))
        message, heading = _as_hooked(called), hooked(called, texts_for(language))
        hook = f"{HOOK}{called.hook}"

        async def hear(actor: Conversation) -> None:
            rule = f"http.hooks.{called.hook}"
            await actor.hear(Spoken(event_id, message, language, is_admin, schedule=hook, heading=heading, rule=rule))

        self._conversations.of(self._key(called.address, called.sender)).post(Task(hear))


def reminder(due: ScheduleDue, texts: Texts) -> str:
    """The text shown in the chat when a schedule is due."""
    shown = texts.reminder.format(text=plain(short_line(due.text, LONGEST_SHOWN)))
    if due.address.kind != "dm":
        shown += texts.reminder_for.format(name=plain(" ".join(due.sender.display_name.split())[:80]))
    if due.received_at - due.sent_at >= LATE:
        shown += "\n" + texts.reminder_late.format(time=local(due.sent_at, due.timezone))
    return shown


def _as_message(due: ScheduleDue) -> Message:
    """The message that its person would have written now. It has no platform message id; it replies to another message
    of its topic, if known."""
    quote = None if due.reply_to is None else Quote(message_id=due.reply_to, text="", author="", from_bot=True)
    return _message(due, due.sender, due.text, quote)


def hooked(called: HookCalled, texts: Texts) -> str:
    """The text shown in the chat for a call: the hook's name and the first line of the text that was sent."""
    line = next((line for line in called.text.splitlines() if line.strip()), "")
    return texts.hooked.format(name=inline(called.hook), line=plain(short_line(line, LONGEST_LINE))).rstrip()


def _as_hooked(called: HookCalled) -> Message:
    """The prompt as a message that replies to the program's text, so that the text is framed as a quotation. Its sender
    is marked as a bot, since the person did not write it."""
    sender = Sender(id=called.sender.id, display_name=called.sender.display_name, kind="bot")
    quote = Quote(message_id="", text=called.text, author=called.hook, from_bot=False)
    return _message(called, sender, called.prompt, quote)


def _message(event: ScheduleDue | HookCalled, sender: Sender, text: str, reply_to: Quote | None) -> Message:
    return Message(
        account=event.account,
        dedupe_keys=event.dedupe_keys,
        sent_at=event.sent_at,
        received_at=event.received_at,
        address=event.address,
        platform_message_id="",
        sender=sender,
        text=text,
        reply_to=reply_to,
        mention=True,
    )
