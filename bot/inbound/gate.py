"""Gate: what is decided of an event before anything is done: whether it is stored at all, who is admitted, what is a
command. Waits for nothing but the store, and that only before an event is committed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cachetools import LRUCache

from bot.access.admission import Decision, Verdict, decide
from bot.commands import meant_for_us
from bot.delivery.buttons import may_be_number
from bot.store import conversations
from bot.store.identity import conversation_key, person_id
from channels.message import ButtonPressed, MembershipChanged, Message, MessageEdited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bot.access.admission import Background
    from bot.access.service import AccessService
    from bot.access.store import AccessStore
    from bot.commands import CommandLine, Commands
    from bot.store import Store
    from channels.base import Channel
    from channels.message import Address, InboundEvent, Sender

STORED = Decision(Verdict.ADMIT, "no message")
"""Decides nothing but that the event is stored."""

OPENS_GROUPS = "allow"
"""The one command that an admin may use where nobody is let in yet."""


class Threads:
    """key_of: the key of a message's conversation. Remembers KEPT threads, begun or not, the longest silent is
    forgotten first: then the store is asked again."""

    KEPT = 10_000

    def __init__(self, store: Store, key_of: Callable[[Message], str]) -> None:
        self._store = store
        self._key_of = key_of
        self._begun: LRUCache[str, bool] = LRUCache(self.KEPT)

    def goes_on(self, message: Message) -> bool | None:
        """Whether a message belongs to a conversation that has begun in its thread; None: only the store can tell."""
        if not _follows(message):
            return False
        return self._begun.get(self._key_of(message))

    def begin(self, message: Message) -> None:
        """The bot is addressed by this message: its conversation has begun."""
        if message.address.kind != "dm" and message.address.topic is not None:
            self._begun[self._key_of(message)] = True

    async def look_up(self, messages: Iterable[Message]) -> None:
        """Find out what `goes_on` cannot tell of these. Raises StoreError."""
        keys = {self._key_of(message) for message in messages if self.goes_on(message) is None}
        if keys:
            known = await self._store.read(lambda tx: conversations.known(tx, keys))
            for key in keys - self._begun.keys():  # what began meanwhile has begun
                self._begun[key] = key in known

    def forget(self) -> None:
        """Keys have changed: everything is to be looked up again."""
        self._begun.clear()


def _follows(message: Message) -> bool:
    return message.continues and message.address.kind != "dm" and message.address.topic is not None


class _Addressed:
    """Which messages of groups were for the bot: their edits are too, also one that takes the mention out. Remembers
    KEPT; the edit of an older one is decided by its own words."""

    KEPT = 5_000

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str, str], None] = LRUCache(self.KEPT)

    def add(self, message: Message) -> None:
        self._known[_place(message)] = None

    def __contains__(self, message: Message) -> bool:
        return _place(message) in self._known


def _place(message: Message) -> tuple[str, str, str]:
    return message.account, message.address.chat, message.platform_message_id


class Gate:
    """book: asked for each event, so that what changes counts from the next message on. channel: an account's, None
    where it could not be built. is_skill: whether a command is the name of a skill."""

    def __init__(
        self,
        *,
        book: AccessStore,
        access_service: AccessService,
        commands: Commands,
        channel: Callable[[str], Channel | None],
        background: Background,
        store: Store,
        is_skill: Callable[[str], bool],
    ) -> None:
        self._policies = book.policy
        self._access_service = access_service
        self._commands = commands
        self._channel = channel
        self._background = background
        self._is_skill = is_skill
        self._addressed = _Addressed()
        self.threads = Threads(store, lambda message: self.key(message.address, message.sender))

    def key(self, address: Address, sender: Sender) -> str:
        """The key of the conversation that somebody has there."""
        return conversation_key(address, sender, self._policies(address.account).group_scope)

    # Before the inbox.

    async def learn(self, events: Sequence[InboundEvent]) -> None:
        """Read what `before_inbox` has to know of these: which threads have a conversation. Raises StoreError."""
        rules = {account: self._policies(account).access for account in {event.account for event in events}}
        said = [event.message if isinstance(event, MessageEdited) else event for event in events]
        messages = [message for message in said if isinstance(message, Message)]
        await self.threads.look_up(m for m in messages if rules[m.account].may_speak(m.address, m.sender))

    def before_inbox(self, event: InboundEvent) -> Decision | None:
        """What is decided of an event. None: it is not even stored, for it was said to others in an allowed group (kept
        in memory as background), or where nobody will be answered, or by one of more strangers than may cost anything.
        """
        match event:
            case Message():
                decision = self.decide(event)
                return None if self._message_passes_by(event, decision) else decision
            case MessageEdited():
                decision = self.decide(event.message)
                return None if self._edit_passes_by(event.message, decision) else decision
            case ButtonPressed():
                turned_away = not self._may_speak(event) and self._access_service.turns_away(event.account, "buttons")
            case MembershipChanged():
                turned_away = not self._may_speak(event) and self._access_service.turns_away(
                    event.account, "invitations"
                )
            case _:
                turned_away = False
        return None if turned_away else STORED

    def _may_speak(self, event: ButtonPressed | MembershipChanged) -> bool:
        return self._policies(event.account).access.may_speak(event.address, event.sender)

    def _message_passes_by(self, message: Message, decision: Decision) -> bool:
        if decision.verdict is Verdict.ADMIT:
            self.admitted(message)
            return False
        if self._access_service.has_code(message):
            return False
        match decision.verdict:
            case Verdict.GREET:
                return self._access_service.turns_away(message.account, "direct messages")
            case Verdict.INTRODUCE:
                # A group that heard today how it is let in gets no answer before tomorrow.
                return not self._access_service.would_meet(message.address) or self._access_service.turns_away(
                    message.account, "groups"
                )
            case Verdict.CONTEXT if self._policies(message.account).group_context:
                self._background.add(self.key(message.address, message.sender), message)
        return True

    def _edit_passes_by(self, message: Message, decision: Decision) -> bool:
        """Decided as the message itself: what was said to others stays background, in its new words."""
        if message.address.kind != "dm" and self._access_service.has_code(message):
            return False
        verdict, key = decision.verdict, self.key(message.address, message.sender)
        if verdict is Verdict.ADMIT or (verdict is Verdict.CONTEXT and message in self._addressed):
            # What was said to others is no question, also when an edit names the bot.
            return self._background.edit(key, message)
        overheard = verdict is Verdict.CONTEXT and self._policies(message.account).group_context
        if overheard and not self._background.edit(key, message):
            self._background.add(key, message)  # told to the agent already, or a picture that got its words now
        return True

    # After it.

    def after_inbox(self, message: Message, known: Decision | None) -> Decision:
        """What becomes of a committed message: as it was decided, unless an earlier process did that, or access rules
        have changed since."""
        if known is not None and known.rules is self._policies(message.account).access:
            return known
        return self.decide(message)

    # Both before and after.

    def admitted(self, message: Message) -> None:
        """The message is for the bot: its thread goes on without a mention, and its edits are for the bot too."""
        self.threads.begin(message)
        if message.address.kind != "dm":
            self._addressed.add(message)

    def decide(self, message: Message) -> Decision:
        """What becomes of a message, by what is known in memory."""
        rules, line = self._policies(message.account).access, self._command(message)
        decision = decide(message, rules, line is not None, self.threads.goes_on(message) is True)
        if decision.verdict is not Verdict.ADMIT and self._may_open(message, line):
            person = person_id(message.account, message.sender.id)
            decision = Decision(Verdict.ADMIT, "an admin") if rules.is_admin(person) else decision
        return replace(decision, command=line, rules=rules)

    def _may_open(self, message: Message, line: CommandLine | None) -> bool:
        """It asks for a group to be let in, or may answer the question that follows."""
        if message.address.kind != "group" or message.sender.kind != "user":
            return False
        channel = self._channel(message.account)
        has_numbers = channel is not None and not channel.capabilities.buttons
        answers = message.mention and has_numbers and may_be_number(message)
        return answers or (line is not None and line.name == OPENS_GROUPS)

    def _command(self, message: Message) -> CommandLine | None:
        """The command that a message gives the bot."""
        if message.turn is not None and message.turn.literal:
            return None
        channel = self._channel(message.account)
        identity = None if channel is None else channel.identity
        return meant_for_us(message, None if identity is None else identity.username, self._knows)

    def _knows(self, name: str) -> bool:
        return self._commands.knows(name) or self._is_skill(name)
