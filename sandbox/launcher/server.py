"""The small process that forks for the gateway. `client` starts it; it ends with the gateway or when closed.

For each program it forks a keeper, which waits for the program, then ends its whole tree, and reports to the gateway.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, NoReturn

from sandbox.launcher import linux
from sandbox.launcher.child import NOT_STARTED, become
from sandbox.launcher.spec import BRANCH, Ended, LaunchSpec

if TYPE_CHECKING:
    from collections.abc import Iterator


_MOST_DESCRIPTORS = 3

_SWEEP_SECONDS = 0.01
_LONGEST_REPORT = 4096


def keep(spec: LaunchSpec, control: socket.socket, output: int) -> None:
    """Start the program and stay until nothing of it is left; then report how it ended.

    The gateway requests its end with any message on `control`, or by closing it, as its death does.
    """
    linux.become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    reading, writing = os.pipe()
    try:
        program = os.fork()
    except OSError as error:  # The running commands have reached the limit on processes.
        _tell(control, Ended(exit_code=NOT_STARTED, problem=str(error)))
        return
    if program == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        become(spec, output, writing, control)
    os.close(output)
    os.close(writing)
    _wait(program, control)
    exit_code = _end_tree(program)
    problem = os.read(reading, _LONGEST_REPORT).decode(errors="replace") if exit_code == NOT_STARTED else ""
    _tell(control, Ended(exit_code=exit_code, problem=problem))


def _tell(control: socket.socket, ended: Ended) -> None:
    try:
        control.send(ended.encode())
    except (BrokenPipeError, ConnectionResetError):
        return  # The gateway is gone, so nobody needs the report.


def _wait(program: int, control: socket.socket) -> None:
    """Wait until the program has ended or the gateway requests its end."""
    handle = os.pidfd_open(program)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(control, select.POLLIN)
    poll.poll()
    os.close(handle)


def _end_tree(program: int) -> int:
    """Kill and reap every descendant, including daemons. Returns the exit code of `program`.

    Orphans have become our children. All are stopped before the first is killed, so that none can start another one in
    between. A process namespace dies as a whole with its first process, which is reaped after all others.
    """
    exit_code = NOT_STARTED
    while True:
        for pid, status in _reap():
            if pid == program:
                exit_code = _exit_code(status)
        stopped: set[int] = set()
        while new := set(_descendants(os.getpid())) - stopped:
            _signal(new, signal.SIGSTOP)
            stopped |= new
        if not stopped:
            return exit_code
        _signal(stopped, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _SWEEP_SECONDS)


def _reap() -> Iterator[tuple[int, int]]:
    """Reap the children that have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def _descendants(pid: int) -> Iterator[int]:
    pending = [pid]
    while pending:
        found = _children(pending.pop())
        yield from found
        pending += found


def _children(pid: int) -> list[int]:
    """The children of a process, see proc(5). If it has ended, they are ours by now and found in the next sweep."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main() -> None:
    linux.refuse_inspection()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps keepers.
    gc.disable()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))


def serve(requests: socket.socket) -> None:
    """Serve requests until the gateway closes the other end, or dies."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, 1, _MOST_DESCRIPTORS)
        if not request:
            return
        if _is_forked():
            requests.close()
            _branch(*descriptors) if request == BRANCH else _keep(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _is_forked() -> bool:
    """Fork; returns whether this is the child. On failure, the gateway sees its end of the request's socket close."""
    try:
        return os.fork() == 0
    except OSError as error:  # No processes or no memory are left.
        print(f"the launcher cannot fork: {error}", file=sys.stderr)
        return False


def _branch(groups: int, connection: int) -> NoReturn:
    with open(groups) as file:
        for path in json.load(file):
            with open(path, "w") as entrance:
                entrance.write("0")
    with socket.socket(fileno=connection) as requests:
        serve(requests)
    os._exit(0)


def _keep(specification: int, control: int, output: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with open(specification, "rb", buffering=0) as file:
        spec = LaunchSpec.decode(file.read())
    with socket.socket(fileno=control) as connection:
        keep(spec, connection, output)
    os._exit(0)
