"""The tests' view of the platform: people and groups to act with, messages, calls and events to assert on."""

import base64
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulators.seen import SeenCall, file_json

Json = dict[str, Any]


@dataclass(frozen=True)
class Person:
    """A user. id: their user_id; the open_id differs for every app (`FeishuSimulator.open_id`)."""

    id: str
    name: str
    email: str | None = None

    def to_json(self) -> Json:
        """The control side's person."""
        return {"id": self.id, "name": self.name} | ({"email": self.email} if self.email else {})


@dataclass(frozen=True)
class Group:
    """A group ("group") or topic group ("topic"); a bot is in it from its first use, unless `add_chat` says no."""

    id: str
    name: str = ""
    mode: Literal["group", "topic"] = "group"
    external: bool = False

    def to_json(self) -> Json:
        """The control side's chat."""
        return {"id": self.id, "mode": self.mode, "name": self.name, "external": self.external}


Place = Group | Person | str
"""A group, a person's direct chat with the bot, or a known chat_id."""

ADMIN = Person("u_admin", "Admin")
ALICE = Person("u_alice", "Alice", "alice@example.com")
BOB = Person("u_bob", "Bob")
TEAM = Group("oc_team", "team")
TOPICS = Group("oc_topics", "topics", "topic")

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")


@dataclass(frozen=True)
class FileSpec:
    """A file that a person sends. Without `content` a filler of `size` bytes is generated while it streams.

    kind: "image", "file", "audio" (opus) or "media" (a video). duration: milliseconds. key: a fixed file_key.
    """

    name: str = "file.bin"
    mime: str = "application/octet-stream"
    content: bytes | None = None
    size: int = 0
    kind: Literal["image", "file", "audio", "media"] = "file"
    duration: int | None = None
    key: str | None = None

    def to_json(self) -> Json:
        """The control side's file."""
        return file_json(self)


@dataclass(frozen=True)
class Said:
    """A message of a person. event_ids: the events with which this app receives it, if any. keys: of its files."""

    message_id: str
    chat_id: str
    thread_id: str
    keys: list[str]
    event_ids: list[str]

    @property
    def event_id(self) -> str:
        """The event of a message that the app receives."""
        return self.event_ids[0]


@dataclass(frozen=True)
class Pressed:
    """A press in transit; token: for card/update."""

    event_id: str
    token: str


@dataclass(frozen=True)
class SeenEvent:
    """An event (delivery.Envelope in server terms). attempts: {link, at, parts}; acks: {link, at, code, biz_rt}.

    state: held, waiting, sent, acked, failed (given up) or lost. reply: the handler's answer, decoded.
    """

    index: int
    event_id: str
    event_type: str
    chat_id: str | None
    message_id: str
    state: str
    queued_at: float
    attempts: list[Json]
    acks: list[Json]
    reply: Json | None

    @property
    def toast(self) -> str:
        """The text of the toast in the answer to a press, "" for none."""
        return str(((self.reply or {}).get("toast") or {}).get("content", ""))


@dataclass(frozen=True)
class SeenConnection:
    """A long connection; closed_at is None while the platform considers it open. Monotonic seconds.

    pings: control frames, ws_pings: the protocol's own, acks: returned data frames.
    """

    id: str
    silent: bool
    opened_at: float
    closed_at: float | None
    close_code: int | None
    pings: int
    ws_pings: int
    acks: int
    bad_frames: list[str]


@dataclass(frozen=True)
class Version:
    """The look of a message from `at` (monotonic seconds) on."""

    at: float
    text: str
    buttons: list[Json]
    streaming: bool
    generating: bool
    summary: str
    deleted: bool


@dataclass(frozen=True)
class SeenMessage:
    """A message as a person sees it now; text: of any type, for cards the header and all texts.

    sender: a person's id, or an app's. buttons: {tag, text, name, element_id, value, disabled, url, options}.
    streaming: content can be streamed into the card. generating: its line in the list of chats still says so.
    summary: that line otherwise. states: number of looks it has had; history: all of them (only from `messages`).
    """

    message_id: str
    sender: str
    sender_type: str
    msg_type: str
    text: str
    buttons: list[Json]
    streaming: bool
    generating: bool
    summary: str
    deleted: bool
    root_id: str
    parent_id: str
    thread_id: str
    edits: int
    content: Json = field(repr=False)
    card_id: str | None
    mentions: list[str]
    reactions: list[list[str]]
    resources: dict[str, Json]
    posted_at: float
    changed_at: float
    states: int
    history: tuple[Version, ...] = field(default=(), repr=False)

    @property
    def labels(self) -> list[str]:
        """The texts of its buttons."""
        return [str(button["text"]) for button in self.buttons]


@dataclass(frozen=True, kw_only=True)
class RecordedCall(SeenCall):
    """One request that the simulator received; journal.Record documents the fields."""

    app_id: str | None
    query: dict[str, str]
    chat_id: str | None
    message_id: str | None
    card_id: str | None
    code: int | None

    @property
    def content(self) -> Any:
        """The content parameter: parsed if it is JSON, else unchanged."""
        text = self.params.get("content")
        try:
            return json.loads(str(text))
        except ValueError:
            return text


def seen_message(view: Json) -> SeenMessage:
    """A message from the control side's view of a chat."""
    versions = tuple(Version(**version) for version in view.get("versions", ()))
    return SeenMessage(**{name: value for name, value in view.items() if name != "versions"}, history=versions)


def render_transcript(messages: list[SeenMessage]) -> str:
    """The chat as text for people who read a failed test."""
    return "\n".join(_line(message) for message in messages)


def _line(message: SeenMessage) -> str:
    notes = [
        (message.msg_type, message.msg_type != "text"),
        (f"{message.states} states", message.states > 1),
        ("streaming", message.streaming),
        ("generating", message.generating and not message.streaming),
        ("deleted", message.deleted),
    ]
    shown = ", ".join(note for note, holds in notes if holds)
    head = f"{'  ' if message.root_id else ''}{message.message_id} {message.sender}{f' ({shown})' if shown else ''}: "
    labels = f" [{' | '.join(message.labels)}]" if message.buttons else ""
    return head + message.text.replace("\n", "\n    ") + labels
