"""The terminal without a terminal: lines in, finished messages out, no control sequences. For pipes and files."""

from __future__ import annotations

import asyncio
import io
from typing import TYPE_CHECKING

from channels.console.frames import End, Shown
from channels.console.stdin import read_lines
from channels.console.transcript import Entry, Transcript

if TYPE_CHECKING:
    from typing import TextIO

    from channels.console.link import TerminalLink

NAME = "antler"


class PlainTerminal:
    """Prints each message once, when it is final; what is unfinished at the end is printed as that."""

    def __init__(self, link: TerminalLink, stdin: int, out: TextIO) -> None:
        self._link = link
        self._stdin = stdin
        self._out = out
        self._transcript = Transcript()
        if isinstance(out, io.TextIOWrapper):
            out.reconfigure(errors="backslashreplace")

    async def run(self) -> None:
        """Until the gateway closed the link, or nobody reads the output any more."""
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(), name="console input")
            try:
                await self._show()
            except BrokenPipeError:
                self._link.close()
            reading.cancel()

    async def _read(self) -> None:
        entry = Entry(self._link)
        async for line in read_lines(self._stdin):
            if line.strip():
                await entry.send(line)
        await self._link.send(End())

    async def _show(self) -> None:
        while (frame := await self._link.receive()) is not None:
            ready = self._transcript.apply(frame)
            if ready is not None:
                again = " (corrected)" if self._transcript.was_printed(ready.message_id) else ""
                self._print(NAME + again, body(ready))
                self._transcript.remember(ready)
        for shown in self._transcript.growing.values():
            self._print(f"{NAME} (unfinished)", body(shown))

    def _print(self, who: str, text: str) -> None:
        """A text of several lines starts on its own, so that its Markdown stays what it is."""
        if text:
            self._out.write(f"{who}:{chr(10) if chr(10) in text else ' '}{text}\n")
            self._out.flush()


def body(shown: Shown) -> str:
    """The message as lines: its text, its status."""
    if shown.file is not None:
        return f"[file] {shown.file}"
    lines = [shown.text.rstrip(), shown.status]
    return "\n".join(line for line in lines if line)
