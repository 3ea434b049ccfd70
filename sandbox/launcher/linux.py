"""System calls for which Python 3.11 has no functions."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.launcher.spec import Confinement

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER, _PR_SET_DUMPABLE, _PR_SET_SECCOMP = 38, 36, 4, 22
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_LANDLOCK_CREATE_RULESET_VERSION = 1
_LANDLOCK_RULE_PATH_BENEATH = 1

FS_EXECUTE, FS_WRITE_FILE, FS_READ_FILE, FS_READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
FS_TRUNCATE, FS_IOCTL_DEVICE = 1 << 14, 1 << 15
FS_ALL = (1 << 16) - 1
"""All access rights on files of ABI 6."""
FS_MAKE_DEVICES = (1 << 6) | (1 << 11)
"""MAKE_CHAR and MAKE_BLOCK."""
FS_ON_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEVICE
_NET_ALL = 0b11
_SCOPE_ALL = 0b11
"""Forbids abstract unix sockets of, and signals to, processes outside."""


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if each is None else os.fsencode(each) for each in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]), f"mount {target}")


def _prctl(option: int, value: int, pointer: object = 0) -> None:
    _check(_libc.prctl(option, ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)), f"prctl {option}")


def become_subreaper() -> None:
    """Make orphaned descendants children of this process instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, ctypes.c_ulong(0))


def refuse_inspection() -> None:
    """Forbid even processes of the same user to inspect this one."""
    _prctl(_PR_SET_DUMPABLE, 0, ctypes.c_ulong(0))


def allow_inspection() -> None:
    """Let processes of the same user inspect this one; otherwise its own /proc/self belongs to root."""
    _prctl(_PR_SET_DUMPABLE, 1, ctypes.c_ulong(0))


def bring_up_loopback() -> None:
    """Bring up the loopback of a new network namespace. See netdevice(7)."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = fcntl.ioctl(handle, get_flags, struct.pack("16sh22x", b"lo", 0))
        (flags,) = struct.unpack_from("h", request, 16)
        fcntl.ioctl(handle, set_flags, struct.pack("16sh22x", b"lo", flags | up))


def landlock_abi() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is disabled."""
    version = _libc.syscall(
        _LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_LANDLOCK_CREATE_RULESET_VERSION)
    )
    return max(0, int(version))


def confine(confinement: Confinement) -> None:
    """Confine this process and all it starts, permanently: no new privileges, Landlock (ABI 6 or later), the filter."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, ctypes.c_ulong(0))
    attributes = _RulesetAttributes(FS_ALL, _NET_ALL, _SCOPE_ALL)
    ruleset = _check(
        _libc.syscall(
            _LANDLOCK_CREATE_RULESET,
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
            ctypes.c_uint32(0),
        ),
        "landlock_create_ruleset",
    )
    for rule in confinement.rules:
        _add_rule(ruleset, rule.path, rule.access)
    _check(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    os.close(ruleset)
    program = _FilterProgram(len(confinement.seccomp) // 8, confinement.seccomp)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program))


def _add_rule(ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(os.fstat(parent).st_mode):
        access &= FS_ON_FILES
    beneath = _PathBeneath(access, parent)
    try:
        _check(
            _libc.syscall(
                _LANDLOCK_ADD_RULE,
                ruleset,
                ctypes.c_int(_LANDLOCK_RULE_PATH_BENEATH),
                ctypes.byref(beneath),
                ctypes.c_uint32(0),
            ),
            f"landlock_add_rule {path}",
        )
    finally:
        os.close(parent)
