"""Everything the simulated Telegram knows: bots, chats with their messages, callbacks and files."""

import functools
import time
from dataclasses import dataclass, field
from typing import Any

from tests.simulators.connections import OpenConnections
from tests.simulators.faults import FaultQueue
from tests.simulators.journal import CallJournal
from tests.simulators.signals import Party, Place, Signal
from tests.simulators.telegram.errors import ApiError, bad_request
from tests.simulators.telegram.faults import Fault
from tests.simulators.telegram.files import FileStore
from tests.simulators.telegram.journal import Record
from tests.simulators.telegram.limits import Limits, RateMeter
from tests.simulators.telegram.updates import ChatKey, Pending, Update, UpdateQueue

Json = dict[str, Any]

FIRST_MESSAGE_ID = 1
VERSIONED_FIELDS = ("text", "entities", "caption", "caption_entities", "reply_markup", "rich_message")


@dataclass
class StoredMessage:
    """One message of a chat: its Bot API object as of now, and every version that people saw (monotonic times).

    silent: it was sent without a notification. asks_reply: its ForceReply, which clients do not show as a part of the
    message.
    """

    data: Json
    author_bot: int | None
    versions: list[Json] = field(default_factory=list)
    deleted_at: float | None = None
    silent: bool = False
    link_preview_options: Json | None = None
    asks_reply: Json | None = None
    files: list[Json] = field(default_factory=list)
    reactions: dict[int, list[Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remember_version()

    @property
    def message_id(self) -> int:
        return int(self.data["message_id"])

    def remember_version(self) -> None:
        """Record the visible state as the newest version."""
        visible = {name: self.data[name] for name in VERSIONED_FIELDS if name in self.data}
        self.versions.append({"at": time.monotonic(), **visible})


@dataclass
class MessageIds:
    """Counts message ids: separately for each supergroup and channel, jointly for a bot's private chats and groups."""

    next: int = FIRST_MESSAGE_ID

    def take(self) -> int:
        self.next += 1
        return self.next - 1

    def taken(self, message_id: int) -> None:
        """Note that a test chose this id."""
        self.next = max(self.next, message_id + 1)


@dataclass
class Chat(Place):
    """A conversation. Groups are shared by all bots; a private chat belongs to one bot and one person."""

    key: ChatKey
    data: Json
    ids: MessageIds
    messages: dict[int, StoredMessage] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)
    members: dict[int, Json] = field(default_factory=dict)
    migrated_to: int | None = None
    draft: Json | None = None
    drafts: list[Json] = field(default_factory=list)
    actions: list[Json] = field(default_factory=list)

    @property
    def id(self) -> int:
        return int(self.data["id"])

    @property
    def is_private(self) -> bool:
        return bool(self.data["type"] == "private")

    def visible(self, message_id: int) -> StoredMessage | None:
        """The message unless it is unknown or deleted."""
        message = self.messages.get(message_id)
        return message if message is not None and message.deleted_at is None else None


@dataclass
class Callback:
    """A press on a button, until it is answered."""

    bot_id: int
    expired: bool = False
    answer: Json | None = None
    answered: Signal = field(default_factory=Signal)


class Bot(Party):
    """One token's bot: its profile, update queue, meters, and command lists."""

    def __init__(self, token: str, profile: Json, world: "World") -> None:
        super().__init__()
        self.token = token
        self.profile = profile
        self.queue = UpdateQueue(functools.partial(world.confirmed, self))
        self.meter = RateMeter(Limits())
        self.commands: dict[tuple[str, str], list[Json]] = {}
        self.about: dict[tuple[str, str], str] = {}
        self.webhook = ""
        self.ids = MessageIds()
        self.connections = OpenConnections()

    @property
    def id(self) -> int:
        return int(self.profile["id"])

    @property
    def user(self) -> Json:
        """The bot as the `from` of its messages."""
        return {name: self.profile[name] for name in ("id", "is_bot", "first_name", "username")}

    @property
    def pending(self) -> int:
        """Number of updates that it has not confirmed."""
        return len(self.queue)


class World:
    """The whole simulated platform; one per process."""

    def __init__(self) -> None:
        self.bots: dict[str, Bot] = {}
        self.bots_by_id: dict[int, Bot] = {}
        self.chats: dict[ChatKey, Chat] = {}
        self.callbacks: dict[str, Callback] = {}
        self.files = FileStore()
        self.journal = CallJournal[Record]()
        self.faults = FaultQueue[Fault]()
        self.released = Signal()

    def add_bot(self, token: str, **profile: Any) -> Bot:
        """Register a token; its number before the colon is the bot's id."""
        bot_id = int(token.split(":", 1)[0])
        full: Json = {
            "id": bot_id,
            "is_bot": True,
            "first_name": "Antler",
            "username": "antler_bot",
            "can_join_groups": True,
            "can_read_all_group_messages": True,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
            **profile,
        }
        self.bots[token] = self.bots_by_id[bot_id] = bot = Bot(token, full, self)
        return bot

    def bot(self, token: str) -> Bot:
        """The bot of a token; raises ApiError 401 (well formed, unknown) or 404 (malformed) like the real server."""
        bot = self.bots.get(token)
        if bot is None:
            number, _, secret = token.partition(":")
            raise ApiError(401, "Unauthorized") if number.isdigit() and secret else ApiError(404, "Not Found")
        return bot

    def chat_key(self, bot_id: int, chat_id: int) -> ChatKey:
        """The key of a chat: private chats are kept per bot, others once."""
        return (bot_id, chat_id) if chat_id > 0 else (0, chat_id)

    def chat(self, bot: Bot, chat_id: int) -> Chat | None:
        """A chat as this bot addresses it, or None."""
        return self.chats.get(self.chat_key(bot.id, chat_id))

    def ensure_chat(self, bot: Bot, data: Json) -> Chat:
        """The chat, created on first use; newer chat fields replace older ones."""
        key = self.chat_key(bot.id, int(data["id"]))
        chat = self.chats.get(key)
        if chat is None:
            shared = data.get("type") in ("private", "group")
            chat = self.chats[key] = Chat(key, dict(data), bot.ids if shared else MessageIds())
        else:
            chat.data.update(data)
        chat.members.setdefault(bot.id, {"status": "member", "user": bot.user})
        return chat

    def writable_chat(self, bot: Bot, chat_id: int) -> Chat:
        """The chat for a call that writes into it; raises the ApiError that the real server gives otherwise."""
        chat = self.chat(bot, chat_id)
        if chat is None:
            raise bad_request("chat not found")
        if chat.migrated_to is not None:
            raise ApiError(
                400,
                "Bad Request: group chat was upgraded to a supergroup chat",
                {"migrate_to_chat_id": chat.migrated_to},
            )
        status = chat.members.get(bot.id, {"status": "left"})["status"]
        if status in ("kicked", "left"):
            raise ApiError(403, _exclusion(chat, status))
        return chat

    def queue_update(self, bot: Bot, update: Update, chat: Chat | None, *, filtered: bool = True) -> int | None:
        """Queue an update for the bot; None if its allowed_updates exclude it."""
        kind = next((name for name in update if name != "update_id"), "")
        if filtered and not bot.queue.accepts(kind):
            return None
        if chat is not None:
            chat.pending += 1
        bot.touch()
        return bot.queue.add(update, chat.key if chat else None)

    def confirmed(self, bot: Bot, pending: Pending) -> None:
        """Note that the bot confirmed an update."""
        bot.touch()
        chat = self.chats.get(pending.chat) if pending.chat else None
        if chat is not None:
            chat.pending -= 1
            chat.stir()


def _exclusion(chat: Chat, status: str) -> str:
    if chat.is_private:
        return "Forbidden: bot was blocked by the user"
    kind = chat.data["type"]
    reason = "was kicked from" if status == "kicked" else "is not a member of"
    return f"Forbidden: bot {reason} the {kind} chat"
