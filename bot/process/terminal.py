"""The process's signals and terminals: its own, and those that `antler console` attaches through the socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import termios
import threading
import uuid
from typing import TYPE_CHECKING, NoReturn

from bot.control import server
from channels.console.link import SocketConsoleLink, SocketTerminalLink, link_pair
from channels.console.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from channels.console.channel import ConsoleChannel, Idle


STAYS = "antler keeps serving its other accounts; Ctrl-C stops it."

FORCED = 1
PAGE_PORT = 8642
"""Default port of the page."""
HISTORY = "console_history"
"""A file below the data folder: the terminal's input history."""


class LastResort:
    """Ends the process by force. It is created while the terminal is as the shell left it, to restore that state."""

    def __init__(self) -> None:
        self._attributes = termios.tcgetattr(sys.stdin) if is_interactive() else None

    def end(self, why: str) -> NoReturn:
        with contextlib.suppress(OSError, termios.error):  # the window may be gone
            if self._attributes is not None:
                termios.tcsetattr(sys.stdin, termios.TCSANOW, self._attributes)
            print(f"antler: {why}", file=sys.stderr, flush=True)
        os._exit(FORCED)


def on_stop(stop: Callable[[], None], last: LastResort, *, hangs_up: bool) -> None:
    """Call `stop` at the first signal. A kill at any point loses nothing, so the second one kills the process.

    hangs_up: SIGHUP (a closed window) stops, too; otherwise it has another meaning, or none.
    """
    loop = asyncio.get_running_loop()
    received = 0

    def receive() -> None:
        nonlocal received
        received += 1
        if received > 1:
            last.end("forced to stop; unfinished answers continue at the next start")
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, receive)
    if hangs_up:
        loop.add_signal_handler(signal.SIGHUP, stop)


def interrupt() -> None:
    """Handle a Ctrl-C that arrived as a key like one that arrived as a signal."""
    signal.raise_signal(signal.SIGINT)


def end_after(seconds: float, last: LastResort) -> None:
    """End the process after this time, even if something hangs (a name look-up, a dead connection); this loses nothing
    either."""
    timer = threading.Timer(seconds, last.end, [f"still stopping after {seconds:.0f} s, ended"])
    timer.daemon = True
    timer.start()


def attach_own(channel: ConsoleChannel, idle: Idle, data_dir: Path, *, owner: bool) -> asyncio.Task[None]:
    """Attach this process's terminal; the task ends when the channel has closed it. owner: its end ends the process.

    Ctrl-C in it and closing its window act on the process, as they would without a prompt.
    """
    gateway_end, terminal_end = link_pair()
    channel.attach(gateway_end, owner=owner, idle=idle)
    own = Terminal(terminal_end, interrupt, "" if owner else STAYS, data_dir / HISTORY)
    return asyncio.create_task(own.run(), name="terminal")


def take_over(channel: ConsoleChannel, idle: Idle) -> server.TakeOver:
    """The socket's take-over operation: serve an attached terminal and, after its end of input, answer everything that
    is still open."""

    async def serve(session: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attached = channel.attach(SocketConsoleLink(session or uuid.uuid4().hex, reader, writer), idle=idle)
        await attached.ended.wait()
        await idle(channel.conversation(attached))
        attached.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    return serve


async def talk(data_dir: Path) -> None:
    """`antler console` on a running gateway. Raises control.NotRunning."""
    async with server.connection(data_dir) as (reader, writer):
        await server.ask(reader, writer, "console", session=uuid.uuid4().hex)
        await Terminal(SocketTerminalLink(reader, writer), history=data_dir / HISTORY).run()


def page_address() -> str:
    """The page's address in a process without a config: on PAGE_PORT, or on any port if that is taken."""
    for port in (PAGE_PORT, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as free:
            found: int = free.getsockname()[1]
            if port != found:
                print(f"Port {PAGE_PORT} is taken, so the page is on {found}.", file=sys.stderr)
            return f"127.0.0.1:{found}"
    return ""


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
