"""The tests' view of the platform: people and rooms to act with, messages, calls and envelopes to assert on."""

from dataclasses import dataclass, field
from typing import Any, Literal

from tests.simulators.seen import SeenCall, file_json
from tests.simulators.slack.view import shown_text

Json = dict[str, Any]
Kind = Literal["channel", "group", "im", "mpim"]


@dataclass(frozen=True)
class Person:
    """A user. team_id: another workspace's, for people who join by Slack Connect; None for this one."""

    id: str
    name: str
    team_id: str | None = None
    locale: str = "en-US"
    is_bot: bool = False

    def to_json(self) -> Json:
        """The control side's user."""
        user: Json = {"id": self.id, "name": self.name, "locale": self.locale, "is_bot": self.is_bot}
        return user if self.team_id is None else {**user, "team_id": self.team_id}

    def dm(self) -> "Room":
        """This person's DM with the bot."""
        return Room("", "im", user=self.id)


@dataclass(frozen=True)
class Room:
    """A channel, private channel ("group"), group DM ("mpim") or DM. other_teams: shared by Slack Connect."""

    id: str
    kind: Kind = "channel"
    name: str = ""
    user: str | None = None
    other_teams: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The control side's channel."""
        return {"id": self.id, "kind": self.kind, "name": self.name, "user": self.user} | (
            {"other_teams": list(self.other_teams)} if self.other_teams else {}
        )


Place = Room | Person | str

ADMIN = Person("U0ADMIN", "Admin")
ALICE = Person("U0ALICE", "Alice")
BOB = Person("U0BOB", "Bob")
STRANGER = Person("U0CAROL", "Carol", team_id="T0OTHER")
TEAM = Room("C0TEAM", "channel", "team")
SECRET = Room("C0SECRET", "group", "secret")
SHARED = Room("C0SHARED", "channel", "shared", other_teams=("T0OTHER",))


@dataclass(frozen=True)
class FileSpec:
    """A file that a person shares. Without `content` a filler of `stream_size` bytes is generated while it streams.

    `declared_size` is the size in the message; it defaults to the true size. mode: hosted, snippet or external (with
    external_url). access "check_file_info": the message has only a stub. subtype: slack_audio for voice clips.
    """

    name: str = "file.bin"
    mime: str = "application/octet-stream"
    content: bytes | None = None
    declared_size: int | None = None
    stream_size: int | None = None
    mode: Literal["hosted", "snippet", "external"] = "hosted"
    access: Literal["visible", "check_file_info"] = "visible"
    subtype: str | None = None
    title: str | None = None
    filetype: str | None = None
    external_url: str | None = None

    def to_json(self) -> Json:
        """The control side's file."""
        return file_json(self)


@dataclass(frozen=True)
class Said:
    """An injected message; event_ids: the events with which this app receives it, if any."""

    channel: str
    ts: str
    message: Json
    event_ids: list[str]


@dataclass(frozen=True)
class Sent:
    """An interactive or slash_commands envelope in transit."""

    envelope_id: str
    trigger_id: str = ""
    response_url: str = ""


@dataclass(frozen=True)
class SeenEnvelope:
    """An envelope (see delivery.Envelope); attempts: {number, reason, socket, at}."""

    index: int
    envelope_id: str
    type: str
    event_id: str
    event_type: str
    channel: str | None
    ts: str | None
    state: str
    queued_at: float
    attempts: list[Json]
    acked_at: float | None
    ack_payload: Json | None


@dataclass(frozen=True)
class SeenSocket:
    """A websocket (see sockets.Socket); closed_at is None while the platform considers it open."""

    id: str
    app: str
    silent: bool
    opened_at: float
    closed_at: float | None
    close_code: int | None
    pings: int
    pongs: int
    bad_frames: list[str]


@dataclass(frozen=True)
class Version:
    """The look of a message from `at` (monotonic seconds) on."""

    at: float
    text: str
    shown: str
    blocks: tuple[Json, ...]


