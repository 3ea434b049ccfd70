"""The Linux calls that Python lacks, through ctypes: for beneath.py and rights.py alone."""

from __future__ import annotations

import ctypes
import os
import platform

from sandbox.base import SandboxError

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RENAME_NOREPLACE = 1

_OPENAT2 = 437
"""The same number on every architecture (include/uapi/asm-generic/unistd.h)."""
_NUMBERS = {
    "x86_64": {"renameat2": 316, "setgroups": 116, "setfsuid": 122, "setfsgid": 123},
    "aarch64": {"renameat2": 276, "setgroups": 159, "setfsuid": 151, "setfsgid": 152},
}

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


class _OpenHow(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """A new close-on-exec descriptor. Raises OSError, without a file name."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    name = os.fsencode(path)
    return _checked(_syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how)))


def renameat2(folder: int, old: str, new: str, flags: int) -> None:
    """Rename within one folder. Raises OSError; EINVAL where the file system does not know the flags."""
    _checked(_syscall(_number("renameat2"), folder, os.fsencode(old), folder, os.fsencode(new), flags))


def set_groups(groups: list[int]) -> None:
    """The supplementary groups of this thread only; the C library's function changes those of all threads."""
    array = (ctypes.c_uint32 * len(groups))(*groups)
    _checked(_syscall(_number("setgroups"), len(groups), array))


def set_file_user(uid: int, gid: int) -> None:
    """The user and group that this thread is for file access (setfsuid(2)). Raises SandboxError when refused."""
    for call, wanted in (("setfsgid", gid), ("setfsuid", uid)):
        number = _number(call)
        _syscall(number, wanted)
        if _syscall(number, -1) != wanted:
            raise SandboxError("file access as the sandbox's user is refused", "Antler needs CAP_SETUID and CAP_SETGID")


def _number(call: str) -> int:
    machine = platform.machine()
    if machine not in _NUMBERS:
        raise SandboxError(f"sandbox files are not supported on {machine}", "they are on x86_64 and aarch64")
    return _NUMBERS[machine][call]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
