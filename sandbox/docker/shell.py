"""One wrapper shell in a container, from its start over the order to its report. Used by commands.py."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox.base import SandboxError
from sandbox.local.output import Capture
from sandbox.local.process import HEAD_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.docker.api import Attached
    from sandbox.local.output import Text

_PACE_BYTES = 64 * 1024
_PACE_SECONDS = 0.005
"""After so much output at once the next is read so much later: a flood costs a few per cent of one core."""
_LONGEST_REPORT = 4096
_STDOUT = 1
_BEGUN = b"begun\n"
_ENDED = re.compile(rb"^ended (\d{1,3}) (\d{1,12}) (\d{1,12}) ([01])$", re.MULTILINE)
_CLEAN = re.compile(rb"^clean (\d{1,12})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the wrapper reported. out_of_memory: the kernel killed something meanwhile, for want of memory.

    clean: nothing of the command is left.
    """

    exit_code: int
    out_of_memory: bool
    clean: bool


class Shell:
    """A wrapper that has been started. mark: its name, by which a sweeper can spare it."""

    def __init__(self, mark: str, attached: Attached) -> None:
        self.mark = mark
        self._attached = attached
        self._report = bytearray()
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES)
        self._begun = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="output of a command in a container")

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    @property
    def begun(self) -> bool:
        """Whether it took the order."""
        return self._begun.is_set()

    def listen(self, on_output: Callable[[str], None] | None) -> None:
        """Before the order: who is told of the output."""
        self._capture = Capture(HEAD_BYTES, TAIL_BYTES, on_output)

    async def give(self, order: bytes) -> None:
        """Raises SandboxError."""
        await self._attached.write(order)

    async def until_begun(self) -> None:
        """Wait until it took the order, or ended without that."""
        begun = asyncio.create_task(self._begun.wait(), name="beginning of a command")
        try:
            await asyncio.wait([begun, self._reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()

    async def end(self) -> None:
        """Ask it to kill the command with all its processes."""
        try:
            await self._attached.write(b"\n")
        except SandboxError:
            return  # It has ended, or the daemon has: `finished` tells.

    async def finished(self) -> Ended | None:
        """Wait for the end of its output. None: it was killed before it could report. Raises SandboxError."""
        await asyncio.shield(self._reading)
        found = _ENDED.search(self._report)
        if found is None:
            return None
        code, before, after, left = map(int, found.groups())
        return Ended(exit_code=code, out_of_memory=after > before, clean=left == 0)

    def killed_by_kernel(self) -> int | None:
        """Number of processes that the kernel killed, by the sweeper's report; None if it did not come to its end."""
        found = _CLEAN.search(self._report)
        return int(found[1]) if found else None

    def text(self) -> Text:
        """What the command printed; once, at the end."""
        return self._capture.finish()

    async def close(self) -> None:
        """Let go of it; its input ends, and so does what it runs. Idempotent."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._attached.close()

    async def _read(self) -> None:
        at_once = 0
        while (piece := await self._attached.read()) is not None:
            stream, data = piece
            if stream == _STDOUT:
                self._capture.add(data)
                at_once += len(data)
            else:
                self._heard(data)
            if at_once > _PACE_BYTES:
                at_once = 0
                await asyncio.sleep(_PACE_SECONDS)

    def _heard(self, data: bytes) -> None:
        self._report += data[: max(0, _LONGEST_REPORT - len(self._report))]
        if self._report.startswith(_BEGUN):
            self._begun.set()
