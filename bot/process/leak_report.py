"""What a stop left behind: tasks, threads, connections, open files of the data folder. One log line, told by app.py.

A stop that leaves nothing is the cheapest proof that nothing leaks while the gateway serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

HANDLES = Path("/proc/self/fd")
LONGEST = 20
"""Things that the line names at most."""
CLOSING_TURNS = 5
"""Turns of the loop that a closed connection takes until its socket is really gone."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """What the process had at a moment. handles: number -> what it is, as the kernel says; empty where it does not."""

    threads: frozenset[int | None]
    handles: frozenset[tuple[int, str]]


def belongings() -> Belongings:
    """What this process has now; called once before the gateway is built."""
    return Belongings(frozenset(thread.ident for thread in threading.enumerate()), frozenset(_handles()))


async def report(before: Belongings, data_dir: Path) -> None:
    """Log what is left of what came since `before`, if anything is. The last thing that the loop does."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_default_executor()
    gc.collect()  # a failed stream stands in its own traceback: nobody holds it, and it is closed when it is collected
    for _ in range(CLOSING_TURNS):
        await asyncio.sleep(0)
    found = [*_tasks(), *_generators(loop), *_threads(before), *_open(before, data_dir)]
    if found:
        more = f" and {len(found) - LONGEST} more" if len(found) > LONGEST else ""
        log.error("left behind: %s%s", "; ".join(found[:LONGEST]), more)


def _tasks() -> list[str]:
    return sorted(f"task {task.get_name()}" for task in asyncio.all_tasks() - {asyncio.current_task()})


def _generators(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Asynchronous generators that were begun and neither ended nor closed; asyncio's own loops keep them in a set."""
    begun = [generator for generator in getattr(loop, "_asyncgens", ()) if generator.ag_frame is not None]
    return sorted(f"generator {generator.__qualname__}" for generator in begun)


def _threads(before: Belongings) -> list[str]:
    """A daemon thread ends with the process, by its maker's own will."""
    new = [thread for thread in threading.enumerate() if thread.ident not in before.threads and not thread.daemon]
    return sorted(f"thread {thread.name}" for thread in new)


def _open(before: Belongings, data_dir: Path) -> list[str]:
    """Sockets, and files of ours; what libraries keep open besides (a device, a cache) is their own affair."""
    new = sorted(set(_handles()) - before.handles)
    sockets = [_described(number) for number, target in new if target.startswith("socket:")]
    folder = f"{data_dir.resolve()}{os.sep}"
    return [*sockets, *(f"file {Path(target).name}" for _, target in new if target.startswith(folder))]


def _described(number: int) -> str:
    try:
        with socket.socket(fileno=os.dup(number)) as copy:
            peer = copy.getpeername()
    except OSError:
        return "socket"
    return f"connection to {peer[0]}:{peer[1]}" if isinstance(peer, tuple) else f"connection to {peer or 'a pipe'}"


def _handles() -> list[tuple[int, str]]:
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in HANDLES.iterdir():
            with contextlib.suppress(OSError):  # the one that reads the folder is closed by now
                found.append((int(entry.name), os.readlink(entry)))
    return found
