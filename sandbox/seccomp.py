"""The system calls that a sandboxed command may not make, as a seccomp filter (classic BPF, no library needed).

The bubblewrap and landlock providers load it. The rules are data, each with its reason; what no rule names is allowed.
Source of the machine: Documentation/userspace-api/seccomp_filter.rst and linux/bpf_common.h.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from sandbox.syscall_numbers import AARCH64, X86_64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KILL = 0x80000000
ALLOW = 0x7FFF0000


def fail(number: int) -> int:
    """The verdict that makes a call return -1 with this errno."""
    return 0x00050000 | number


class Test(IntEnum):
    """How an argument's lower 32 bits are looked at. A rule holds if one of its values passes."""

    EQUALS = 0
    HAS_BITS = 1
    IS_NONE_OF = 2
    """Holds if the argument, masked, equals none of the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """index: from 0. mask: applied before the comparison (not for HAS_BITS)."""

    index: int
    test: Test
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What to do about some system calls, always or when an argument is of a kind, and why."""

    calls: str
    reason: str
    verdict: int = fail(errno.EPERM)
    when: Argument | None = None


CLONE_NEW = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME."""
SUID_BITS = 0o6000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SOCK_TYPE_MASK = 0xF


def _bits(index: int, bits: int) -> Argument:
    return Argument(index=index, test=Test.HAS_BITS, values=(bits,))


COMMON: tuple[Rule, ...] = (
    Rule(
        calls="mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount fspick "
        "mount_setattr swapon swapoff quotactl quotactl_fd acct",
        reason="what is mounted is what is visible",
    ),
    Rule(calls="unshare setns", reason="a new namespace brings capabilities, and with them the kernel's rarer code"),
    Rule(calls="clone", reason="as unshare", when=_bits(0, CLONE_NEW)),
    Rule(calls="clone3", reason="its flags are in memory, unseen here; the C library uses clone", verdict=fail(38)),
    Rule(
        calls="ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
        reason="other processes' memory and descriptors",
    ),
    Rule(
        calls="bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register fanotify_init "
        "memfd_secret",
        reason="large parts of the kernel with a record of holes; io_uring also goes round every other rule",
    ),
    Rule(calls="io_setup", reason="its slots are counted for the whole machine, and one command can take them all"),
    Rule(calls="add_key request_key keyctl", reason="keyrings are not in a namespace"),
    Rule(calls="open_by_handle_at name_to_handle_at lookup_dcookie", reason="files reached without a path to check"),
    Rule(
        calls="init_module finit_module delete_module create_module query_module get_kernel_syms kexec_load "
        "kexec_file_load reboot syslog vhangup nfsservctl uselib iopl ioperm sethostname setdomainname",
        reason="the machine's own",
    ),
    Rule(calls="modify_ldt", reason="16-bit segments: code paths that nothing here needs"),
    Rule(calls="clock_settime clock_adjtime settimeofday adjtimex", reason="the machine's clock"),
    Rule(
        calls="personality",
        reason="switches off address randomisation; 0 and 0xffffffff only ask",
        when=Argument(index=0, test=Test.IS_NONE_OF, values=(0, 0xFFFFFFFF)),
    ),
    Rule(
        calls="shmget shmat shmctl shmdt msgget msgsnd msgrcv msgctl semget semop semctl semtimedop",
        reason="shared by everything in one IPC namespace",
    ),
    Rule(
        calls="ioctl",
        reason="types into the terminal that it shares with somebody",
        when=Argument(index=1, test=Test.EQUALS, values=(TIOCSTI, TIOCLINUX)),
    ),
    Rule(calls="chmod fchmod creat mknod", reason="files that run as another user", when=_bits(1, SUID_BITS)),
    Rule(calls="fchmodat fchmodat2 open mknodat", reason="the same", when=_bits(2, SUID_BITS)),
    Rule(calls="openat", reason="the same", when=_bits(3, SUID_BITS)),
    Rule(calls="openat2", reason="its mode is in memory, unseen here; callers fall back to openat", verdict=fail(38)),
    Rule(
        calls="socketpair",
        reason="a pair of datagram sockets can be turned to any other address",
        when=Argument(
            index=1,
            test=Test.IS_NONE_OF,
            mask=SOCK_TYPE_MASK,
            values=(socket.SOCK_STREAM.value, socket.SOCK_SEQPACKET.value),
        ),
    ),
)

INTERNET_ONLY: tuple[Rule, ...] = (
    Rule(
        calls="socket",
        reason="unix sockets of the host's services, netlink, packet, vsock, crypto: all but the internet's",
        when=Argument(index=0, test=Test.IS_NONE_OF, values=(socket.AF_INET.value, socket.AF_INET6.value)),
    ),
)
"""For a network namespace of its own, which is what keeps the internet's sockets in."""

