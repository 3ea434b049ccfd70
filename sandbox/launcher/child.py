"""The last steps of a freshly forked process before it becomes the program. Called only by the keeper."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import stat
from typing import TYPE_CHECKING, NoReturn

from sandbox.launcher import linux
from sandbox.launcher.spec import FIRST_INPUT, LISTENING, STAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox.launcher.spec import Identity, LaunchSpec

NOT_STARTED = 126
_REPORT = FIRST_INPUT - 1
_BACKLOG = 64


def become(spec: LaunchSpec, output: int, report: int, control: socket.socket) -> NoReturn:
    """Become the program, with `output` as stdout and stderr. Failures are written to `report`."""
    try:
        os.setsid()
        if spec.listen is not None:
            _hand_over_listener(spec.listen, control)
        report = _arrange_descriptors(output, report, spec.inputs)
        _go_first()
        if spec.stage:
            _stage(spec.stage)
        if spec.identity is not None:
            _drop_to(spec.identity)
        os.chdir(spec.cwd)
        tasks = None if spec.more_tasks is None else _tasks(os.getuid()) + spec.more_tasks
        if spec.confinement is not None:
            linux.confine(spec.confinement)
        _limit(spec.limits if tasks is None else (*spec.limits, (resource.RLIMIT_NPROC, tasks)))
        os.execve(spec.argv[0], spec.argv, dict(spec.env))
    except (OSError, ValueError) as error:
        os.write(report, str(error).encode())
    os._exit(NOT_STARTED)


def _hand_over_listener(port: int, control: socket.socket) -> None:
    """Create the network namespace, and send the gateway a socket that listens in it.

    Ordinary users can create one only in a user namespace; the program starts without rights in that.
    """
    uid, gid = os.getuid(), os.getgid()
    if uid == 0:
        linux.unshare(linux.CLONE_NEWNET)
    else:
        linux.allow_inspection()
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    linux.bring_up_loopback()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
        socket.send_fds(control, [LISTENING], [listener.fileno()])


def _go_first() -> None:
    """Make the kernel kill commands first when memory is short: before the launcher's processes and the gateway."""
    linux.allow_inspection()
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(descriptor, b"1000")
    os.close(descriptor)


def _stage(sources: tuple[str, ...]) -> None:
    """Bind each source to STAGE/<number>, where any user can access it; only in this process's mount namespace.

    The sources are below folders that only root may enter. They are opened before STAGE hides what it covers.
    """
    linux.unshare(linux.CLONE_NEWNS)
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    linux.mount("stage", STAGE, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=0711,size=64k")
    for number, descriptor in enumerate(opened):
        target = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        linux.mount(f"/proc/self/fd/{descriptor}", target, None, linux.MS_BIND | linux.MS_REC)
        os.close(descriptor)


def _drop_to(identity: Identity) -> None:
    os.setgroups([])
    os.setresgid(identity.gid, identity.gid, identity.gid)
    os.setresuid(identity.uid, identity.uid, identity.uid)


def _arrange_descriptors(output: int, report: int, inputs: Sequence[bytes]) -> int:
    """Set up 0: nothing; 1, 2: output; _REPORT, returned: closed by exec; from FIRST_INPUT: the inputs; no others."""
    high = FIRST_INPUT + len(inputs)
    output, report = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, high) for each in (output, report))
    kept = [_memory_file(content, high) for content in inputs]
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(report, _REPORT, inheritable=False)
    for number, descriptor in enumerate(kept):
        os.dup2(descriptor, FIRST_INPUT + number)
    os.closerange(3, _REPORT)
    os.closerange(high, os.sysconf("SC_OPEN_MAX"))
    return _REPORT


def _memory_file(content: bytes, lowest: int) -> int:
    descriptor = os.memfd_create("input")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
    finally:
        os.close(descriptor)


def _limit(limits: tuple[tuple[int, int], ...]) -> None:
    for name, value in limits:
        _, hard = resource.getrlimit(name)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (allowed, allowed))


def _tasks(user: int) -> int:
    """The processes and threads of a user."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == user:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return count
