"""Gate: the first decisions about an event: whether it is stored at all, who is admitted, what is a command. It waits
only for the store, and only before an event is committed.
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
"""The event is stored; nothing else is decided."""

OPENS_GROUPS = "allow"
"""The only command that an admin may use in a group that is not admitted yet."""


class Threads:
    """The threads in which a conversation has begun. key_of: the key of a message's conversation. Caches KEPT threads,
    begun or not, and evicts the least recently used; those are read from the store again."""

    KEPT = 10_000

    def __init__(self, store: Store, key_of: Callable[[Message], str]) -> None:
        self._store = store
        self._key_of = key_of
        self._begun: LRUCache[str, bool] = LRUCache(self.KEPT)

    def goes_on(self, message: Message) -> bool | None:
        """Whether a message belongs to a conversation that has begun in its thread; None if only the store knows."""
        if not _follows(message):
            return False
        return self._begun.get(self._key_of(message))

    def begin(self, message: Message) -> None:
        """Note that this message addresses the bot, so that its conversation has begun."""
        if message.address.kind != "dm" and message.address.topic is not None:
            self._begun[self._key_of(message)] = True

    async def look_up(self, messages: Iterable[Message]) -> None:
        """Read from the store what `goes_on` does not know about these messages. Raises StoreError."""
        keys = {self._key_of(message) for message in messages if self.goes_on(message) is None}
        if keys:
            known = await self._store.read(lambda tx: conversations.known(tx, keys))
            for key in keys - self._begun.keys():  # those that began in the meantime stay begun
                self._begun[key] = key in known

    def forget(self) -> None:
        """Clear the cache after keys have changed."""
        self._begun.clear()


def _follows(message: Message) -> bool:
    return message.continues and message.address.kind != "dm" and message.address.topic is not None


class _Addressed:
    """The group messages that were for the bot: their edits are too, even an edit that removes the mention, and so is
    the rest of their bundle. Caches KEPT; the edit of an older message is decided by its own text."""

    KEPT = 5_000

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, str, str], None] = LRUCache(self.KEPT)
        self._bundles: LRUCache[tuple[str, str | None], None] = LRUCache(self.KEPT)

    def add(self, message: Message) -> None:
        self._known[_place(message)] = None
        if message.bundle_key is not None:
            self._bundles[message.account, message.bundle_key] = None

    def goes_on(self, message: Message) -> bool:
        """Whether a message belongs to such a bundle: only one file of an album has the caption with the mention."""
        return (message.account, message.bundle_key) in self._bundles

    def __contains__(self, message: Message) -> bool:
        return _place(message) in self._known


def _place(message: Message) -> tuple[str, str, str]:
    return message.account, message.address.chat, message.platform_message_id


class Gate:
    """Decides about events. book: read for each event, so that changes apply from the next message on. channel: that of
    an account, None if it could not be built. is_skill: whether a command is the name of a skill."""

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
        """The key of the sender's conversation at this address."""
        return conversation_key(address, sender, self._policies(address.account).group_scope)

    # Before the inbox.

    async def learn(self, events: Sequence[InboundEvent]) -> None:
        """Read which of the events' threads have a conversation, and note which of their bundles are for the bot, for
        `before_inbox`. Raises StoreError."""
        rules = {account: self._policies(account).access for account in {event.account for event in events}}
        said = [event.message if isinstance(event, MessageEdited) else event for event in events]
        messages = [message for message in said if isinstance(message, Message)]
        await self.threads.look_up(m for m in messages if rules[m.account].may_speak(m.address, m.sender))
        for event in events:
            if isinstance(event, Message) and event.bundle_key and self.decide(event).verdict is Verdict.ADMIT:
                self.admitted(event)  # the caption may follow after the other files

    def before_inbox(self, event: InboundEvent) -> Decision | None:
        """The decision about an event. None if it is not stored: it was addressed to others in an allowed group (kept
        in memory as background), or nobody is answered there, or strangers have exceeded their limit.
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
                # A group that was informed today how to be admitted gets no further answer before tomorrow.
                return not self._access_service.would_meet(message.address) or self._access_service.turns_away(
                    message.account, "groups"
                )
            case Verdict.CONTEXT if self._policies(message.account).group_context:
                self._background.add(self.key(message.address, message.sender), message)
        return True

    def _edit_passes_by(self, message: Message, decision: Decision) -> bool:
        """Whether an edit is not stored. Decided like its message: background stays background, with the new text."""
        if message.address.kind != "dm" and self._access_service.has_code(message):
            return False
        verdict, key = decision.verdict, self.key(message.address, message.sender)
        if verdict is Verdict.ADMIT or (verdict is Verdict.CONTEXT and message in self._addressed):
            # A message to others is not a question, even if an edit mentions the bot.
            return self._background.edit(key, message)
        overheard = verdict is Verdict.CONTEXT and self._policies(message.account).group_context
        if overheard and not self._background.edit(key, message):
            self._background.add(key, message)  # already passed to the agent, or a picture that got its text only now
        return True

    # After the inbox.

    def after_inbox(self, message: Message, known: Decision | None) -> Decision:
        """The decision about a committed message: the known one, unless an earlier process made it or access rules have
        changed since."""
        if known is not None and known.rules is self._policies(message.account).access:
            return known
        return self.decide(message)

    # Both before and after.

    def admitted(self, message: Message) -> None:
        """Note that a message is for the bot: its thread needs no more mentions, and its edits and its bundle are for
        the bot too."""
        self.threads.begin(message)
        if message.address.kind != "dm":
            self._addressed.add(message)

    def decide(self, message: Message) -> Decision:
        """The decision about a message, by what is known in memory."""
        rules, line = self._policies(message.account).access, self._command(message)
        goes_on = self.threads.goes_on(message) is True or self._addressed.goes_on(message)
        decision = decide(message, rules, line is not None, goes_on)
        if decision.verdict is not Verdict.ADMIT and self._may_open(message, line):
            person = person_id(message.account, message.sender.id)
            decision = Decision(Verdict.ADMIT, "an admin") if rules.is_admin(person) else decision
        return replace(decision, command=line, rules=rules)

    def _may_open(self, message: Message, line: CommandLine | None) -> bool:
        """Whether a message requests the admission of a group, or may answer the question that follows."""
        if message.address.kind != "group" or message.sender.kind != "user":
            return False
        channel = self._channel(message.account)
        has_numbers = channel is not None and not channel.capabilities.buttons
        answers = message.mention and has_numbers and may_be_number(message)
        return answers or (line is not None and line.name == OPENS_GROUPS)

    def _command(self, message: Message) -> CommandLine | None:
        """The command for the bot in a message."""
        if message.turn is not None and message.turn.literal:
            return None
        channel = self._channel(message.account)
        identity = None if channel is None else channel.identity
        return meant_for_us(message, None if identity is None else identity.username, self._knows)

    def _knows(self, name: str) -> bool:
        return self._commands.knows(name) or self._is_skill(name)
