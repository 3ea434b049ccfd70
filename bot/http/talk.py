"""Conversations of one of the gateway's own accounts, as a caller sees them: written to, listed, read and followed.

A caller only ever reaches their own: the id of a chat identifies its owner.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
import secrets
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from bot.files.uploads import MEGABYTE
from bot.http.errors import HttpProblem, not_found, too_many
from bot.http.sse import event
from bot.store import branches, search, shown
from bot.store.identity import chat_of, harmless_name, native_on, owns_chat, uploads_folder, users_folder
from channels.errors import NotCommitted
from channels.http.board import Shown
from channels.http.channel import LONGEST_CLIENT_ID, HttpChannel, Posting, posted_id, posted_json, shown_part
from channels.http.channel import layout as laid_out
from channels.message import Attachment, Quote, Sender

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
    from pathlib import Path

    from bot.access.store import AccessStore
    from bot.files.uploads import Allowance, Exceeded
    from bot.http.auth import Caller
    from bot.store.branches import Inherited
    from bot.store.retrying import RetryingStore
    from bot.store.shown import Answered, Listed
    from channels.base import Channel
    from channels.http.board import Change
    from channels.message import AttachmentKind, OutboundFile, TurnOptions

LONGEST_TEXT = 200_000
LONGEST_NAME = 64
CHAT_NAME = re.compile(rf"[\w.-]{{1,{LONGEST_NAME}}}", re.ASCII)
CLIENT_ID = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_CLIENT_ID}}}")
UPLOAD_ID = re.compile(r"[a-f0-9]{32}(\.[A-Za-z0-9]{1,10})?")
MOST_LISTED = 200
VOICE = "voice"
"""The third line of an upload's description, where it is a voice message."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A message that is committed. repeated: it was committed before this call."""

    message_id: str
    repeated: bool


