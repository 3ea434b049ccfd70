"""The simulated platform's state: workspaces, apps with their installations, channels and messages."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.simulators.signals import Party, Place
from tests.simulators.slack.limits import Limits, RateMeter
from tests.simulators.slack.scopes import BOT_EVENTS, BOT_SCOPES

if TYPE_CHECKING:
    from tests.simulators.slack.delivery import Delivery

Json = dict[str, Any]
Kind = Literal["channel", "group", "im", "mpim"]
StreamMode = Literal["text", "chunks"]
StreamState = Literal["streaming", "stopped", "expired", "stopped_by_user"]

VERSIONED_FIELDS = ("text", "blocks", "files", "metadata")


@dataclass
class Stream:
    """A message that is written by appending. mode: how it was opened, None while nothing was appended.

    segments: blocks in order of appearance; text is merged into the last one, a task keeps its first position.
    """

    started: float
    mode: StreamMode | None = None
    display: str = "timeline"
    recipient: str | None = None
    segments: list[Json] = field(default_factory=list)
    final_blocks: list[Json] = field(default_factory=list)
    state: StreamState = "streaming"
    appends: int = 0


@dataclass
class StoredMessage:
    """One message: its message object as of now, and every version that people saw (monotonic times).

    ephemeral_to: the only person who sees it.
    """

    data: Json
    author_app: str | None
    versions: list[Json] = field(default_factory=list)
    deleted_at: float | None = None
    ephemeral_to: str | None = None
    stream: Stream | None = None

    def __post_init__(self) -> None:
        self.remember_version()

    @property
    def ts(self) -> str:
        return str(self.data["ts"])

    @property
    def thread_ts(self) -> str | None:
        """The root of the thread that it belongs to, None for one without replies."""
        return self.data.get("thread_ts")

    @property
    def is_reply(self) -> bool:
        return self.thread_ts is not None and self.thread_ts != self.ts

    def remember_version(self) -> None:
        """Record the visible state as the newest version."""
        visible = {name: self.data[name] for name in VERSIONED_FIELDS if name in self.data}
        self.versions.append({"at": time.monotonic(), **visible})


@dataclass
class AssistantThread:
    """A thread with an app in its DM, with what setStatus and related methods show there."""

    status: str = ""
    status_at: float = 0.0
    loading_messages: list[str] = field(default_factory=list)
    title: str | None = None
    prompts: list[Json] = field(default_factory=list)
    statuses: list[Json] = field(default_factory=list)


@dataclass
class Channel(Place):
    """A conversation of any kind. user, bot_user: the two sides of an im. other_teams: shared by Slack Connect."""

    id: str
    team_id: str
    kind: Kind
    name: str = ""
    user: str | None = None
    bot_user: str | None = None
    members: set[str] = field(default_factory=set)
    other_teams: set[str] = field(default_factory=set)
    archived: bool = False
    messages: dict[str, StoredMessage] = field(default_factory=dict)
    threads: dict[str, AssistantThread] = field(default_factory=dict)

    def visible(self, ts: str) -> StoredMessage | None:
        """The message unless it is unknown, deleted or ephemeral."""
        message = self.messages.get(ts)
        if message is None or message.deleted_at is not None or message.ephemeral_to is not None:
            return None
        return message

    def replies(self, root: str) -> list[StoredMessage]:
        """The visible replies in a thread, oldest first."""
        there = [m for m in self.messages.values() if m.thread_ts == root and m.is_reply and self.visible(m.ts)]
        return sorted(there, key=lambda message: message.ts)

    def ordered(self) -> list[StoredMessage]:
        """All existing messages that are visible to everyone, oldest first."""
        there = [message for message in self.messages.values() if self.visible(message.ts) is not None]
        return sorted(there, key=lambda message: message.ts)

    def thread(self, root: str) -> AssistantThread:
        """The elements of a thread other than its messages."""
        return self.threads.setdefault(root, AssistantThread())


@dataclass
class Workspace:
    """A team with its people and channels."""

    team_id: str
    name: str
    domain: str
    users: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)


@dataclass
class Installation:
    """An app in a workspace: its bot token, its bot user and its scopes. revoked: the error of its token."""

    app: "App"
    workspace: Workspace
    bot_token: str
    bot_user_id: str
    bot_id: str
    scopes: frozenset[str]
    revoked: str | None = None
    meter: RateMeter = field(default_factory=lambda: RateMeter(Limits()))


@dataclass
class App(Party):
    """A registered app. app_token_error: the error for its app-level token, None while it is valid."""

    app_id: str
    name: str
    app_token: str
    delivery: "Delivery"
    events: frozenset[str] = frozenset(BOT_EVENTS)
    scopes: frozenset[str] = frozenset(BOT_SCOPES)
    commands: frozenset[str] = frozenset()
    app_token_scopes: frozenset[str] = frozenset({"connections:write"})
    app_token_error: str | None = None
    socket_mode: bool = True
    messages_tab: bool = True
    installs: dict[str, Installation] = field(default_factory=dict)

    @property
    def pending(self) -> int:
        """Number of envelopes that are neither acked nor given up."""
        return self.delivery.pending
