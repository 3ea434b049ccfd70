"""`antler send`: messages from scripts and timers, put into the outbox like any reply, and only once per key."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import secrets
import stat
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bot.control.actions import MACHINE, Action, log_action
from bot.control.lock import do_there_or_here
from bot.control.server import ANSWER_SECONDS
from bot.delivery import Delivery
from bot.delivery.presented import Presented
from bot.delivery.reply import Outcome
from bot.redaction import Redactor
from bot.settings.sections import check_identity
from bot.store import Store, conversations, outbox
from bot.store.identity import chat_id, direct_address, harmless_name
from bot.tasks import Tasks
from bot.texts import DEFAULT, texts_for
from bot.texts.markdown import plain
from channels.message import Address, OutboundMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sqlalchemy import Connection

    from bot.settings import Settings
    from bot.store.retrying import RetryingStore
    from channels.message import OutboundFile

WAIT_SECONDS = ANSWER_SECONDS - 1.5
LONGEST_TEXT = 100_000
"""Characters; anything longer is no message, but a file."""

SENT = "sent to {chat}"
QUEUED = "{chat}: antler is not running; the message is sent at its next start"
ACCEPTED = "{chat}: accepted but not shown yet; `antler status` shows whether the account can send"
KNOWN = "{chat}: already accepted under the key {key}; not sent again"
OTHER = "{chat}: the key {key} was used for another text; nothing was sent: use another --key"
GIVEN_UP = "{chat}: not delivered: the platform or the chat refused it; see the log"
UNSEEN = (
    "no one has written to the bot in {chat} yet; `antler access list` shows ids in this form, and --anyway sends "
    "regardless"
)


class SendTool:
    """Sends messages. settings: of the start, for its accounts. running: whether a gateway delivers them at once."""

    def __init__(
        self,
        settings: Settings,
        store: RetryingStore | Store,
        delivery: Delivery,
        presented: Presented,
        *,
        running: bool = True,
    ) -> None:
        self._settings = settings
        self._store = store
        self._delivery = delivery
        self._presented = presented
        self._running = running

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Serve a request of the control socket: {"chat", "text", "key", "file", "anyway"} to {"text", "done"}."""
        try:
            text = await self._send(request)
        except Unsendable as error:
            return {"text": str(error), "done": False}
        return {"text": text, "done": True}

    async def put(self, chat: str, text: str, key: str) -> bool:
        """Put a text into the outbox, even for a chat in which no one has written yet; returns once that is committed.
        False where it was accepted before under the same key. Raises Unsendable."""
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise Unsendable(
                "the text is empty" if not text.strip() else f"the text has over {LONGEST_TEXT:,} characters"
            )
        address = await self._address(chat, anyway=True)
        reply_key, message = _reply_key(address, key, text, None), OutboundMessage(text=text, final=True)
        before = await self._store.write(lambda tx: self._accept(tx, reply_key, address, message))
        if before and reply_key not in before:
            raise Unsendable(OTHER.format(chat=chat, key=key))
        if not before:
            self._delivery.finished(reply_key, address, None, message)
        return not before

    async def _send(self, request: Mapping[str, Any]) -> str:
        chat, key, text = (str(request.get(name) or "") for name in ("chat", "key", "text"))
        file = Path(str(request["file"])) if request.get("file") else None
        if len(text) > LONGEST_TEXT:
            raise Unsendable(f"the text has more than {LONGEST_TEXT:,} characters: send it as a --file")
        if not text.strip() and file is None:
            raise Unsendable("there is nothing to send: the text is empty")
        address = await self._address(chat, anyway=request.get("anyway") is True)
        reply_key = _reply_key(address, key, text, file)
        async with self._attached(address, reply_key, file) as files:
            message = OutboundMessage(text=text, files=files, final=True)
            before = await self._store.write(lambda tx: self._accept(tx, reply_key, address, message))
        if before:
            if reply_key not in before:
                raise Unsendable(OTHER.format(chat=chat, key=key))
            return KNOWN.format(chat=chat, key=key)
        log_action(Action.SEND, MACHINE, account=address.account, conversation=chat)
        reply = self._delivery.finished(reply_key, address, None, message)
        if files:
            self._presented.clear_after(reply_key, reply)
        if not self._running:
            return QUEUED.format(chat=chat)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                await reply.delivered()
        if reply.outcome is Outcome.ABANDONED:
            raise Unsendable(GIVEN_UP.format(chat=chat))
        return (ACCEPTED if reply.outcome is Outcome.PENDING else SENT).format(chat=chat)

    def _accept(self, tx: Connection, reply_key: str, address: Address, message: OutboundMessage) -> set[str]:
        """Put it into the outbox, unless that has entries under the same key; returns those."""
        before = outbox.keys_below(tx, reply_key.rpartition(":")[0])
        if not before:
            self._delivery.finalize(tx, reply_key, address, None, message)
        return before

    @contextlib.asynccontextmanager
    async def _attached(
        self, address: Address, reply_key: str, file: Path | None
    ) -> AsyncIterator[tuple[OutboundFile, ...]]:
        """The file as a part of the reply, which must be committed within the block."""
        if file is None:
            yield ()
            return
        name = harmless_name(file.name, "file")
        refused = texts_for(DEFAULT).file_not_sent["refused"].format(name=plain(name))
        try:
            if self._presented.refuses(address.account, size := await asyncio.to_thread(_size, file)):
                raise Unsendable(f"--file {file}: {address.account} does not accept a file of {size:,} bytes")
            async with self._presented.copied(reply_key, name, file, instead=refused) as copy:
                yield (copy,)
        except OSError as error:
            raise Unsendable(f"--file {file}: antler cannot read it ({error.strerror})") from error

    async def _address(self, chat: str, *, anyway: bool) -> Address:
        """The address of a chat. Raises Unsendable for anything but a chat of an account here."""
        try:
            check_identity(chat)
        except ValueError as error:
            raise Unsendable(f"{chat} {error}") from None
        account = chat.partition(":")[0]
        if account not in self._settings.channels:
            known = ", ".join(self._settings.channels)
            raise Unsendable(f"{chat}: channels in the config has no account {account}; it has {known}")
        found = await self._store.read(lambda tx: conversations.place_of(tx, chat))
        if found is None and not anyway:
            raise Unsendable(UNSEEN.format(chat=chat))
        address = found or direct_address(chat)
        if self._settings.names_group(account, address.chat):
            return replace(address, kind="group")
        return address


