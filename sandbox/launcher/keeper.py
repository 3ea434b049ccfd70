"""One process per running program: it waits for the program, ends the whole tree after it, and tells the gateway."""

from __future__ import annotations

import os
import select
import signal
from typing import TYPE_CHECKING

from sandbox.launcher import linux
from sandbox.launcher.child import NOT_STARTED, become
from sandbox.launcher.spec import Ended

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from sandbox.launcher.spec import LaunchSpec

_SWEEP_SECONDS = 0.01
_LONGEST_REPORT = 4096


def keep(spec: LaunchSpec, control: socket.socket, output: int) -> None:
    """Start the program and stay until nothing of it is left; then say how it ended.

    The gateway asks for its end by any message on `control`, or by closing it, which its death does too.
    """
    linux.become_subreaper()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    reading, writing = os.pipe()
    try:
        program = os.fork()
    except OSError as error:  # The commands that run already are as many as there may be.
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
        return  # The gateway is gone, and with it the one who wanted to know.


def _wait(program: int, control: socket.socket) -> None:
    """Until the program has ended or the gateway asks for that."""
    handle = os.pidfd_open(program)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(control, select.POLLIN)
    poll.poll()
    os.close(handle)


def _end_tree(program: int) -> int:
    """Kill and reap every descendant, daemons included. Gives the exit code of `program`.

    What orphaned itself became our child. All are stopped before the first is killed, so that none can start another
    meanwhile. A process namespace dies as a whole with its first process, which is reaped after all others.
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
    """The children that have ended."""
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
    """proc(5). Those of a process that has ended meanwhile are ours by now and seen in the next sweep."""
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
