"""The sandbox port: where the agent's commands run and its files are stored.

The harness's tools use only a `Sandbox`. A provider creates one for each thread at its first tool call. Problems that
the agent can solve (a missing file, a command that took too long) are return values; an exception means that the
sandbox itself does not work.
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

    OnOutput = Callable[[str], None] | None
    """Receives a command's output, piece by piece."""
    Route = tuple[str | None, Path | None]

WORKSPACE = "/mnt/user-data/workspace"
UPLOADS = "/mnt/user-data/uploads"
OUTPUTS = "/mnt/user-data/outputs"
SKILLS = "/mnt/skills"
"""The folders as seen by every sandbox and the model, wherever they are on the host."""
RESULTS = f"{OUTPUTS}/.tool-results"
"""Tool results that are too long for the model, as .txt files; old ones are deleted when the folders are opened."""


class SandboxError(Exception):
    """The sandbox does not work. The text contains no host paths or secrets; hint: what an operator can do, or ""."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class SandboxUnavailable(SandboxError):
    """The provider cannot work on this machine with its configuration."""


class ProblemCode(StrEnum):
    """Why a file operation did nothing."""

    NOT_FOUND = "not_found"
    IS_DIRECTORY = "is_directory"
    NOT_DIRECTORY = "not_directory"
    NOT_A_FILE = "not_a_file"
    """A device, a FIFO, a socket, a file with a second hard link."""
    LINK = "link"
    """A symbolic link in the path; links are never followed."""
    OUTSIDE = "outside"
    """Not below any folder of the sandbox."""
    BAD_PATH = "bad_path"
    """An impossible name: empty, too long, with a null character."""
    READ_ONLY = "read_only"
    DENIED = "denied"
    """The file's own permissions forbid it."""
    BINARY = "binary"
    """Not text; the detail names the type."""
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
    """A file operation that did nothing. path: as given by the caller. detail: further information for readers."""

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
    """The result of a command.

    exit_code: of the shell, 128 + signal for a killed one; None if Antler ended it. output: stdout and stderr in the
    order of arrival, decoded as UTF-8 with replacement; only the beginning and the end of a long one. omitted: bytes
    left out between them, at `gap` (an index into output). seconds: how long it ran.
    """

    ending: Ending
    exit_code: int | None
    output: str
    seconds: float
    omitted: int = 0
    gap: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file. size: in bytes. version: changes whenever the content may have changed; opaque, compared for equality."""

    path: str
    size: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """Lines `first_line`..`last_line` (from 1, inclusive; 0..0 for an empty file) of `total_lines`.

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
    """A listing, sorted by path. more: there were more entries than requested."""

    entries: tuple[Entry, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A matching line; text is cut at a few hundred characters."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    hits: tuple[Hit, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """An updated file. replaced: number of replacements."""

    info: FileInfo
    replaced: int


NEW = "new"
"""Value of `expected` in a write: the file must not exist yet."""


class Sandbox(Protocol):
    """The sandbox of one thread. Paths are virtual: absolute below WORKSPACE, UPLOADS, OUTPUTS, SKILLS or a configured
    mount, or relative to WORKSPACE. Methods raise only SandboxError (and cancellation)."""

    @property
    def id(self) -> str:
        """The sandbox's id, derived from the thread id, so that another process finds the same sandbox."""

    async def execute_command(self, command: str, *, timeout: float, on_output: OnOutput = None) -> CommandResult:
        """Run a shell command in WORKSPACE. timeout in seconds.

        on_output receives the output in pieces as it arrives. After the timeout, or if the caller is cancelled, the
        whole process tree is killed before this returns or raises. Several commands may run concurrently.
        """

    async def read_file(
        self, path: str, *, first_line: int = 1, last_line: int | None = None, max_bytes: int = 200_000
    ) -> FileText | Problem:
        """Read a text file, or a range of its lines (last_line None: to the end)."""

    async def fetch(
        self, path: str, write: Callable[[bytes], Awaitable[None]], *, max_bytes: int
    ) -> FileInfo | Problem:
        """Stream a whole file of any kind out of the sandbox. TOO_LARGE is returned before anything is written."""

    async def write_file(
        self, path: str, content: str | bytes, *, append: bool = False, expected: str | None = None
    ) -> FileInfo | Problem:
        """Write a file and create the folders above it; atomic: readers see the old content or the new one.

        expected: the version to replace, or NEW; otherwise STALE is returned. None: any version.
        """

    async def update_file(
        self, path: str, old: str, new: str, *, replace_all: bool = False, expected: str | None = None
    ) -> Updated | Problem:
        """Replace text that occurs exactly once (or everywhere). expected: as in `write_file`."""

    async def list_dir(self, path: str, *, depth: int = 2, most: int = 1000) -> Entries | Problem: ...

    async def glob(self, pattern: str, path: str = WORKSPACE, *, most: int = 200) -> Entries | Problem:
        """Find files whose path below `path` matches; `**` spans folders."""

    async def grep(
        self, pattern: str, path: str = WORKSPACE, *, glob: str = "", ignore_case: bool = False, most: int = 100
    ) -> Hits | Problem:
        """Find lines that match a regular expression without backreferences, in time linear in the text."""


class Isolation(StrEnum):
    """How well the agent's commands are isolated; shown wherever the sandbox is shown."""

    FULL = "full"
    RESTRICTED = "restricted"
    """Isolated, but with less than a provider that uses namespaces."""
    NONE = "none"
    """Commands run as the gateway's own user, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a provider's probe, for the start, doctor and /status.

    bash: whether commands can be run. shortfalls: what is not enforced on this machine, one plain sentence each.
    hosts: all hosts that commands can reach, () for no network; None: unknown. packages: names of the Python packages
    available to commands; () if unknown.
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
        """Probe this machine with a real command. Raises SandboxUnavailable; never falls back to weaker isolation."""

    async def acquire(self, thread_id: str) -> Sandbox:
        """Create or find the thread's sandbox. Idempotent; concurrent calls for one thread return the same one."""

    def get(self, thread_id: str) -> Sandbox | None:
        """The thread's sandbox if this process holds it."""

    async def release(self, thread_id: str) -> None:
        """Note that the run is over: the sandbox's processes may be stopped or kept warm. Files stay."""

    async def forget(self, thread_id: str) -> None:
        """Note that the thread is deleted: end everything of it except the files in the thread's folders."""

    async def shutdown(self) -> None:
        """Stop everything that runs. Idempotent."""


@runtime_checkable
class Watched(Protocol):
    """A provider that continues while a part of it does not work."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Current problems, a sentence each, with the operator's remedy in parentheses at its end."""


def direct(url: str) -> Route:
    """The default route to an address, (proxy, CA file)."""
    return None, None


async def contents(sandbox: Sandbox, path: str, most: int) -> bytes | Problem:
    """The whole of a file. See Sandbox.fetch."""
    content = bytearray()

    async def write(data: bytes) -> None:
        content.extend(data)

    found = await sandbox.fetch(path, write, max_bytes=most)
    return found if isinstance(found, Problem) else bytes(content)


async def until_done(work: asyncio.Future[Any]) -> bool:
    """Wait for work that must be completed, even if this task is cancelled; returns whether it was cancelled."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def sandbox_id(thread_id: str) -> str:
    """A deterministic, opaque id: the beginning of the thread id's SHA-256."""
    return hashlib.sha256(thread_id.encode()).hexdigest()[:16]
