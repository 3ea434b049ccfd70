"""The only access to files below a sandbox's folders: links are never followed, nothing outside is ever reached.

Everything uses openat2(2) from an open folder, so that the kernel decides while it resolves the path; there is no path
check that could be true when made and false when used. A gateway that runs as root assumes the sandbox user's rights
for that.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import secrets
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sandbox.base import ProblemCode, SandboxError, SandboxUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from sandbox.config import SandboxSettings


TEMPORARY = ".~antler-"
"""Name prefix of files that are still being written; listings omit them."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
_LOOK = os.O_PATH | os.O_NOFOLLOW
_RETRIES = 64
"""Attempts on EAGAIN, which openat2 returns if something in the path was renamed; permanent renaming is refused."""
_RESOLVE = 0x02 | 0x04 | 0x08
"""RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH."""
_RENAME_NOREPLACE = 1
_OPENAT2 = 437
"""The same number on every architecture (include/uapi/asm-generic/unistd.h)."""
_NUMBERS = {
    "x86_64": {"renameat2": 316, "setgroups": 116, "setfsuid": 122, "setfsgid": 123},
    "aarch64": {"renameat2": 276, "setgroups": 159, "setfsuid": 151, "setfsgid": 152},
}
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

_CODES = {
    errno.ENOENT: ProblemCode.NOT_FOUND,
    errno.ENOTDIR: ProblemCode.NOT_DIRECTORY,
    errno.EISDIR: ProblemCode.IS_DIRECTORY,
    errno.ELOOP: ProblemCode.LINK,
    errno.EXDEV: ProblemCode.OUTSIDE,
    errno.ENXIO: ProblemCode.NOT_A_FILE,
    errno.ENODEV: ProblemCode.NOT_A_FILE,
    errno.EACCES: ProblemCode.DENIED,
    errno.EPERM: ProblemCode.DENIED,
    errno.EROFS: ProblemCode.READ_ONLY,
    errno.ENOSPC: ProblemCode.FULL,
    errno.EDQUOT: ProblemCode.FULL,
    errno.EFBIG: ProblemCode.TOO_LARGE,
    errno.ENAMETOOLONG: ProblemCode.BAD_PATH,
    errno.EINVAL: ProblemCode.BAD_PATH,
    errno.EILSEQ: ProblemCode.BAD_PATH,
}


