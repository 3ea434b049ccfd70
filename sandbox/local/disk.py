"""Watches how much a thread's commands write: a bound folder has no quota.

Between two checks a command can write as much as the disk accepts; RLIMIT_FSIZE limits each file at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Protocol

from sandbox.base import SandboxError
from sandbox.files.trees import Usage
from sandbox.local.process import Stop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sandbox.policy import Limits

_GLANCE_SECONDS = 0.2
_LOOK_SECONDS = 2.0
_SHARE_OF_TIME = 10
"""Minimum ratio of the pause after a count of a large tree to the duration of the count."""
_STALE_SECONDS = 20.0
_STALE_COMMANDS = 16
_SLACK_BYTES, _SLACK_FILES = 1 << 20, 64


class Stoppable(Protocol):
    """A running command."""

    def stop(self, why: Stop) -> None:
        """Kill it. The first reason counts."""


class DiskShare:
    """One thread's share of the disk. measure: counts its folders, which are on the file system of `folder`."""

    def __init__(self, folder: Path, measure: Callable[[], Awaitable[Usage]], limits: Limits) -> None:
        self._folder = folder
        self._measure = measure
        self._limits = limits
        self._full = False
        self._usage = Usage()
        self._free = self._free_files = 0
        self._due = 0.0
        self._old = 0.0
        self._commands = 0

    async def check(self) -> bool:
        """Whether the share is used up; call it before a command. It counts only if it was; otherwise `watch` does."""
        self._commands += 1
        if self._full or not self._old:
            await self._look()
        return self._full

    async def watch(self, running: Stoppable) -> None:
        """Stop a running command when the share is used up. Cancel this when the command has ended.

        A command that began with a full share may continue, to delete, as long as it does not use more.
        """
        before = self._usage if self._full else None
        left = self._left()
        while True:
            if self._should_look():
                await self._look()
                if self._full and (before is None or self._is_worse(before, left)):
                    running.stop(Stop.SPACE)
                    return
            await asyncio.sleep(_GLANCE_SECONDS)

    def _should_look(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return self._grown(*self._part())
        return self._commands > _STALE_COMMANDS or now > self._old or self._grown(0, 0)

    async def _look(self) -> None:
        started = time.monotonic()
        self._free, self._free_files = self._left()
        try:
            usage = await self._measure()
        except SandboxError:
            usage = Usage(complete=False)  # A share that cannot be counted counts as full.
        self._usage = usage
        ended = time.monotonic()
        self._due = ended + max(_LOOK_SECONDS, _SHARE_OF_TIME * (ended - started))
        self._old = ended + _STALE_SECONDS
        self._commands = 0
        too_much = usage.bytes > self._limits.disk or usage.inodes > self._limits.disk_files
        self._full = too_much or not usage.complete or self._free < self._limits.disk_free

    def _is_worse(self, before: Usage, left: tuple[int, int]) -> bool:
        """Whether more is used than when a command began, with that much left; by the file system if not countable."""
        if self._usage.complete and before.complete:
            return _is_more(self._usage, before)
        size, files = self._part()
        return left[0] - self._free > size or left[1] - self._free_files > files

    def _part(self) -> tuple[int, int]:
        """The part of the share whose loss triggers a count."""
        return self._limits.disk // 8, self._limits.disk_files // 8

    def _grown(self, size: int, files: int) -> bool:
        """Whether the file system, which others use too, has lost more than that since the last count."""
        free, free_files = self._left()
        return self._free - free > size or self._free_files - free_files > files

    def _left(self) -> tuple[int, int]:
        """Free bytes and inodes."""
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize, found.f_ffree


def _is_more(now: Usage, before: Usage) -> bool:
    return now.bytes > before.bytes + _SLACK_BYTES or now.inodes > before.inodes + _SLACK_FILES
