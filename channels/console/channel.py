"""The terminal as a platform: the channel port over any number of attached terminals, and the messages of each chat."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from cachetools import LRUCache

from channels.adapter import LocalAdapter
from channels.base import BotIdentity, ConnectionState, Part
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.console.frames import Entered, Line, Menu, Removed, Shown, Typing
from channels.errors import AttachmentFailed, MessageGone, Rejected, Temporary
from channels.message import Address, Message, Sender
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from channels.base import ChannelPorts, Command, Hello, Probe, Sink
    from channels.console.config import ConsoleConfig
    from channels.console.frames import Frame
    from channels.console.link import ConsoleLink
    from channels.message import Attachment, ButtonPressed, OutboundFile, OutboundMessage


Idle: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Waits until everything said in a conversation ("account:chat") has been answered."""
OWNER_CHAT = "terminal"
MAX_SCREENS = 100
MAX_UNIT = 1_000_000
"""Characters of one message: not a limit of terminals, only a bound on the size of one edit."""
CAPABILITIES = Capabilities(
    buttons=False,
    text_unit=TextUnit.CHARACTERS,
    max_unit=MAX_UNIT,
    idempotent_send=True,
    findable_after_crash=False,
    edit_interval_dm=0.1,
    edit_interval_group=0.1,
    operator=True,
)
RATE = Rate(per_second=1000.0, per_chat_per_second=100.0, per_group_per_minute=6000.0)
PERSON = Sender(id="local", display_name="you")
"""The person at a terminal of this machine; the control socket admits no one else."""
MAX_MESSAGES = 200


async def _at_once(conversation: str) -> None:
    """Return at once: the lines of most terminals are not answered in turn."""


