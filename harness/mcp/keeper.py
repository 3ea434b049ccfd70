"""Runs one program, and ends it with everything that it started when the gateway is gone, however that happened.

A separate program, started as `python -I -S keeper.py CONTROL COMMAND [ARGUMENT ...]`: it imports only the standard
library, so it shares no code with sandbox/launcher. CONTROL: the read end of a pipe that the gateway holds open.
Nothing is ever written to it: end of file is the signal.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

NOT_STARTED = 127
"""The shell's exit code for a command that was not found."""
GRACE_SECONDS = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_SWEEP_SECONDS = 0.02
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
Status = tuple[int, int]


def main() -> int:
    control, argv = int(sys.argv[1]), sys.argv[2:]
    os.set_inheritable(control, False)
    # Orphans become children of this process, so that a daemon started by the program cannot escape.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = os.fork()
    if program == 0:
        become(argv)
    let_go()
    wait(program, control)
    return end_tree(program)


def become(argv: list[str]) -> None:
    """Exec the program; a failure is written to its stderr, which the gateway logs."""
    try:
        # If the keeper itself is killed, its program must not survive it.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec keeps that
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]}: {os.strerror(error.errno or 0)}\n".encode())
    os._exit(NOT_STARTED)


def let_go() -> None:
    """Close the keeper's ends of the pipes: their readers must see the program's end."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)


def wait(program: int, control: int) -> None:
    """Wait until the program or the gateway has ended."""
    poll = select.poll()
    poll.register(os.pidfd_open(program), select.POLLIN)
    poll.register(control, select.POLLIN)
    poll.poll()


def end_tree(program: int) -> int:
    """Terminate all descendants, then kill them; returns the program's exit code."""
    code = NOT_STARTED
    deadline = time.monotonic() + GRACE_SECONDS
    signal_all(signal.SIGTERM)
    while True:
        for pid, status in reap():
            if pid == program:
                code = os.waitstatus_to_exitcode(status)
        if not descendants():
            return code if code >= 0 else 128 - code
        if time.monotonic() > deadline:
            signal_all(signal.SIGSTOP)  # so that none can fork while they are killed
            signal_all(signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, _SWEEP_SECONDS)


def reap() -> list[Status]:
    """The children that have ended."""
    ended: list[Status] = []
    try:
        while (status := os.waitpid(-1, os.WNOHANG))[0] != 0:
            ended.append(status)
    except ChildProcessError:
        pass
    return ended


def signal_all(number: signal.Signals) -> None:
    for pid in descendants():
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # gone, or another user's (sudo): the others are ended anyway


def descendants() -> list[int]:
    """All processes below this one, from proc(5); one that ends meanwhile is reaped in the next sweep."""
    found: list[int] = []
    pending = [os.getpid()]
    while pending:
        parent = pending.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as file:
                    children = list(map(int, file.read().split()))
                found += children
                pending += children
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
