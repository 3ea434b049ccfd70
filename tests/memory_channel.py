"""The in-memory channel: the port of channels/base.py without a platform behind it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from channels.adapter import own
from channels.base import BotIdentity, ChatLink, ConnectionState, Health, Part
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import AttachmentFailed, ChannelError, EditRefused, MessageGone, OutcomeUnknown, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from channels.base import About, ChannelPorts, Command, Hello, LiveReply, Probe, Sink
    from channels.errors import ChannelError
    from channels.message import Address, Attachment, Button, ButtonPressed, InboundEvent, OutboundFile, OutboundMessage


DEFAULT_RATE = Rate(per_second=30, per_chat_per_second=1, per_group_per_minute=20)

KEPT = 10_000
"""Number of messages per chat, states per message, and calls that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMode:
    """Features of the platform. stream_ttl: seconds a stream may stay open. previews: ephemeral drafts in DMs.

    findable: `find` can locate a lost send; adopts: it is also used for drafts of an earlier process.
    replies: an answer must reply to a message. buttons: without this, buttons of messages are omitted.
    resumes: an open stream does not end with its process. notifies, notify_after: as in Capabilities.
    """

    edits: bool = True
    append_only: bool = False
    idempotent: bool = True
    findable: bool = True
    adopts: bool = True
    previews: bool = False
    buttons: bool = True
    replies: bool = False
    resumes: bool = False
    typing: bool = True
    typing_lasts: bool = False
    notifies: bool = False
    notify_after: float | None = 30.0
    stream_ttl: float | None = None
    stream_sign: float | None = None
    max_unit: int = 4000

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            edits=self.edits,
            append_only_stream=self.append_only,
            stream_ttl=self.stream_ttl,
            stream_sign=self.stream_sign,
            buttons=self.buttons,
            files=True,
            typing=self.typing,
            typing_lasts=self.typing_lasts,
            text_unit=TextUnit.CHARACTERS,
            max_unit=self.max_unit,
            idempotent_send=self.idempotent,
            findable_after_crash=self.findable and self.adopts,
            edit_interval_dm=1.0,
            edit_interval_group=3.0,
            preview_dm=self.previews,
            replies_to_message=self.replies,
            notifies=self.notifies,
            notify_after=self.notify_after,
        )


FULL = MemoryMode()
APPEND_ONLY = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False)
NO_EDIT = MemoryMode(edits=False)
NO_IDEMPOTENCY = MemoryMode(idempotent=False, findable=False)
CALLS = MemoryMode(notifies=True)
"""A new message notifies people, an edit does not."""
SEARCHED = MemoryMode(idempotent=False)
"""A send cannot be repeated, but it can be searched for."""
NO_BUTTONS = MemoryMode(buttons=False)
REPLIES = MemoryMode(replies=True)
RESUMED = MemoryMode(edits=False, append_only=True, idempotent=False, findable=False, replies=True, resumes=True)
"""Like APPEND_ONLY, but an open stream outlives its process."""


@dataclass(frozen=True, slots=True)
class MemoryPart(Part):
    """One message: a piece of the text with its buttons, or one file."""

    text: str
    buttons: tuple[tuple[Button, ...], ...] = ()
    file: OutboundFile | None = None
    asks_reply: bool = False


@dataclass(slots=True, kw_only=True)
class Bubble:
    """A message as a person sees it. history: all its states, oldest first. sent_at: monotonic.

    silent: it notified nobody. resumed: a stream that another process continues, regardless of what it shows.
    """

    message_id: str
    idem_key: str
    part: MemoryPart
    reply_to: str | None
    sent_at: float
    silent: bool = False
    history: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT))
    streaming: bool = False
    resumed: bool = False

    @property
    def text(self) -> str:
        return self.part.text


