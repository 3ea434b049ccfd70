"""What the adapters share: account and health, committing what was received, events that cannot be read, files."""

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

from channels.base import Health, Part
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
"""After which it is seen whether a right that was missing has been granted."""
TOO_DEEP = "nested too deeply to be kept"
LONGEST_KEY = 80
_LONGEST_REASON = 500
_COORDINATE = re.compile(r"-?\d{1,3}(?:\.\d{1,15})?")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Adapter:
    """The same for all of `channels.base.Channel`; what the platform decides is the subclass's. `run` sets identity.

    What only some platforms can do is refused here, or does nothing.
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
        """Most platforms send by calls of their own: nothing is received once `run` has ended."""

    async def preview(self, address: Address, part: Part, idem_key: str) -> None:
        raise Rejected("this platform has no previews")

    def newest(self, address: Address) -> str | None:
        return None

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        """Most platforms need no such bounds for `find`."""

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        """Most platforms have no menu that a program can fill."""

    async def describe(self, about: Mapping[str | None, About]) -> None:
        """Most platforms leave this to their own pages."""

    def chat_link(self, text: str) -> ChatLink | None:
        return None

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        raise Rejected("this platform has no append-only streams")

    def command(self, name: str, address: Address) -> str:
        """Most platforms leave all names to their bots."""
        return f"/{name}"

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        """Most platforms have no streams, or messages that can be edited afterwards."""
        return None


class Missing:
    """What an account cannot do for want of a right: left alone for AGAIN_SECONDS. What would mend it is told once."""

    def __init__(self, account: str, ports: ChannelPorts) -> None:
        self._account, self._ports = account, ports
        self._until: LRUCache[str, float] = LRUCache(1000)
        self._told: set[str] = set()

    def __contains__(self, what: str) -> bool:
        return self._ports.clock.monotonic() < self._until.get(what, 0.0)

    def note(self, what: str, error: NotAllowed) -> None:
        """what: what is missing, as the log tells it."""
        if error.hint not in self._told:
            self._told.add(error.hint)
            self._ports.log.warning("%s: %s: %s; %s", self._account, what, error, error.hint)
        self._until[what] = self._ports.clock.monotonic() + AGAIN_SECONDS


def told_place(name: str, latitude: str, longitude: str) -> str:
    """A place that somebody sent, as a line for the agent, with a map that people can open. Only what is known."""
    point, link = ", ".join(part for part in (latitude, longitude) if part), ""
    if _COORDINATE.fullmatch(latitude) and _COORDINATE.fullmatch(longitude):
        link = f"https://www.openstreetmap.org/?mlat={latitude}&mlon={longitude}"
    return f"[location: {', '.join(part for part in (one_line(name), point, link) if part)}]"


def told_poll(question: str, options: Iterable[str]) -> str:
    """A poll that somebody sent, as a line for the agent."""
    return f"[poll: {one_line(question)} Options: {' / '.join(map(one_line, options))}]"


def keyboard(buttons: tuple[tuple[Button, ...], ...]) -> Keyboard:
    """A message's buttons as they are shown."""
    return tuple(tuple((one_line(button.label), button.data) for button in row) for row in buttons)


def own(part: Part, kind: type[P]) -> P:
    """`part`, which this adapter's `layout` made. Raises Rejected for one of another platform."""
    if not isinstance(part, kind):
        raise Rejected(f"a part of another platform: {type(part).__name__}")
    return part


async def commit(events: Sequence[InboundEvent], ports: ChannelPorts, health: Health) -> None:
    """Hand events to the gateway; once this returns they may be acknowledged.

    Raises NotCommitted for anything that went wrong: then none may be, and they have to be handed over again.
    """
    try:
        await ports.publish(events)
    except Exception as error:
        # What lies behind the port is not known here (a full disk, a lost database, a mistake in it), and need not
        # be: none of it may end the receiving, and after none of it an event counts as taken.
        raise NotCommitted(f"events could not be stored ({type(error).__name__})") from error
    health.last_inbound = ports.clock.monotonic()


def without_surrogates(value: object) -> object:
    """U+FFFD for each lone surrogate (JSON can carry them): it is one UTF-16 unit as well, so offsets stay right."""
    if isinstance(value, str) and not value.isascii():
        return _SURROGATE.sub("\ufffd", value)
    return value


Text = Annotated[StrictStr, BeforeValidator(without_surrogates)]
"""Text as a platform's JSON holds it."""


def or_else(otherwise: object) -> WrapValidator:
    def read(value: object, as_usual: ValidatorFunctionWrapHandler) -> object:
        try:
            return as_usual(value)
        except ValidationError:
            return otherwise

    return WrapValidator(read)


# What a message can do without: it alone is left out where it cannot be read. Never who or where something is.
Name = Annotated[Text, or_else("")]
Spare = Annotated[T | None, or_else(None)]
Several = Annotated[tuple[OnErrorOmit[T], ...], or_else(())]


def storable(text: str) -> str:
    """Text that every store takes: no NUL, newlines as \\n."""
    return text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


class Raw(BaseModel):
    """Base of what adapters read of a platform's JSON. null is absent: platforms send it where there is nothing."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if isinstance(value, dict) and None in value.values():
            return {name: part for name, part in value.items() if part is not None}
        return value


def unparsed(account: str, payload: object, error: Exception, now: datetime, *, key: object = None) -> Unparsed:
    """payload: the event as JSON text, or as what was read of it. key: what the platform knows the event by."""
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
    """What could not be read and where, without the value."""
    if isinstance(error, ValidationError):
        places = [f"{'.'.join(str(step) for step in line['loc'])}: {line['msg']}" for line in error.errors()]
        return "; ".join(places)[:_LONGEST_REASON]
    if not isinstance(error, ValueError):
        return type(error).__name__  # of others it is not known whether they repeat what they were given
    return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()[:_LONGEST_REASON]


def open_regular(path: Path) -> BinaryIO:
    """Open what the agent made without following a link or waiting on a pipe that it may have put there instead.

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
    """`sink`, which takes at most so many bytes: what is declared is only a claim, and may be nothing at all.

    Raises AttachmentFailed("too_large"), at once where more is declared.
    """
    if declared is not None and declared > most:
        raise AttachmentFailed(f"declared {declared} bytes, at most {most} are taken", "too_large")
    return _Capped(sink, most)


class _Capped:
    def __init__(self, sink: Sink, most: int) -> None:
        self._sink = sink
        self._most = self._left = most

    async def write(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise AttachmentFailed(
                f"the file has more than the {self._most} bytes that are taken (max_download_mb)", "too_large"
            )
        await self._sink.write(chunk)
