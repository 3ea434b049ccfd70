"""The channel port: what the gateway requires of a platform, designed for four platforms from the start.

bot/ talks to every platform only through `Channel`. A new platform is one folder that implements it, one line in
`registry.py` and one parameter in the contract test.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit

from channels.errors import ChannelError, Fatal, NotAllowed
from channels.message import InboundEvent

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from channels.capabilities import Capabilities, Rate
    from channels.message import Address, Attachment, ButtonPressed, ChatKind, OutboundMessage

Publish = Callable[[Sequence[InboundEvent]], Awaitable[None]]
"""Hands events to the gateway. If it returns, they are committed and may be acked; if it raises, they are not."""


@dataclass(frozen=True, slots=True)
class Part:
    """One platform message of a reply. Adapters subclass it with their rendering; to the gateway it is opaque.

    Two equal parts look the same on the platform, so an edit from one to the other is skipped.
    """

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BotIdentity:
    """The bot that a credential belongs to. bot_id: the platform's immutable id; username: what people mention."""

    platform: str
    bot_id: str
    username: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Where to look for one of the bot's messages whose send had an unknown outcome.

    after: a message id known to be older (an earlier result of `newest`, or the answered message), None if unknown.
    age: an earlier process sent it at most this many seconds ago, and no other message of the bot answers the same one;
    None where either is unknown.
    """

    idem_key: str
    after: str | None
    age: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """An entry of the platform's command menu."""

    name: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatLink:
    """A link that opens a private chat with the bot. says: following it also sends the text it was created for."""

    url: str
    says: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A bot's self-description. description: in the empty chat, up to 500 characters; summary: on its profile and in
    links to it, up to 120. greeting, offer: the same as the title (26) and the text (112) of a card; buttons: below it,
    each with its label and the command it stands for. outside: what a command does where the {bot} is not present."""

    description: str
    summary: str
    greeting: str = ""
    offer: str = ""
    outside: str = ""
    buttons: tuple[tuple[str, str], ...] = ()


class ConnectionState(StrEnum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RETRYING = "retrying"
    STOPPED = "stopped"


@dataclass(slots=True)
class Health:
    """The actual state of a connection, written by its adapter and read by /status.

    last_sign: monotonic time of the last sign of life on the wire (an answered poll, a pong, a frame); None before the
    first. detail: why it is not connected, one line without secrets. reconnects: count since the start.
    """

    state: ConnectionState = ConnectionState.CONNECTING
    last_sign: float | None = None
    detail: str = ""
    reconnects: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach the network: proxy URL (None: direct) and a file of additional trusted CAs (None: the system's)."""

    proxy: str | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A fault of an account as reported by its platform. what: one line without secrets. remedy: what to change.

    fatal: nothing works until it is changed.
    """

    what: str
    remedy: str
    fatal: bool = True

    @classmethod
    def of(cls, error: ChannelError, url: str) -> Problem:
        """What a failed call means for an operator. url: of the server that was called; only its host is shown."""
        if isinstance(error, Fatal | NotAllowed):
            return cls(what=str(error), remedy=error.hint, fatal=isinstance(error, Fatal))
        host = urlsplit(url).hostname or url
        what = f"the request to {host} failed ({error})"
        return cls(what=what, remedy=f"check that this machine can reach {host}, and check network.proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReport:
    """What a platform reports about the settings of an account, queried without receiving or sending messages.

    identity: None when the platform did not say who the bot is. place: the workspace that it is in, "" where none
    exist. seconds: until the first call was answered. notes: useful facts that are not faults.
    """

    identity: BotIdentity | None = None
    place: str = ""
    seconds: float | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


class Clock(Protocol):
    """A clock that tests can control. now is timezone-aware UTC; monotonic and sleep are in seconds."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Sink(Protocol):
    """A receiver of a file's bytes. `write` raises AttachmentFailed("too_large") once the cap is exceeded."""

    async def write(self, chunk: bytes) -> None: ...


@runtime_checkable
class NamedSink(Sink, Protocol):
    """A sink that also receives the file's name, where only the download reveals it.

    `called` is called before the bytes, at each attempt of a download; the name is as untrusted as `Attachment.name`.
    """

    def called(self, name: str) -> None: ...


