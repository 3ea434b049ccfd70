"""`python -m tests.channels.console.echo_app FOLDER`: the small gateway on this process's own terminal or pipes."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bot.process import terminal
from channels.console.link import link_pair
from channels.console.terminal import Terminal
from tests.channels.console.support import SmallGateway, hello


async def main(folder: Path, *, stuck: bool) -> None:
    """stuck: a Ctrl-C is told and ends nothing, as in a process whose stop hangs."""
    gateway = SmallGateway(folder)
    gateway_end, terminal_end = link_pair()
    gateway.channel.attach(gateway_end, owner=True, idle=lambda _: gateway.drain())
    if stuck:
        terminal.on_stop(lambda: print("stopping", flush=True), terminal.LastResort(), hangs_up=False)
    async with asyncio.TaskGroup() as group:
        group.create_task(Terminal(terminal_end, terminal.interrupt if stuck else None).run())
        await gateway.channel.run(hello)
        await gateway.drain()
        await gateway.channel.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), stuck="stuck" in sys.argv))
