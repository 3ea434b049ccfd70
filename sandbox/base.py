"""The sandbox port: where the agent's commands run and its files live.

The harness's tools talk to a `Sandbox` and nothing else. A provider makes one for each thread at its first tool call.
What the agent can do something about (a missing file, a command that took too long) is a value; an exception means that
the sandbox itself does not work.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    Route = tuple[str | None, Path | None]

WORKSPACE = "/mnt/user-data/workspace"
UPLOADS = "/mnt/user-data/uploads"
OUTPUTS = "/mnt/user-data/outputs"
SKILLS = "/mnt/skills"
"""The folders as every sandbox and the model see them, whatever they are on the host."""
RESULTS = f"{OUTPUTS}/.tool-results"
"""Results of tools that are too long for the model, as .txt files; old ones are deleted when its folders are opened."""


class SandboxError(Exception):
    """The sandbox does not work. The text has no host path and no secret; hint: what an operator can do, or ""."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class SandboxUnavailable(SandboxError):
    """The provider cannot work on this machine as it is configured."""


class ProblemCode(StrEnum):
    """Why a file operation did nothing."""

    NOT_FOUND = "not_found"
    IS_DIRECTORY = "is_directory"
    NOT_DIRECTORY = "not_directory"
    NOT_A_FILE = "not_a_file"
    """A device, a FIFO, a socket, a file with a second hard link."""
    LINK = "link"
    """A symbolic link on the way; links are never followed."""
    OUTSIDE = "outside"
    """Not below any folder of the sandbox."""
    BAD_PATH = "bad_path"
    """Nothing can have such a name: empty, too long, with a null character."""
    READ_ONLY = "read_only"
    DENIED = "denied"
    """The file's own permissions forbid it."""
    BINARY = "binary"
    """Not text; the detail says what it is."""
    TOO_LARGE = "too_large"
    BAD_PATTERN = "bad_pattern"
    NO_MATCH = "no_match"
    NOT_UNIQUE = "not_unique"
    STALE = "stale"
    """It changed since it was read, or was never read."""
    FULL = "full"
    """The disk, or the thread's share of it, is full."""
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A file operation that did nothing. path: as the caller gave it. detail: what a reader needs beyond the code."""

    code: ProblemCode
    path: str
    detail: str = ""


class Ending(StrEnum):
    """How a command ended."""

    EXITED = "exited"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_SPACE = "out_of_space"
    """It filled the thread's share of the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What a command did.

    exit_code: of the shell, 128 + signal for a killed one; None when Antler ended it. output: stdout and stderr as they
    came, decoded as UTF-8 with replacement; of a long one the beginning and the end. omitted: bytes left out between
    them, at `gap` (an index into output). seconds: how long it ran.
    """

    ending: Ending
    exit_code: int | None
    output: str
    seconds: float
    omitted: int = 0
    gap: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """size in bytes. version: changes whenever the content may have; opaque, compared only for equality."""

    path: str
    size: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """Lines `first_line`..`last_line` (from 1, inclusive; 0..0 of an empty file) of `total_lines`.

    cut: the range was longer than `max_bytes` allows and ends early.
    """

    info: FileInfo
    text: str
    first_line: int
    last_line: int
    total_lines: int
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a listing. path: virtual, absolute. kind: "file", "dir", "link" or "other"."""

    path: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Sorted by path. more: there were more than asked for."""

    entries: tuple[Entry, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line that matched; text is cut at a few hundred characters."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    hits: tuple[Hit, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """replaced: how many places."""

    info: FileInfo
    replaced: int


NEW = "new"
"""As `expected` of a write: there must be no such file yet."""


class Sandbox(Protocol):
    """Sandbox of one thread. Paths are virtual: absolute below WORKSPACE, UPLOADS, OUTPUTS, SKILLS or a configured
    mount, or relative to WORKSPACE. Every method raises only SandboxError (and cancellation)."""

    @property
    def id(self) -> str:
        """Derived from the thread id, so that another process finds the same one."""

    async def execute_command(
        self, command: str, *, timeout: float, on_output: Callable[[str], None] | None = None
    ) -> CommandResult:
        """Run a shell command in WORKSPACE. timeout in seconds.

        on_output is told of output as it comes, in pieces. When the time is over, or the caller is cancelled, the whole
        process tree is killed before this returns or raises. Several may run at a time.
        """

    async def read_file(
        self, path: str, *, first_line: int = 1, last_line: int | None = None, max_bytes: int = 200_000
    ) -> FileText | Problem:
        """A text file, or a range of its lines (last_line None: to the end)."""

    async def fetch(
        self, path: str, write: Callable[[bytes], Awaitable[None]], *, max_bytes: int
    ) -> FileInfo | Problem:
        """Stream a whole file of any kind out of the sandbox. TOO_LARGE is told before anything is written."""

    async def write_file(
        self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
    ) -> FileInfo | Problem:
        """Write a file and the folders above it; atomic: readers see the old content or the new one.

        expected: the version that it replaces, or NEW; STALE when that is not so. None: whatever is there.
        """

    async def update_file(
        self, path: str, old: str, new: str, *, replace_all: bool = False, expected: str | None = None
    ) -> Updated | Problem:
        """Replace text that occurs exactly once (or everywhere). expected: as in `write_file`."""

    async def list_dir(self, path: str, *, depth: int = 2, most: int = 1000) -> Entries | Problem: ...

    async def glob(self, pattern: str, path: str = WORKSPACE, *, most: int = 200) -> Entries | Problem:
        """Files whose path below `path` matches; `**` spans folders."""

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, glob: str = "", ignore_case: bool = False, most: int = 100
    ) -> Hits | Problem:
        """Lines that match a regular expression without backreferences, in time linear in the text."""


class Isolation(StrEnum):
    """How well the agent's commands are held; shown wherever the sandbox is."""

    FULL = "full"
    RESTRICTED = "restricted"
    """Held, but by less than a provider of its own namespaces has."""
    NONE = "none"
    """Commands run as the gateway's own user, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a provider found at its probe, for the start, doctor and /status.

    bash: whether commands can be run. shortfalls: what is not enforced on this machine, one plain sentence each.
    hosts: all that commands reach, () for no network; None: not known here. packages: names of the Python packages that
    commands find; () where that is not known.
    """

    provider: str
    isolation: Isolation
    bash: bool
    shortfalls: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    packages: tuple[str, ...] = ()