class LiveReply(Protocol):
    """An open append-only stream: the live form of the first part of `layout(message)`; later parts are sent after it.

    The text given to `show` only ever extends what was shown before, and on such a platform the first part only ever
    grows with the text. After `finish` the message shows what a `send` of that part would show; where it cannot be
    edited afterwards, a stream finished before its reply is final keeps its status, which says that more follows.
    """

    @property
    def message_id(self) -> str: ...
    async def show(self, message: OutboundMessage) -> None: ...
    async def finish(self, message: OutboundMessage) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest message of one chat that the gateway has stored; topic is None outside threads."""

    chat: str
    topic: str | None
    kind: ChatKind
    message_id: str
    sent_at: datetime


async def _nothing_stored() -> Sequence[Newest]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPorts:
    """What an adapter receives from the gateway. route: resolves the network settings for a URL of this account.

    newest: the last stored message of each allowed chat (and thread), for fetching what was missed since.
    """

    publish: Publish
    clock: Clock
    route: Callable[[str], Route]
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("channels"))
    newest: Callable[[], Awaitable[Sequence[Newest]]] = _nothing_stored


Hello = Callable[[BotIdentity], Awaitable[None]]
"""Called once the credential is accepted and before anything is received; raises to refuse the account."""


class Channel(Protocol):
    """One account on one platform. All methods raise only `channels.errors.ChannelError` (and cancellation)."""

    @property
    def account(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def rate(self) -> Rate: ...
    @property
    def health(self) -> Health: ...
    @property
    def identity(self) -> BotIdentity | None: ...

    async def run(self, hello: Hello) -> None:
        """Connect, say hello, receive until cancelled; reconnects by itself.

        Returns when the source of messages has ended for good (a terminal's end of input). Raises Fatal when only a
        person can help. Cancelling it stops only receiving: `send` and the rest work until `close`.
        """

    async def let_go(self) -> None:
        """Close what a cancelled `run` leaves connected: another process may be connecting as this account.

        The next `run` connects again; until then `send` and the rest may raise Temporary. Idempotent.
        """

    async def close(self) -> None:
        """Release connections. Nothing works afterwards. Idempotent."""

    def layout(self, message: OutboundMessage) -> tuple[Part, ...]:
        """Render a reply. Pure; prefix-stable: while the text grows, all parts but the last two stay unchanged.

        At least one part for a message with any text, status, button or file; () for an empty one.
        """

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send one part and return its platform message id. Raises OutcomeUnknown when it may have been sent.

        silent: do not notify anyone; has no effect where the platform does not support it.
        """

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        """Make a sent message look like `part`; "unchanged" is success. Raises MessageGone when it no longer exists."""

    async def preview(self, address: Address, part: Part, idem_key: str) -> None:
        """Show `part` as an ephemeral draft, replacing the last one with this idem_key.

        It has no message id and disappears with the next `send`, or after `capabilities.preview_ttl`. Only called in a
        DM where `capabilities.preview_dm` is set. Raises Rejected when this chat shows none: send and edit instead.
        """

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of the bot's messages, where the platform can; a missing message is success."""

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """The id of the message created by a send with unknown outcome, now showing `part`; None if none exists.

        Raises OutcomeUnknown when that cannot be determined.
        """

    def newest(self, address: Address) -> str | None:
        """The newest message id known in the chat's id sequence: messages sent from now on get a higher one.

        None where nothing is known, or where `find` does not need it.
        """

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        """Restore what earlier processes knew, (chat, message id): messages that `find` can skip. Newest last."""

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        """Stream an attachment's bytes into `sink`. Raises AttachmentFailed, NotAllowed, Temporary."""

    async def typing(self, address: Address) -> None:
        """Show that an answer is being prepared. Never raises; costs nothing where unsupported."""

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        """End the waiting state of a pressed button, with a short text. Never raises."""

    def command(self, name: str, address: Address) -> str:
        """How people type one of our commands in that chat, without its arguments: "/new"."""

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        """Register the command menu (locale None: the default one). address: only for that chat, instead of the
        general menu."""

    async def describe(self, about: Mapping[str | None, About]) -> None:
        """Set what people read about the bot before they write to it, by locale (None: all others), unless a text
        exists already: then the operator wrote it, or it is this one."""

    def chat_link(self, text: str) -> ChatLink | None:
        """A link to a private chat with the bot, carrying a text of up to 64 letters, digits, - and _; None where the
        platform has no such links, or before the first hello."""

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        """Start an append-only stream. Only called where `capabilities.append_only_stream` is set.

        Raises Rejected when no stream can start now: the reply is then sent, and edited where that is possible.
        """

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        """The stream that an earlier process began with this key, at most `age` seconds ago; None where a stream ends
        with its process. Makes no call.

        Its `show` accepts any text. That process may have ended it with the reply's final, but with nothing else, so a
        `finish` with a final then succeeds. Both raise Permanent when that is unknown, or the stream cannot continue.
        """
