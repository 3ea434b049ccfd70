"""The mode in which the agent runs commands in its sandbox while the process is killed: no command runs twice or keeps
running, and none leaves anything behind."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import Counter
from typing import TYPE_CHECKING

from bot.store.identity import thread_folder
from bot.store.tables import threads
from harness.graph.calls import INTERRUPTED
from tests.flow.sandboxed import running, until_gone
from tests.torture.facts import marker_of
from tests.torture.load import ACTS_FILE, final_words, squeezed
from tests.torture.machine import NotPossible
from tests.torture.storms import RESTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.simulators.model.records import Record
    from tests.torture.campaign import Campaign
    from tests.torture.load import Asked

KINDS = ("bash", "nap", "file")
WEIGHTS = {"bash": 45, "file": 15, "tool": 8, "say": 10, "stream": 8, "stop": 6, "new": 8}
AT_WINDOW = "W7"
LIVELY = 1.0
"""Least seconds that a process lives before it is killed at a random moment, so that a command runs."""
GONE_SECONDS = 5.0
"""Most seconds from a kill until no process of a command is left."""


async def commands(campaign: Campaign) -> None:
    """Kill alternately at random moments and right after a tool has acted. Raises NotPossible."""
    prepare_commands(campaign, WEIGHTS)
    lives = 0
    while campaign.report.kills < campaign.scale.kills:
        async with campaign.talking():
            await _live_and_die(campaign, at_window=lives % 2 == 1)
        lives += 1
        if lives % RESTED == 0:
            await campaign.start()
            await campaign.settle()
        campaign.say(f"{campaign.report.kills}/{campaign.scale.kills} kills, {len(campaign.load.asked)} messages")
    await campaign.finish()
    await judge_commands(campaign)


def prepare_commands(campaign: Campaign, weights: Mapping[str, int]) -> None:
    """Let people ask for commands. weights: of each kind of message. Raises NotPossible."""
    if shutil.which("bwrap", path="/usr/bin:/bin") is None:
        raise NotPossible("bubblewrap is not installed")
    campaign.load.weights = weights
    campaign.load.nap = f"600.{campaign.world.telegram.bot_id}{campaign.report.seed}"


async def _live_and_die(campaign: Campaign, *, at_window: bool) -> None:
    if not campaign.world.alive:
        await campaign.start()
    if at_window:
        campaign.world.arm(f"{AT_WINDOW}:{campaign.chance.randint(1, 3)}")
        await campaign.dead()
    else:
        # A command that only the kill ends; the others might have ended by themselves before the check.
        await campaign.load.say("nap", campaign.chance.choice(campaign.load.places))
        await campaign.live(LIVELY)
        await campaign.kill()
    await _nothing_runs(campaign)


async def _nothing_runs(campaign: Campaign) -> None:
    try:
        await until_gone(campaign.load.nap, GONE_SECONDS)
    except TimeoutError:
        left = len(running(campaign.load.nap))
        campaign.report.blame(
            "left_running", f"{left} processes {GONE_SECONDS:g} s after process {campaign.world.life}"
        )


async def judge_commands(campaign: Campaign) -> None:
    """Judge what the campaign's own judge does not cover, once everything is idle and the process has ended."""
    await _nothing_runs(campaign)
    data_dir = campaign.world.data_dir
    acts = _acts(data_dir)
    told = {marker_of(record.last_user_text) for record in await campaign.world.model.completions() if _tells(record)}
    for asked in campaign.load.asked:
        if asked.kind not in KINDS:
            continue
        if acts[asked.marker] > 1:
            campaign.report.blame("rerun_tools", f"the command of {asked.marker} ran {acts[asked.marker]} times")
        if not acts[asked.marker] and asked.marker not in told and await _is_answered(campaign, asked):
            campaign.report.blame("untold_tools", f"the command of {asked.marker} never ran, and nobody was told")
    if not acts:
        campaign.report.blame("missed_windows", "no command ever ran")
    await _sweep(campaign)
    for path in _left(data_dir, {str(row.thread_id) for row in campaign.ledger.rows(threads)}):
        campaign.report.blame("left_behind", str(path.relative_to(data_dir)))


async def _sweep(campaign: Campaign) -> None:
    """Let the next start remove copies of files that killed runs presented, once no run can need them."""
    spool = campaign.world.data_dir / "spool"
    if not spool.exists() or not any(spool.iterdir()):  # created for the first file
        return
    await campaign.start()
    with contextlib.suppress(TimeoutError):  # leftovers are reported later
        async with asyncio.timeout(GONE_SECONDS):
            while await asyncio.to_thread(lambda: any(spool.iterdir())):
                pass
    await campaign.stop()


def _acts(data_dir: Path) -> Counter[str]:
    """How often the command of each marker actually ran."""
    files = data_dir.glob(f"threads/*/user-data/workspace/{ACTS_FILE}")
    return Counter(line for file in files for line in file.read_text().splitlines())


def _tells(record: Record) -> bool:
    """Whether it informs the model that a call of this turn was interrupted."""
    messages = record.body["messages"]
    last = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=0)
    return any(INTERRUPTED in str(message["content"]) for message in messages[last:] if message["role"] == "tool")


async def _is_answered(campaign: Campaign, asked: Asked) -> bool:
    """Whether its whole answer is shown, as after an undisturbed run."""
    platform = campaign.load.platforms[asked.account]
    place = next(place for place in platform.places if place.chat == asked.chat)
    return any(final_words(asked) in squeezed(bubble.text) for bubble in await platform.bubbles(place))


def _left(data_dir: Path, thread_ids: set[str]) -> Iterator[Path]:
    """Folders that belong to no thread, and copies of files that were delivered."""
    known = {thread_folder(data_dir, thread_id).parent for thread_id in thread_ids}
    yield from (path for path in (data_dir / "threads").glob("*") if path not in known)
    yield from (data_dir / "spool").glob("*")
