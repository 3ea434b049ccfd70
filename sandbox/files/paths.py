"""Translation between virtual paths, as seen by the model, and folders of this machine."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import WORKSPACE, ProblemCode
from sandbox.files.beneath import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

LONGEST_PATH = 4000
"""In bytes; Linux accepts 4095 in one call."""

_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the reading order of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder of this machine under its virtual name. own: the thread's own, which counts against its share.

    of_thread: other threads may have another one there, or none. hard_links: its files may have several names.
    """

    virtual: str
    host: Path
    read_only: bool = False
    own: bool = False
    of_thread: bool = False
    hard_links: bool = False

    @property
    def bind(self) -> Bind:
        """The bind that shows the folder to a command under its virtual name."""
        return Bind(source=self.host, target=self.virtual, read_only=self.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A host path and the path at which a command sees it."""

    source: Path
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A path below a virtual root. path: relative to it, "." is itself. as_folder: it was written as a folder's."""

    virtual_root: str
    path: str
    as_folder: bool = False

    @property
    def virtual(self) -> str:
        return self.virtual_root if self.path == "." else f"{self.virtual_root}/{self.path}"

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0] or "."

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def below_start(self, start: str) -> str:
        """The prefix of paths from here when they are relative to `start`, a virtual path above this place."""
        return self.virtual[len(start.rstrip("/")) + 1 :] + "/" if self.virtual != start else ""

    def below(self, path: str) -> Place:
        return Place(virtual_root=self.virtual_root, path=path if self.path == "." else f"{self.path}/{path}")


def locate(path: str, roots: Collection[str]) -> Place:
    """Locate a virtual path among the virtual roots. Raises Refused: OUTSIDE, BAD_PATH.

    ".." is resolved in the text: since links are never followed, it has no other meaning.
    """
    whole = absolute(path, roots)
    inside = [root for root in roots if whole == root or whole.startswith(root + "/")]
    if not inside:
        raise Refused(ProblemCode.OUTSIDE, "it is not below " + ", ".join(sorted(roots)))
    root = max(inside, key=len)
    as_folder = path.rpartition("/")[2] in ("", ".", "..")
    return Place(virtual_root=root, path=whole[len(root) + 1 :] or ".", as_folder=as_folder)


def locate_all(path: str, roots: Collection[str]) -> tuple[Place, ...]:
    """Locate a path; for one above the roots (`/mnt/user-data`) return the roots below it."""
    whole = absolute(path, roots).rstrip("/")
    below = sorted(root for root in roots if root.startswith(whole + "/"))
    return tuple(Place(virtual_root=root, path=".") for root in below) or (locate(path, roots),)


def absolute(path: str, roots: Collection[str]) -> str:
    """A virtual path, absolute and without "." and "..". Raises Refused if it leaves its root."""
    try:
        size = len(os.fsencode(path))
    except UnicodeEncodeError:
        raise Refused(ProblemCode.BAD_PATH, "it contains a lone surrogate") from None
    if not path or "\0" in path or size > LONGEST_PATH:
        raise Refused(ProblemCode.BAD_PATH, "it is empty, has a null character or is too long")
    depths = {root.count("/") for root in roots}
    parts = [] if path.startswith("/") else WORKSPACE.split("/")[1:]
    kept = len(parts)
    for part in path.split("/"):
        if part == "..":
            if len(parts) <= kept:
                raise Refused(ProblemCode.OUTSIDE, "it leads out of its folder")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
            if len(parts) in depths and "/" + "/".join(parts) in roots:
                kept = len(parts)
    return "/" + "/".join(parts)


def shown(path: str) -> str:
    """A path from a hostile program, made harmless: one line, valid Unicode, in the order in which it is written.

    Bytes that are not UTF-8 appear as \\xff, control and reordering characters as \\u202e. Such a name can be read, but
    not used as a path.
    """
    if path.isascii() and path.isprintable():
        return path
    return "".join(_harmless(character) for character in path)


def _harmless(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if character in _REORDERING or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return f"\\u{code:04x}"
    return character


class Layout:
    """The folders of one sandbox. hidden: further host paths that text must not show, with their replacements."""

    def __init__(self, roots: Iterable[Root], hidden: dict[str, str] | None = None) -> None:
        self.roots = {root.virtual: root for root in roots}
        self._masks: dict[str, str] = {}
        for path, seen in ((hidden or {}) | {str(root.host): root.virtual for root in self.roots.values()}).items():
            self._masks |= dict.fromkeys((path, os.path.abspath(path), os.path.realpath(path)), seen)
        longest_first = sorted(self._masks, key=len, reverse=True)
        self._pattern = re.compile("(?:" + "|".join(map(re.escape, longest_first)) + r")(?![\w-])")
        self._longest = len(longest_first[0]) if longest_first else 0

    def locate(self, path: str) -> tuple[Root, Place]:
        """Locate a path. Raises Refused: OUTSIDE, BAD_PATH."""
        place = locate(path, self.roots)
        return self.roots[place.virtual_root], place

    def absolute(self, path: str) -> str:
        """Make a path absolute. Raises Refused: OUTSIDE, BAD_PATH."""
        return absolute(path, self.roots)

    def locate_all(self, path: str) -> list[tuple[Root, Place]]:
        """Locate a path; for one above the roots return all roots below it."""
        return [(self.roots[place.virtual_root], place) for place in locate_all(path, self.roots)]

    def mask(self, text: str) -> str:
        """Replace host paths by virtual ones, longest first."""
        return self._pattern.sub(lambda match: self._masks[match.group()], text) if self._masks else text

    def masking(self) -> Masking:
        return Masking(self)

    def settled(self, text: str) -> int:
        """The length of the beginning of a text that can be masked before its continuation is known."""
        start = text.find("/", max(0, len(text) - self._longest))
        while start >= 0:
            if any(host.startswith(text[start:]) for host in self._masks):
                return start
            start = text.find("/", start + 1)
        return len(text)


class Masking:
    """Masks text that arrives in pieces; an end that may begin a host path is held back until the next piece."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._waiting = ""

    def feed(self, piece: str) -> str:
        text = self._waiting + piece
        settled = self._layout.settled(text)
        self._waiting = text[settled:]
        return self._layout.mask(text[:settled])

    def end(self) -> str:
        """Return the remaining text."""
        text, self._waiting = self._waiting, ""
        return self._layout.mask(text)
