"""A process at a pseudo-terminal, for tests of interactive programs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

WAIT_SECONDS = 15.0
_PIECES = re.compile(r"\x1b\[(?P<number>[0-9;?]*)(?P<action>[A-Za-z])|\x1b[^\[]|[^\x1b]")
VARIABLES = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
"""Variables that the process needs; terminal queries are not answered here."""


class PseudoTerminal:
    """A process at a pseudo-terminal. output: everything that it has written."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self._master = master
        self.process = process
        self.output = b""
        self._grown = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    @property
    def shown(self) -> str:
        """The text that a person sees now, including the scrollback."""
        return _drawn(self.output.decode(errors="replace"))

    def is_sane(self) -> bool:
        """Whether line mode, echo, and signal keys are on, as a shell expects."""
        flags = termios.tcgetattr(self._master)[3]
        return all(flags & flag for flag in (termios.ICANON, termios.ECHO, termios.ISIG))

    @property
    def is_closed(self) -> bool:
        return self._master == -1

    def close(self) -> None:
        """Close the window, as a person would."""
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        self._master = -1

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    async def see(self, expected: str, times: int = 1) -> None:
        """Wait until the text is visible this many times. Raises TimeoutError with the current text."""
        await self._until(lambda: self.shown.count(expected) >= times, expected)

    async def ends(self) -> int:
        """Wait for the process to end by itself; return the exit code."""
        return await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not condition():
                    self._grown.clear()
                    await self._grown.wait()
        except TimeoutError:
            raise TimeoutError(f"{what!r} did not appear in:\n{self.shown}") from None

    def _read(self) -> None:
        try:
            self.output += os.read(self._master, 65536)
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._master)
        self._grown.set()


@asynccontextmanager
async def at_a_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], rows: int = 24, columns: int = 80
) -> AsyncIterator[PseudoTerminal]:
    """Run a command at a pseudo-terminal; kill it at the end if it is still running."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=env,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    terminal = PseudoTerminal(master, process)
    try:
        yield terminal
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if not terminal.is_closed:
            terminal.close()


def _take_terminal() -> None:
    """Make it the controlling terminal, so that keys and a closed window send signals to the process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _drawn(output: str) -> str:
    """The lines that this output draws: supports the few sequences that a prompt needs, on an endless screen."""
    lines: list[list[str]] = [[]]
    row = column = 0
    for piece in _PIECES.finditer(output):
        count = int(piece["number"]) if (piece["number"] or "").isdigit() else 1
        match f"\x1b{piece['action']}" if piece["action"] else piece[0]:
            case "\x1bA":
                row = max(0, row - count)
            case "\x1bB":
                row += count
            case "\x1bC":
                column += count
            case "\x1bD":
                column = max(0, column - count)
            case "\x1bJ":
                del lines[row + 1 :], lines[row][column:]
            case "\x1bK":
                del lines[row][column:]
            case "\r":
                column = 0
            case "\n":
                row += 1
            case "\b":
                column = max(0, column - 1)
            case char if char.isprintable():
                line = lines[row]
                line.extend(" " * (column + 1 - len(line)))
                line[column] = char
                column += 1
        lines.extend([] for _ in range(row + 1 - len(lines)))
    return "\n".join("".join(line).rstrip() for line in lines)
