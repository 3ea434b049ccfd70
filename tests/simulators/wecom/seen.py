"""The tests' view of the platform: people and groups to act with, messages and frames to assert on."""

import base64
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulators.seen import SeenRecord

Json = dict[str, Any]
Kind = Literal["single", "group"]


@dataclass(frozen=True)
class Person:
    """A member of the company; id is the userid."""

    id: str

    @property
    def kind(self) -> Kind:
        return "single"


@dataclass(frozen=True)
class Room:
    """A group; id is the chatid."""

    id: str
    name: str = ""

    @property
    def kind(self) -> Kind:
        return "group"


Place = Person | Room

ALICE = Person("alice")
BOB = Person("bob")
TEAM = Room("wrTEAM0001", "Team")


@dataclass(frozen=True)
class FileSpec:
    """A file that a person sends. broken: how its encryption is broken, "padding" or "truncated"."""

    content: bytes
    name: str = ""
    broken: str = ""

    def to_json(self) -> Json:
        """The control side's file."""
        return {"base64": base64.b64encode(self.content).decode(), "name": self.name, "broken": self.broken}


@dataclass(frozen=True)
class Said:
    """An injected callback; delivered: whether a connection received it."""

    msgid: str
    req_id: str
    delivered: bool
    frame: Json


@dataclass(frozen=True)
class Version:
    """The look of a message from `at` (monotonic seconds) on."""

    at: float
    text: str
    buttons: list[str]


@dataclass(frozen=True)
class SeenMessage:
    """A message as a person sees it now (see state.Bubble). buttons: (text, key)."""

    number: int
    author: str
    kind: str
    text: str
    msgid: str
    stream_id: str
    task_id: str
    state: str
    answers: str
    req_id: str
    buttons: tuple[tuple[str, str], ...]
    file: Json | None
    history: tuple[Version, ...]

    @property
    def labels(self) -> list[str]:
        """The labels of its buttons."""
        return [text for text, _ in self.buttons]


@dataclass(frozen=True, kw_only=True)
class SeenFrame(SeenRecord):
    """A frame that the bot sent (see journal.Record)."""

    bot_id: str | None
    socket: int
    cmd: str
    req_id: str
    body: Json
    acked: float | None
    errcode: int | None
    chat: str | None
    why: str

    @property
    def title(self) -> str:
        return self.cmd


@dataclass(frozen=True)
class Status:
    """The bot's connection. sockets: open websockets, kicked and half-open ones included.

    subscriptions: accepted so far. refused: messages over the limits.
    """

    connected: bool
    subscriptions: int
    kicks: int
    closed_codes: tuple[int | None, ...]
    sockets: int
    refused: int


def seen_message(view: Json) -> SeenMessage:
    """A message from the control side's view."""
    fields = {name: value for name, value in view.items() if name not in ("versions", "buttons")}
    history = tuple(Version(**version) for version in view["versions"])
    return SeenMessage(**fields, buttons=tuple((text, key) for text, key in view["buttons"]), history=history)


def transcript(messages: list[SeenMessage]) -> str:
    """The conversation as text for people who read a failed test."""
    return "\n".join(_line(message) for message in messages)


def _line(message: SeenMessage) -> str:
    notes = ", ".join(note for note in (message.kind, message.state) if note)
    extra = f" [{' | '.join(message.labels)}]" if message.buttons else ""
    extra += f" [{message.file['name']}]" if message.file else ""
    return f"{message.author or 'bot'} ({notes}): {message.text}{extra}"