class Unsendable(Exception):
    """A message cannot be sent; the text says what to change."""


def _size(file: Path) -> int:
    """Raises OSError, also for a pipe or a device, which may have no end."""
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    return found.st_size


def _reply_key(address: Address, key: str, text: str, file: Path | None) -> str:
    """A reply key that is the same for the same key, chat and content. Its first half depends on key and chat alone."""
    key = key or secrets.token_hex(16)
    content = hashlib.sha256(f"{text}\0{file.name if file is not None else ''}".encode("utf-8", "replace"))
    where = hashlib.sha256(f"{chat_id(address)}\0{address.topic or ''}\0{key}".encode("utf-8", "replace"))
    return f"send:{where.hexdigest()[:32]}:{content.hexdigest()[:32]}"


def run(settings: Settings, chat: str, text: str, *, key: str | None, file: Path | None, anyway: bool) -> int:
    """The command line: hand the message to the running gateway, or else to the outbox; returns the exit code."""
    place = str(file.absolute()) if file is not None else None
    request = {"chat": chat, "text": text, "key": key, "file": place, "anyway": anyway}
    return do_there_or_here(settings, "send", request, _queue)


async def _queue(settings: Settings, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
    tasks = Tasks("send")
    try:
        delivery = Delivery(store, store.clock, Redactor(settings.secrets()))
        presented = Presented(settings.data_dir / "spool", tasks, lambda account: None)
        answer = await SendTool(settings, store, delivery, presented, running=False).do(request)
        await delivery.close(0)
        return answer
    finally:
        await tasks.cancel()
