"""Storage of memories: the ports `MemoryStore` and `Memories`, and the file store.

Files are users/<hash of the owner>/memory.json, for one process and its command line; bot/store/memories.py keeps them
in the database. Every change to a memory goes through bot's MemoryKeeper, the harness's `Memories`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from pydantic import ValidationError

from harness.files.durable import write_atomically
from harness.memory.model import Memory, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.context import RunContext
    from harness.memory.config import MemorySettings
    from harness.memory.model import Category, Fact


Result = TypeVar("Result")
log = logging.getLogger(__name__)
FILE, LAST, OWNER = "memory.json", "memory.json.last", "memory.owner"
"""The memory, the last good one before it, and its owner (which the folder's name does not reveal)."""
BROKEN = "memory.json.broken-"
AGENTS = "agents"
"""The folder, within an owner's, of agents' own memories, each in a subfolder named after the agent."""
LARGEST = 4_000_000
"""Bytes; a full memory has less."""
MOST_BROKEN = 5
"""Broken files that are kept; beyond that the oldest are deleted."""


class MemoryUnavailable(Exception):
    """The memories cannot be read or written now; nothing was changed."""


class NotKept(Exception):
    """A fact was not stored. The text says why, in a sentence for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMemory:
    """A stored memory in a list, without its content. agent: whose own it is, "" if agents share it. size: bytes of its
    JSON."""

    owner: str
    agent: str = ""
    size: int
    updated_at: datetime | None


class MemoryStore(Protocol):
    """Stores one memory per owner that agents share, and one for each agent that keeps its own. Callers serialize
    writes to one owner's memories, or use `replace`. agent: whose own it is, "" for the shared one. All methods raise
    MemoryUnavailable."""

    async def load(self, owner: str, agent: str = "") -> Memory:
        """The memory, empty if there is none. A broken one is set aside and logged, and the last good copy is used."""

    async def save(self, owner: str, memory: Memory, agent: str = "") -> None:
        """Write it atomically; the replaced one remains as the last good copy."""

    async def replace(self, owner: str, known: Memory, memory: Memory, agent: str = "") -> bool:
        """Replace `known` by `memory`, or delete it if `memory` is empty. False, with nothing changed, if the stored
        one differs from `known`; files support only one process at a time."""

    async def delete(self, owner: str, agent: str = "") -> bool:
        """Delete it, its last good copy and the files set aside. False if there was nothing."""

    async def owners(self, owner: str | None = None) -> list[StoredMemory]:
        """All stored memories, or those of one owner, sorted by owner, then by agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What a run may know. changed: counts changes made by people (forgot, edited, turned off): a thread that was given
    another count receives the memory again at its next turn. agent: whose own memory it is, "" for the shared one:
    blocks of another agent's memory are removed from the thread."""

    memory: Memory
    changed: int = 0
    agent: str = ""


class Memories(Protocol):
    """The memory of the run's owner, or what its agent keeps of them for itself, for the harness. If memory is off for
    that owner, nothing is read or stored."""

    async def recalled(self, ctx: RunContext) -> Recalled:
        """The memory; empty if memory is off. Raises MemoryUnavailable."""

    async def remember(self, ctx: RunContext, call: str, content: str, category: Category) -> Fact:
        """Store a fact in the agent's words, with `merge.remembered`. call: names the tool call within the run;
        repeating it returns the stored fact. Raises NotKept, MemoryUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembering:
    """What the harness needs if memory is configured."""

    memories: Memories
    settings: MemorySettings


class FileMemoryStore:
    """The store in files below the folder `users`, readable only by this account (0700 and 0600)."""

    def __init__(self, users: Path) -> None:
        self._users = users

    async def load(self, owner: str, agent: str = "") -> Memory:
        return await _told(self._load, self.folder(owner, agent))

    async def save(self, owner: str, memory: Memory, agent: str = "") -> None:
        await _told(self._save, owner, memory, agent)

    async def replace(self, owner: str, known: Memory, memory: Memory, agent: str = "") -> bool:
        return await _told(self._replace, owner, known, memory, agent)

    async def delete(self, owner: str, agent: str = "") -> bool:
        return await _told(self._delete, self.folder(owner, agent))

    async def owners(self, owner: str | None = None) -> list[StoredMemory]:
        below = "*" if owner is None else self.folder(owner).name
        return await _told(lambda: sorted(self._found(below), key=lambda found: (found.owner, found.agent)))

    def folder(self, owner: str, agent: str = "") -> Path:
        """The owner's folder, named by a hash: an id may contain any character, and identifies a person. An agent's own
        memory is inside it, so that it is deleted with the rest."""
        digest = hashlib.sha256(owner.encode("utf-8", "surrogatepass")).digest()
        folder = self._users / base64.b32encode(digest).decode().rstrip("=").lower()
        return folder / AGENTS / agent if agent else folder

    def _load(self, folder: Path) -> Memory:
        try:
            return _read(folder / FILE)
        except FileNotFoundError:
            return Memory()
        except ValueError as error:
            return _last_good(folder, error)

    def _save(self, owner: str, memory: Memory, agent: str) -> None:
        folder = self.folder(owner, agent)
        for each in (self.folder(owner), folder.parent, folder):  # mkdir creates parents with the umask's mode
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / OWNER).exists():
            _write(folder / OWNER, owner)
        try:
            _write(folder / LAST, _read(folder / FILE).to_json())
        except FileNotFoundError:
            log.debug("the first memory of an owner")
        except ValueError as error:
            log.error("unreadable memory moved to %s: %s", _aside(folder), _what(error))
        _write(folder / FILE, memory.to_json())

    def _replace(self, owner: str, known: Memory, memory: Memory, agent: str) -> bool:
        folder = self.folder(owner, agent)
        if self._load(folder) != known:
            return False
        if memory.is_empty:
            self._delete(folder)
        else:
            self._save(owner, memory, agent)
        return True

    def _delete(self, folder: Path) -> bool:
        if not folder.is_dir():
            return False
        mine = [path for path in folder.iterdir() if path.name.startswith("memory.")]
        for path in sorted(mine, key=lambda path: path.name == OWNER):  # the owner's name is deleted last
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it may contain other files of the owner
            folder.rmdir()
            if folder.parent.name == AGENTS:
                folder.parent.rmdir()
                folder.parent.parent.rmdir()
        return any(path.name != OWNER for path in mine)

    def _found(self, below: str) -> Iterator[StoredMemory]:
        for path in (*self._users.glob(f"{below}/{FILE}"), *self._users.glob(f"{below}/{AGENTS}/*/{FILE}")):
            try:
                updated_at = _read(path).last_updated
            except ValueError:
                updated_at = None
            agent = path.parent.name if path.parent.parent.name == AGENTS else ""
            yield StoredMemory(owner=_owner(path.parent), agent=agent, size=path.stat().st_size, updated_at=updated_at)


def _last_good(folder: Path, error: ValueError) -> Memory:
    """Set the broken memory aside and restore the one before it, unless that is broken too."""
    try:
        memory = _read(folder / LAST)
    except (FileNotFoundError, ValueError):
        memory = Memory()
    aside = _aside(folder)
    _write(folder / FILE, memory.to_json())
    instead = "it starts empty" if memory.is_empty else f"replaced by that of {memory.last_updated}"
    log.error("unreadable memory moved to %s; %s: %s", aside, instead, _what(error))
    return memory


def _aside(folder: Path) -> Path:
    """Link the broken file under another name first, so that no later failure can lose it."""
    set_aside = sorted(folder.glob(f"{BROKEN}*"))
    for old in set_aside[: max(len(set_aside) - MOST_BROKEN + 1, 0)]:
        old.unlink(missing_ok=True)
    aside = folder / f"{BROKEN}{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    os.link(folder / FILE, aside)
    return aside


def _read(path: Path) -> Memory:
    """Read a memory file. Raises ValueError if it is invalid, OSError."""
    with path.open("rb") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return from_json(text)


def _write(path: Path, text: str) -> None:
    write_atomically(path, text.encode("utf-8", "surrogatepass"))


def _owner(folder: Path) -> str:
    try:
        return (folder / OWNER).read_bytes().decode("utf-8", "surrogatepass")
    except FileNotFoundError:
        return f"unknown, in {folder.name}"


def _what(error: ValueError) -> str:
    """The error's text without the file's content."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in faults[:3])
    return str(error)


async def _told(work: Callable[..., Result], *args: object) -> Result:
    """Run the work in a thread; an OSError becomes MemoryUnavailable."""
    try:
        return await asyncio.to_thread(work, *args)
    except OSError as error:
        raise MemoryUnavailable(f"the memory cannot be read or written: {error.strerror or error}") from error
