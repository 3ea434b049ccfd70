"""The file methods of the Sandbox port for folders of this machine."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar
from weakref import WeakValueDictionary

from sandbox.base import (
    WORKSPACE,
    Entries,
    Entry,
    FileInfo,
    FileText,
    Hits,
    Problem,
    ProblemCode,
    SandboxError,
    Updated,
    until_done,
)
from sandbox.files import searching, writing
from sandbox.files.beneath import Folder, Refused, acting_as, translated
from sandbox.files.content import CHUNK, OpenFile, load_types, opened, read_range
from sandbox.files.paths import shown
from sandbox.files.patterns import Glob, LinePattern, split_glob
from sandbox.files.searching import Bounds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sandbox.base import Hit
    from sandbox.files.beneath import Owner
    from sandbox.files.paths import Layout, Place, Root
    from sandbox.files.writing import Disk, Share


T = TypeVar("T")

P = ParamSpec("P")
THREADS = 8


class FileThreads:
    """Threads for file work, so that a slow disk blocks neither the loop nor others; each provider has and closes its
    own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sandbox-files")
        self._closed = False

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread. Raises its errors, an OSError translated.

        A cancelled caller waits for the thread, whose work on descriptors and names has to be completed.
        """
        return await self.run_stoppable(Event(), work, *args, **kwargs)

    async def run_stoppable(self, stop: Event, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run like `run`; stop is set when the caller is cancelled."""
        if self._closed:
            raise SandboxError("the sandbox is closed")
        job = self._pool.submit(lambda: _translating(work, *args, **kwargs))
        working = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            stop.set()
            if not job.cancel():  # it has begun
                await until_done(working)
                if not working.cancelled():
                    working.exception()  # otherwise it would be reported as never retrieved
            raise

    def close(self) -> None:
        """Close. Work that was begun is completed. Idempotent."""
        self._closed = True
        self._pool.shutdown(wait=False)


