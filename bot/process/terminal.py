"""The terminals of this machine: the gateway's own one, and those that `antler console` attaches through the socket."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from typing import TYPE_CHECKING

from bot.control import server
from bot.process import signals
from channels.console.link import link_pair
from channels.console.socket_link import SocketConsoleLink, SocketTerminalLink
from channels.console.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from channels.console.channel import ConsoleChannel


STAYS = "antler goes on serving its other accounts; Ctrl-C stops it."


def attach_own(channel: ConsoleChannel, *, owner: bool) -> asyncio.Task[None]:
    """Attach this process's terminal; the task ends when the channel has closed it. owner: its end ends the process.

    A Ctrl-C there is the process's own, as it would be without a prompt, and so is the closing of its window.
    """
    gateway_end, terminal_end = link_pair()
    channel.attach(gateway_end, owner=owner)
    own = Terminal(terminal_end, signals.interrupt, "" if owner else STAYS)
    return asyncio.create_task(own.run(), name="terminal")


def take_over(channel: ConsoleChannel, idle: Callable[[], Awaitable[None]]) -> server.TakeOver:
    """For the control socket: serve an attached terminal; after its end of input, until all is answered."""

    async def serve(session: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attached = channel.attach(SocketConsoleLink(session or uuid.uuid4().hex, reader, writer))
        await attached.ended.wait()
        await idle()
        attached.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    return serve


async def talk(data_dir: Path) -> None:
    """`antler console` on a running gateway. Raises control.NotRunning."""
    async with server.connection(data_dir) as (reader, writer):
        await server.ask(reader, writer, "console", session=uuid.uuid4().hex)
        await Terminal(SocketTerminalLink(reader, writer)).run()


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