@dataclass(frozen=True, slots=True)
class Call:
    """One call from delivery. at: monotonic."""

    method: str
    chat: str
    at: float


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure of a call. applied: the platform carried it out, only its response is lost."""

    error: ChannelError
    applied: bool = False


def layout(message: OutboundMessage, mode: MemoryMode) -> tuple[MemoryPart, ...]:
    """The pieces of the text, the last one with status and buttons; then one part for each file."""
    pieces = split(message.text, mode.max_unit, at_lines=not mode.append_only)
    if message.status or (message.buttons and not pieces):
        pieces = _with_status(pieces, message.status, mode.max_unit)
    parts = [MemoryPart(index, piece) for index, piece in enumerate(pieces)]
    if parts and message.buttons and mode.buttons:
        parts[-1] = replace(parts[-1], buttons=message.buttons)
    elif parts and message.asks_reply:
        parts[-1] = replace(parts[-1], asks_reply=True)
    parts += [MemoryPart(len(parts) + number, file.name, (), file) for number, file in enumerate(message.files)]
    return tuple(parts)


def split(text: str, limit: int, at_lines: bool) -> list[str]:
    """Split a text into pieces of at most `limit` characters, which joined result in `text`.

    at_lines: cut at line ends, if any. Not for a stream, whose first piece would shrink when it is full.
    """
    pieces = []
    while len(text) > limit:
        end = (text.rfind("\n", 0, limit) + 1 if at_lines else 0) or limit
        pieces.append(text[:end])
        text = text[end:]
    return [*pieces, text] if text else pieces


def _with_status(pieces: list[str], status: str, limit: int) -> list[str]:
    if not pieces:
        return [status[:limit]]
    last = f"{pieces[-1]}\n\n{status}"
    return [*pieces[:-1], last] if len(last) <= limit else pieces


class MemoryChannel:
    """Channel port. chats: messages of each chat, oldest first; previews: the ephemeral draft of a chat."""

    def __init__(self, account: str, ports: ChannelPorts, mode: MemoryMode = FULL, rate: Rate = DEFAULT_RATE) -> None:
        self.account = account
        self.mode = mode
        self.rate = rate
        self.health = Health()
        self.identity: BotIdentity | None = None
        self.chats: dict[str, list[Bubble]] = {}
        self.previews: dict[str, MemoryPart] = {}
        self.calls: deque[Call] = deque(maxlen=KEPT)
        self.acknowledged: deque[tuple[str, str]] = deque(maxlen=KEPT)
        self.commands: dict[str | None, tuple[Command, ...]] = {}
        self.chat_commands: dict[tuple[str, str | None], tuple[Command, ...]] = {}
        self.about: dict[str | None, About] = {}
        self.files: dict[str, bytes] = {}
        self.times_let_go = 0
        self._taken: OrderedDict[tuple[str, str], Bubble] = OrderedDict()
        self._ports = ports
        self._faults: dict[tuple[str, str | None], deque[Fault]] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._ended = asyncio.Event()
        self._count = 0

    @property
    def capabilities(self) -> Capabilities:
        return self.mode.capabilities

    # Interface for programs and tests.

    async def receive(self, *events: InboundEvent) -> None:
        """Receive events, such as messages. Return once the gateway has committed them."""
        await self._ports.publish(events)

    def end(self) -> None:
        """End the input, so that `run` returns."""
        self._ended.set()

    def fail(self, method: str, *errors: ChannelError, applied: bool = False, chat: str | None = None) -> None:
        """Let the next calls of that method (in that chat) raise these errors, one each."""
        self._faults.setdefault((method, chat), deque()).extend(Fault(error, applied) for error in errors)

    def hold(self, method: str) -> asyncio.Event:
        """Let calls of that method wait, before they have any effect, until the event is set."""
        return self._gates.setdefault(method, asyncio.Event())

    def texts(self, chat: str) -> list[str]:
        """The current texts in a chat."""
        return [bubble.text for bubble in self.chats.get(chat, ())]

    def next_id(self) -> str:
        """Take the next message id, for a person's message."""
        self._count += 1
        return f"m{self._count}"

    def remove(self, chat: str, message_id: str) -> None:
        """Let a person delete a message."""
        self.chats[chat] = [bubble for bubble in self.chats.get(chat, ()) if bubble.message_id != message_id]

    # The port.

    async def run(self, hello: Hello) -> None:
        self.identity = BotIdentity(platform="memory", bot_id=f"memory-{self.account}", username=self.account)
        await hello(self.identity)
        self.health.state = ConnectionState.CONNECTED
        self.health.last_sign = self._ports.clock.monotonic()
        try:
            await self._ended.wait()
        finally:
            self.health.state = ConnectionState.STOPPED

    async def let_go(self) -> None:
        self.times_let_go += 1

    async def close(self) -> None:
        self._ended.set()

    def layout(self, message: OutboundMessage) -> tuple[Part, ...]:
        return layout(message, self.mode)

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        fault = await self._begin("send", address)
        bubble = self._put(address, own(part, MemoryPart), idem_key, reply_to, silent=silent)
        _lose_answer(fault)
        return bubble.message_id

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        if not self.mode.edits:
            raise Rejected("this platform cannot edit")
        try:
            fault = await self._begin("edit", address)
        except EditRefused:
            raise
        except MessageGone:
            # A platform that reports this no longer has the message.
            self.remove(address.chat, message_id)
            raise
        self._show(self._bubble(address, message_id), own(part, MemoryPart))
        _lose_answer(fault)

    async def preview(self, address: Address, part: Part, idem_key: str) -> None:
        if not self.mode.previews or address.kind != "dm":
            raise Rejected("this chat does not accept previews")
        fault = await self._begin("preview", address)
        self.previews[address.chat] = own(part, MemoryPart)
        _lose_answer(fault)

    async def delete(self, address: Address, message_id: str) -> None:
        fault = await self._begin("delete", address)
        self.remove(address.chat, message_id)
        _lose_answer(fault)

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        if not self.mode.findable:
            raise OutcomeUnknown("this platform cannot be searched")
        fault = await self._begin("find", address)
        for bubble in self.chats.get(address.chat, ()):
            if bubble.idem_key == probe.idem_key:
                if self.mode.edits:
                    self._show(bubble, own(part, MemoryPart))
                _lose_answer(fault)
                return bubble.message_id
        _lose_answer(fault)
        return None

    def newest(self, address: Address) -> str | None:
        return None

    def recall(self, known: Iterable[tuple[str, str]]) -> None:
        """Do nothing: messages keep their keys."""

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        content = self.files.get(attachment.ref)
        if content is None:
            raise AttachmentFailed(f"no file {attachment.ref}", "gone")
        await sink.write(content)

    async def typing(self, address: Address) -> None:
        self.calls.append(Call("typing", address.chat, self._ports.clock.monotonic()))
        if "typing" in self._gates:
            await self._gates["typing"].wait()

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        self.acknowledged.append((press.callback_id, text))

    def command(self, name: str, address: Address) -> str:
        return f"/{name}"

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        if address is None:
            self.commands[locale] = tuple(commands)
        else:
            self.chat_commands[address.chat, locale] = tuple(commands)

    async def describe(self, about: Mapping[str | None, About]) -> None:
        self.about = dict(about)

    def chat_link(self, text: str) -> ChatLink | None:
        return ChatLink(url=f"memory://{self.account}?say={text}", says=True)

    async def open_stream(self, address: Address, idem_key: str, reply_to: str | None) -> LiveReply:
        fault = await self._begin("open_stream", address)
        bubble = self._put(address, MemoryPart(0, ""), idem_key, reply_to)
        bubble.streaming = True
        _lose_answer(fault)
        ttl = self.mode.stream_ttl
        return MemoryStream(self, address, bubble, None if ttl is None else bubble.sent_at + ttl)

    def resume_stream(self, address: Address, idem_key: str, reply_to: str | None, age: float) -> LiveReply | None:
        if not self.mode.resumes:
            return None
        bubble = self._taken.get((address.chat, idem_key))
        if bubble is None:
            return None
        ttl = self.mode.stream_ttl
        bubble.resumed = True
        return MemoryStream(self, address, bubble, None if ttl is None else bubble.sent_at + ttl)

    def monotonic(self) -> float:
        return self._ports.clock.monotonic()

    async def grow(self, address: Address, bubble: Bubble, message: OutboundMessage, method: str) -> None:
        """Show the first part of `message`, which must extend the current text, in an open stream."""
        fault = await self._begin(method, address)
        ends_early = method == "finish" and not (message.final or self.mode.edits)
        parts = self.layout(message if ends_early else replace(message, status=""))
        part = own(parts[0], MemoryPart) if parts else MemoryPart(0, "")
        if not (bubble.resumed or part.text.startswith(bubble.text)):
            raise Rejected(f"the stream shows {bubble.text!r} and cannot become {part.text!r}")
        self._show(bubble, part)
        bubble.resumed = False
        _lose_answer(fault)

    async def _begin(self, method: str, address: Address) -> Fault | None:
        """Record the call; fail or wait if so configured. Return a fault whose call is applied first."""
        now = self._ports.clock.monotonic()
        self.calls.append(Call(method, address.chat, now))
        if method in self._gates:
            await self._gates[method].wait()
        faults = self._faults.get((method, address.chat)) or self._faults.get((method, None))
        fault = faults.popleft() if faults else None
        if fault is not None and not fault.applied:
            raise fault.error
        self.health.last_sign = now
        return fault

    def _put(
        self, address: Address, part: MemoryPart, idem_key: str, reply_to: str | None, *, silent: bool = False
    ) -> Bubble:
        key = (address.chat, idem_key)
        if self.mode.idempotent and key in self._taken:
            # Even if a person has deleted it: a platform that knows the key creates no second message.
            return self._taken[key]
        bubbles = self.chats.setdefault(address.chat, [])
        now = self._ports.clock.monotonic()
        bubble = Bubble(
            message_id=self.next_id(), idem_key=idem_key, part=part, reply_to=reply_to, sent_at=now, silent=silent
        )
        bubble.history.append(part.text)
        bubbles.append(bubble)
        del bubbles[:-KEPT]
        self._taken[key] = bubble
        if len(self._taken) > KEPT:
            self._taken.popitem(last=False)
        self.previews.pop(address.chat, None)
        return bubble

    def _bubble(self, address: Address, message_id: str) -> Bubble:
        for bubble in self.chats.get(address.chat, ()):
            if bubble.message_id == message_id:
                return bubble
        raise MessageGone(f"no message {message_id} in chat {address.chat}")

    @staticmethod
    def _show(bubble: Bubble, part: MemoryPart) -> None:
        if part != bubble.part:
            bubble.part = part
            bubble.history.append(part.text)


class MemoryStream:
    """LiveReply port."""

    def __init__(self, channel: MemoryChannel, address: Address, bubble: Bubble, ends: float | None) -> None:
        self._channel = channel
        self._address = address
        self._bubble = bubble
        self._ends = ends

    @property
    def message_id(self) -> str:
        return self._bubble.message_id

    async def show(self, message: OutboundMessage) -> None:
        self._must_be_open()
        await self._channel.grow(self._address, self._bubble, message, "stream")

    async def finish(self, message: OutboundMessage) -> None:
        if self._bubble.resumed and message.final and not self._bubble.streaming and not self._is_late:
            return  # the process that opened it has done that
        self._must_be_open()
        await self._channel.grow(self._address, self._bubble, message, "finish")
        self._bubble.streaming = False

    @property
    def _is_late(self) -> bool:
        return self._ends is not None and self._channel.monotonic() >= self._ends

    def _must_be_open(self) -> None:
        if not self._bubble.streaming or self._is_late:
            self._bubble.streaming = False
            raise MessageGone("the stream has ended")


def _lose_answer(fault: Fault | None) -> None:
    if fault is not None:
        raise fault.error
