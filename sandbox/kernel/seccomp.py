"""The system calls forbidden to sandboxed commands, as a seccomp filter (classic BPF, no library needed).

The bubblewrap and landlock providers load it. The rules are data, each with its reason; all other calls are allowed.
Source: Documentation/userspace-api/seccomp_filter.rst and linux/bpf_common.h.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from sandbox.kernel.syscall_numbers import AARCH64, X86_64

if TYPE_CHECKING:
    from collections.abc import Mapping

KILL = 0x80000000
ALLOW = 0x7FFF0000


def fail(number: int) -> int:
    """The verdict that makes a call return -1 with this errno."""
    return 0x00050000 | number


class Test(IntEnum):
    """How an argument's lower 32 bits are tested. A rule applies if one of its values passes."""

    EQUALS = 0
    HAS_BITS = 1
    IS_NONE_OF = 2
    """Passes if the argument, masked, equals none of the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A test of an argument. index: from 0. mask: applied before the comparison (not for HAS_BITS)."""

    index: int
    test: Test
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The verdict on some system calls, always or if one of the arguments passes its test, and its reason."""

    calls: str
    reason: str
    verdict: int = fail(errno.EPERM)
    when: tuple[Argument, ...] = ()


CLONE_NEW = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
SUID_BITS = 0o6000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SETS_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820, 0x800C6613, 0x40806685)
"""FS_IOC_SETFLAGS (also for 32 bits), FS_IOC_FSSETXATTR, FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ENABLE_VERITY."""
SOCK_TYPE_MASK = 0xF


def _bits(index: int, bits: int) -> tuple[Argument, ...]:
    return (Argument(index=index, test=Test.HAS_BITS, values=(bits,)),)


def _equals(index: int, *values: int) -> tuple[Argument, ...]:
    return (Argument(index=index, test=Test.EQUALS, values=values),)


def _none_of(index: int, *values: int, mask: int = 0xFFFFFFFF) -> tuple[Argument, ...]:
    return (Argument(index=index, test=Test.IS_NONE_OF, values=values, mask=mask),)


COMMON: tuple[Rule, ...] = (
    Rule(
        calls="mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick "
        "mount_setattr swapon swapoff quotactl quotactl_fd acct",
        reason="mounts determine which files are visible",
    ),
    Rule(calls="unshare setns", reason="a new namespace grants capabilities, and with them rarely used kernel code"),
    Rule(calls="clone", reason="as unshare", when=_bits(0, CLONE_NEW)),
    Rule(calls="clone3", reason="its flags are in memory, unseen here; the C library uses clone", verdict=fail(38)),
    Rule(
        calls="ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
        reason="other processes' memory and descriptors",
    ),
    Rule(
        calls="bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register fanotify_init "
        "memfd_secret",
        reason="large parts of the kernel with a record of vulnerabilities; io_uring also bypasses every other rule",
    ),
    Rule(calls="io_setup", reason="its slots are limited for the whole machine, and one command could take them all"),
    Rule(calls="add_key request_key keyctl", reason="keyrings are not in a namespace"),
    Rule(calls="open_by_handle_at name_to_handle_at lookup_dcookie", reason="files reached without a path to check"),
    Rule(
        calls="init_module finit_module delete_module create_module query_module get_kernel_syms kexec_load "
        "kexec_file_load reboot syslog vhangup nfsservctl uselib iopl ioperm sethostname setdomainname",
        reason="they change the machine itself",
    ),
    Rule(calls="modify_ldt", reason="16-bit segments: code paths that nothing here needs"),
    Rule(calls="clock_settime clock_adjtime settimeofday adjtimex", reason="the machine's clock"),
    Rule(
        calls="personality",
        reason="switches off address randomisation; 0 and 0xffffffff only query",
        when=_none_of(0, 0, 0xFFFFFFFF),
    ),
    Rule(
        calls="shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop",
        reason="shared by everything in one IPC namespace",
    ),
    Rule(
        calls="ioctl",
        reason="types into a terminal shared with another process",
        when=_equals(1, TIOCSTI, TIOCLINUX),
    ),
    Rule(calls="chmod fchmod creat mknod", reason="files that run as another user", when=_bits(1, SUID_BITS)),
    Rule(calls="fchmodat fchmodat2 open mknodat", reason="the same", when=_bits(2, SUID_BITS)),
    Rule(calls="openat", reason="the same", when=_bits(3, SUID_BITS)),
    Rule(calls="openat2", reason="its mode is in memory, unseen here; callers fall back to openat", verdict=fail(38)),
    Rule(
        calls="socketpair",
        reason="other families than unix are rarely used kernel code (TIPC makes pairs too), and a pair of datagram "
        "sockets can be redirected to any other address",
        when=_none_of(0, socket.AF_UNIX.value)
        + _none_of(1, socket.SOCK_STREAM.value, socket.SOCK_SEQPACKET.value, mask=SOCK_TYPE_MASK),
    ),
)

INTERNET_ONLY: tuple[Rule, ...] = (
    Rule(
        calls="socket",
        reason="unix sockets of the host's services, netlink, packet, vsock, crypto: all but internet sockets",
        when=_none_of(0, socket.AF_INET.value, socket.AF_INET6.value),
    ),
)
"""For commands in a separate network namespace, which confines internet sockets."""

SHARED_MACHINE: tuple[Rule, ...] = (
    Rule(calls="socket connect bind", reason="the network namespace is the host's"),
    Rule(
        calls="chmod fchmod fchmodat fchmodat2 utime utimes futimesat utimensat",
        reason="Landlock does not check them, and the gateway's own files belong to the same user: a file that may "
        "only be read, such as a shared skill, can be changed by its path or by a descriptor. They report success "
        "and do nothing, because an error ends git, tar and venv",
        verdict=fail(0),
    ),
    Rule(calls="chown fchown lchown fchownat", reason="Landlock does not check these either"),
    Rule(
        calls="setxattr fsetxattr lsetxattr setxattrat removexattr fremovexattr lremovexattr removexattrat "
        "file_setattr",
        reason="nor these; cp and install do without them, as on a file system without extended attributes",
        verdict=fail(errno.EOPNOTSUPP),
    ),
    Rule(
        calls="ioctl",
        reason="sets a file's flags through a descriptor that may only read it; the terminal's are as in COMMON",
        when=_equals(1, TIOCSTI, TIOCLINUX, *SETS_FILE_FLAGS),
    ),
    Rule(
        calls="prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr",
        reason="affects other processes of the same user, including the gateway",
        when=_none_of(0, 0),
    ),
    Rule(calls="setpriority ioprio_set move_pages migrate_pages process_mrelease", reason="the same"),
    Rule(calls="mq_open mq_unlink", reason="the IPC namespace is the host's"),
    Rule(
        calls="inotify_init inotify_init1",
        reason="Landlock does not check it, and it reveals the names in folders that cannot be listed",
        verdict=fail(errno.ENOSYS),
    ),
)
"""For commands without namespaces. Put these before COMMON: the first rule that names a call applies."""

PRIVATE_MEMORY: tuple[Rule, ...] = (
    Rule(
        calls="memfd_create",
        reason="memory charged to no process: RLIMIT_AS does not cover it, and the kernel would kill others for it",
        verdict=fail(errno.ENOSYS),
    ),
)
"""For commands whose memory is limited only per process."""

_LOAD, _RETURN = 0x20, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_RET|BPF_K
_AND = 0x54  # BPF_ALU|BPF_AND|BPF_K
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_BITS = 0x15, 0x35, 0x45  # BPF_JMP | BPF_J* | BPF_K
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data; an argument has 8 bytes, with the lower half first on both machines."""
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]
"""code, jump if true, jump if false, k: as in struct sock_filter."""