class Talk:
    """A caller's access to conversations. account: `web` or `api`. channel: the accounts' current channels. book: names
    of people. allowance: what a person's upload may take. passes: whether the flood limit would accept a message."""

    def __init__(
        self,
        account: str,
        *,
        channel: Callable[[str], Channel | None],
        store: RetryingStore,
        book: AccessStore,
        data_dir: Path,
        allowance: Callable[[str], Allowance],
        passes: Callable[[str], bool],
    ) -> None:
        self.account = account
        self._channel_of = channel
        self._store = store
        self._book = book
        self._users = users_folder(data_dir)
        self._allowance = allowance
        self._passes = passes
        self._posting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # by the id of a message

    # Listing.

    def new_chat(self, caller: Caller) -> str:
        """The id of a new conversation of the caller, which begins with its first message."""
        return chat_of(caller.person, secrets.token_hex(12))

    def require(self, caller: Caller, chat: str) -> str:
        """The chat, if it is the caller's. Raises HttpProblem, the same for another's chat as for a missing one."""
        name = chat.partition("-")[2]
        if not owns_chat(caller.person, chat) or not CHAT_NAME.fullmatch(name):
            raise not_found("there is no such conversation")
        return chat

    def key(self, chat: str) -> str:
        """The conversation's key in the store."""
        return f"{self.account}:{chat}"

    async def conversations(self, caller: Caller, *, limit: int, before: datetime | None = None) -> list[Listed]:
        """The caller's conversations, most recently used first. before: only those used earlier."""
        most = max(1, min(limit, MOST_LISTED))
        return await self._store.read(lambda tx: shown.listed(tx, self.account, caller.person, most, before))

    async def conversation(self, caller: Caller, chat: str) -> Listed | None:
        """One of the caller's conversations, None before its first message. Raises HttpProblem."""
        key = self.key(self.require(caller, chat))
        return await self._store.read(lambda tx: shown.one(tx, key))

    async def search(self, caller: Caller, text: str, *, limit: int = 50) -> list[tuple[Listed, str]]:
        """The caller's conversations whose title, or one message, has all of the words; each with an excerpt of that
        message, "" where the title has them."""
        wanted, most = search.words_of(text), max(1, min(limit, MOST_LISTED))
        return await self._store.read(lambda tx: search.chats(tx, self.account, caller.person, wanted, most))

    # Writing.

    async def post(
        self,
        caller: Caller,
        chat: str,
        text: str,
        *,
        client_id: str,
        attachments: Sequence[Attachment] = (),
        reply_to: str | None = None,
        locale: str | None = None,
        turn: TurnOptions | None = None,
    ) -> Posted:
        """Post a message; it is committed when this returns.

        client_id: the caller's own id for this message, 1 to 100 printable characters; the same id again in that chat
        is the same message. reply_to: a message of the conversation, of either side. locale: such as `en` or `zh-CN`.
        turn: options that a program requests. Raises HttpProblem.
        """
        self.require(caller, chat)
        if not CLIENT_ID.fullmatch(client_id):
            raise HttpProblem(422, "invalid", "client_id must have 1 to 100 printable characters and no space")
        if len(text) > LONGEST_TEXT:
            raise HttpProblem(
                413, "too_long", f"a message may have at most {LONGEST_TEXT} characters; attach a file instead"
            )
        if not text.strip() and not attachments:
            raise HttpProblem(422, "empty", "the message is empty")
        message_id = posted_id(chat, client_id)
        async with self._posting.setdefault(message_id, asyncio.Lock()):
            if await self._store.read(lambda tx: shown.is_known(tx, self.account, chat, message_id)):
                return Posted(message_id, repeated=True)
            if not self._passes(caller.person):
                raise too_many("too many messages")
            quote = None if reply_to is None else await self._quote(chat, reply_to)
            posting = Posting(
                chat=chat,
                sender=self._sender(caller, locale),
                text=text,
                client_id=client_id,
                attachments=tuple(attachments),
                reply_to=quote,
                turn=turn,
            )
            try:
                await self._channel().post(posting)
            except NotCommitted as error:
                raise _unstored() from error
        return Posted(message_id, repeated=False)

    async def press(
        self, caller: Caller, chat: str, message_id: str, data: str, *, client_id: str, locale: str | None = None
    ) -> None:
        """Press a button of a message. data: the button's. client_id: as for a message. Raises HttpProblem."""
        self.require(caller, chat)
        if not CLIENT_ID.fullmatch(client_id) or len(data) > LONGEST_CLIENT_ID:
            raise HttpProblem(422, "invalid", "client_id or data is invalid")
        try:
            await self._channel().press(chat, message_id, data, self._sender(caller, locale), client_id)
        except NotCommitted as error:
            raise _unstored() from error

    def _sender(self, caller: Caller, locale: str | None) -> Sender:
        row = self._book.row("person", caller.person)
        name = (row.name if row is not None else "") or caller.name
        return Sender(id=native_on(self.account, caller.person), display_name=name, locale=locale)

    async def _quote(self, chat: str, message_id: str) -> Quote | None:
        live = self._channel().board(chat).get(message_id)
        if live is not None:
            return Quote(message_id=message_id, text=live.text, author="", from_bot=True)
        reply = await self._store.read(lambda tx: shown.reply_of(tx, self.account, chat, message_id))
        if reply is not None:
            text = reply.message.text if reply.message is not None else ""
            return Quote(message_id=message_id, text=text, author="", from_bot=True)
        if await self._store.read(lambda tx: shown.is_known(tx, self.account, chat, message_id)):
            return Quote(message_id=message_id, text="", author="", from_bot=False)
        return None

    # Files.

    async def upload(
        self, caller: Caller, name: str, mime_type: str, chunks: AsyncIterator[bytes], *, voice: bool = False
    ) -> Attachment:
        """Store a file for a message that is posted next. voice: it is a voice message. Raises HttpProblem."""
        if voice and not mime_type.startswith("audio/"):
            raise HttpProblem(422, "invalid", "a voice message must be of a type such as audio/webm or audio/mp4")
        allowance, suffix = self._allowance(caller.person), os.path.splitext(name)[1]
        upload_id = secrets.token_hex(16) + (suffix if UPLOAD_ID.fullmatch("0" * 32 + suffix) else "")
        folder = self._users / uploads_folder(caller.person)
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        path, size = folder / upload_id, 0
        part = folder / f"{upload_id}.part"
        try:
            with await asyncio.to_thread(_created, part) as file:
                async for chunk in chunks:
                    if (over := allowance.exceeded(size + len(chunk), len(chunk))) is not None:
                        raise too_much(over, allowance.limit(over))
                    size += len(chunk)
                    allowance.take(len(chunk))
                    await asyncio.to_thread(file.write, chunk)
                await asyncio.to_thread(_synced, file)
            declared = harmless_name(name, "file")
            about = f"{mime_type}\n{declared}" + (f"\n{VOICE}" if voice else "")
            await asyncio.to_thread(_described, folder / f"{upload_id}.name", about)
            await asyncio.to_thread(part.replace, path)
        except BaseException:
            allowance.take(-size)
            await asyncio.to_thread(part.unlink, missing_ok=True)
            raise
        return self._attachment(caller, upload_id, declared, mime_type, size, VOICE if voice else "")

    async def attachment(self, caller: Caller, upload_id: str) -> Attachment:
        """A file that the caller has uploaded. Raises HttpProblem."""
        folder = self._users / uploads_folder(caller.person)
        if not UPLOAD_ID.fullmatch(upload_id):
            raise not_found("there is no such upload")
        try:
            size = (await asyncio.to_thread((folder / upload_id).stat)).st_size
            mime_type, name, mark = await asyncio.to_thread(_about, folder, upload_id)
        except OSError:
            raise not_found("there is no such upload") from None
        return self._attachment(caller, upload_id, name, mime_type, size, mark)

    def _attachment(
        self, caller: Caller, upload_id: str, name: str, mime_type: str, size: int, mark: str
    ) -> Attachment:
        return Attachment(
            ref=f"{uploads_folder(caller.person)}/{upload_id}",
            kind="voice" if mark == VOICE else _kind(mime_type),
            name=name,
            mime_type=mime_type or mimetypes.guess_type(name)[0],
            size=size,
        )

    async def file(self, caller: Caller, chat: str, message_id: str) -> OutboundFile:
        """The file of a bot message; its path may be gone by the time it is opened. Raises HttpProblem."""
        self.require(caller, chat)
        live = self._channel().board(chat).get(message_id)
        if live is None:
            reply = await self._store.read(lambda tx: shown.reply_of(tx, self.account, chat, message_id))
            live = next((each for each in parts_of(reply) if each.message_id == message_id), None) if reply else None
        if live is not None and live.file is not None:
            return live.file
        for each in await self._inherited(chat):
            if each.entry["message_id"] == message_id and each.file is not None:
                return each.file
        raise not_found("there is no such file")

    async def files(self, caller: Caller, chat: str) -> list[Shown]:
        """The files of the bot's newest messages in a chat, newest first; then those that the chat began with. Raises
        HttpProblem."""
        self.require(caller, chat)
        answered = await self._store.read(lambda tx: shown.answered(tx, self.account, chat, MOST_LISTED, None))
        board = self._channel().board(chat)
        stored = [part for reply in answered for part in parts_of(reply) if not board.is_removed(part.message_id)]
        known = {part.message_id for part in stored}
        found = [*stored, *(live for live in board.messages if live.message_id not in known)]
        found += [
            Shown(message_id=each.entry["message_id"], file=each.file, at=datetime.fromisoformat(each.entry["at"]))
            for each in await self._inherited(chat)
        ]
        return sorted((each for each in found if each.file is not None), key=lambda each: each.at, reverse=True)

    # Reading.

    async def history(
        self, caller: Caller, chat: str, *, limit: int = 100, before: datetime | None = None
    ) -> list[dict[str, Any]]:
        """The newest messages of both sides as JSON types, oldest first, each with `author` "person" or "bot". before:
        only older ones. Growing messages are as they are now; those that a branch began with are `inherited`."""
        self.require(caller, chat)
        most = max(1, min(limit, MOST_LISTED))
        said = await self._store.read(lambda tx: shown.said(tx, self.account, chat, most, before))
        answered = await self._store.read(lambda tx: shown.answered(tx, self.account, chat, most, before))
        board = self._channel().board(chat)
        found: list[tuple[datetime, dict[str, Any]]] = [(each.at, posted_json(each.message)) for each in said]
        known = set()
        for reply in answered:
            for part in parts_of(reply):
                known.add(part.message_id)
                if not board.is_removed(part.message_id):
                    now = (board.get(part.message_id) or part).as_json()
                    found.append((part.at, now | {"at": part.at.isoformat()}))
        if before is None:
            # Sent, but not recorded yet.
            found += [(live.at, live.as_json()) for live in board.messages if live.message_id not in known]
        else:
            found = [each for each in found if each[0] < before]
        found.sort(key=lambda each: each[0])
        own = [told for _, told in found[-most:]]
        missing = most - len(own)
        if not missing:
            return own
        began = [each.entry | {"inherited": True} for each in await self._inherited(chat)]
        if before is not None:
            began = [entry for entry in began if datetime.fromisoformat(entry["at"]) < before]
        return [*began[-missing:], *own]

    async def _inherited(self, chat: str) -> tuple[Inherited, ...]:
        """The messages that a branched chat began with."""
        branch = await self._store.read(lambda tx: branches.load(tx, self.key(chat)))
        return () if branch is None or branch.made_at is None else branch.messages

    async def follow(self, caller: Caller, chat: str, last_event_id: str | None = None) -> AsyncGenerator[str, None]:
        """The endless changes of a conversation as server-sent events, for `sse.stream`; see `channels.http.board` for
        their types. last_event_id: of the newest event that the reader has. Raises HttpProblem at the first step."""
        async with aclosing(self.changes(caller, chat, last_event_id)) as changes:
            async for number, change in changes:
                yield event(change.type, change.data, number)

    async def changes(
        self, caller: Caller, chat: str, last_event_id: str | None
    ) -> AsyncGenerator[tuple[str, Change], None]:
        """The same changes as values, each with its id."""
        self.require(caller, chat)
        async with aclosing(self._channel().follow(chat, last_event_id)) as changes:  # type: ignore[type-var]  # an async generator
            async for numbered in changes:
                yield numbered

    def cursor(self) -> str:
        """An id to follow from, such that anything read after this call misses no change."""
        return self._channel().cursor

    def now(self, caller: Caller, chat: str, message_id: str) -> dict[str, Any] | None:
        """A bot message as it is shown now, if it is among those in memory."""
        live = self._channel().board(self.require(caller, chat)).get(message_id)
        return None if live is None else live.as_json()

    async def uploaded(self, caller: Caller, upload_id: str) -> tuple[Path, Attachment]:
        """The path and description of a file that the caller has uploaded. Raises HttpProblem."""
        attachment = await self.attachment(caller, upload_id)
        return self._users / attachment.ref, attachment

    async def uploads(self, caller: Caller, most: int) -> list[tuple[Attachment, datetime]]:
        """The newest files that the caller has uploaded, each with its time, newest first, in messages or not."""
        return await asyncio.to_thread(self._uploads, caller, most)

    def _uploads(self, caller: Caller, most: int) -> list[tuple[Attachment, datetime]]:
        folder = self._users / uploads_folder(caller.person)
        found = []
        try:
            with os.scandir(folder) as entries:
                kept = [(each.name, each.stat()) for each in entries if UPLOAD_ID.fullmatch(each.name)]
        except FileNotFoundError:
            return []
        for name, facts in sorted(kept, key=lambda each: each[1].st_mtime, reverse=True)[:most]:
            try:
                mime_type, declared, mark = _about(folder, name)
            except OSError:
                continue  # it has been deleted since
            at = datetime.fromtimestamp(facts.st_mtime, UTC)
            found.append((self._attachment(caller, name, declared, mime_type, facts.st_size, mark), at))
        return found

    async def remove_upload(self, caller: Caller, upload_id: str) -> None:
        """Delete a file that the caller has uploaded; messages with it keep its name. Raises HttpProblem."""
        path, _ = await self.uploaded(caller, upload_id)
        await asyncio.to_thread(path.unlink, missing_ok=True)
        await asyncio.to_thread(path.with_name(f"{upload_id}.name").unlink, missing_ok=True)

    async def remove_file(self, caller: Caller, chat: str, message_id: str) -> None:
        """Delete the file of a bot message; the message stays and keeps its name. Raises HttpProblem."""
        file = await self.file(caller, chat, message_id)
        await asyncio.to_thread(file.path.unlink, missing_ok=True)

    def _channel(self) -> HttpChannel:
        channel = self._channel_of(self.account)
        if not isinstance(channel, HttpChannel):
            raise HttpProblem(503, "starting", "the service is starting or stopping; try again")
        return channel


