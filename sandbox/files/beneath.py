"""The one door to files below a sandbox's folders: links are never followed, nothing outside is ever reached.

Everything goes through openat2(2) from an open folder, so that the kernel decides while it walks the path; there is no
check of a path that could be true when it is made and false when it is used.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from sandbox.base import ProblemCode, SandboxUnavailable
from sandbox.files import syscalls
from sandbox.files.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

TEMPORARY = ".~antler-"
"""How the names of files that are still being written begin; listings leave them out."""

_RESOLVE = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS | syscalls.RESOLVE_NO_SYMLINKS
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_LOOK = os.O_PATH | os.O_NOFOLLOW
_RETRIES = 64
"""openat2 says EAGAIN when something was renamed on the way; who renames all the time is refused."""


def probe(openat2: Callable[[int, str, int, int], int] = syscalls.openat2) -> None:
    """Raise SandboxUnavailable where the kernel has no openat2."""
    here = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(openat2(here, ".", _LOOK, _RESOLVE))
    except OSError as error:
        hint = "Linux 5.6 or newer is needed; in a container also a seccomp profile that knows the call"
        raise SandboxUnavailable("the kernel has no openat2, so files cannot be reached safely", hint) from error
    finally:
        os.close(here)


class Folder:
    """An open folder. Paths are relative, "." is itself. Close it, or use it as a context manager.

    Its methods raise Refused, and OSError where `problems.translated` tells what it means. hard_links: files with
    several names are read, here and below; only where no command can make a name.
    """

    __slots__ = ("fd", "hard_links")

    def __init__(self, fd: int, *, hard_links: bool = False) -> None:
        self.fd = fd
        self.hard_links = hard_links

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, hard_links: bool = False) -> Folder:
        """A folder that the gateway or its operator named; what stands there must not be a link."""
        return cls(os.open(path, _FOLDER), hard_links=hard_links)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def file(self, path: str) -> tuple[int, os.stat_result]:
        """A regular file, with one name but for `hard_links`, open for reading; the caller closes the descriptor."""
        fd = _open(self.fd, path, _FILE)
        try:
            found = os.fstat(fd)
            require_plain(found, hard_links=self.hard_links)
        except (OSError, Refused):
            os.close(fd)
            raise
        return fd, found

    def folder(self, path: str) -> Folder:
        return Folder(_open(self.fd, path, _FOLDER), hard_links=self.hard_links)

    def look(self, path: str) -> os.stat_result | None:
        """What stands there, a link itself and not its target; None: nothing."""
        try:
            fd = _open(self.fd, path, _LOOK)
        except FileNotFoundError:
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def make_folders(self, path: str) -> Folder:
        """The folder at `path`, made with those above it where they are missing."""
        here = self.folder(".")
        for name in () if path == "." else path.split("/"):
            try:
                below = here._made(name)
            finally:
                here.close()
            here = below
        return here

    def _made(self, name: str) -> Folder:
        try:
            return self.folder(name)
        except FileNotFoundError:
            with suppress(FileExistsError):  # somebody else made it, or something else, which opening it tells
                os.mkdir(name, dir_fd=self.fd)
            return self.folder(name)

    def put(
        self, name: str, fill: Callable[[int], None], *, mode: int | None = None, fresh: bool = False
    ) -> os.stat_result:
        """Put a new file in the place of `name`: a reader sees the old content or the new one, never a part.

        fill writes the content to a descriptor. mode: the permissions, else what the umask leaves. fresh: there must be
        no such file, else FileExistsError. The content is on disk before the name is; the name itself is not waited
        for, so that after a power failure the old file may be there, but never an empty one.
        """
        temporary = TEMPORARY + secrets.token_hex(8)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=self.fd)
        try:
            fill(fd)
            if mode is not None:
                os.fchmod(fd, mode)
            os.fdatasync(fd)
            written = os.fstat(fd)
            self._rename(temporary, name, fresh)
            renamed = os.fstat(fd)
            # A change between the two looks is not ours: then the older one, which nothing will ever equal again.
            return renamed if renamed.st_mtime_ns == written.st_mtime_ns else written
        except BaseException:  # whatever it was: no part of a file may stay
            self._discard(temporary)
            raise
        finally:
            os.close(fd)

    def _rename(self, old: str, new: str, fresh: bool) -> None:
        if not fresh:
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            return
        try:
            syscalls.renameat2(self.fd, old, new, syscalls.RENAME_NOREPLACE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # A file system without it (NFS, some in user space): a second name is exclusive as well.
            os.link(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
            os.unlink(old, dir_fd=self.fd)

    def _discard(self, name: str) -> None:
        with suppress(FileNotFoundError):  # it has its new name already, or a command was quicker
            os.unlink(name, dir_fd=self.fd)


def require_plain(found: os.stat_result, *, hard_links: bool = False) -> None:
    """Raise Refused for everything but a regular file with one name, or with several where `hard_links` may be."""
    if stat.S_ISDIR(found.st_mode):
        raise Refused(ProblemCode.IS_DIRECTORY)
    if stat.S_ISLNK(found.st_mode):
        raise Refused(ProblemCode.LINK)
    if not stat.S_ISREG(found.st_mode):
        raise Refused(ProblemCode.NOT_A_FILE, "it is a FIFO, a socket or a device")
    if found.st_nlink > 1 and not hard_links:
        raise Refused(ProblemCode.NOT_A_FILE, f"it is a hard link: {found.st_nlink} names share it")


def _open(folder: int, path: str, flags: int) -> int:
    for attempt in range(_RETRIES):
        try:
            return syscalls.openat2(folder, path, flags, _RESOLVE)
        except BlockingIOError:
            if attempt == _RETRIES - 1:
                raise Refused(ProblemCode.STALE, "its folders are being renamed all the time") from None
    raise AssertionError("unreachable")
