"""Code shared by the adapters: account and health, committing received events, unreadable events, files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeAlias, TypeVar

from cachetools import LRUCache
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    OnErrorOmit,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from channels.base import ConnectionState, Health, Part
from channels.errors import AttachmentFailed, NotCommitted, Rejected
from channels.message import Unparsed
from channels.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from channels.base import About, BotIdentity, ChannelPorts, ChatLink, Command, LiveReply, Sink
    from channels.errors import NotAllowed
    from channels.message import Address, Button, InboundEvent


Keyboard: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
"""Rows of (label, data)."""
P = TypeVar("P", bound=Part)
T = TypeVar("T")
AGAIN_SECONDS = 3600.0
"""Time until the next check whether a missing permission has been granted."""
TOO_DEEP = "nested too deeply to be kept"
LONGEST_KEY = 80
_LONGEST_REASON = 500
_COORDINATE = re.compile(r"-?\d{1,3}(?:\.\d{1,15})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Adapter:
    """Common base of the `channels.base.Channel` implementations; subclasses add what the platform decides. `run` sets
    identity. What only some platforms support is refused here, or does nothing.
    """

    def __init__(self, account: str, ports: ChannelPorts) -> None:
        self._account = account
        self._ports = ports
        self._missing = Missing(account, ports)
        self._health = Health()
        self._identity: BotIdentity | None = None

    @property
    def account(self) -> str:
        return self._account

    @property
    def health(self) -> Health:
        return self._health

    @property
    def identity(self) -> BotIdentity | None:
        return self._identity

    async def let_go(self) -> None:
        """Do nothing: on most platforms sending uses separate calls, and nothing is received once `run` has ended."""

    async def preview(self, address: Address, part: Part, idem_key: str) -> None:
        raise Rejected("this platform has no previews")

    def newest(self, address: Address) -> str | None:
        return None

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        """Do nothing: on most platforms `find` needs no such bounds."""

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        """Do nothing: most platforms have no menu that a program can fill."""

    async def describe(self, about: Mapping[str | None, About]) -> None:
        """Do nothing: on most platforms this is set on their own web pages."""

    def chat_link(self, text: str) -> ChatLink | None:
        return None

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        raise Rejected("this platform has no append-only streams")

    def command(self, name: str, address: Address) -> str:
        """The name after a slash: most platforms leave all command names to the bots."""
        return f"/{name}"

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        """None: most platforms have no streams, or messages that can be edited afterwards."""
        return None


class LocalAdapter(Adapter):
    """Base of adapters without a wire that could fail: while one runs, it is connected."""

    @property
    def health(self) -> Health:
        if self._health.state is ConnectionState.CONNECTED:
            self._health.last_sign = self._ports.clock.monotonic()
        return self._health


class Missing:
    """What an account lacks permission for: not retried for AGAIN_SECONDS. Each remedy is logged once."""

    def __init__(self, account: str, ports: ChannelPorts) -> None:
        self._account, self._ports = account, ports
        self._until: LRUCache[str, float] = LRUCache(1000)
        self._told: set[str] = set()

    def __contains__(self, what: str) -> bool:
        return self._ports.clock.monotonic() < self._until.get(what, 0.0)

    def note(self, what: str, error: NotAllowed) -> None:
        """Record a refusal. what: what is missing, as shown in the log."""
        if error.hint not in self._told:
            self._told.add(error.hint)
            self._ports.log.warning("%s: %s: %s; %s", self._account, what, error, error.hint)
        self._until[what] = self._ports.clock.monotonic() + AGAIN_SECONDS


def told_place(name: str, latitude: str, longitude: str) -> str:
    """A shared location as a line for the agent, with a map link that people can open. Only what is known."""
    point, link = ", ".join(part for part in (latitude, longitude) if part), ""
    if _COORDINATE.fullmatch(latitude) and _COORDINATE.fullmatch(longitude):
        link = f"https://www.openstreetmap.org/?mlat={latitude}&mlon={longitude}"
    return f"[location: {', '.join(part for part in (one_line(name), point, link) if part)}]"


def told_poll(question: str, options: Iterable[str]) -> str:
    """A shared poll as a line for the agent."""
    return f"[poll: {one_line(question)} Options: {' / '.join(map(one_line, options))}]"


def keyboard(buttons: tuple[tuple[Button, ...], ...]) -> Keyboard:
    """A message's buttons as displayed."""
    return tuple(tuple((one_line(button.label), button.data) for button in row) for row in buttons)


