"""The page and the API as a platform: the channel port without a network connection.

Its state is kept in memory and permanently derived from the gateway's inbox and outbox: a message's id follows from the
key that it is sent with, so that after a crash the same reply is the same message, whether or not this process has seen
it before.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from channels.adapter import Keyboard, LocalAdapter, commit, keyboard, open_regular, storable
from channels.base import BotIdentity, ConnectionState, Part
from channels.capabilities import Capabilities, Rate, TextUnit
from channels.errors import AttachmentFailed, MessageGone, Rejected
from channels.http.board import Board, Shown
from channels.message import Address, ButtonPressed, Message
from channels.text.sanitize import one_line, sanitize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.base import ChannelPorts, Hello, Probe, Sink
    from channels.http.board import Change
    from channels.http.config import HttpConfig
    from channels.message import Attachment, OutboundFile, OutboundMessage, Quote, Sender, TurnOptions

MAX_UNIT = 1_000_000
"""Characters of one message: not a limit of browsers, only a bound on the size of one change."""
MAX_BOARDS = 1000
CHUNK = 256 * 1024
LONGEST_CLIENT_ID = 100
CAPABILITIES = Capabilities(
    text_unit=TextUnit.CHARACTERS,
    max_unit=MAX_UNIT,
    idempotent_send=True,
    findable_after_crash=False,
    edit_interval_dm=0.1,
    edit_interval_group=0.1,
)
RATE = Rate(per_second=5000.0, per_chat_per_second=100.0, per_group_per_minute=6000.0)


@dataclass(frozen=True, slots=True)
class TextPart(Part):
    """Markdown, the status of the work, and buttons. final: it will not change."""

    text: str
    status: str = ""
    done: tuple[str, ...] = ()
    buttons: Keyboard = ()
    final: bool = False
    asks_reply: bool = False


@dataclass(frozen=True, slots=True)
class FilePart(Part):
    file: OutboundFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """A message that a person posts. client_id: the client's own id for it; the same id means the same message."""

    chat: str
    sender: Sender
    text: str
    client_id: str
    attachments: tuple[Attachment, ...] = ()
    reply_to: Quote | None = None
    turn: TurnOptions | None = None


def layout(message: OutboundMessage) -> tuple[Part, ...]:
    """One text part (more only beyond MAX_UNIT characters), then one part for each file."""
    text, status = sanitize(message.text), "\n".join(one_line(line) for line in message.status.splitlines())
    buttons, done = keyboard(message.buttons), tuple(one_line(line) for line in message.done)
    parts: list[Part] = []
    if text or status or buttons:
        slices = [text[start : start + MAX_UNIT] for start in range(0, len(text), MAX_UNIT)] or [""]
        # A full slice followed by more text is complete, whether or not the reply is.
        parts = [TextPart(index, piece, final=True) for index, piece in enumerate(slices[:-1])]
        last = TextPart(len(parts), slices[-1], status, done, buttons, message.final, message.asks_reply)
        parts.append(last)
    return (*parts, *(FilePart(len(parts) + index, file) for index, file in enumerate(message.files)))


def shown_part(part: Part, message_id: str, reply_to: str | None, at: object) -> Shown:
    """A part as readers see it. at: when it was sent, timezone-aware. Raises Rejected for a part of another channel."""
    match part:
        case TextPart():
            return Shown(
                message_id=message_id,
                text=part.text,
                status=part.status,
                done=part.done,
                buttons=part.buttons,
                final=part.final,
                asks_reply=part.asks_reply,
                reply_to=reply_to,
                at=at,  # type: ignore[arg-type]  # an aware datetime, as the caller has it
            )
        case FilePart():
            return Shown(message_id=message_id, file=part.file, final=True, reply_to=reply_to, at=at)  # type: ignore[arg-type]  # as above
    raise Rejected(f"a part of another channel: {type(part).__name__}")


def posted_id(chat: str, client_id: str) -> str:
    """The id of a person's message: derived from the client's own id, so that it is the same after a restart."""
    return "p" + hashlib.sha256(f"{chat}\0{client_id}".encode()).hexdigest()[:20]


def sent_id(chat: str, idem_key: str) -> str:
    """The id of one of the bot's messages, derived from the key of its send."""
    return "b" + hashlib.sha256(f"{chat}\0{idem_key}".encode()).hexdigest()[:20]


