"""The short torture: every window once, a few kills in every other mode. `make torture` runs the long one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.parts import missing
from tests.torture.at_windows import at_windows
from tests.torture.campaign import Campaign, Scale
from tests.torture.modes import run_mode
from tests.torture.windows import WINDOWS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator
    from tests.torture.report import Report

# These times only limit the wait, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)
RECOVERY_SECONDS = 60.0
SETTLE_SECONDS = 60.0

SEED = 7


def passes(report: Report) -> None:
    """Fail with all known details."""
    problems = report.problems(recovery_p95=RECOVERY_SECONDS)
    assert not problems, "\n".join([*problems, *report.details, report.folder])


@pytest.mark.parametrize("adopt", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_crash_at_every_window(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path, adopt: bool
) -> None:
    """Runs in two worlds; the second adopts placeholders, and so must not leave a bubble at W5."""
    windows = [w for number, w in enumerate(WINDOWS) if number % 2 == adopt or (adopt and w.name == "W5")]
    scale = Scale(kills=len(windows), again=0.0, settle=SETTLE_SECONDS)
    async with await Campaign.of("windows", telegram, model, tmp_path, seed=SEED, scale=scale, adopt=adopt) as campaign:
        await at_windows(campaign, windows)
        report = await campaign.finish()
    passes(report)
    assert report.windows == {window.name: 1 for window in windows}


@pytest.mark.long
async def test_a_few_kills_with_another_trouble_each(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=6, frozen=1.0, lively=1.0, slow_faults=False, settle=SETTLE_SECONDS)
    report = await run_mode("mixed", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)
    assert report.kills >= scale.kills
    assert report.messages > 0


@pytest.mark.long
async def test_a_few_kills_while_commands_run(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=2, lively=1.0, settle=SETTLE_SECONDS)
    report = await run_mode("commands", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)
    assert report.windows == {"W7": 1}


async def test_a_short_restart_storm(telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path) -> None:
    scale = Scale(kills=8, settle=SETTLE_SECONDS, quiet=4.0)
    report = await run_mode("storm", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)
    assert report.kills >= scale.kills


@pytest.mark.long
async def test_a_few_kills_with_four_platforms_at_once(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=4, lively=6.0, settle=SETTLE_SECONDS)
    report = await run_mode("platforms", telegram, model, tmp_path, seed=SEED, scale=scale)
    passes(report)
    assert report.kills >= scale.kills
    assert all(part.messages for part in report.platforms)
    assert [part.mode for part in report.platforms] == ["telegram", "slack", "feishu", "wecom"]


async def test_a_few_kills_with_all_that_the_agent_can_do(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=4, lively=2.0, settle=SETTLE_SECONDS)
    report = await run_mode("together", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)
    assert report.kills >= scale.kills


@pytest.mark.postgres
async def test_a_frozen_process_that_was_replaced_shows_nothing_any_more(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=1, frozen=6.0, lively=1.0, settle=SETTLE_SECONDS)
    report = await run_mode("fence", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)


@pytest.mark.postgres
@pytest.mark.long
async def test_a_few_disturbances_of_a_cluster(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    scale = Scale(kills=6, frozen=16.0, lively=2.0, settle=SETTLE_SECONDS)
    report = await run_mode("cluster", telegram, model, tmp_path, seed=SEED, scale=scale)
    if report.skipped:
        missing(report.skipped)
    passes(report)
    assert sum(report.disturbances.values()) >= scale.kills
    assert all(part.messages for part in report.platforms)