class SandboxProvider(Protocol):
    """Makes the sandboxes of one gateway."""

    async def start(self) -> Report:
        """Probe this machine with a real command. Raises SandboxUnavailable; never works in a weaker way instead."""

    async def acquire(self, thread_id: str) -> Sandbox:
        """The thread's sandbox, made or found again. Idempotent; concurrent calls for one thread give the same one."""

    def get(self, thread_id: str) -> Sandbox | None:
        """The thread's sandbox if this process holds it."""

    async def release(self, thread_id: str) -> None:
        """The run is over: what the sandbox keeps running may be stopped or kept warm. Files stay."""

    async def forget(self, thread_id: str) -> None:
        """The thread is deleted: end everything of it that is not a file of the thread's folders."""

    async def shutdown(self) -> None:
        """End what runs. Idempotent."""


@runtime_checkable
class Watched(Protocol):
    """A provider that goes on while a part of it does not work."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """What does not work now, a sentence each, with what an operator can do in brackets at its end."""


def direct(url: str) -> Route:
    """The way to an address, (proxy, CA file), where nothing is configured."""
    return None, None


async def until_done(work: asyncio.Future[Any]) -> bool:
    """Wait for work that must not be left half done, even when this task is cancelled; whether it was."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def sandbox_id(thread_id: str) -> str:
    """Deterministic and without meaning: the beginning of the thread id's SHA-256."""
    return hashlib.sha256(thread_id.encode()).hexdigest()[:16]
