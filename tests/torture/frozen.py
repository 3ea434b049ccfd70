"""The modes that freeze the process (SIGSTOP), as on a paused machine, and resume it."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from bot.store.writer import LEASE_SECONDS
from tests.simulators.postgres import PostgresMissing, PostgresServer
from tests.torture.disturbed import CALLS_FILE
from tests.torture.ledger import Ledger
from tests.torture.on_telegram import VISIBLE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.torture.campaign import Campaign
    from tests.torture.world import TortureWorld

IN_USE = 78
"""The exit code of a second process on one data folder."""
LONG_EVERY = 20
"""One in this many freezes lasts as long as the scale says; the others are short."""
REST_EVERY = 2
"""As in storms.py."""


async def frozen(campaign: Campaign) -> None:
    """Freeze the process, try to start a second one, then resume the first or kill it while frozen."""
    cycle = 0
    while campaign.report.kills < campaign.scale.kills:
        if not campaign.world.alive:
            await campaign.start()
        async with campaign.talking():
            await campaign.live()
            await _freeze(campaign, cycle)
        cycle += 1
        if cycle % REST_EVERY == 0:
            if not campaign.world.alive:
                await campaign.start()
            await campaign.settle()
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {len(campaign.load.asked)} messages")


async def _freeze(campaign: Campaign, cycle: int) -> None:
    world, long = campaign.world, cycle % LONG_EVERY == 0
    world.freeze()
    if long:
        code, output = await world.command("run")
        if code != IN_USE:
            campaign.report.blame("zombie_calls", f"a second process on the data folder ended with {code}: {output}")
        await asyncio.sleep(campaign.scale.frozen)
    else:
        await asyncio.sleep(campaign.chance.uniform(0.0, 1.0))
    if campaign.chance.random() < 0.5 and not long:
        await campaign.kill()
    world.thaw()
    if world.alive:
        await campaign.live()
        await campaign.kill()


def beside(folder: Path, name: str) -> Path:
    """Create a folder in `folder`."""
    made = folder / name
    made.mkdir()
    return made


async def fenced(campaign: Campaign) -> None:
    """Two processes with one PostgreSQL: the first is frozen until its lease has expired and the second has taken over;
    when resumed, it must show nothing more and end by itself."""
    try:
        server = PostgresServer()
    except PostgresMissing as error:
        campaign.report.skipped = str(error)
        return
    with server:
        url, campaign.patient = server.database(), True
        database = {"database": {"url": url.replace("+psycopg", "")}}
        first, campaign.ledger = campaign.world, Ledger(url)
        first.settings = {**first.settings, **database}
        if campaign.scale.frozen < 2 * LEASE_SECONDS:
            first.lease = int(campaign.scale.frozen / 2)
        second = dataclasses.replace(first, folder=beside(first.folder, "second"), control_folder=first.control)
        try:
            await _take_over(campaign, first, second)
            await campaign.finish()
        finally:
            await first.bury()


async def _take_over(campaign: Campaign, first: TortureWorld, second: TortureWorld) -> None:
    await campaign.start()
    async with campaign.talking():
        await campaign.live(1.0)
        first.freeze()
        first.life.replaced = True
        await asyncio.sleep(campaign.scale.frozen)
        campaign.world, campaign.disturbed = second, True
        # Frozen in a transaction, it keeps the lease's row locked until the server ends its connection.
        while not await campaign.start():
            # It may still be requesting the lease: another process would only find its data folder in use.
            if second.alive:
                if await second.polls():
                    break
                await campaign.dead()
            campaign.say("the second process was refused, as the first one holds a lock; starting it again")
        campaign.disturbed = False
        await campaign.live(1.0)
        first.thaw()
        thawed = time.monotonic()
        ended = await first.over()
    if ended.ending != "exit 1":
        campaign.report.blame("zombie_calls", f"the process that was replaced ended with {ended.ending!r}")
    for call in _calls_of(first, ended.pid, thawed):
        campaign.report.blame("zombie_calls", f"the process that was replaced called {call}")
    await campaign.kill()
    await campaign.start()


def _calls_of(world: TortureWorld, pid: int, since: float) -> list[str]:
    """The visible calls of a process from that time on."""
    lines = [line.split() for line in (world.control / CALLS_FILE).read_text().splitlines()]
    return [m for who, at, m in lines if int(who) == pid and float(at) > since and m.lower() in VISIBLE]
