"""Gate: what the manager decides of an event before it does anything: whether it is stored at all, who is admitted,
what is a command. Waits for nothing but the store, and that only before an event is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.admission import Decision, Verdict, decide
from bot.buttons import may_be_number
from bot.commands import meant_for_us
from bot.identity import conversation_key, person_id
from bot.threads import Threads
from channels.message import ButtonPressed, MembershipChanged, Message, MessageEdited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bot.access.book import AccessBook
    from bot.access.doorkeeper import Doorkeeper
    from bot.admission import Background
    from bot.commands import CommandLine, Commands
    from bot.store import Store
    from channels.base import Channel
    from channels.message import Address, InboundEvent, Sender

OPENS_GROUPS = "allow"
"""The one command that an admin may use where nobody is let in yet."""


class Gate:
    """book: asked for each event, so that what changes counts from the next message on. channel: an account's, None
    where it could not be built. is_skill: whether a command is the name of a skill."""

    def __init__(
        self,
        *,
        book: AccessBook,
        door: Doorkeeper,
        commands: Commands,
        channel: Callable[[str], Channel | None],
        background: Background,
        store: Store,
        is_skill: Callable[[str], bool],
    ) -> None:
        self._policies = book.policy
        self._door = door
        self._commands = commands
        self._channel = channel
        self._background = background
        self._is_skill = is_skill
        self.threads = Threads(store, lambda message: self.key(message.address, message.sender))

    def key(self, address: Address, sender: Sender) -> str:
        """Of the conversation that somebody has there."""
        return conversation_key(address, sender, self._policies(address.account).group_scope)

    # Before the inbox.

    async def learn(self, events: Sequence[InboundEvent]) -> None:
        """What `passes_by` has to know of these and does not: which threads have a conversation. Raises StoreError."""
        rules = {account: self._policies(account).access for account in {event.account for event in events}}
        heard = [event for event in events if isinstance(event, Message)]
        await self.threads.look_up(m for m in heard if rules[m.account].may_speak(m.address, m.sender))

    def passes_by(self, event: InboundEvent) -> bool:
        """Whether an event is not even stored: said to others in an allowed group (kept in memory as background), or
        one of more strangers than may cost anything."""
        match event:
            case Message():
                return self._message_passes_by(event)
            case MessageEdited(message=about) | (ButtonPressed() | MembershipChanged() as about):
                known = self._policies(event.account).access.may_speak(about.address, about.sender)
                return not known and self._door.turns_away(event.account)
            case _:
                return False

    def _message_passes_by(self, message: Message) -> bool:
        decision, policy = self.decide(message), self._policies(message.account)
        if decision.verdict is Verdict.ADMIT:
            self.threads.begin(message)
            return False
        if self._door.has_code(message):
            return False
        if decision.verdict is not Verdict.CONTEXT:
            return self._door.turns_away(message.account)
        if policy.group_context:
            self._background.add(self.key(message.address, message.sender), message)
        return True

    # Both before and after.

    def decide(self, message: Message) -> Decision:
        """What becomes of a message, by what is known in memory."""
        rules, line = self._policies(message.account).access, self.command(message)
        decision = decide(message, rules, line is not None, self.threads.goes_on(message) is True)
        if decision.verdict is Verdict.ADMIT or not self._may_open(message, line):
            return decision
        person = person_id(message.account, message.sender.id)
        return Decision(Verdict.ADMIT, "an admin") if rules.is_admin(person) else decision

    def _may_open(self, message: Message, line: CommandLine | None) -> bool:
        """It asks for a group to be let in, or may answer the question that follows."""
        if message.address.kind != "group" or message.sender.kind != "user":
            return False
        answers = message.mention and may_be_number(message, self._channel(message.account))
        return answers or (line is not None and line.name == OPENS_GROUPS)

    def command(self, message: Message) -> CommandLine | None:
        """The command that a message gives the bot."""
        channel = self._channel(message.account)
        identity = None if channel is None else channel.identity
        return meant_for_us(message, None if identity is None else identity.username, self._knows)

    def _knows(self, name: str) -> bool:
        return self._commands.knows(name) or self._is_skill(name)
