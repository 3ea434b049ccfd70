"""The files that a run presents as parts of its answer; the spool keeps copies until they are delivered."""

from __future__ import annotations

import asyncio
import logging
import math
import mimetypes
import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING

from bot.delivery.reply import Outcome
from bot.store import outbox, runs, shown
from bot.store.identity import OWN_ACCOUNTS, harmless_name
from bot.texts.markdown import plain
from channels.message import OutboundFile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from bot.delivery import Reply
    from bot.store import Store
    from bot.store.retrying import RetryingStore
    from bot.tasks import Tasks
    from bot.texts.catalogue import Texts
    from channels.capabilities import Capabilities
    from channels.message import AttachmentKind
    from harness.events import ReadyFile

log = logging.getLogger(__name__)

MEBIBYTE = 1024 * 1024
"""The unit of the platforms' size limits."""
PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A run's files. files: those to send with the answer. sentences: notices about those that the platform refuses."""

    files: tuple[OutboundFile, ...] = ()
    sentences: tuple[str, ...] = ()


class Presented:
    """The spool of presented files. folder: with a subfolder per run, named by its id. capabilities: of an account."""

    def __init__(self, folder: Path, tasks: Tasks, capabilities: Callable[[str], Capabilities | None]) -> None:
        self._folder = folder
        self._tasks = tasks
        self._capabilities = capabilities
        self._drawn: set[str] = set()

    def outgoing(self, ready: Iterable[ReadyFile], account: str, texts: Texts) -> Outgoing:
        """Sort the files that a run presented by whether this account's platform accepts them."""
        caps = self._capabilities(account)
        files, sentences = [], []
        for file in ready:
            problem = _problem(file.size, caps)
            limit = f"{(caps.largest_file or 0) / MEBIBYTE:.4g}" if caps is not None else ""
            if problem is None:
                files.append(self._outbound(file, texts))
            else:
                name, size = _shown(file), f"{math.ceil(file.size / MEBIBYTE * 10) / 10:g}"
                sentences.append(texts.file_not_sent[problem].format(name=name, size=size, limit=limit))
        return Outgoing(tuple(files), tuple(sentences))

    def refuses(self, account: str, size: int) -> bool:
        """Whether this account's platform is known not to accept a file of that size."""
        return _problem(size, self._capabilities(account)) is not None

    def _outbound(self, file: ReadyFile, texts: Texts) -> OutboundFile:
        return OutboundFile(
            path=self._folder / file.spooled,
            name=harmless_name(file.name, "file"),
            mime_type=file.mime_type,
            kind=file.kind,
            instead=texts.file_not_sent["refused"].format(name=_shown(file)),
        )

    def clear_after(self, run_id: str, reply: Reply) -> None:
        """Remove the run's copies once its answer, including them, is delivered or given up."""
        self._tasks.spawn(f"spool of {run_id}", self._clear_after(run_id, reply))

    async def _clear_after(self, run_id: str, reply: Reply) -> None:
        await reply.delivered()
        if reply.outcome is not Outcome.PENDING and reply.address.account not in OWN_ACCOUNTS:
            await asyncio.to_thread(self._remove, run_id)

    def takes_files(self, account: str) -> bool:
        """Whether files can be sent there at all; a terminal only stores them."""
        caps = self._capabilities(account)
        return caps is not None and caps.files and not caps.operator

    def plays_voice_notes(self, account: str) -> bool:
        """Whether audio can be sent there as a voice note."""
        caps = self._capabilities(account)
        return caps is not None and caps.voice_notes

    async def kept(self, run_id: str, name: str) -> Path | None:
        """A file that was kept for a run's answer; None if it does not exist."""
        path = self._folder / run_id / name
        return path if await asyncio.to_thread(path.is_file) else None

    async def keep(self, run_id: str, name: str, content: bytes) -> Path:
        """Store a file for a run's answer, atomically. Raises OSError."""
        part = await asyncio.to_thread(self._keep, run_id, f"{name}.part", lambda: BytesIO(content))
        return await asyncio.to_thread(part.replace, part.with_name(name))

    @asynccontextmanager
    async def drawn(
        self, reply_key: str, name: str, draw: Callable[[], bytes], *, instead: str
    ) -> AsyncIterator[OutboundFile]:
        """A PNG, drawn in a thread, as a file for the reply with that key, which must be committed within the block.
        instead: the text for platforms that do not accept it."""
        async with self._held(reply_key):
            path = await asyncio.to_thread(self._keep, reply_key, name, lambda: BytesIO(draw()))
            yield OutboundFile(path=path, name=name, mime_type="image/png", kind="image", instead=instead)

    @asynccontextmanager
    async def written(
        self, reply_key: str, texts: Mapping[str, str], types: Mapping[str, str], *, instead: str
    ) -> AsyncIterator[tuple[OutboundFile, ...]]:
        """Text files, like `drawn`. texts, types: contents and MIME types by file name. instead: shown once."""
        async with self._held(reply_key):
            files = []
            for name, text in texts.items():
                draw = partial(BytesIO, text.encode(errors="replace"))
                path = await asyncio.to_thread(self._keep, reply_key, name, draw)
                files.append(OutboundFile(path=path, name=name, mime_type=types[name], instead=instead))
                instead = ""
            yield tuple(files)

    @asynccontextmanager
    async def copied(self, reply_key: str, name: str, source: Path, *, instead: str) -> AsyncIterator[OutboundFile]:
        """A copy of a local file, like `drawn`; sent as a picture if its name says so. Raises OSError."""
        mime_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        async with self._held(reply_key):
            path = await asyncio.to_thread(self._keep, reply_key, name, lambda: source.open("rb"))
            kind: AttachmentKind = "image" if mime_type in PICTURES else "file"
            yield OutboundFile(path=path, name=name, mime_type=mime_type, kind=kind, instead=instead)

    @asynccontextmanager
    async def _held(self, reply_key: str) -> AsyncIterator[None]:
        """Keep the reply's files although the store has no record of the reply yet."""
        self._drawn.add(reply_key)
        try:
            yield
        finally:
            self._drawn.discard(reply_key)

    def _keep(self, reply_key: str, name: str, draw: Callable[[], IO[bytes]]) -> Path:
        with draw() as content:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self._folder / reply_key
            folder.mkdir(mode=0o700, exist_ok=True)
            with open(folder / name, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                shutil.copyfileobj(content, file)
                file.flush()
                os.fsync(file.fileno())
        return folder / name

    async def remove(self, run_ids: Iterable[str]) -> None:
        """Remove the copies of these runs, whose answers are delivered or no longer wanted."""
        there = await asyncio.to_thread(self._run_ids)
        for run_id in there.intersection(run_ids):
            await asyncio.to_thread(self._remove, run_id)

    async def clear_left(self, store: Store | RetryingStore) -> None:
        """Remove the copies of ended runs whose answers are delivered, except those shown by the gateway's own
        accounts. Raises StoreError."""
        there = await asyncio.to_thread(self._run_ids)  # before querying the store: a run is recorded before its files
        drawn = set(self._drawn)  # the store has a record of all others
        if there:
            needed = {row.run_id for row in await store.read(runs.unended)} | await store.read(outbox.open_keys)
            needed |= await store.read(lambda tx: shown.kept_files(tx, there))
            for run_id in there - needed - drawn:
                await asyncio.to_thread(self._remove, run_id)

    def _run_ids(self) -> set[str]:
        try:
            return set(os.listdir(self._folder))
        except FileNotFoundError:
            return set()

    def _remove(self, run_id: str) -> None:
        try:
            shutil.rmtree(self._folder / run_id)
        except OSError as error:
            log.warning("files of a delivered answer not deleted: %s", os.strerror(error.errno or 0))


def _problem(size: int, caps: Capabilities | None) -> str | None:
    if caps is None:
        return None
    if not caps.files:
        return "no_files"
    if caps.largest_file is not None and size > caps.largest_file:
        return "too_large"
    return "too_small" if size < caps.smallest_file else None


def _shown(file: ReadyFile) -> str:
    return plain(harmless_name(file.name, "file"))
