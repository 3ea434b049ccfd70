"""A thread's folders in memory. They behave like real folders, but without links and permissions."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from sandbox.base import NEW, Entry, Hit, ProblemCode
from sandbox.files.beneath import Refused
from sandbox.files.content import HEAD, Lines, decoded, encoded, read_lines, replaced, require_text
from sandbox.files.paths import Place, absolute, locate, locate_all, shown
from sandbox.files.searching import Bounds, hits_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox.files.patterns import Glob, LinePattern

_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class MemoryFile:
    data: bytes
    version: str


class Drive:
    """The folders. roots: virtual paths and whether they are read-only. Sizes in bytes. Methods raise Refused."""

    def __init__(self, roots: dict[str, bool], *, largest_file: int, most_bytes: int, most_entries: int) -> None:
        self.roots = roots
        self.files: dict[str, MemoryFile] = {}
        self.folders = set(roots)
        self.largest_file = largest_file
        self._most_bytes = most_bytes
        self._most_entries = most_entries
        self._writes = 0
        self.shows: frozenset[str] = frozenset()
        """Folders of this machine whose files are shown as of the last `show`; they do not count toward the limits."""

    def place(self, path: str) -> Place:
        return locate(path, self.roots)

    def file(self, path: str, *, most: int | None = None) -> MemoryFile:
        place = self.place(path)
        self._require_file_path(place)
        file = self.files.get(place.virtual)
        if file is None:
            self._require_no_file_above(place.virtual)
            raise Refused(ProblemCode.IS_DIRECTORY if place.virtual in self.folders else ProblemCode.NOT_FOUND)
        if most is not None and len(file.data) > most:
            raise Refused(ProblemCode.TOO_LARGE, f"{len(file.data)} bytes; at most {most} are read")
        return file

    def lines(self, path: str, first: int, last: int | None, max_bytes: int) -> Lines:
        file = self.file(path)
        require_text(file.data[:HEAD], len(file.data))
        return read_lines(io.BytesIO(file.data).read, first, last, max_bytes)

    def write(self, path: str, content: str | bytes, *, append: bool, expected: str | None) -> MemoryFile:
        place = self.place(path)
        if self.roots[place.virtual_root]:
            raise Refused(ProblemCode.READ_ONLY)
        data = encoded(content)
        self._require_file_path(place)
        self._require_no_file_above(place.virtual)
        if place.virtual in self.folders:
            raise Refused(ProblemCode.IS_DIRECTORY)
        found = self.files.get(place.virtual)
        if expected is not None and expected != (found.version if found else NEW):
            raise Refused(ProblemCode.STALE, "" if found else "there is no such file")
        return self.put(place.virtual, found.data + data if append and found else data)

    def update(
        self, path: str, old: str, new: str, *, everywhere: bool, expected: str | None
    ) -> tuple[MemoryFile, int]:
        if self.roots[self.place(path).virtual_root]:
            raise Refused(ProblemCode.READ_ONLY)
        encoded(old + new)
        file = self.file(path)
        if expected is not None and expected != file.version:
            raise Refused(ProblemCode.STALE)
        text, count = replaced(decoded(file.data), old, new, everywhere=everywhere)
        return self.put(self.place(path).virtual, encoded(text)), count

    def put(self, virtual: str, data: bytes) -> MemoryFile:
        """Write a file at any path, even below read-only folders: for the maker of the sandbox."""
        if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST_NAME for part in virtual.split("/")):
            raise Refused(ProblemCode.BAD_PATH, "file name too long")
        found = self.files.get(virtual)
        more = len(data) - (len(found.data) if found else 0)
        if len(data) > self.largest_file:
            raise Refused(ProblemCode.TOO_LARGE, f"{len(data)} bytes; a file has at most {self.largest_file}")
        own = [file for path, file in self.files.items() if not self._is_shown(path)]
        if more > 0 and sum(len(file.data) for file in own) + more > self._most_bytes:
            raise Refused(ProblemCode.FULL, "the thread's share of the disk is used up")
        folders = sum(not self._is_shown(path) for path in self.folders)
        if found is None and len(own) + folders >= self._most_entries:
            raise Refused(ProblemCode.FULL, "the thread has too many files")
        self.make_folders(virtual.rpartition("/")[0])
        self._writes += 1
        file = self.files[virtual] = MemoryFile(data, str(self._writes))
        return file

    def show(self, places: Mapping[str, Mapping[str, MemoryFile]]) -> None:
        """Show these folders, with their files by virtual path, instead of those shown before."""
        self.files = {path: file for path, file in self.files.items() if not self._is_shown(path)}
        self.folders = {path for path in self.folders if not self._is_shown(path)}
        self.shows = frozenset(places)
        for place, files in places.items():
            self.make_folders(place)
            for path, file in files.items():
                self.make_folders(path.rpartition("/")[0])
                self.files[path] = file

    def _is_shown(self, path: str) -> bool:
        return any(path == place or path.startswith(f"{place}/") for place in self.shows)

    def make_folders(self, virtual: str) -> None:
        self._require_no_file_above(virtual + "/")
        while virtual not in self.folders:
            self.folders.add(virtual)
            virtual = virtual.rpartition("/")[0]

    def remove(self, virtual: str) -> bool:
        """Remove a file; returns whether it existed."""
        return self.files.pop(virtual, None) is not None

    def is_folder(self, place: Place) -> bool:
        return place.virtual in self.folders

    def listed(self, path: str, depth: int, most: int) -> list[Entry]:
        start = absolute(path, self.roots)
        above = [place.virtual for place in locate_all(path, self.roots) if place.below_start(start)]
        found = [Entry(path=root, kind="dir", size=0) for root in above]
        found += islice((entry for _, _, level, entry in self._below(path) if level <= depth), most)
        return sorted(found, key=lambda entry: entry.path)[:most]

    def glob(self, pattern: Glob, path: str, most: int) -> list[Entry]:
        files = ((relative, entry) for _, relative, _, entry in self._below(path) if entry.kind == "file")
        return list(islice((entry for relative, entry in files if pattern.matches(relative)), most))

    def grep(self, pattern: LinePattern, path: str, names: Glob | None, most: int) -> list[Hit]:
        places = locate_all(path, self.roots)
        if len(places) == 1 and places[0].virtual in self.files and not places[0].as_folder:
            return self._hits(places[0].virtual, pattern, most)
        hits: list[Hit] = []
        for virtual, relative, _, entry in self._below(path):
            if entry.kind == "file" and (names is None or names.matches(relative)):
                hits += self._hits(virtual, pattern, most - len(hits))
        return hits

    def _hits(self, virtual: str, pattern: LinePattern, most: int) -> list[Hit]:
        return hits_in(io.BytesIO(self.files[virtual].data).read, shown(virtual), pattern, Bounds(), most)

    def _below(self, path: str) -> Iterator[tuple[str, str, int, Entry]]:
        """The entries below a path, sorted: virtual path, path relative to it, level and entry."""
        places = locate_all(path, self.roots)
        start = absolute(path, self.roots).rstrip("/")
        for place in places:
            if place.virtual in self.files:
                raise Refused(ProblemCode.NOT_DIRECTORY)
            if place.virtual not in self.folders:
                self._require_no_file_above(place.virtual)
                raise Refused(ProblemCode.NOT_FOUND)
            prefix = place.virtual + "/"
            for virtual in sorted(name for name in (*self.files, *self.folders) if name.startswith(prefix)):
                file = self.files.get(virtual)
                entry = Entry(path=shown(virtual), kind="file" if file else "dir", size=len(file.data) if file else 0)
                yield virtual, virtual[len(start) + 1 :], virtual.count("/") - place.virtual.count("/"), entry

    def _require_file_path(self, place: Place) -> None:
        if place.path == ".":
            raise Refused(ProblemCode.IS_DIRECTORY)
        if place.as_folder:
            if place.virtual in self.files:
                raise Refused(ProblemCode.NOT_DIRECTORY)
            raise Refused(ProblemCode.IS_DIRECTORY if place.virtual in self.folders else ProblemCode.NOT_FOUND)

    def _require_no_file_above(self, virtual: str) -> None:
        above = virtual.rpartition("/")[0]
        while above not in self.folders:
            if above in self.files:
                raise Refused(ProblemCode.NOT_DIRECTORY)
            above = above.rpartition("/")[0]
