"""The system calls that commands in a container may make, as a profile for Docker. Used by checks.py.

Docker's format is a list of what is allowed, by name. A call that the daemon's library has no name for is refused then,
where a list of what is refused would let it through. What a rule of sandbox/kernel/seccomp.py is against is taken from
it, so that it never allows more than the filter of bubblewrap. Source: docs.docker.com/engine/security/seccomp and
seccomp_rule_add(3).
"""

from __future__ import annotations

import errno
import json
from functools import reduce
from itertools import product
from operator import or_
from typing import TYPE_CHECKING

from sandbox.kernel.seccomp import COMMON, INTERNET_ONLY, Argument, Rule, Test, fail

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ORDINARY = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fchdir fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_robust_list getcpu
getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid
getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday
getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch ioprio_get ioprio_set kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr
listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create mincore
mkdir mkdirat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend
mq_unlink mremap mseal msync munlock munlockall munmap nanosleep newfstatat pause pidfd_open pidfd_send_signal pipe
pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6
pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages
removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select sendfile sendmmsg
sendmsg sendto set_robust_list set_tid_address setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr setxattrat shutdown sigaltstack
signalfd signalfd4 splice stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time
timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
timerfd_settime times tkill truncate umask uname unlink unlinkat uretprobe utime utimensat utimes vfork vmsplice
wait4 waitid write writev
"""
"""Of x86_64 and aarch64 (asm/unistd_64.h, asm-generic/unistd.h; Linux 6.18): what programs make use of, what runc and
the init process need before and around a command among it. Left out are those of one kind of machine or another time,
and those that decide where memory is."""


def profile() -> str:
    """The profile as JSON, for `seccomp=` of a container's SecurityOpt.

    What is not allowed fails with EPERM, or with the error that a rule gives, or with ENOSYS where runc knows it to be
    newer than everything here. Calls of another architecture than the machine's own (32-bit, x32) end the process: the
    profile names none.
    """
    rules = _rules()
    plain = [name for name in ORDINARY.split() if name not in rules]
    entries: list[dict[str, object]] = [{"names": plain, "action": "SCMP_ACT_ALLOW"}]
    for name, rule in rules.items():
        entries += _entries(name, rule)
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": entries}, separators=(",", ":"))


def _rules() -> dict[str, Rule]:
    """The rule of each call: the first one that names it decides."""
    found: dict[str, Rule] = {}
    for rule in (*COMMON, *INTERNET_ONLY):
        for name in rule.calls.split():
            found.setdefault(name, rule)
    return found


def _entries(name: str, rule: Rule) -> list[dict[str, object]]:
    if rule.when:
        outside = [[_holds(each.index, mask, value) for mask, value in _outside(each)] for each in rule.when]
        return [{"names": [name], "action": "SCMP_ACT_ALLOW", "args": list(args)} for args in product(*outside)]
    if rule.verdict == fail(errno.EPERM):
        return []
    return [{"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": rule.verdict & 0xFFFF}]


def _holds(index: int, mask: int, value: int) -> dict[str, object]:
    """The argument, masked by the first value, equals the second."""
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _outside(argument: Argument) -> Iterable[tuple[int, int]]:
    """When an argument does not pass: if any of these masks gives its value.

    One condition on each argument, since runc takes several on one argument for alternatives. An argument counts by
    its lower half, as it does for the kernel.
    """
    match argument.test:
        case Test.HAS_BITS:
            return [(reduce(or_, argument.values), 0)]
        case Test.IS_NONE_OF:
            return [(argument.mask, value) for value in argument.values]
        case Test.EQUALS:
            return _others(argument.values, [1 << bit for bit in reversed(range(32)) if argument.mask >> bit & 1])


def _others(values: Sequence[int], bits: Sequence[int], mask: int = 0, value: int = 0) -> Iterator[tuple[int, int]]:
    """All numbers but these, as masks and values of which at most one fits a number. bits: not looked at yet."""
    if not values:
        yield mask, value
    elif bits:
        first, *rest = bits
        for half in (0, first):
            yield from _others([each for each in values if each & first == half], rest, mask | first, value | half)