class Refused(Exception):
    """Carries a problem from its detection to the method that returns it. The detail contains no host path."""

    def __init__(self, code: ProblemCode, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def translated(error: OSError) -> Refused | SandboxError:
    """The meaning of an operating system error; its file name, a host path, is omitted."""
    reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
    code = _CODES.get(error.errno or 0)
    return SandboxError(f"the sandbox's files cannot be used: {reason}") if code is None else Refused(code, reason)


@dataclass(frozen=True, slots=True)
class Owner:
    """The unprivileged user who runs the commands and owns the thread's files."""

    uid: int
    gid: int


def owner_of(settings: SandboxSettings) -> Owner | None:
    """The owner of commands and files, if it is not the gateway's own user."""
    return Owner(settings.uid, settings.gid or settings.uid) if os.geteuid() == 0 else None


@contextmanager
def acting_as(owner: Owner | None) -> Iterator[None]:
    """Let this thread open and create files as `owner`, without root's privileges; None: as the gateway's own user.

    Only in a worker thread, which must do nothing else within the block. New files belong to the owner from the first
    moment, and files that the owner may not read cannot be read.
    """
    if owner is None:
        yield
        return
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    set_groups([])
    try:
        set_file_user(owner.uid, owner.gid)
        yield
    finally:
        set_file_user(uid, gid)
        set_groups(groups)


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """Open a path; returns a close-on-exec descriptor. Raises OSError, without a file name."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    name = os.fsencode(path)
    return _checked(_syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how)))


def renameat2(folder: int, old: str, new: str, flags: int) -> None:
    """Rename within one folder. Raises OSError; EINVAL if the file system does not support the flags."""
    _checked(_syscall(_number("renameat2"), folder, os.fsencode(old), folder, os.fsencode(new), flags))


def set_groups(groups: list[int]) -> None:
    """Set the supplementary groups of this thread only; the C library's function changes those of all threads."""
    array = (ctypes.c_uint32 * len(groups))(*groups)
    _checked(_syscall(_number("setgroups"), len(groups), array))


def set_file_user(uid: int, gid: int) -> None:
    """Set this thread's user and group for file access (setfsuid(2)). Raises SandboxError if refused."""
    for call, wanted in (("setfsgid", gid), ("setfsuid", uid)):
        number = _number(call)
        _syscall(number, wanted)
        if _syscall(number, -1) != wanted:
            raise SandboxError("file access as the sandbox's user is refused", "Antler needs CAP_SETUID and CAP_SETGID")


def _number(call: str) -> int:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise SandboxError(f"sandbox files are not supported on {machine}", "they are supported on x86_64 and aarch64")
    return _NUMBERS[machine][call]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def probe(openat2: Callable[[int, str, int, int], int] = openat2) -> None:
    """Raise SandboxUnavailable if the kernel has no openat2."""
    here = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        os.close(openat2(here, ".", _LOOK, _RESOLVE))
    except OSError as error:
        hint = "Linux 5.6 or newer is needed; in a container also a seccomp profile that allows openat2"
        raise SandboxUnavailable("the kernel has no openat2, so files cannot be reached safely", hint) from error
    finally:
        os.close(here)


class Folder:
    """An open folder. Paths are relative, "." is itself. Close it, or use it as a context manager.

    Its methods raise Refused, and OSError, which `translated` interprets. hard_links: files with
    several names can be read, here and below; only for folders where no command can create a name.
    """

    __slots__ = ("fd", "hard_links")

    def __init__(self, fd: int, *, hard_links: bool = False) -> None:
        self.fd = fd
        self.hard_links = hard_links

    @classmethod
    def at(cls, path: str | os.PathLike[str], *, hard_links: bool = False) -> Folder:
        """Open a folder named by the gateway or its operator; it must not be a link."""
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
        """Open a regular file, with one name unless `hard_links`, for reading; the caller closes the descriptor."""
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
        """The entry at a path, a link itself and not its target; None if there is none."""
        try:
            fd = _open(self.fd, path, _LOOK)
        except FileNotFoundError:
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def make_folders(self, path: str) -> Folder:
        """Open the folder at `path`; it and missing parents are created."""
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
            with suppress(FileExistsError):  # others have created it, or something else, which opening it reveals
                os.mkdir(name, dir_fd=self.fd)
            return self.folder(name)

    def put(
        self, name: str, fill: Callable[[int], None], *, mode: int | None = None, fresh: bool = False
    ) -> os.stat_result:
        """Replace `name` by a new file: a reader sees the old content or the new one, never a part.

        fill: writes the content to a descriptor. mode: the permissions, else according to the umask. fresh: raise
        FileExistsError if the file exists. The content is on disk before the name is; the name itself is not synced, so
        that after a power failure the old file may be there, but never an empty one.
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
            # A change between the two calls is not ours: then return the older one, which will never be equal again.
            return renamed if renamed.st_mtime_ns == written.st_mtime_ns else written
        except BaseException:  # cancelled or failed in any way: no part of a file may stay
            self._discard(temporary)
            raise
        finally:
            os.close(fd)

    def _rename(self, old: str, new: str, fresh: bool) -> None:
        if not fresh:
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            return
        try:
            renameat2(self.fd, old, new, _RENAME_NOREPLACE)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # A file system without support (NFS, some in user space): creating a second name is exclusive as well.
            os.link(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
            os.unlink(old, dir_fd=self.fd)

    def _discard(self, name: str) -> None:
        with suppress(FileNotFoundError):  # it already has its new name, or a command was faster
            os.unlink(name, dir_fd=self.fd)


def require_plain(found: os.stat_result, *, hard_links: bool = False) -> None:
    """Raise Refused except for a regular file with one name, or with several if `hard_links`."""
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
            return openat2(folder, path, flags, _RESOLVE)
        except BlockingIOError:
            if attempt == _RETRIES - 1:
                raise Refused(ProblemCode.STALE, "its folders keep being renamed") from None
    raise AssertionError("unreachable")
