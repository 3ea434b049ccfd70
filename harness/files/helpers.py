"""Helper processes for untrusted bytes whose processing may take any amount of time and memory.

A thread could not be killed, and a regular expression in it would block the whole process. A helper is a script that
imports nothing of Antler, knows no secret (its environment is empty), and is killed when it takes too long. It reads a
line of JSON and the number of bytes that the line gives, and answers with a line of JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

from harness.files.slots import FairSlots

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

AT_ONCE = 2
IDLE_SECONDS = 60.0
LONGEST_ANSWER = 16 * 1024 * 1024
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1"}


class HelperFailed(Exception):
    """The helper could not be started, exited, or gave no readable answer."""


class Helpers:
    """Processes of one script, at most `at_once`: started on demand, ended when idle. Further calls wait, and one
    person's many calls do not hold up those of others. idle_seconds: 0 if a process answers only one call."""

    def __init__(self, script: Path, *, at_once: int = AT_ONCE, idle_seconds: float = IDLE_SECONDS) -> None:
        self._script = script
        self._idle_seconds = idle_seconds
        self._room = FairSlots(at_once)
        self._idle: list[asyncio.subprocess.Process] = []
        self._ending: asyncio.TimerHandle | None = None
        self._ended: set[asyncio.Task[None]] = set()

    async def call(self, question: Mapping[str, Any], body: bytes, *, seconds: float, whose: str) -> dict[str, Any]:
        """Have a helper answer. seconds: for the work, once its turn has come. whose: the person it is done for. Raises
        TimeoutError and HelperFailed; the helper has then been killed."""
        async with self._room.slot(whose):
            helper = self._rested() or await self._started()
            kept = False
            try:
                async with asyncio.timeout(seconds):
                    answer = await _asked(helper, question, body)
                kept = self._idle_seconds > 0
            finally:
                if kept:
                    self._keep(helper)
                else:
                    await asyncio.shield(self._end(helper))
        return answer

    async def close(self) -> None:
        """End all helpers; no call may be waiting for one."""
        if self._ending is not None:
            self._ending.cancel()
        self._end_idle()
        await asyncio.gather(*self._ended)

    def _rested(self) -> asyncio.subprocess.Process | None:
        while self._idle:
            helper = self._idle.pop()
            if helper.returncode is None:
                return helper
        return None

    async def _started(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-B", str(self._script)),
                env=ENVIRONMENT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=LONGEST_ANSWER,
            )
        except OSError as error:  # out of descriptors, processes or memory
            log.warning("helper process not started: %s", error)
            raise HelperFailed from error

    def _keep(self, helper: asyncio.subprocess.Process) -> None:
        self._idle.append(helper)
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            task = asyncio.ensure_future(self._end(self._idle.pop()))
            self._ended.add(task)
            task.add_done_callback(self._ended.discard)

    async def _end(self, helper: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            helper.kill()
        await helper.communicate()


async def _asked(helper: asyncio.subprocess.Process, question: Mapping[str, Any], body: bytes) -> dict[str, Any]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    try:
        helper.stdin.write(json.dumps({**question, "size": len(body)}).encode() + b"\n" + body)
        await helper.stdin.drain()
        line = await helper.stdout.readline()
        answer = json.loads(line)
    except (OSError, ValueError) as error:
        log.warning("helper process failed: %s", type(error).__name__)
        raise HelperFailed from error
    if not isinstance(answer, dict):
        raise HelperFailed
    return answer
