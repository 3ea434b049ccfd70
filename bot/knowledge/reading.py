"""The text of files and addresses: documents via the sandbox's converter, pages as read by web_fetch."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import stat
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from harness.files import documents
from harness.files.slots import FairSlots
from harness.text.plain import encoding_of
from harness.web.sections import PAGE_BREAK, first_heading
from sandbox.base import RESULTS, Problem, SandboxError, contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from bot.files.sandboxes import Sandboxes
    from bot.settings import Settings
    from channels.base import Clock
    from harness.web.pages import Pages
    from sandbox.base import Sandbox

log = logging.getLogger(__name__)
KINDS = documents.TEXTS | documents.KINDS
"""Extensions of a folder's files that are read; others are skipped."""
THREAD = "knowledge-"
"""Prefix of the thread ids for sandboxes that convert documents: each document has its own, which is then deleted."""
SECONDS = 60.0
"""Maximum number of seconds for one document, once it is its turn."""
_KNOWN = {documents.PROTECTED: "password", documents.EMPTY: "empty"}
AGAIN = frozenset({"no_sandbox", "sandbox"})
"""Problems that may be gone at the next attempt."""

KEYS = {
    "too_large": "knowledge.max_file_mb",
    "documents": "knowledge.max_documents",
    "passages": "knowledge.max_passages",
    "no_web": "web.fetch.enabled",
}
"""The key of the config behind a problem, for operators."""


class Unreadable(Exception):
    """No text is available. problem: a key of Texts.knowledge_problem. detail: English, for operators; no secret."""

    def __init__(self, problem: str, detail: str = "") -> None:
        super().__init__(f"{problem}: {detail}" if detail else problem)
        self.problem = problem
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadText:
    """A document's text, with form feeds between pages. title: from its content, else "". url: of a page."""

    text: str
    title: str = ""
    url: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


class Reading:
    """Reads documents, one object per process. Its web client is created when it is needed."""

    def __init__(self, settings: Settings, sandboxes: Sandboxes, clock: Clock) -> None:
        self._settings = settings
        self._sandboxes = sandboxes
        self._clock = clock
        self._pages: Pages | None = None
        self._room = FairSlots(1)
        self._opening = asyncio.Lock()

    async def adopt(self, settings: Settings) -> None:
        """Apply new settings from the next address on."""
        if settings.web.fetch != self._settings.web.fetch or settings.network != self._settings.network:
            await self.close()
        self._settings = settings

    async def file(self, name: str, body: bytes, whose: str) -> ReadText:
        """The text of a file's content. whose: the waiting owner; owners take turns. Raises Unreadable."""
        suffix = PurePosixPath(name).suffix.lower()
        if suffix in documents.KINDS:
            text = await self._converted(suffix, body, whose)
        elif suffix in documents.NOT_READ:
            raise Unreadable("kind", suffix)
        else:
            text = await asyncio.to_thread(_decoded, body)
        return _checked(ReadText(text=text, title=first_heading(text)))

    async def page(self, url: str, whose: str) -> ReadText:
        """The text at an address, according to the rules of web_fetch. Raises Unreadable."""
        from harness.web.addresses import WebError  # imports an HTTP client, needed only for addresses

        if not self._settings.web.fetch.enabled:
            raise Unreadable("no_web")
        pages = await self._opened()
        try:
            async with self._sandbox() as box:
                page, _ = await pages.load(url, box, whose)
        except WebError as error:
            raise Unreadable("page", str(error)) from None
        return _checked(ReadText(text=page.text, title=page.title or first_heading(page.text), url=page.url))

    async def _opened(self) -> Pages:
        from harness.web.addresses import Rules
        from harness.web.pages import Pages
        from harness.web.sources import MemorySources

        async with self._opening:
            if self._pages is None:
                settings = self._settings
                rules = Rules(settings.web.fetch.allow)
                self._pages = Pages(
                    settings.web.fetch, rules, settings.network_route, clock=self._clock, sources=MemorySources()
                )
            return self._pages

    async def _converted(self, suffix: str, body: bytes, whose: str) -> str:
        place = f"{RESULTS}/knowledge-{hashlib.sha256(body).hexdigest()[:16]}"
        try:
            async with self._room.slot(whose), self._sandbox() as held, asyncio.timeout(SECONDS):
                box = await held.get()
                written = await box.write_file(f"{place}{suffix}", body)
                if isinstance(written, Problem):
                    raise Unreadable("sandbox", written.code)
                reason = await documents.convert(box, f"{place}{suffix}", f"{place}.txt", seconds=SECONDS, discard=True)
                if reason:
                    raise Unreadable(_KNOWN.get(reason, "conversion"), reason)
                text = await contents(box, f"{place}.txt", documents.MOST_BYTES)
                if isinstance(text, Problem):
                    raise Unreadable("sandbox", text.code)
                return text.decode("utf-8", "replace")
        except TimeoutError:
            raise Unreadable("conversion", documents.too_slow(SECONDS)) from None
        except SandboxError as error:
            log.warning("a document was not converted for the knowledge: %s %s", error, error.hint)
            raise Unreadable("no_sandbox", str(error)) from None

    @asynccontextmanager
    async def _sandbox(self) -> AsyncIterator[_Borrowed]:
        borrowed = _Borrowed(self._sandboxes)
        try:
            yield borrowed
        finally:
            await borrowed.close()

    async def close(self) -> None:
        """Release connections and processes."""
        pages, self._pages = self._pages, None
        if pages is not None:
            await pages.close()


