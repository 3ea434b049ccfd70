"""The platform's state: tenants with people and chats, apps, messages with all their versions, files."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.simulators.feishu import cards, ids
from tests.simulators.feishu.cards import Card
from tests.simulators.feishu.limits import Meter
from tests.simulators.signals import Party, Place

if TYPE_CHECKING:
    from tests.simulators.feishu.delivery import Delivery

Json = dict[str, Any]
ChatMode = Literal["p2p", "group", "topic"]

CHUNK = 64 * 1024
ALL_EVENTS = frozenset(
    {
        "im.message.receive_v1",
        "im.message.recalled_v1",
        "im.message.message_read_v1",
        "im.message.reaction.created_v1",
        "im.message.reaction.deleted_v1",
        "im.chat.member.bot.added_v1",
        "im.chat.member.bot.deleted_v1",
        "im.chat.access_event.bot_p2p_chat_entered_v1",
        "im.chat.disbanded_v1",
        "application.bot.menu_v6",
        "card.action.trigger",
    }
)

SCOPES = frozenset(
    {
        "im:message",
        "im:message:send_as_bot",
        "im:message.p2p_msg:readonly",
        "im:message.group_at_msg:readonly",
        "im:resource",
        "cardkit:card:write",
        "im:chat:readonly",
        "contact:user.base:readonly",
    }
)
"""Scopes that an app has requested; calls need none of them here (a fault can refuse one)."""


class App(Party):
    """An app with its bot. token_seconds: lifetime of its tenant tokens. group_messages: those it gets in groups.

    client_config: sent to the SDK by endpoint and pongs. config_in_pong: whether pongs carry it.
    scopes: those that were granted. pongs, ws_pongs: whether control pings and the protocol's own pings are answered.
    """

    def __init__(self, app_id: str, app_secret: str, name: str, tenant: "Tenant", delivery: "Delivery") -> None:
        super().__init__(last_activity=time.monotonic())
        self.app_id = app_id
        self.app_secret = app_secret
        self.name = name
        self.tenant = tenant
        self.delivery = delivery
        self.meter = Meter()
        self.events = ALL_EVENTS
        self.scopes = SCOPES
        self.token_seconds = 7200
        self.group_messages: Literal["all", "mentions"] = "all"
        self.client_config: Json = {
            "ReconnectCount": -1,
            "ReconnectInterval": 1,
            "ReconnectNonce": 0,
            "PingInterval": 2,
        }
        self.config_in_pong = True
        self.pongs = True
        self.ws_pongs = True
        self.bot_active = True

    @property
    def bot_open_id(self) -> str:
        """The bot as its own app sees it."""
        return ids.open_id(self.app_id, self.app_id)

    @property
    def pending(self) -> int:
        """Number of events that are neither acked nor given up."""
        return self.delivery.pending


@dataclass
class Tenant:
    """A company: its people, chats and messages."""

    key: str
    people: dict[str, Json] = field(default_factory=dict)
    chats: dict[str, "Chat"] = field(default_factory=dict)
    messages: dict[str, "Message"] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)
    images: dict[str, "StoredFile"] = field(default_factory=dict)
    files: dict[str, "StoredFile"] = field(default_factory=dict)
    apps: dict[str, App] = field(default_factory=dict)


class Chat(Place):
    """A direct chat (mode "p2p", of one person with one app's bot), a group or a topic group."""

    def __init__(self, chat_id: str, mode: ChatMode, name: str = "", *, person: str = "", app_id: str = "") -> None:
        super().__init__(last_activity=time.monotonic())
        self.chat_id = chat_id
        self.mode = mode
        self.name = name
        self.person = person
        self.bots: set[str] = {app_id} if app_id else set()
        self.known_to: set[str] = set()
        self.members: set[str] = {person} if person else set()
        self.messages: list[Message] = []
        self.sent: deque[float] = deque()
        self.disbanded = False
        self.external = False

    @property
    def chat_type(self) -> str:
        """The type of the chat in message events."""
        return "p2p" if self.mode == "p2p" else "group"


@dataclass
class Message:
    """One message. sender: a person, or for sender_type "app" an app's id. content: as the sender's JSON.

    mentions: the people or apps behind @_user_1, @_user_2 ... versions: {at, text, ...} with monotonic times.
    """

    message_id: str
    chat: Chat
    sender: str
    sender_type: Literal["user", "app"]
    msg_type: str
    content: Json
    created: int
    updated: int
    mentions: list[str] = field(default_factory=list)
    root_id: str = ""
    parent_id: str = ""
    thread_id: str = ""
    upper_id: str = ""
    card: Card | None = None
    edits: int = 0
    deleted_at: float | None = None
    reactions: dict[str, Json] = field(default_factory=dict)
    resources: dict[str, "StoredFile"] = field(default_factory=dict)
    children: list["Message"] = field(default_factory=list)
    versions: list[Json] = field(default_factory=list)

    @property
    def updated_flag(self) -> bool:
        """Whether it was edited after it was sent."""
        return self.edits > 0

    def show(self, now: float) -> None:
        """Record the current look of the message, if that is new, and wake the chat's watchers."""
        look = {"at": time.monotonic(), **self.look(now)}
        if not self.versions or {**self.versions[-1], "at": 0} != {**look, "at": 0}:
            self.versions.append(look)
        self.chat.touch()

    def look(self, now: float) -> Json:
        """The look of it for a person: text, buttons, and for cards whether they stream and their line in the list."""
        if self.card is None:
            streaming, generating, summary, buttons = False, False, "", []
        else:
            streaming, generating = self.card.streaming(now), self.card.wants_streaming
            summary, buttons = cards.summary(self.card.data), cards.buttons(self.card.data)
        text = plain_text(self)
        return {
            "text": text,
            "buttons": buttons,
            "streaming": streaming,
            "generating": generating,
            "summary": summary,
            "deleted": self.deleted_at is not None,
        }


def plain_text(message: Message) -> str:
    """What a person reads of a message, whatever its type."""
    if message.card is not None:
        return cards.shown_text(message.card.data)
    content = message.content
    if message.msg_type == "text":
        return str(content.get("text", ""))
    if message.msg_type == "post":
        lines = ["".join(map(_post_text, line)) for line in content.get("content") or ()]
        return "\n".join([str(content["title"])] * bool(content.get("title")) + lines)
    name = content.get("file_name") or content.get("image_key") or content.get("file_key") or ""
    return f"[{message.msg_type} {name}]".replace(" ]", "]")


def _post_text(node: Json) -> str:
    if node.get("tag") == "at":
        return f"@{node.get('user_name') or node.get('user_id')}"
    if node.get("tag") == "img":
        return f"[image {node.get('image_key')}]"
    return str(node.get("text") or node.get("emoji_type") or "")


@dataclass
class StoredFile:
    """A file's bytes, or `size` bytes of filler generated while streaming. sent: number of bytes sent."""

    name: str
    mime: str
    kind: str
    content: bytes | None
    size: int
    owner: str = ""
    duration: int | None = None
    downloads: int = 0
    sent: int = 0

    def chunks(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        for at in range(0, self.size, CHUNK):
            length = min(CHUNK, self.size - at)
            yield b"x" * length if self.content is None else self.content[at : at + length]