SHARED_MACHINE: tuple[Rule, ...] = (
    Rule(calls="socket connect bind", reason="the network namespace is the host's"),
    Rule(
        calls="chmod fchmodat fchmodat2",
        reason="Landlock does not ask for them, and the gateway's own files belong to the same user. They do nothing "
        "and say so to nobody: refused, they end git, tar and venv. By descriptor (fchmod) they work, where Landlock "
        "lets the file be opened",
        verdict=fail(0),
    ),
    Rule(
        calls="chown lchown fchownat setxattr lsetxattr setxattrat removexattr lremovexattr removexattrat file_setattr",
        reason="Landlock does not ask for these either",
    ),
    Rule(
        calls="prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr",
        reason="other processes of the same user, the gateway's among them",
        when=Argument(index=0, test=Test.IS_NONE_OF, values=(0,)),
    ),
    Rule(calls="setpriority ioprio_set move_pages migrate_pages process_mrelease", reason="the same"),
    Rule(calls="mq_open mq_unlink", reason="the IPC namespace is the host's"),
    Rule(
        calls="inotify_init inotify_init1",
        reason="Landlock does not ask for it, and it tells the names in folders that cannot be listed",
        verdict=fail(errno.ENOSYS),
    ),
)
"""For commands without namespaces. These go before COMMON: the first rule that names a call decides."""

PRIVATE_MEMORY: tuple[Rule, ...] = (
    Rule(
        calls="memfd_create",
        reason="memory that no process is charged for: it is beyond RLIMIT_AS, and the kernel would kill others for it",
        verdict=fail(errno.ENOSYS),
    ),
)
"""For commands whose memory is bounded for each process only."""

_LOAD, _RETURN = 0x20, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_RET|BPF_K
_AND = 0x54  # BPF_ALU|BPF_AND|BPF_K
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_BITS = 0x15, 0x35, 0x45  # BPF_JMP | BPF_J* | BPF_K
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data; an argument is 8 bytes, the lower half first on both machines."""
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]
"""code, jump if true, jump if false, k: as in struct sock_filter."""


@dataclass(frozen=True, slots=True)
class Machine:
    audit: int
    numbers: Mapping[str, int]
    refuse_from: int | None = None
    """Numbers from here on belong to another calling convention."""


MACHINES = {
    "x86_64": Machine(0xC000003E, X86_64, _X32),
    "aarch64": Machine(0xC00000B7, AARCH64),
}


class UnknownMachine(Exception):
    """There is no table of system call numbers for this processor."""


def program(*rule_sets: tuple[Rule, ...], machine: str = "") -> bytes:
    """The filter as an array of struct sock_filter, for prctl and for `bwrap --seccomp`.

    machine: as `uname -m` says; "" is this one. Raises UnknownMachine.
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
                block = _BLOCKS[rule.when.test](rule.when, rule.verdict) if rule.when else [_verdict(rule.verdict)]
                code += [(_JUMP_EQUAL, 0, len(block), machine.numbers[name]), *block]
    return [*code, _verdict(ALLOW)]


def _verdict(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _load(argument: Argument) -> list[Instruction]:
    load: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument.index)]
    return load if argument.mask == 0xFFFFFFFF else [*load, (_AND, 0, 0, argument.mask)]


def _any_of(jump: int, argument: Argument, verdict: int) -> list[Instruction]:
    """The verdict if one value passes. A block ends in a return, since it has overwritten the call's number."""
    last = len(argument.values) - 1
    tests: list[Instruction] = [
        (jump, last - place, int(place == last), value) for place, value in enumerate(argument.values)
    ]
    return [*_load(argument), *tests, _verdict(verdict), _verdict(ALLOW)]


def _equals(argument: Argument, verdict: int) -> list[Instruction]:
    return _any_of(_JUMP_EQUAL, argument, verdict)


def _has_bits(argument: Argument, verdict: int) -> list[Instruction]:
    return _any_of(_JUMP_BITS, argument, verdict)


def _is_none_of(argument: Argument, verdict: int) -> list[Instruction]:
    """As `_equals` with the two endings exchanged."""
    *tests, _, _ = _any_of(_JUMP_EQUAL, argument, verdict)
    return [*tests, _verdict(ALLOW), _verdict(verdict)]


_BLOCKS: dict[Test, Callable[[Argument, int], list[Instruction]]] = {
    Test.EQUALS: _equals,
    Test.HAS_BITS: _has_bits,
    Test.IS_NONE_OF: _is_none_of,
}
