"""A program that an image's API runs, with its input and outputs as bytes: what a connection of Docker's own is with a
plain image. Used by http_shells.py.

Nobody hears it when Antler is killed, as a connection would be. So the program hears from Antler every few seconds, and
ends itself when it does not (http_scripts.py).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from sandbox.base import SandboxError
from sandbox.docker.api import Conflict, NotFound
from sandbox.docker.http_api import Gone, Silent
from sandbox.docker.http_scripts import BEAT
from sandbox.docker.shell import BEGUN

if TYPE_CHECKING:
    from sandbox.docker.http_api import Output

_BEAT_SECONDS = 2.0
_POLL_SECONDS = 20.0
_END_SECONDS = 1.0
_STDOUT, _STDERR = 1, 2
_REPLACED = "\N{REPLACEMENT CHARACTER}"
_LOST = b"\n[some output is missing here: it came faster than it could be read]\n"


class Commands(Protocol):
    """What a session needs of http_api.ImageApi."""

    async def output(
        self, session: str, command: str, offset: int, stderr_offset: int, *, seconds: float = 0.0
    ) -> Output: ...

    async def write(self, session: str, command: str, text: str) -> None: ...

    async def end(self, session: str) -> None: ...


class Session:
    """session, command: as the API knows them. An implementation of `shell.Attached`."""

    def __init__(self, api: Commands, session: str, command: str) -> None:
        self._api = api
        self._session = session
        self._command = command
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._seen = self._stderr_seen = 0
        self._split: tuple[int, ...] = ()
        self._ended = False
        self._addressed = False
        self._gone = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """After the first time the program hears from us until it ends; what is said later is not worth a long wait."""
        if self._beating is not None:
            try:
                async with asyncio.timeout(_END_SECONDS):
                    return await self._api.write(self._session, self._command, data.decode())
            except TimeoutError as error:
                raise Silent from error
        self._addressed = True
        try:
            await self._api.write(self._session, self._command, data.decode())
        except Gone:
            self._addressed = False
            raise
        self._beating = asyncio.create_task(self._beat(), name="signs of life to a command in a container")

    async def read(self) -> tuple[int, bytes] | None:
        while not self._pieces and not self._ended:
            try:
                await self._more()
            except (Gone, Silent, NotFound, Conflict):  # Then it has ended, or must be; a sweep comes next.
                self._end()
        return self._pieces.popleft() if self._pieces else None

    async def close(self) -> None:
        """It may run for a few seconds yet, if it did not end before."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        try:
            await self._api.end(self._session)
        except SandboxError:  # Who finds the container again ends what is left.
            return

    def _end(self) -> None:
        """Without a word: what it was told to run may have begun, and must not be run again."""
        self._ended = True
        if self._addressed and not self._stderr_seen:
            self._pieces.append((_STDERR, BEGUN))

    async def _beat(self) -> None:
        """A program whose input is gone has ended, though something may hold its output open."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            try:
                await self._api.write(self._session, self._command, BEAT)
            except Gone:
                self._gone.set()
                return
            except SandboxError:
                continue  # The next one, or `read`, may get through.

    async def _more(self) -> None:
        """Wait for output, or for the end."""
        waiting = asyncio.create_task(self._poll(_POLL_SECONDS), name="output of a command in a container")
        gone = asyncio.create_task(self._gone.wait(), name="end of a command in a container")
        try:
            await asyncio.wait([waiting, gone], return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                self._take(*waiting.result())
        finally:
            for task in (waiting, gone):
                task.cancel()
            await asyncio.gather(waiting, gone, return_exceptions=True)
        if self._gone.is_set() and not self._ended:
            self._take(*await self._poll(0.0))
            self._end()

    async def _poll(self, seconds: float) -> tuple[int, Output]:
        """What there is from an offset of stdout on: what was not seen yet, or a character before it that goes on."""
        try:
            told = await self._ask(self._seen, seconds)
        except Silent:  # One connection may break; nothing is lost by asking again.
            told = await self._ask(self._seen, seconds)
        if not self._split or self._is_old(told):
            return self._seen, told
        for start in self._split:
            again = await self._ask(start)
            if _goes_beyond(self._seen - start, again.stdout or ""):
                return start, again
        self._pieces.append((_STDOUT, _REPLACED.encode()))
        return self._seen, told

    async def _ask(self, offset: int, seconds: float = 0.0) -> Output:
        return await self._api.output(self._session, self._command, offset, self._stderr_seen, seconds=seconds)

    def _is_old(self, told: Output) -> bool:
        return told.running and told.offset == self._seen

    def _take(self, since: int, told: Output) -> None:
        if not self._is_old(told):
            self._take_text(since, told)
        if told.stderr:
            self._pieces.append((_STDERR, told.stderr.encode()))
        self._seen, self._stderr_seen = told.offset, told.stderr_offset
        self._ended = not told.running

    def _take_text(self, since: int, told: Output) -> None:
        text = told.stdout or ""
        if told.offset - since > len(
            text.encode()
        ):  # The API let go of the oldest; what it replaced counts three here.
            self._pieces.append((_STDOUT, _LOST))
        # It decodes what it has, be it a part of a character; that is left for when more has come.
        self._split = ()
        if told.running and text.endswith(_REPLACED):
            text = text[:-1]
            self._split = tuple(range(told.offset - 1, max(since, told.offset - 4), -1)) if text else (since,)
        if text:
            self._pieces.append((_STDOUT, text.encode()))


def _goes_beyond(count: int, text: str) -> bool:
    """Whether it begins with a character of more than so many bytes, or is a part of one and nothing else."""
    return text == _REPLACED or (text[:1] not in ("", _REPLACED) and len(text[0].encode()) > count)
