"""The modes by name, and a function that runs one from start to report."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.torture.at_windows import at_windows
from tests.torture.bad_platform import bad_platform
from tests.torture.campaign import Campaign, GivenUp, Scale
from tests.torture.cluster import cluster, clustered
from tests.torture.commands import commands
from tests.torture.everywhere import everywhere, kills_everywhere
from tests.torture.frozen import fenced, frozen
from tests.torture.machine import NotPossible, full_disk, jumping_clock, read_only
from tests.torture.mixed import mixed
from tests.torture.restarts import restart_storm
from tests.torture.storms import random_kills
from tests.torture.together import together
from tests.torture.windows import WINDOWS
from tests.torture.world import StillAlive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.torture.report import Report

KILLS_PER_WINDOW = 20


@contextlib.asynccontextmanager
async def alone(
    telegram: TelegramSimulator,
    model: ModelSimulator,
    folder: Path,
    *,
    seed: int,
    scale: Scale,
    adopt: bool,
    mode: str,
) -> AsyncIterator[Campaign]:
    """A campaign with Telegram only."""
    async with await Campaign.of(mode, telegram, model, folder, seed=seed, scale=scale, adopt=adopt) as campaign:
        yield campaign


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of torture. run: the work, with or without the final `Campaign.finish`. kills: default number. within: its
    context manager, like `alone`. seconds: time limit per kill, in addition to twice the settle time."""

    run: Callable[[Campaign], Awaitable[None]]
    kills: int = 200
    within: Callable[..., AbstractAsyncContextManager[Campaign]] = alone
    seconds: float = 40.0


MODES: dict[str, Mode] = {
    "random": Mode(random_kills),
    "windows": Mode(at_windows, KILLS_PER_WINDOW * len(WINDOWS)),
    "faults": Mode(bad_platform),
    "stop": Mode(frozen),
    "fence": Mode(fenced, 1),
    "disk": Mode(full_disk),
    "readonly": Mode(read_only),
    "clock": Mode(jumping_clock),
    "commands": Mode(commands, 60),
    "storm": Mode(restart_storm, 300),
    "mixed": Mode(mixed, 60),
    "platforms": Mode(kills_everywhere, within=everywhere),
    "together": Mode(together, within=everywhere),
    "cluster": Mode(cluster, within=clustered, seconds=180.0),
}


async def run_mode(
    name: str,
    telegram: TelegramSimulator,
    model: ModelSimulator,
    folder: Path,
    *,
    seed: int,
    scale: Scale,
    adopt: bool = False,
) -> Report:
    """Run one mode with a time limit; return its report, even if it could not be finished."""
    mode = MODES[name]
    limit = scale.kills * mode.seconds + 2 * scale.settle + (1 + scale.kills / 20) * scale.frozen
    async with mode.within(telegram, model, folder, seed=seed, scale=scale, adopt=adopt, mode=name) as campaign:
        try:
            async with asyncio.timeout(limit):
                await mode.run(campaign)
                if not campaign.finished and not campaign.report.skipped:
                    await campaign.finish()
        except NotPossible as reason:
            campaign.report.skipped = str(reason)
        except GivenUp as reason:
            campaign.report.note(str(reason))
        except StillAlive as reason:
            campaign.report.blame("unsettled", str(reason))
        except TimeoutError:
            campaign.report.blame("unsettled", f"the mode took longer than {limit:.0f} s and was given up")
        return campaign.report
