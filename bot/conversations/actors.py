"""Conversations: the active actors by key; an actor is created for its first event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.conversations.actor import Conversation, Task
from bot.store.identity import is_in_chat, moved_key
from bot.store.rows import StopReason

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.conversations.services import ConversationPorts
    from channels.message import Address


class Conversations:
    def __init__(self, ports: ConversationPorts) -> None:
        self._ports = ports
        self._by_key: dict[str, Conversation] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: str) -> Conversation:
        """The conversation's actor, created if necessary."""
        if key not in self._by_key:
            self._by_key[key] = Conversation(key, self._ports, self._forget)
        return self._by_key[key]

    def standing(self, key: str) -> Conversation | None:
        """The conversation's actor, None when it is idle."""
        return self._by_key.get(key)

    @property
    def waiting(self) -> int:
        """Number of waiting messages in all conversations."""
        return sum(conversation.load for conversation in self._by_key.values())

    async def rest(self, key: str = "") -> None:
        """Wait until one conversation or all of them are idle or can only continue after a person's decision."""
        for conversation in [each for name, each in self._by_key.items() if key in ("", name)]:
            await conversation.rest()

    def move(self, account: str, old_chat: str, new_chat: str) -> None:
        """Move the actors of a chat with a new id to their new keys; otherwise two would work in one thread."""
        for key, conversation in list(self._by_key.items()):
            moved = moved_key(key, account, old_chat, new_chat)
            if moved is None:
                continue
            conversation.move(moved)
            del self._by_key[key]
            standing = self._by_key.setdefault(moved, conversation)
            if standing is not conversation:
                # The new chat already has messages. The old actor finishes its own work, unregistered.
                standing.forget_row()

    def expel(self, group: str | None, concerns: Callable[[Address, str], bool]) -> None:
        """End the current and waiting runs of persons who lost access, with a notice.

        group: only in its conversations.
        """

        async def end(actor: Conversation) -> None:
            if actor.active is not None and concerns(actor.active.address, actor.active.speaker):
                actor.stop_active(StopReason.REVOKED)
            await actor.drop_waiting(lambda texts: texts.dropped_by_revoke, concerns)

        for key, conversation in list(self._by_key.items()):
            if group is None or is_in_chat(key, group):
                conversation.post(Task(end))

    def _forget(self, conversation: Conversation) -> None:
        if self._by_key.get(conversation.key) is conversation:
            del self._by_key[conversation.key]
