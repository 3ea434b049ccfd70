"""The part of the test clients that waits for what the account under test shows in a chat."""

from collections.abc import Callable, Iterator
from typing import ClassVar, Generic, TypeVar

from tests.simulators.client import first_found
from tests.simulators.seen import Json

PlaceT = TypeVar("PlaceT")
MessageT = TypeVar("MessageT")


class ChatWatcher(Generic[PlaceT, MessageT]):
    """Waits for messages; how a chat is requested and read depends on the platform."""

    patience: ClassVar[float]
    """Seconds, see SimulatorClient."""

    async def chat_view(self, chat: PlaceT, *, revision: int = -1, wait: float = 0.0) -> Json:
        """The raw view of a chat once it is newer than a revision, or after `wait` seconds."""
        raise NotImplementedError

    async def transcript(self, chat: PlaceT) -> str:
        """The chat as text for people."""
        raise NotImplementedError

    def own_messages(self, view: Json) -> Iterator[MessageT]:
        """The account's messages in a view that still exist."""
        raise NotImplementedError

    def shown_text(self, message: MessageT) -> str:
        """The text of a message as people see it."""
        raise NotImplementedError

    async def wait_for_message(
        self, chat: PlaceT, predicate: Callable[[MessageT], bool] = lambda message: True, timeout: float | None = None
    ) -> MessageT:
        """Wait for the first matching message of the account in a chat; `messages` has its history."""

        async def look(revision: int, wait: float) -> Json:
            return await self.chat_view(chat, revision=revision, wait=wait)

        def find(view: Json) -> MessageT | None:
            return next((message for message in self.own_messages(view) if predicate(message)), None)

        seconds = self.patience if timeout is None else timeout
        return await first_found(look, find, seconds, lambda: self.transcript(chat))

    async def wait_for_text(self, chat: PlaceT, text: str, timeout: float | None = None) -> MessageT:
        """The first message of the account that shows a text."""
        return await self.wait_for_message(chat, lambda message: text in self.shown_text(message), timeout)