def own(part: Part, kind: type[P]) -> P:
    """`part`, if this adapter's `layout` created it. Raises Rejected for a part of another platform."""
    if not isinstance(part, kind):
        raise Rejected(f"a part of another platform: {type(part).__name__}")
    return part


async def commit(events: Sequence[InboundEvent], ports: ChannelPorts) -> None:
    """Hand events to the gateway; once this returns they may be acknowledged.

    Raises NotCommitted for any failure: then none may be acknowledged, and all have to be handed over again.
    """
    try:
        await ports.publish(events)
    except Exception as error:
        # The cause behind the port is unknown here (a full disk, a lost database, a bug) and does not matter: no
        # failure may end receiving, and after any failure the events do not count as accepted.
        raise NotCommitted(f"events could not be stored ({type(error).__name__})") from error


def without_surrogates(value: object) -> object:
    """Replace each lone surrogate (JSON can carry them) by U+FFFD: also one UTF-16 unit, so offsets stay correct."""
    if isinstance(value, str) and not value.isascii():
        return _SURROGATE.sub("\ufffd", value)
    return value


Text = Annotated[StrictStr, BeforeValidator(without_surrogates)]
"""Text in a platform's JSON."""


def or_else(otherwise: object) -> WrapValidator:
    def read(value: object, as_usual: ValidatorFunctionWrapHandler) -> object:
        try:
            return as_usual(value)
        except ValidationError:
            return otherwise

    return WrapValidator(read)


# Optional parts of a message: an unreadable one is left out alone. Never used for identities or places.
Name = Annotated[Text, or_else("")]
Spare = Annotated[T | None, or_else(None)]
Several = Annotated[tuple[OnErrorOmit[T], ...], or_else(())]


def storable(text: str) -> str:
    """Text that every store accepts: no NUL, newlines as \\n."""
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


class Raw(BaseModel):
    """Base of the models that adapters read a platform's JSON with. null counts as absent: platforms send it so."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if isinstance(value, dict) and None in value.values():
            return {name: part for name, part in value.items() if part is not None}
        return value


def unparsed(account: str, payload: object, error: Exception, now: datetime, *, key: object = None) -> Unparsed:
    """The event for an unreadable payload. payload: JSON text or its parsed value. key: the platform's event id."""
    if isinstance(payload, bytes):
        text, digest = payload.decode("utf-8", "replace").replace("\0", ""), hashlib.sha256(payload)
    else:
        try:
            text = json.dumps(payload, sort_keys=True)
        except (RecursionError, ValueError, TypeError):
            text = json.dumps({"key": _key(key), "note": TOO_DEEP})
        digest = hashlib.sha256(text.encode())
    return Unparsed(
        account=account,
        dedupe_keys=(f"x:{_key(key)}:{digest.hexdigest()[:32]}",),
        sent_at=now,
        received_at=now,
        raw=text,
        error=why(error),
    )


def _key(key: object) -> str:
    text: Any = key if isinstance(key, str) else str(key) if type(key) is int and abs(key) < 2**70 else ""
    return str(text).encode("utf-8", "replace").decode()[:LONGEST_KEY]


def why(error: Exception) -> str:
    """A description of what could not be read and where, without the value."""
    if isinstance(error, ValidationError):
        places = [f"{'.'.join(str(step) for step in line['loc'])}: {line['msg']}" for line in error.errors()]
        return "; ".join(places)[:_LONGEST_REASON]
    if not isinstance(error, ValueError):
        return type(error).__name__  # the text of other errors may quote the input
    return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()[:_LONGEST_REASON]


def open_regular(path: Path) -> BinaryIO:
    """Open a file created by the agent, without following a link or blocking on a pipe that may be there instead.

    Raises Rejected.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Rejected(f"the file cannot be opened ({error.strerror})") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Rejected("this is not a regular file")
    return os.fdopen(handle, "rb")


def capped(sink: Sink, most: int, declared: int | None = None) -> Sink:
    """`sink` limited to `most` bytes: the declared size is only a claim, and may be missing.

    Raises AttachmentFailed("too_large"), at once where more is declared.
    """
    if declared is not None and declared > most:
        raise AttachmentFailed(f"declared size is {declared} bytes, the limit is {most}", "too_large")
    return _Capped(sink, most)


class _Capped:
    def __init__(self, sink: Sink, most: int) -> None:
        self._sink = sink
        self._most = self._left = most

    async def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise AttachmentFailed(f"the file exceeds the limit of {self._most} bytes (max_download_mb)", "too_large")
        await self._sink.write(chunk)