def _translating(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return work(*args, **kwargs)
    except OSError as error:
        raise translated(error) from error


class PathLocks:
    """One lock for each path in use. A provider has one object of this class, since its sandboxes may share mounts."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._locks)

    def hold(self, path: str) -> asyncio.Lock:
        return self._locks.setdefault(path, asyncio.Lock())


class Search(Protocol[T]):
    """Searches below a place; returns at most `most` results."""

    def __call__(self, top: Folder, place: Place, bounds: Bounds, most: int, /) -> list[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Parts shared by all sandboxes of a provider. owner: the user of commands, if not the gateway's own."""

    threads: FileThreads
    locks: PathLocks
    disk: Disk
    owner: Owner | None = None
    bounds: Callable[[], Bounds] = Bounds


class LocalFiles:
    """One thread's files. layout: returns its folders; called at each use. share: of the thread's own folders."""

    def __init__(self, layout: Callable[[], Layout], share: Share, ground: Ground) -> None:
        self._layout = layout
        self._share = share
        self._ground = ground

    @property
    def layout(self) -> Layout:
        """The thread's current folders."""
        return self._layout()

    async def read_file(
        self, path: str, *, first_line: int = 1, last_line: int | None = None, max_bytes: int = 200_000
    ) -> FileText | Problem:
        def work(top: Folder, place: Place) -> FileText:
            lines, size, version = read_range(top, place.path, first_line, last_line, max_bytes)
            return FileText(
                info=FileInfo(path=shown(place.virtual), size=size, version=version),
                text=lines.text,
                first_line=lines.first,
                last_line=lines.last,
                total_lines=lines.total,
                cut=lines.cut,
            )

        return await self._with_file(path, work)

    async def fetch(
        self, path: str, write: Callable[[bytes], Awaitable[None]], *, max_bytes: int
    ) -> FileInfo | Problem:
        with ExitStack() as stack:  # holds the open file, even if the caller is cancelled while it is opened

            def work(top: Folder, place: Place) -> tuple[OpenFile, str]:
                return stack.enter_context(opened(top, place.path, max_bytes)), shown(place.virtual)

            found = await self._with_file(path, work)
            if isinstance(found, Problem):
                return found
            file, virtual = found
            size = 0
            while chunk := await self._ground.threads.run(file.read, CHUNK):
                await write(chunk)
                size += len(chunk)
            return FileInfo(path=virtual, size=size, version=file.version)

    async def write_file(
        self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
    ) -> FileInfo | Problem:
        def work(top: Folder, place: Place, room: Disk) -> FileInfo:
            written = writing.write(top, place, content, append=append, expected=expected, room=room)
            return FileInfo(path=shown(place.virtual), size=written.size, version=written.version)

        return await self._with_room(path, work)

    async def update_file(
        self, path: str, old: str, new: str, *, replace_all: bool = False, expected: str | None = None
    ) -> Updated | Problem:
        def work(top: Folder, place: Place, room: Disk) -> Updated:
            written = writing.update(top, place, old, new, everywhere=replace_all, expected=expected, room=room)
            info = FileInfo(path=shown(place.virtual), size=written.size, version=written.version)
            return Updated(info=info, replaced=written.replaced)

        return await self._with_room(path, work)

    async def list_dir(self, path: str, *, depth: int = 2, most: int = 1000) -> Entries | Problem:
        try:
            start = self.layout.absolute(path)
        except Refused as refused:
            return self._problem(path, refused)

        def work(top: Folder, place: Place, bounds: Bounds, most: int) -> list[Entry]:
            # When listed from above, a root is an entry itself.
            itself = [Entry(path=place.virtual, kind="dir", size=0)] if place.below_start(start) else []
            return (itself + searching.listed(top, place, bounds, depth, most))[: max(0, most)]

        return await self._entries(path, work, most)

    async def glob(self, pattern: str, path: str = WORKSPACE, *, most: int = 200) -> Entries | Problem:
        try:
            rest, base = split_glob(pattern, path)
            glob = Glob(rest)
            start = self.layout.absolute(base)
        except Refused as refused:
            return self._problem(path, refused)

        def work(top: Folder, place: Place, bounds: Bounds, most: int) -> list[Entry]:
            return searching.globbed(top, place, glob, bounds, most, place.below_start(start))

        return await self._entries(base, work, most)

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, glob: str = "", ignore_case: bool = False, most: int = 100
    ) -> Hits | Problem:
        try:
            lines = LinePattern(pattern, ignore_case=ignore_case)
            names = Glob.of_names(glob) if glob else None
            start = self.layout.absolute(path)
        except Refused as refused:
            return self._problem(path, refused)

        def work(top: Folder, place: Place, bounds: Bounds, most: int) -> list[Hit]:
            return searching.grepped(top, place, lines, names, bounds, most, place.below_start(start))

        found = await self._searched(path, work, most)
        if isinstance(found, Problem):
            return found
        hits, more = found
        return Hits(hits=tuple(sorted(hits, key=lambda hit: (hit.path, hit.line))), more=more)

    async def _entries(self, path: str, work: Search[Entry], most: int) -> Entries | Problem:
        found = await self._searched(path, work, most)
        if isinstance(found, Problem):
            return found
        entries, more = found
        return Entries(entries=tuple(sorted(entries, key=lambda entry: entry.path)), more=more)

    async def _searched(self, path: str, work: Search[T], most: int) -> tuple[list[T], bool] | Problem:
        """Search below a path; returns at most `most` results, and whether there are more."""
        most = max(0, most)
        bounds = self._ground.bounds()

        def search() -> tuple[list[T], bool]:
            found: list[T] = []
            for root, place in self.layout.locate_all(path):
                with self._opened(root) as top:
                    found += work(top, place, bounds, most + 1 - len(found))
            searching.require_something(len(found), bounds)
            return found[:most], bounds.reached or len(found) > most

        try:
            return await self._ground.threads.run_stoppable(bounds.stop, search)
        except Refused as refused:
            return self._problem(path, refused)

    async def _with_file(self, path: str, work: Callable[[Folder, Place], T]) -> T | Problem:
        def read() -> T:
            root, place = self.layout.locate(path)
            with self._opened(root) as top:
                _require_file_path(top, place)
                return work(top, place)

        try:
            return await self._ground.threads.run(read)
        except Refused as refused:
            return self._problem(path, refused)

    async def _with_room(self, path: str, work: Callable[[Folder, Place, Disk], T]) -> T | Problem:
        def write(root: Root, place: Place, room: Disk) -> T:
            room.refresh()
            with self._opened(root) as top:
                _require_file_path(top, place)
                return work(top, place, room)

        try:
            root, place = self.layout.locate(path)
            if root.read_only:
                raise Refused(ProblemCode.READ_ONLY)
            room = self._share if root.own else self._ground.disk
            async with self._ground.locks.hold(f"{root.host}/{place.path}"):
                return await self._ground.threads.run(write, root, place, room)
        except Refused as refused:
            return self._problem(path, refused)

    @contextmanager
    def _opened(self, root: Root) -> Iterator[Folder]:
        """Open a root with the gateway's rights; everything below it is accessed with those of the owner."""
        load_types()
        try:
            top = Folder.at(root.host, hard_links=root.hard_links)
        except OSError as error:
            raise SandboxError(f"{root.virtual} cannot be opened: {os.strerror(error.errno or 0)}") from error
        with top, acting_as(self._ground.owner):
            yield top

    def _problem(self, path: str, refused: Refused) -> Problem:
        return Problem(code=refused.code, path=path, detail=self.layout.mask(refused.detail))


def _require_file_path(top: Folder, place: Place) -> None:
    """Refuse a path written as a folder's, even if there is a file."""
    if place.path == ".":
        raise Refused(ProblemCode.IS_DIRECTORY)
    if place.as_folder:
        top.folder(place.path).close()
        raise Refused(ProblemCode.IS_DIRECTORY)
