"""Checks before the first container is created: settings that cannot be carried out, and what this daemon does not
enforce; and the system call filter for containers, as a profile for Docker.

Docker's format is a list of allowed calls by name. A call without a name in the daemon's library is then refused,
whereas a list of refused calls would allow it. What the rules of sandbox/kernel/seccomp.py forbid is removed from the
list, so that it never allows more than bubblewrap's filter. Source: docs.docker.com/engine/security/seccomp and
seccomp_rule_add(3).
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.base import SandboxUnavailable
from sandbox.docker.api import USER_NAMESPACES, NotFound
from sandbox.kernel.seccomp import COMMON, INTERNET_ONLY, MACHINES, Argument, Rule, Test, fail
from sandbox.policy import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from sandbox.base import CommandResult
    from sandbox.config import DockerSettings, SandboxSettings
    from sandbox.docker.api import DockerApi


_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
)
_NOT_ENFORCED = {
    "MemoryLimit": "the daemon cannot limit memory",
    "SwapLimit": "memory is limited, but not the swap beyond it",
    "PidsLimit": "the daemon cannot limit the number of processes",
    "CpuCfsQuota": "a thread's commands can use all processors",
}
_DISK = (
    "disk use is polled, not limited by a quota: between two checks a command can write more than its share "
    "(sandbox.limits.file_mb bounds each file)"
)
_SHOWN = (
    "commands can read /sys, which describes the machine, and in /proc/self/mountinfo the host paths of their folders"
)
_NO_FILTER = "the daemon filters no system calls (seccomp is off)"
_DOCKERS_FILTER = (
    "on this processor only Docker's own filter of system calls applies, which leaves more of the kernel open than "
    "Antler's: netlink, 32-bit calls, and before version 23 vsock, before version 25 io_uring"
)
_RUNTIME_CHECK = f"""
version=$({RUNTIME}/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') &&
[ -d "{RUNTIME}/lib/python$version" ]
"""
_OWN_PACKAGES_CHECK = f"""
PATH=${{PATH#{RUNTIME}/bin:}}
python3 -c 'from importlib.util import find_spec; exit(not (find_spec("pandas") and find_spec("markitdown")))'
"""
_RUNTIME_SECONDS = 30.0
_NO_RUNTIME = (
    f"the packages of {RUNTIME} cannot be used in this image: it needs the same /usr/bin/python3 as this machine; "
    "the image does not contain such packages either (docs/sandbox-docker.md: three lines add them)"
)

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
"""Calls of x86_64 and aarch64 (asm/unistd_64.h, asm-generic/unistd.h; Linux 6.18) used by programs, including those
needed by runc and the init process before and around a command. Machine-specific and obsolete calls are left out, and
those that control the placement of memory."""


def profile() -> str:
    """The profile as JSON, for `seccomp=` of a container's SecurityOpt.

    Calls that are not allowed fail with EPERM, or with the error of a rule, or with ENOSYS if runc knows them to be
    newer than everything here. Calls of an architecture other than the machine's own (32-bit, x32) end the process:
    the profile names none.
    """
    rules = _rules()
    plain = [name for name in ORDINARY.split() if name not in rules]
    entries: list[dict[str, object]] = [{"names": plain, "action": "SCMP_ACT_ALLOW"}]
    for name, rule in rules.items():
        entries += _entries(name, rule)
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "syscalls": entries}, separators=(",", ":"))


def _rules() -> dict[str, Rule]:
    """The rule of each call: the first one that names it applies."""
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
    """The condition that the argument, masked by the first value, equals the second."""
    return {"index": index, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _outside(argument: Argument) -> Iterable[tuple[int, int]]:
    """Conditions under which an argument does not pass the test: any of these masks yields its value.

    There is one condition per argument, since runc treats several on one argument as alternatives. Only the lower half
    of an argument counts, as for the kernel.
    """
    match argument.test:
        case Test.HAS_BITS:
            return [(reduce(or_, argument.values), 0)]
        case Test.IS_NONE_OF:
            return [(argument.mask, value) for value in argument.values]
        case Test.EQUALS:
            return _others(argument.values, [1 << bit for bit in reversed(range(32)) if argument.mask >> bit & 1])


def _others(values: Sequence[int], bits: Sequence[int], mask: int = 0, value: int = 0) -> Iterator[tuple[int, int]]:
    """All numbers except these, as masks and values of which at most one fits a number. bits: not processed yet."""
    if not values:
        yield mask, value
    elif bits:
        first, *rest = bits
        for half in (0, first):
            yield from _others([each for each in values if each & first == half], rest, mask | first, value | half)


def refuse_settings(settings: SandboxSettings, docker: DockerSettings) -> None:
    """Check the settings. Raises SandboxUnavailable for those that cannot be carried out."""
    if settings.network.mode != "none" and docker.network is None:
        raise SandboxUnavailable(
            "Docker cannot restrict commands to an allow list of hosts",
            "set sandbox.network to none, or name your own network in sandbox.docker.network",
        )
    own = docker.host.removeprefix("unix://") if docker.host.startswith("unix://") else ""
    sockets = {os.path.realpath(each) for each in (*_SOCKETS, own) if each}
    for mount in settings.mounts:
        real = Path(os.path.realpath(mount.host))
        if any(Path(each).is_relative_to(real) for each in sockets):
            text = f"sandbox.mounts: {mount.path} would expose the daemon's socket, which is equivalent to root"
            raise SandboxUnavailable(text, "mount a folder below it")


@dataclass(frozen=True, slots=True)
class Image:
    """An image. path: its own search path, "" if it has none. shortfalls: its problems."""

    id: str
    path: str
    shortfalls: list[str]


async def find_image(api: DockerApi, name: str) -> Image:
    """Find an image. Raises SandboxUnavailable if it is missing."""
    try:
        image = await api.image(name)
    except NotFound:
        raise SandboxUnavailable(f"the image {name} does not exist", f"docker pull {name}") from None
    config = image.get("Config") or {}
    volumes = sorted(config.get("Volumes") or {})
    found = [f"the image defines volumes, which have no size limit: {', '.join(volumes)}"] if volumes else []
    variables = dict(each.partition("=")[::2] for each in config.get("Env") or [])
    return Image(str(image["Id"]), variables.get("PATH", ""), found)


async def require_network(api: DockerApi, name: str) -> str:
    """The note on a network. Raises SandboxUnavailable if it is missing."""
    try:
        await api.require_network(name)
    except NotFound:
        raise SandboxUnavailable(f"the network {name} does not exist", f"docker network create {name}") from None
    return f"the network {name} determines what commands can reach; sandbox.network.allow is not enforced"


def shortfalls(info: dict[str, Any]) -> list[str]:
    """List what a daemon does not enforce, per `docker info`. Raises SandboxUnavailable for one that cannot be used."""
    if str(info.get("OSType", "linux")) != "linux":
        raise SandboxUnavailable("the Docker daemon does not run Linux containers")
    security = [str(each) for each in info.get("SecurityOptions") or []]
    if any(each.startswith(("name=rootless", "name=userns")) for each in security):
        raise SandboxUnavailable("the Docker daemon maps users", USER_NAMESPACES)
    found = [text for name, text in _NOT_ENFORCED.items() if info.get(name) is False]
    if not _filters(info):
        found.append(_NO_FILTER)
    elif system_calls(info) is None:
        found.append(_DOCKERS_FILTER)
    return [*found, _SHOWN, _DISK]


def system_calls(info: dict[str, Any]) -> str | None:
    """The filter for this daemon's containers, per `docker info`. None: it supports none, or Antler's rules do not fit
    the call numbers or the argument passing of its processor."""
    return profile() if _filters(info) and info.get("Architecture") in MACHINES else None


def _filters(info: dict[str, Any]) -> bool:
    return any(str(each).startswith("name=seccomp") for each in info.get("SecurityOptions") or [])


async def runtime_fits(execute: Callable[..., Awaitable[CommandResult]]) -> bool:
    """Whether the runtime for the agent's code works in this image: it is made for this machine's Python."""
    return (await execute(_RUNTIME_CHECK, timeout=_RUNTIME_SECONDS)).exit_code == 0


async def without_runtime(execute: Callable[..., Awaitable[CommandResult]]) -> list[str]:
    """The shortfalls for the agent's code in an image that the runtime does not fit."""
    own = await execute(_OWN_PACKAGES_CHECK, timeout=_RUNTIME_SECONDS)
    return [] if own.exit_code == 0 else [_NO_RUNTIME]