@dataclass(frozen=True, slots=True)
class Machine:
    audit: int
    numbers: Mapping[str, int]
    refuse_from: int | None = None
    """Call numbers from here on belong to another calling convention."""


MACHINES = {
    "x86_64": Machine(0xC000003E, X86_64, _X32),
    "aarch64": Machine(0xC00000B7, AARCH64),
}


class UnknownMachine(Exception):
    """There is no table of system call numbers for this processor."""


def program(*rule_sets: tuple[Rule, ...], machine: str = "") -> bytes:
    """The filter as an array of struct sock_filter, for prctl and for `bwrap --seccomp`.

    machine: as in `uname -m`; "" is this one. Raises UnknownMachine.
    """
    found = MACHINES.get(machine or platform.machine())
    if found is None:
        raise UnknownMachine(machine or platform.machine())
    return b"".join(struct.pack("<HBBI", *each) for each in _instructions(found, rule_sets))


def _instructions(machine: Machine, rule_sets: tuple[tuple[Rule, ...], ...]) -> list[Instruction]:
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine.refuse_from is not None:
        code += [(_JUMP_GREATER_EQUAL, 0, 1, machine.refuse_from), (_RETURN, 0, 0, KILL)]
    for rule in (rule for rules in rule_sets for rule in rules):
        for name in rule.calls.split():
            if name in machine.numbers:
                block = _block(rule.when, rule.verdict)
                code += [(_JUMP_EQUAL, 0, len(block), machine.numbers[name]), *block]
    return [*code, _verdict(ALLOW)]


def _verdict(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _block(arguments: tuple[Argument, ...], verdict: int) -> list[Instruction]:
    """Return the verdict if one of the arguments passes its test. The block always ends with a return, because it
    overwrites the call's number."""
    if not arguments:
        return [_verdict(verdict)]
    block: list[Instruction] = [_verdict(ALLOW), _verdict(verdict)]
    for argument in reversed(arguments):
        block = _test(argument, to_verdict=len(block) - 1) + block
    return block


def _test(argument: Argument, *, to_verdict: int) -> list[Instruction]:
    """Skip `to_verdict` instructions after this test if the argument passes, none if it does not."""
    jump = _JUMP_BITS if argument.test is Test.HAS_BITS else _JUMP_EQUAL
    matched, unmatched = (0, to_verdict) if argument.test is Test.IS_NONE_OF else (to_verdict, 0)
    code: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument.index)]
    if argument.mask != 0xFFFFFFFF:
        code.append((_AND, 0, 0, argument.mask))
    for left, value in zip(range(len(argument.values) - 1, -1, -1), argument.values, strict=True):
        code.append((jump, left + matched, 0 if left else unmatched, value))
    return code
