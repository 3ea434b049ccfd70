"""Reads CPU time, memory and handles of a process from outside."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MEGABYTE = 1024 * 1024
# Linux's clock id for the CPU time of a process (clock_getcpuclockid(3)): exact, while /proc has steps of 10 ms.
_PROCESS_CPU_CLOCK = 2


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, including ended threads."""
    return time.clock_gettime((~pid << 3) | _PROCESS_CPU_CLOCK)


def cpu_by_thread(pid: int) -> dict[int, float]:
    """User and system seconds of each live thread, by id; in steps of 10 ms."""
    return {thread.id: thread.user_time + thread.system_time for thread in psutil.Process(pid).threads()}


@dataclass(frozen=True)
class Memory:
    """Resident and proportional set size in MB. Shared pages count fully in the first, proportionally in the second."""

    rss: float
    pss: float


def memory(pid: int) -> Memory:
    used = psutil.Process(pid).memory_full_info()
    return Memory(used.rss / MEGABYTE, used.pss / MEGABYTE)


def anonymous(pid: int) -> float:
    """MB of heap and stacks. Unlike PSS it does not change when other processes that share pages start or end."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise ValueError(f"process {pid} has ended")


def handles(pid: int) -> tuple[int, int]:
    """Open files and sockets, and threads."""
    process = psutil.Process(pid)
    return process.num_fds(), process.num_threads()


@dataclass
class Watch:
    """The highest memory measured during a load."""

    peaks: list[Memory] = field(default_factory=list)

    @property
    def highest(self) -> Memory:
        return Memory(max(seen.rss for seen in self.peaks), max(seen.pss for seen in self.peaks))


@contextlib.asynccontextmanager
async def watching(pid: int, every: float = 0.5) -> AsyncIterator[Watch]:
    """Measure the memory of a process at the start, every `every` seconds, and at the end."""
    watch = Watch([memory(pid)])

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            watch.peaks.append(memory(pid))

    task = asyncio.create_task(look(), name="memory watch")
    try:
        yield watch
        watch.peaks.append(memory(pid))
    finally:
        task.cancel()
        await asyncio.wait({task})


@dataclass
class Meter:
    """CPU time of the gateway, and the machine's share used by processes outside the measurement.

    others: the pids of the simulators and of this process. A high foreign share makes times and rates unreliable.
    """

    gateway: int
    others: tuple[int, ...]
    cpu: float = 0.0
    foreign_share: float = 0.0
    _own: float = 0.0
    _busy: float = 0.0
    _began: float = 0.0

    def begin(self) -> None:
        self._began, self._busy = time.monotonic(), _machine_busy()
        self._own, self.cpu = self._all(), cpu_seconds(self.gateway)

    def end(self) -> None:
        """Set `cpu` to the gateway's CPU seconds since `begin`."""
        self.cpu = cpu_seconds(self.gateway) - self.cpu
        capacity = (time.monotonic() - self._began) * (psutil.cpu_count() or 1)
        foreign = (_machine_busy() - self._busy) - (self._all() - self._own)
        self.foreign_share = max(0.0, foreign / capacity)

    def _all(self) -> float:
        return sum(cpu_seconds(pid) for pid in (self.gateway, *self.others))


def _machine_busy() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
