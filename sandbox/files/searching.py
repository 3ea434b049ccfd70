"""Lists and searches folders within limits on entries, bytes and time; runs in worker threads."""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING

from sandbox.base import Entry, Hit, ProblemCode
from sandbox.files.beneath import TEMPORARY, Folder, Refused, translated
from sandbox.files.paths import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from sandbox.files.paths import Place
    from sandbox.files.patterns import Glob, LinePattern

DEEPEST = 64
"""Maximum depth of folders that are entered."""
BLOCK = 1 << 15
"""Number of bytes matched at once; a longer line is matched in pieces of this size."""


@dataclass(slots=True)
class Bounds:
    """Limits of one listing or search. reached: something was left out."""

    entries: int = 100_000
    bytes: int = 256 << 20
    seconds: float = 10.0
    stop: Event = field(default_factory=Event)
    reached: bool = False
    late: bool = False
    _deadline: float | None = None

    def go_on(self) -> bool:
        """Whether time is left, counted from the first call."""
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self.seconds
        if now > self._deadline or self.stop.is_set():
            self.reached = self.late = True
        return not self.late

    def take(self, *, entries: int = 0, size: int = 0) -> bool:
        """Use up a part; returns whether there was enough."""
        self.entries -= entries
        self.bytes -= size
        if self.entries < 0 or self.bytes < 0:
            self.reached = True
            return False
        return True


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a folder that is still open. path: relative to the start of the walk."""

    folder: Folder
    name: str
    path: str
    kind: str

    def size(self) -> int:
        try:
            return os.stat(self.name, dir_fd=self.folder.fd, follow_symlinks=False).st_size
        except OSError:
            return 0  # it was removed, or is inaccessible


def walk(top: Folder, bounds: Bounds, *, depth: int = DEEPEST) -> Generator[Found, None, None]:
    """The entries of a tree, folder by folder, top first; links are shown, never followed."""
    waiting = deque([(".", 1)])
    while waiting and bounds.go_on():
        path, level = waiting.popleft()
        try:
            folder = top.folder(path)
        except (OSError, Refused) as error:
            if level == 1:
                raise
            _require_passable(error)  # inaccessible, moved away, or its path has become too long
            bounds.reached = True
            continue
        with folder:
            for name, kind in _sorted_entries(folder, bounds):
                below = name if path == "." else f"{path}/{name}"
                if kind == "dir" and level < depth:
                    waiting.append((below, level + 1))
                elif kind == "dir" and level >= DEEPEST:
                    bounds.reached = True
                yield Found(folder, name, below, kind)


def _sorted_entries(folder: Folder, bounds: Bounds) -> list[tuple[str, str]]:
    found = []
    with os.scandir(folder.fd) as entries:
        for entry in entries:
            if not bounds.take(entries=1):
                break
            if not entry.name.startswith(TEMPORARY):
                found.append((entry.name, _kind(entry)))
    return sorted(found)


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "dir"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def listed(top: Folder, place: Place, bounds: Bounds, depth: int, most: int) -> list[Entry]:
    """The entries of a folder and its subfolders."""
    with top.folder(place.path) as start, closing(walk(start, bounds, depth=min(depth, DEEPEST))) as everything:
        return [_entry(place, found) for found in islice(everything, most)]


def globbed(top: Folder, place: Place, glob: Glob, bounds: Bounds, most: int, prefix: str) -> list[Entry]:
    """The files whose path matches, at most `most`. prefix: precedes paths from here for the pattern."""
    with top.folder(place.path) as start, closing(walk(start, bounds)) as everything:
        files = (found for found in everything if found.kind == "file" and glob.matches(prefix + found.path))
        return [_entry(place, found) for found in islice(files, most)]


def _entry(place: Place, found: Found) -> Entry:
    size = found.size() if found.kind == "file" else 0
    return Entry(path=shown(place.below(found.path).virtual), kind=found.kind, size=size)


def grepped(
    top: Folder, place: Place, pattern: LinePattern, glob: Glob | None, bounds: Bounds, most: int, prefix: str
) -> list[Hit]:
    """The matching lines of a file, or of the text files below a folder, at most `most`."""
    try:
        start = top.folder(place.path)
    except NotADirectoryError:
        return hits_in_file(top, place.path, shown(place.virtual), pattern, bounds, most)
    hits: list[Hit] = []
    with start, closing(walk(start, bounds)) as everything:
        for found in everything:
            if found.kind != "file" or not (glob is None or glob.matches(prefix + found.path)):
                continue
            path = shown(place.below(found.path).virtual)
            try:
                hits += hits_in_file(found.folder, found.name, path, pattern, bounds, most - len(hits))
            except (OSError, Refused) as error:
                _require_passable(error)  # gone, replaced by a link, inaccessible: not a file to search
            if len(hits) >= most or bounds.bytes < 0 or not bounds.go_on():
                break
    return hits


def _require_passable(error: OSError | Refused) -> None:
    """Raise errors that concern the whole machine rather than one entry (no descriptors, a broken disk)."""
    if isinstance(error, OSError) and not isinstance(translated(error), Refused):
        raise error


def hits_in_file(folder: Folder, name: str, path: str, pattern: LinePattern, bounds: Bounds, most: int) -> list[Hit]:
    """The matching lines of one file, up to its first null character."""
    fd, found = folder.file(name)
    left = found.st_size

    def read(size: int) -> bytes:
        nonlocal left
        data = os.read(fd, min(size, left))
        left -= len(data)
        return data

    try:
        return hits_in(read, path, pattern, bounds, most)
    finally:
        os.close(fd)


def hits_in(read: Callable[[int], bytes], path: str, pattern: LinePattern, bounds: Bounds, most: int) -> list[Hit]:
    """The matching lines of the data returned by `read`, at most `most`."""
    hits: list[Hit] = []
    line, rest = 1, b""
    while data := read(BLOCK):
        if b"\0" in data or not bounds.take(size=len(data)) or not bounds.go_on():
            return hits
        block = rest + data
        end = block.rfind(b"\n") + 1
        if not end and len(block) >= BLOCK:
            end = len(block)
        block, rest = block[:end], block[end:]
        hits += _in_block(block, line, path, pattern, most - len(hits))
        if len(hits) >= most:
            return hits
        line += block.count(b"\n")
    return hits + _in_block(rest, line, path, pattern, most - len(hits))


def _in_block(block: bytes, line: int, path: str, pattern: LinePattern, most: int) -> list[Hit]:
    matches = islice(pattern.matches(block), most)
    return [Hit(path=path, line=line + match.line, text=match.text) for match in matches]


def require_something(found: int, bounds: Bounds) -> None:
    """Raise Refused(TIMED_OUT) if time ran out before anything was found."""
    if bounds.late and not found:
        raise Refused(ProblemCode.TIMED_OUT, f"found nothing within {bounds.seconds:g} s; a narrower path is faster")