class Screen:
    """The newest MAX_MESSAGES messages in the order in which they were sent."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, Shown] = OrderedDict()
        self._unseen: set[str] = set()

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def put(self, shown: Shown, seen: bool) -> None:
        """Add or update a message. seen: a terminal accepted it."""
        message_id = shown.message_id
        self._messages[message_id] = shown
        if seen:
            self._unseen.discard(message_id)
        else:
            self._unseen.add(message_id)
        if len(self._messages) > MAX_MESSAGES:
            oldest, _ = self._messages.popitem(last=False)
            self._unseen.discard(oldest)

    def remove(self, message_id: str) -> bool:
        """Forget a message; False if it was unknown."""
        self._unseen.discard(message_id)
        return self._messages.pop(message_id, None) is not None

    def take_unseen(self) -> list[Shown]:
        """The messages that no terminal has shown yet, oldest first; they count as seen from now on."""
        missed = [shown for message_id, shown in self._messages.items() if message_id in self._unseen]
        self._unseen.clear()
        return missed


@dataclass(frozen=True, slots=True)
class TextPart(Part):
    """Markdown and a status line. final: it will not change."""

    text: str
    status: str
    final: bool


@dataclass(frozen=True, slots=True)
class FilePart(Part):
    file: OutboundFile


def layout(message: OutboundMessage) -> tuple[Part, ...]:
    """One text part (more only beyond MAX_UNIT characters), then one part for each file."""
    text = sanitize(message.text)
    status = one_line(message.status.rpartition("\n")[2])
    parts: list[Part] = []
    if text or status:
        slices = [text[start : start + MAX_UNIT] for start in range(0, len(text), MAX_UNIT)] or [""]
        # A full slice followed by more text is complete, whether or not the reply is.
        parts = [TextPart(index, piece, "", True) for index, piece in enumerate(slices[:-1])]
        parts.append(TextPart(len(parts), slices[-1], status, message.final))
    return (*parts, *(FilePart(len(parts) + index, file) for index, file in enumerate(message.files)))


def parse(session: str, line: Line, address: Address, received_at: datetime) -> Message:
    key = f"{session}:{line.number}"
    return Message(
        account=address.account,
        dedupe_keys=(f"l:{key}",),
        sent_at=line.at,
        received_at=received_at,
        address=address,
        platform_message_id=key,
        sender=replace(PERSON, locale=line.locale or None),
        text=line.text.replace("\r\n", "\n").replace("\r", "\n"),
        mention=True,
    )


@dataclass(slots=True, eq=False)
class Session:
    """One attached terminal. ended: it will send no more input; its answers are awaited until `close`."""

    chat: str
    link: ConsoleLink
    owner: bool
    idle: Idle
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    unpublished: Line | None = None

    def close(self) -> None:
        """Release the terminal once it has shown what it received. Idempotent."""
        self.link.close()


class ConsoleChannel(LocalAdapter):
    """`Channel` for the terminals of this machine. `attach` gives it terminals, before or while it runs."""

    capabilities, rate = CAPABILITIES, RATE
    layout = staticmethod(layout)

    def __init__(self, account: str, config: ConsoleConfig, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self._config = config
        self._identity: BotIdentity = BotIdentity(platform="console", bot_id=f"console:{account}", username="antler")
        self._sessions: dict[str, Session] = {}
        self._screens: LRUCache[str, Screen] = LRUCache(MAX_SCREENS)
        self._changed = asyncio.Event()
        self._menus: dict[str, Menu] = {}

    def attach(self, link: ConsoleLink, owner: bool = False, idle: Idle = _at_once) -> Session:
        """Add a terminal. owner: `run` ends with it; its chat is "terminal", the chats of others "terminal-1" and so
        on, the lowest free number first, so that a person who returns finds the conversation again. idle: awaited
        before each line that is to be answered in turn.

        Raises ValueError if an owner is already attached.
        """
        if owner and OWNER_CHAT in self._sessions:
            raise ValueError("another terminal owns this console")
        chat = OWNER_CHAT if owner else self._free_chat()
        session = self._sessions[chat] = Session(chat, link, owner, idle)
        for menu in self._menus.values():
            link.show(menu)
        for shown in self._screen(chat).take_unseen():
            link.show(shown)
        self._changed.set()
        return session

    def conversation(self, session: Session) -> str:
        """The conversation that the session's lines belong to."""
        return f"{self._account}:{session.chat}"

    async def run(self, hello: Hello) -> None:
        """Receive until the owner's end of input; without an owner, until cancelled."""
        await hello(self._identity)
        self._health.state = ConnectionState.CONNECTED
        try:
            await self._receive_all()
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _receive_all(self) -> None:
        tasks: dict[Session, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while not self._owner_ended():
                for session in self._sessions.values():
                    if session not in tasks:
                        tasks[session] = group.create_task(self._receive(session), name=f"console {session.chat}")
                self._changed.clear()
                await self._changed.wait()
                tasks = {session: task for session, task in tasks.items() if not task.done()}
            for task in tasks.values():
                task.cancel()

    def _owner_ended(self) -> bool:
        owner = self._sessions.get(OWNER_CHAT)
        return owner is not None and owner.ended.is_set()

    async def _receive(self, session: Session) -> None:
        """Publish the session's lines until its terminal is gone; for the owner, until its end of input."""
        while True:
            if session.unpublished is None:
                received = await session.link.receive()
                if isinstance(received, Line):
                    session.unpublished = received
                else:
                    session.ended.set()
                    if received is None or session.owner:
                        break
                    continue
            await self._publish(session, session.unpublished)
            session.unpublished = None
        if not session.owner and self._sessions.get(session.chat) is session:
            del self._sessions[session.chat]
            session.close()
        self._changed.set()

    async def _publish(self, session: Session, line: Line) -> None:
        address = Address(account=self._account, chat=session.chat)
        if line.in_turn:
            await session.idle(self.conversation(session))
            session.link.show(Entered(number=line.number, text=sanitize(line.text)))
        await self._ports.publish([parse(session.link.session, line, address, self._ports.clock.now())])

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._health.state = ConnectionState.STOPPED

    async def publish_commands(
        self, commands: Sequence[Command], locale: str | None, address: Address | None = None
    ) -> None:
        entries = tuple((command.name, one_line(command.description)) for command in commands)
        menu = Menu(locale=locale or "", commands=entries)
        if address is None:
            self._menus[menu.locale] = menu
        for session in self._sessions.values():
            if address is None or address.chat == session.chat:
                session.link.show(menu)

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        """Send a part. The id is derived from the key, so a repeated send is the same message, even after a restart."""
        message_id = hashlib.sha256(f"{address.chat}\0{idem_key}".encode()).hexdigest()[:16]
        if message_id not in self._screen(address.chat):
            await self._put(address, message_id, part)
        return message_id

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        if message_id not in self._screen(address.chat):
            raise MessageGone(f"{address.chat} has no message {message_id}")
        await self._put(address, message_id, part)

    async def delete(self, address: Address, message_id: str) -> None:
        if self._screen(address.chat).remove(message_id):
            self._show(address, Removed(message_id=message_id))

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Find nothing: never needed, because a send is idempotent and its outcome is known."""
        return None

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        raise AttachmentFailed("terminals cannot send files", "gone")

    async def typing(self, address: Address) -> None:
        self._show(address, Typing())

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        """Do nothing: a terminal has no buttons."""

    async def _put(self, address: Address, message_id: str, part: Part) -> None:
        match part:
            case TextPart(text=text, status=status, final=final):
                shown = Shown(message_id=message_id, text=text, status=status, final=final)
            case FilePart(file=file):
                copy = await asyncio.to_thread(_export, file, self._config.export_dir / message_id)
                shown = Shown(message_id=message_id, file=one_line(str(copy)), final=True)
            case _:
                raise Rejected(f"a part of another channel: {type(part).__name__}")
        self._screen(address.chat).put(shown, seen=self._show(address, shown))

    def _show(self, address: Address, frame: Frame) -> bool:
        session = self._sessions.get(address.chat)
        return session is not None and session.link.show(frame)

    def _screen(self, chat: str) -> Screen:
        return self._screens.setdefault(chat, Screen())

    def _free_chat(self) -> str:
        number = 1
        while f"{OWNER_CHAT}-{number}" in self._sessions:
            number += 1
        return f"{OWNER_CHAT}-{number}"


def _export(file: OutboundFile, folder: Path) -> Path:
    """Copy the file for the person; each message has its own folder, so a repeated export is the same copy."""
    name = one_line(file.name).replace("/", "_").lstrip(".") or "file"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return shutil.copyfile(file.path, folder / name[-200:]).absolute()
    except FileNotFoundError as error:
        raise Rejected(f"{name} no longer exists") from error
    except OSError as error:
        raise Temporary(f"cannot copy {name}: {error.strerror}") from error
