"""The simulated platform's state: bots, conversations with their messages, and the callbacks that bots may answer."""

import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.simulators.signals import Party, Signal
from tests.simulators.wecom.limits import Limits, Meter

if TYPE_CHECKING:
    from tests.simulators.wecom.sockets import Socket

Json = dict[str, Any]
Kind = Literal["single", "group"]
RequestKind = Literal["message", "enter_chat", "card"]


@dataclass
class Bubble:
    """One message in a conversation. author: a user id, "" for the bot. text: as shown now.

    kind: text, stream, markdown, card, image, file, voice or video. stream_id, task_id: the bot's own ids of it.
    state, of a stream: streaming, finished or expired. answers: the msgid of the message that it answers.
    req_id: of the frame that made it.
    versions: all texts that it has shown. file: name, size, sha256. card: its current state.
    """

    number: int
    author: str
    kind: str
    text: str = ""
    msgid: str = ""
    stream_id: str = ""
    task_id: str = ""
    state: str = ""
    answers: str = ""
    req_id: str = ""
    started: float = 0.0
    card: Json | None = None
    file: Json | None = None
    versions: list[Json] = field(default_factory=list)

    def show(self, text: str, card: Json | None = None) -> None:
        """Change the visible content."""
        self.text = text
        self.card = card
        labels = [str(button["text"]) for button in (card or {}).get("button_list") or ()]
        self.versions.append({"at": time.monotonic(), "text": text, "buttons": labels})


@dataclass
class Chat(Party):
    """A conversation: id is the chatid of a group, the user id of a single one. spoke: the bot may push here."""

    id: str
    kind: Kind
    name: str = ""
    spoke: bool = False
    member: bool = True
    bubbles: list[Bubble] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)

    def add(self, author: str, kind: str, **fields: Any) -> Bubble:
        """Append a new message."""
        bubble = Bubble(len(self.bubbles), author, kind, **fields)
        bubble.show(bubble.text, bubble.card)
        self.bubbles.append(bubble)
        self.touch()
        return bubble


@dataclass
class Request:
    """A callback that the bot may answer under its req_id. socket: the connection that got it."""

    req_id: str
    msgid: str
    kind: RequestKind
    chat: Chat
    at: float
    socket: int
    user: str = ""
    task_id: str = ""
    stream: Bubble | None = None
    answered: bool = False
    frame: Json = field(default_factory=dict)


@dataclass
class Media:
    """A file that the bot uploaded."""

    media_id: str
    type: str
    name: str
    content: bytes
    at: float

    def to_json(self) -> Json:
        """The view of it for tests."""
        return {"name": self.name, "size": len(self.content), "sha256": hashlib.sha256(self.content).hexdigest()}


@dataclass
class Upload:
    """An upload in progress."""

    upload_id: str
    type: str
    name: str
    size: int
    chunks: int
    md5: str
    at: float
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Served:
    """An encrypted file of a person, at a URL that ends in `key`. broken: "padding" or "truncated", "" for a valid one.

    at: the time from which the URL is valid. hits: number of downloads.
    """

    key: str
    name: str
    content: bytes
    aes_key: bytes
    at: float
    broken: str = ""
    hits: int = 0


@dataclass
class Bot:
    """One robot. silent: its connection is half open, nothing is read, answered or sent. mute_pings: only pings.

    forget_req_ids: after a reconnect the req_ids of older connections are no longer known (846605)."""

    bot_id: str
    secret: str
    name: str
    socket: "Socket | None" = None
    chats: dict[str, Chat] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    used_req_ids: set[str] = field(default_factory=set)
    cards: dict[str, Bubble] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    media: dict[str, Media] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    silent: bool = False
    mute_pings: bool = False
    forget_req_ids: bool = False
    stream_seconds: float | None = None
    subscriptions: int = 0
    kicks: int = 0
    closed_codes: list[int | None] = field(default_factory=list)
    changed: Signal = field(default_factory=Signal)

    def chat(self, chat_id: str, kind: Kind, name: str = "") -> Chat:
        """A conversation, created on first use."""
        return self.chats.setdefault(chat_id, Chat(chat_id, kind, name))
