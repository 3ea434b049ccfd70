"""The tests' view of the simulated Telegram: people and rooms to act with, messages and calls to assert on."""

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulators.seen import SeenCall, file_json

Json = dict[str, Any]
FileKind = Literal["document", "photo", "voice", "audio", "video"]


@dataclass(frozen=True)
class Person:
    """An account that writes; `is_bot` for other bots."""

    id: int
    first_name: str
    username: str | None = None
    language_code: str | None = "en"
    is_bot: bool = False

    def to_json(self) -> Json:
        """The Bot API's User."""
        user: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        if self.username:
            user["username"] = self.username
        if self.language_code:
            user["language_code"] = self.language_code
        return user

    def dm(self) -> "Room":
        """This person's private chat with the bot."""
        return Room(self.id, "private", first_name=self.first_name, username=self.username)


@dataclass(frozen=True)
class Room:
    """A chat."""

    id: int
    type: Literal["private", "group", "supergroup", "channel"] = "supergroup"
    title: str | None = None
    username: str | None = None
    first_name: str | None = None
    is_forum: bool = False

    def to_json(self) -> Json:
        """The Bot API's Chat."""
        fields: Json = {"title": self.title, "username": self.username, "first_name": self.first_name}
        chat: Json = {"id": self.id, "type": self.type, **{k: v for k, v in fields.items() if v is not None}}
        if self.is_forum:
            chat["is_forum"] = True
        return chat


ALICE = Person(1001, "Alice", "alice")
BOB = Person(1002, "Bob", "bob")
TEAM = Room(-1001000000001, "supergroup", "Team")
FORUM = Room(-1001000000002, "supergroup", "Forum", is_forum=True)
NEWS = Room(-1001000000003, "channel", "News")


@dataclass(frozen=True)
class FileSpec:
    """A file that a person sends. Without `content` a filler of `stream_size` bytes is generated while it streams.

    `declared_size` is the size in the message; it defaults to the true size.
    """

    kind: FileKind = "document"
    name: str = "file.bin"
    mime: str = "application/octet-stream"
    content: bytes | None = None
    declared_size: int | None = None
    stream_size: int | None = None

    def to_json(self) -> Json:
        """The control side's media spec."""
        return file_json(self)


@dataclass(frozen=True)
class Said:
    """An injected event; update_id is None if the bot's allowed_updates excluded it."""

    update_id: int | None
    message_id: int
    message: Json


@dataclass(frozen=True)
class Delivery:
    """An update in transit to the bot; delivered_at is None until a poll took it. Monotonic seconds of the machine."""

    update_id: int
    chat_id: int | None
    queued_at: float
    delivered_at: float | None


@dataclass(frozen=True)
class Press:
    """A pressed button."""

    update_id: int | None
    callback_id: str


@dataclass(frozen=True)
class Version:
    """The look of a message from `at` (monotonic seconds) on."""

    at: float
    text: str
    entities: tuple[Json, ...]
    reply_markup: Json | None


@dataclass(frozen=True)
class SeenMessage:
    """A message as a person sees it now. `text` is the caption for media; times are monotonic seconds.

    silent: sent without a notification.
    """

    message_id: int
    from_bot: bool
    sender: str
    text: str
    entities: tuple[Json, ...]
    reply_markup: Json | None
    edits: int
    deleted: bool
    reply_to: int | None
    thread: int | None
    files: tuple[Json, ...]
    link_preview_options: Json | None
    asks_reply: Json | None
    posted_at: float
    changed_at: float
    deleted_at: float | None
    silent: bool
    data: Json = field(repr=False)
    history: tuple[Version, ...] = field(default=(), repr=False)

    @property
    def buttons(self) -> list[Json]:
        """All buttons in reading order."""
        return [button for row in (self.reply_markup or {}).get("inline_keyboard", []) for button in row]


@dataclass(frozen=True, kw_only=True)
class RecordedCall(SeenCall):
    """One request that the simulator received; journal.Record documents the fields."""

    bot_id: int | None
    query: dict[str, str]
    files: list[Json]
    chat_id: int | None
    description: str
    message_id: int | None

    @property
    def text(self) -> str:
        """The text or caption of the call."""
        return str(self.params.get("text", self.params.get("caption", "")))


def seen_message(view: Json) -> SeenMessage:
    """A message from the control side's chat view."""
    data: Json = view["data"]
    sender = data.get("from") or data.get("sender_chat") or {}
    return SeenMessage(
        message_id=data["message_id"],
        from_bot=view["author_bot"] is not None,
        sender=str(sender.get("first_name") or sender.get("title") or sender.get("id", "?")),
        text=_text(data),
        entities=_entities(data),
        reply_markup=data.get("reply_markup"),
        edits=view["edits"],
        deleted=view["deleted_at"] is not None,
        reply_to=(data.get("reply_to_message") or {}).get("message_id"),
        thread=data.get("message_thread_id"),
        files=tuple(view["files"]),
        link_preview_options=view["link_preview_options"],
        asks_reply=view["asks_reply"],
        posted_at=view["posted_at"],
        changed_at=view["changed_at"],
        deleted_at=view["deleted_at"],
        silent=view["silent"],
        data=data,
        history=tuple(_version(version) for version in view.get("versions", [])),
    )


def _version(version: Json) -> Version:
    return Version(version["at"], _text(version), _entities(version), version.get("reply_markup"))


def _text(fields: Json) -> str:
    return str(fields.get("text", fields.get("caption", "")))


def _entities(fields: Json) -> tuple[Json, ...]:
    return tuple(fields.get("entities") or fields.get("caption_entities") or ())


def render_transcript(messages: list[SeenMessage]) -> str:
    """The chat as text for people who read a failed test."""
    return "\n".join(_line(message) for message in messages)


def _line(message: SeenMessage) -> str:
    notes: list[str] = []
    if message.reply_to is not None:
        notes.append(f"re #{message.reply_to}")
    if message.edits:
        notes.append(f"edited {message.edits}x")
    if message.silent:
        notes.append("silent")
    if message.deleted:
        notes.append("deleted")
    head = f"#{message.message_id} {message.sender}{' (' + ', '.join(notes) + ')' if notes else ''}: "
    parts = [message.text.replace("\n", "\n" + " " * 4)]
    parts += [f"[{file['kind']} {file['name']}, {file['size']} bytes]" for file in message.files]
    if message.buttons:
        parts.append("[" + " | ".join(str(button["text"]) for button in message.buttons) + "]")
    return head + " ".join(part for part in parts if part)