class _Borrowed:
    """A separate sandbox, from its first use until it is closed, when it is deleted."""

    def __init__(self, lending: Sandboxes) -> None:
        self._lending = lending
        self._thread = f"{THREAD}{uuid.uuid4().hex}"
        self._stack = AsyncExitStack()
        self._box: Sandbox | None = None

    async def get(self) -> Sandbox:
        """Borrow the sandbox, or return the borrowed one. Raises SandboxError."""
        if self._box is None:
            self._box = await self._stack.enter_async_context(self._lending.borrow(self._thread))
        return self._box

    async def close(self) -> None:
        if self._box is None:
            return
        await self._stack.aclose()
        try:
            await self._lending.forget(self._thread)
        except SandboxError as error:
            log.warning("temporary files of a document in the sandbox were not deleted: %s", error)


def _decoded(body: bytes) -> str:
    """The decoded text of a file, whatever its name."""
    encoding = encoding_of(body)
    if not encoding:
        raise Unreadable("kind")
    return body.decode(encoding, "replace")


def _checked(read: ReadText) -> ReadText:
    if not read.text.strip(f" \n\r\t{PAGE_BREAK}"):
        raise Unreadable("empty")
    return read


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a folder. place: its relative path, with slashes, bytes that are not UTF-8 escaped. path: the same as
    the system has it. modified: nanoseconds since 1970."""

    place: str
    path: str
    size: int
    modified: int


def files_in(folder: Path, most: int) -> list[FoundFile]:
    """The files below a folder that can be read as knowledge, without links and hidden ones, at most `most`. Blocking.
    Raises OSError if any of its folders cannot be listed."""

    def fail(error: OSError) -> None:
        raise error

    found: list[FoundFile] = []
    for current, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or PurePosixPath(name).suffix.lower() not in KINDS:
                continue
            path = os.path.join(current, name)
            facts = os.lstat(path)
            if stat.S_ISREG(facts.st_mode) and len(found) < most:
                path = os.path.relpath(path, folder)
                place = os.fsencode(path).decode("utf-8", "backslashreplace").replace(os.sep, "/")
                found.append(FoundFile(place, path, facts.st_size, facts.st_mtime_ns))
    return found


def content_of(folder: Path, path: str, most: int) -> bytes:
    """The content of a folder's file, at most `most` bytes and one more. Blocking. Raises OSError, also for a link."""
    descriptor = os.open(folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return file.read(most + 1)
