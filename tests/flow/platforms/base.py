"""A person in a chat, wherever that chat is: what the stories that hold on every platform are told with.

Each platform's driver lives in a file of its own beside this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECONDS = 45.0
"""How long anything is waited for."""


@dataclass(frozen=True)
class Person:
    """Somebody; persons of different numbers are different people on every platform."""

    number: int
    name: str = "Ada"


@dataclass(frozen=True)
class Group:
    """A group. topics: everything said in it belongs to a thread, where the platform has such groups."""

    number: int
    topics: bool = False


Place = Person | Group
"""Where things are shown: a group, or a person's private chat with the bot."""


@dataclass(frozen=True)
class Said:
    """A message of a person. thread: in which it stands or which it opens, "" for none."""

    id: str
    thread: str = ""


@dataclass(frozen=True)
class Seen:
    """A message of the bot as it looks now. labels: of its buttons."""

    id: str
    text: str
    labels: tuple[str, ...] = ()
    thread: str = ""


class Platform(Protocol):
    """One account and the platform's side of it.

    account: its key in the config. retry_after: seconds that `limit` makes an answer wait at least. keeps: what people
    write while nothing is connected is delivered later.
    """

    account: str
    retry_after: float
    keeps: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The account's section of the config; its secrets are names of `variables`."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The secrets, for the environment."""

    def id(self, place: Place) -> str:
        """As the config lists somebody or some group."""

    async def connected(self) -> None:
        """Until the account is connected."""

    async def closed(self) -> None:
        """Until the platform knows of no connection any more."""

    async def say(
        self, text: str, person: Person, group: Group | None = None, *, mention: bool = True, thread: Said | None = None
    ) -> Said:
        """Somebody writes, in private or in a group, there with a mention. thread: of the message that began it.

        Where the platform delivers nothing without a mention, nothing is delivered.
        """

    async def answer(self, seen: Seen, text: str, person: Person) -> None:
        """Somebody replies to a message of the bot in private: where there are only threads, in one below it."""

    async def edit(self, said: Said, text: str, person: Person) -> None:
        """Somebody changes what they wrote in private."""

    async def recall(self, said: Said, person: Person) -> None:
        """Somebody takes back what they wrote in private."""

    async def send_file(self, name: str, content: bytes, person: Person) -> Said:
        """Somebody sends a file in private."""

    async def send_voice(self, words: str, person: Person) -> None:
        """Somebody says something in private; where bots get the recording, simulated services hear the words in it."""

    async def press(self, seen: Seen, label: str, person: Person, group: Group | None = None) -> None:
        """Somebody presses a button, and the gateway has heard of it."""

    async def seen(self, place: Place) -> list[Seen]:
        """All messages of the bot."""

    async def files(self, person: Person) -> list[tuple[str, str]]:
        """Name and SHA-256 of each file that the bot sent somebody, in order."""

    async def until(self, place: Place, fits: Callable[[Seen], bool]) -> Seen:
        """The first message of the bot that fits, as soon as there is one."""

    async def quiet(self, place: Place) -> None:
        """Until nothing happens there any more."""

    async def limit(self, person: Person) -> None:
        """The next change of what the bot shows this person is refused: too many calls."""

    async def limited(self, person: Person) -> float:
        """Wait for that refusal; the time when it came, on the machine's clock."""

    async def changed(self, person: Person, after: float) -> float:
        """When the bot next tried to change what it shows this person."""

    async def cut(self) -> None:
        """The connection breaks, and both sides know."""

    async def silence(self, silent: bool) -> None:
        """The connection is half open: nothing is answered or delivered any more, and nobody is told. False ends it."""

    async def revoke(self) -> None:
        """The account's credentials are refused from now on, and its connection breaks."""

    async def restore(self) -> None:
        """They are accepted again."""


async def shows(platform: Platform, place: Place, text: str) -> Seen:
    """Wait until the bot shows a text there."""
    return await platform.until(place, lambda message: text in message.text)
