"""Finding processes of this machine by a mark in their arguments, and waiting for their end."""

from __future__ import annotations

import os
import select
from pathlib import Path


def marked(mark: str) -> list[int]:
    """The processes that have the mark among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", pid, "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in arguments.split(b"\0"):
            found.append(int(pid))
    return found


def has_ended(pid: int, seconds: float) -> bool:
    """Wait for a process, anybody's, to end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    try:
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(handle)


def parent_of(pid: int) -> int:
    """See proc(5), /proc/pid/stat."""
    return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
