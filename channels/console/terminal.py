"""The terminal's user interface: interactive (`interactive`), or plain lines in and out for pipes and files."""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from channels.console.frames import End, Entered, Shown
from channels.console.plain import as_text
from channels.console.transcript import Entry, Transcript

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from channels.console.link import TerminalLink


NAME = "antler"
MAX_LINE = 1_000_000
"""Characters of one line; a longer line is split into several."""
_CHUNK = 64 * 1024


async def read_lines(fd: int) -> AsyncIterator[str]:
    """The lines without line ends, including an unterminated last one. Bytes that are not UTF-8 become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while chunk := await _read(fd):
        *lines, rest = (rest + decoder.decode(chunk)).split("\n")
        if len(rest) > MAX_LINE:
            lines.append(rest)
            rest = ""
        for line in lines:
            for piece in _pieces(line):
                yield piece
    rest += decoder.decode(b"", final=True)
    if rest:
        for piece in _pieces(rest):
            yield piece


def _pieces(line: str) -> list[str]:
    line = line.removesuffix("\r")
    return [line[start : start + MAX_LINE] for start in range(0, len(line), MAX_LINE)] or [""]


async def _read(fd: int) -> bytes:
    """The next bytes; b"" at the end.

    The descriptor stays in blocking mode, because all descriptors of a terminal share that mode; reading one that is
    ready does not block.
    """
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:
        return os.read(fd, _CHUNK)  # a regular file is always ready and cannot be watched
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
    return os.read(fd, _CHUNK)


class PlainTerminal:
    """Prints each line before its answer, and each message once, when it is final; a message that is unfinished at the
    end is marked as unfinished."""

    def __init__(self, link: TerminalLink, stdin: int, out: TextIO) -> None:
        self._link = link
        self._stdin = stdin
        self._out = out
        self._transcript = Transcript()
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")

    async def run(self) -> None:
        """Run until the gateway closes the link, or the output is no longer read."""
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(), name="console input")
            try:
                await self._show()
            except BrokenPipeError:
                self._link.close()
            reading.cancel()

    async def _read(self) -> None:
        entry = Entry(self._link, in_turn=True)
        async for line in read_lines(self._stdin):
            if line.strip():
                await entry.send(line)
        await self._link.send(End())

    async def _show(self) -> None:
        while (frame := await self._link.receive()) is not None:
            ready = self._transcript.apply(frame)
            if isinstance(frame, Entered):
                self._print("you", frame.text)
            if ready is not None:
                again = " (corrected)" if self._transcript.was_printed(ready.message_id) else ""
                self._print(NAME + again, body(ready))
                self._transcript.remember(ready)
        for shown in self._transcript.growing.values():
            self._print(f"{NAME} (unfinished)", body(shown))

    def _print(self, who: str, text: str) -> None:
        """Print a text; several lines start on a new line, so that their columns stay aligned."""
        if text:
            self._out.write(f"{who}:{chr(10) if chr(10) in text else ' '}{text}\n")
            self._out.flush()


def body(shown: Shown) -> str:
    """The message as lines: its text, its status."""
    if shown.file is not None:
        return f"[file] {shown.file}"
    lines = [as_text(shown.text), shown.status]
    return "\n".join(line for line in lines if line)


class Terminal:
    """One person's terminal on one link. interrupt, stays, history: see InteractiveTerminal."""

    def __init__(
        self,
        link: TerminalLink,
        interrupt: Callable[[], None] | None = None,
        stays: str = "",
        history: Path | None = None,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        self._link = link
        self._interrupt = interrupt
        self._stays = stays
        self._history = history
        self._stdin = stdin or sys.stdin
        self._stdout = stdout or sys.stdout

    async def run(self) -> None:
        """Exchange inputs and frames until the gateway closes the link.

        With a terminal on both sides: prompt and growing answers. Otherwise plain: prints final messages, without
        control sequences, and reports the end of input to the gateway.
        """
        if self._stdin.isatty() and self._stdout.isatty():
            # Imported here because it takes a tenth of a second and is not needed in a pipe or a service.
            from channels.console.interactive import InteractiveTerminal

            await InteractiveTerminal(self._link, self._interrupt, self._stays, self._history).run()
        else:
            await PlainTerminal(self._link, self._stdin.fileno(), self._stdout).run()