def parts_of(reply: Answered) -> list[Shown]:
    """The messages of a reply, derived from what is stored of it."""
    if reply.message is None:
        return [Shown(message_id=each, reply_to=reply.reply_to, at=reply.at) for each in reply.message_ids]
    return [
        # Each has its own time, so that a page of a chat can begin with any of them.
        shown_part(part, message_id, reply.reply_to, reply.at + timedelta(microseconds=part.index))
        for part, message_id in zip(laid_out(reply.message), reply.message_ids, strict=False)
    ]


def _kind(mime_type: str) -> AttachmentKind:
    kind = mime_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "file"  # type: ignore[return-value]  # each is one


def too_much(over: Exceeded, limit: int) -> HttpProblem:
    """The problem of a file that exceeds a limit in bytes."""
    most = f"{limit / MEGABYTE:g} MB"  # also a member of the error: the page tells it in its language
    if over == "person_quota":
        text = f"at most {most} of files are accepted from a person within 24 hours"
        return HttpProblem(429, "upload_quota", text, {"Retry-After": "3600"}, most=most)
    return HttpProblem(413, "too_large", f"a file may have at most {most} here", most=most)


def _unstored() -> HttpProblem:
    return HttpProblem(503, "not_stored", "it could not be stored; send it again", {"Retry-After": "2"})


def _created(path: Path) -> Any:
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600))


def _about(folder: Path, upload_id: str) -> tuple[str, str, str]:
    """The MIME type, the name and the mark of an upload. Raises OSError."""
    told = (folder / f"{upload_id}.name").read_text("utf-8")
    mime_type, name, mark = (*told.split("\n", 2), "", "")[:3]
    return mime_type, name, mark


def _described(path: Path, text: str) -> None:
    with _created(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _synced(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