class HttpChannel(LocalAdapter):
    """`Channel` for all conversations of one account, `web` or `api`, with the methods for the HTTP side: `post`,
    `press`, `follow`. There is no wire: it is connected while it runs."""

    capabilities, rate = CAPABILITIES, RATE
    layout = staticmethod(layout)

    def __init__(self, account: str, config: HttpConfig, ports: ChannelPorts) -> None:
        super().__init__(account, ports)
        self._config = config
        self._identity: BotIdentity = BotIdentity(platform=account, bot_id=f"{account}:antler", username="antler")
        self._boards: OrderedDict[str, Board] = OrderedDict()
        self._count = 0
        self._process = os.urandom(4).hex()
        """Identifies this process in the ids of changes."""

    # Methods for the HTTP side.

    async def post(self, posting: Posting) -> str:
        """Publish a person's message; returns its id once it is committed. Raises NotCommitted."""
        chat, now = posting.chat, self._ports.clock.now()
        message = Message(
            account=self._account,
            dedupe_keys=(f"c:{chat}:{posting.client_id}",),
            sent_at=now,
            received_at=now,
            address=Address(account=self._account, chat=chat),
            platform_message_id=posted_id(chat, posting.client_id),
            sender=posting.sender,
            text=storable(posting.text),
            mention=True,
            reply_to=posting.reply_to,
            attachments=posting.attachments,
            turn=posting.turn,
        )
        await commit([message], self._ports)
        self.board(chat).tell("posted", posted_json(message))
        return message.platform_message_id

    async def press(self, chat: str, message_id: str, data: str, sender: Sender, client_id: str) -> None:
        """Publish the press of a message's button. client_id: as in a posting. Raises NotCommitted."""
        now = self._ports.clock.now()
        press = ButtonPressed(
            account=self._account,
            dedupe_keys=(f"b:{chat}:{client_id}",),
            sent_at=now,
            received_at=now,
            address=Address(account=self._account, chat=chat),
            platform_message_id=message_id,
            sender=sender,
            data=data,
            callback_id=client_id,
        )
        await commit([press], self._ports)

    @property
    def cursor(self) -> str:
        """The id of the newest change: following from here leaves no gap to anything read after this call."""
        return f"{self._process}-{self._count}"

    async def follow(self, chat: str, last_event_id: str | None = None) -> AsyncIterator[tuple[str, Change]]:
        """The changes of a conversation, without end, each with its id: see Board.follow.

        last_event_id: of the last change that the reader saw; an id of another process or an invalid one is a gap.
        """
        process, _, number = (last_event_id or "").partition("-")
        continues = process == self._process and number.isdecimal() and int(number) <= self._count
        board = self.board(chat)
        board.readers += 1  # now, not at the first step of the generator: the board must not be dropped until then
        try:
            changes = board.follow(int(number) if continues else None, gap=bool(last_event_id) and not continues)
            async for change in changes:
                yield f"{self._process}-{change.number}", change
        finally:
            board.readers -= 1

    def board(self, chat: str) -> Board:
        """The board of a conversation. Quiet boards are dropped while more than MAX_BOARDS exist."""
        board = self._boards.get(chat)
        if board is None:
            board = self._boards[chat] = Board(self._next, self._count)
            for known in [name for name, each in self._boards.items() if each.is_quiet and name != chat]:
                if len(self._boards) <= MAX_BOARDS:
                    break
                del self._boards[known]
        self._boards.move_to_end(chat)
        return board

    def clear(self, chat: str | None = None) -> None:
        """Forget the finished messages of one conversation, or of all, because texts were deleted from the store.
        Readers get a snapshot."""
        for name, board in self._boards.items():
            if chat in (None, name):
                board.clear()

    def _next(self) -> int:
        self._count += 1
        return self._count

    # The port.

    async def run(self, hello: Hello) -> None:
        await hello(self._identity)
        self._health.state = ConnectionState.CONNECTED
        try:
            await asyncio.Event().wait()
        finally:
            self._health.state = ConnectionState.STOPPED

    async def close(self) -> None:
        self._health.state = ConnectionState.STOPPED

    async def send(
        self, address: Address, part: Part, idem_key: str, reply_to: str | None = None, *, silent: bool = False
    ) -> str:
        message_id, board = sent_id(address.chat, idem_key), self.board(address.chat)
        if board.get(message_id) is None and not board.is_removed(message_id):
            await self._put(board, part, message_id, reply_to)
        return message_id

    async def edit(self, address: Address, message_id: str, part: Part) -> None:
        """Update a message; an unknown one may be an earlier process's and is shown from now on."""
        board = self.board(address.chat)
        if board.is_removed(message_id):
            raise MessageGone(f"{address.chat} has no message {message_id}")
        known = board.get(message_id)
        await self._put(board, part, message_id, None if known is None else known.reply_to)

    async def delete(self, address: Address, message_id: str) -> None:
        self.board(address.chat).remove(message_id)

    async def find(self, address: Address, part: Part, probe: Probe) -> str | None:
        """Find nothing: never needed, because a send is idempotent and its outcome is known."""
        return None

    async def fetch(self, attachment: Attachment, sink: Sink) -> None:
        try:
            file = await asyncio.to_thread(open_regular, self._config.uploads / attachment.ref)
        except Rejected as error:
            raise AttachmentFailed("the upload no longer exists", "gone") from error
        with file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                await sink.write(chunk)

    async def typing(self, address: Address) -> None:
        self.board(address.chat).tell("typing", {})

    async def acknowledge(self, press: ButtonPressed, text: str = "") -> None:
        self.board(press.address.chat).tell("acknowledged", {"press": press.callback_id, "text": text})

    async def _put(self, board: Board, part: Part, message_id: str, reply_to: str | None) -> None:
        if isinstance(part, FilePart):
            (await asyncio.to_thread(open_regular, part.file.path)).close()  # raises Rejected
        known = board.get(message_id)
        at = self._ports.clock.now() if known is None else known.at
        board.put(shown_part(part, message_id, reply_to, at))


def posted_json(message: Message) -> dict[str, object]:
    """The JSON of a person's message for readers."""
    quote = message.reply_to
    return {
        "message_id": message.platform_message_id,
        "author": "person",
        "text": message.text,
        "attachments": [
            {"ref": each.ref, "name": each.name or "", "mime_type": each.mime_type or "", "kind": each.kind}
            for each in message.attachments
        ],
        "reply_to": None if quote is None else quote.message_id,
        "at": message.received_at.isoformat(),
    }