@dataclass(frozen=True)
class SeenMessage:
    """A message as a person sees it now. text: the fallback; shown: the text of the blocks, else the text.

    stream: {state, mode, appends} of a message that was streamed. Times are monotonic seconds.
    """

    ts: str
    from_app: str | None
    user: str
    text: str
    shown: str
    blocks: tuple[Json, ...]
    thread: str | None
    subtype: str | None
    edits: int
    deleted: bool
    ephemeral_to: str | None
    files: tuple[Json, ...]
    reactions: dict[str, list[str]]
    metadata: Json | None
    stream: Json | None
    posted_at: float
    changed_at: float
    data: Json = field(repr=False)
    history: tuple[Version, ...] = field(default=(), repr=False)

    @property
    def elements(self) -> list[Json]:
        """All buttons and menus in reading order."""
        found: list[Json] = []
        for block in self.blocks:
            if block["type"] in ("actions", "context_actions"):
                found += block["elements"]
            elif "accessory" in block:
                found.append(block["accessory"])
        return found


@dataclass(frozen=True, kw_only=True)
class RecordedCall(SeenCall):
    """One request that the simulator received; journal.Record documents the fields."""

    app_id: str | None
    team_id: str | None
    encodings: list[str]
    channel: str | None
    error: str
    ts: str | None

    @property
    def text(self) -> str:
        """The text of the call, in any of its forms."""
        return str(self.params.get("markdown_text") or "") or shown_text(self.params)


def seen_message(view: Json) -> SeenMessage:
    """A message from the control side's view of a channel."""
    data: Json = view["data"]
    return SeenMessage(
        ts=data["ts"],
        from_app=view["author_app"],
        user=str(data.get("user", "?")),
        text=str(data.get("text", "")),
        shown=shown_text(data),
        blocks=tuple(data.get("blocks") or ()),
        thread=data.get("thread_ts"),
        subtype=data.get("subtype"),
        edits=view["edits"],
        deleted=view["deleted_at"] is not None,
        ephemeral_to=view["ephemeral_to"],
        files=tuple(data.get("files") or ()),
        reactions={reaction["name"]: reaction["users"] for reaction in data.get("reactions") or ()},
        metadata=data.get("metadata"),
        stream=view["stream"],
        posted_at=view["posted_at"],
        changed_at=view["changed_at"],
        data=data,
        history=tuple(_version(version) for version in view.get("versions", [])),
    )


def _version(version: Json) -> Version:
    text, blocks = str(version.get("text", "")), tuple(version.get("blocks") or ())
    return Version(version["at"], text, shown_text(version), blocks)


def render_transcript(messages: list[SeenMessage]) -> str:
    """The channel as text for people who read a failed test."""
    return "\n".join(_line(message) for message in messages)


def _line(message: SeenMessage) -> str:
    notes = [note for note, holds in _notes(message) if holds]
    indent = "  " if message.thread not in (None, message.ts) else ""
    head = f"{indent}{message.ts} {message.user}{' (' + ', '.join(notes) + ')' if notes else ''}: "
    parts = [message.shown.replace("\n", "\n" + " " * 4)]
    parts += [f"[{file.get('name', file['id'])}, {file.get('size', '?')} bytes]" for file in message.files]
    labels = [str((element.get("text") or {}).get("text", element["type"])) for element in message.elements]
    parts += ["[" + " | ".join(labels) + "]"] if labels else []
    return head + " ".join(part for part in parts if part)


def _notes(message: SeenMessage) -> list[tuple[str, bool]]:
    return [
        ("app", message.from_app is not None),
        (f"edited {message.edits}x", message.edits > 0),
        (f"stream {(message.stream or {}).get('state')}", message.stream is not None),
        (f"only for {message.ephemeral_to}", message.ephemeral_to is not None),
        ("deleted", message.deleted),
    ]
