"""The suite has teeth: with a protection removed, its gate is not passed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.at_windows import crash_at
from tests.torture.campaign import Campaign, Scale
from tests.torture.everywhere import everywhere
from tests.torture.windows import BY_NAME

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator

pytestmark = pytest.mark.timeout(600)  # as in test_torture.py


@pytest.mark.parametrize(
    ("sabotage", "window", "passing", "caught"),
    [
        # Within an answer: the next process cannot know the message that the killed one had begun.
        ("no-intent", "W13", 20, "unaccounted_bubbles"),
        # Events that were committed but not acknowledged are redelivered.
        ("no-keys", "W2", 1, "duplicated_finals"),
        # The tool had acted, and the resumed run calls it again.
        ("no-guard", "W7", 1, "rerun_tools"),
    ],
)
async def test_a_missing_protection_is_noticed(
    telegram: TelegramSimulator,
    model: ModelSimulator,
    tmp_path: Path,
    sabotage: str,
    window: str,
    passing: int,
    caught: str,
) -> None:
    scale = Scale(kills=1, again=0.0, settle=10.0)
    campaign = await Campaign.of("teeth", telegram, model, tmp_path, seed=3, scale=scale, sabotage=sabotage)
    async with campaign:
        await campaign.start()
        assert await crash_at(campaign, BY_NAME[window], passing)
        report = await campaign.finish()
    assert any(problem.startswith(caught) for problem in report.problems()), report.to_json()


async def test_what_goes_wrong_on_one_of_four_platforms_is_noticed_there(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path
) -> None:
    """Slack's events are acknowledged without being stored, Feishu's repetitions count as new, WeCom's are ignored."""
    sabotage = "no-commit-on-slack,no-keys,no-reading-on-wecom"
    scale = Scale(kills=1, settle=30.0)
    async with everywhere(telegram, model, tmp_path, seed=3, scale=scale, sabotage=sabotage) as campaign:
        await campaign.start()
        first = {account: platform.places[0] for account, platform in campaign.load.platforms.items()}
        # Committed but not acknowledged, so it is redelivered.
        campaign.world.arm("W2")
        await campaign.load.say("say", first["feishu"])
        await campaign.dead()
        await campaign.start()
        for account in ("telegram", "slack", "wecom"):
            await campaign.load.say("say", first[account])
        await campaign.settle()
        report = await campaign.finish()
    lost = {part.mode: part.lost for part in report.platforms}
    assert lost == {"telegram": 0, "slack": 1, "feishu": 0, "wecom": 1}, report.details
    doubled = {part.mode: bool(part.duplicated_finals) for part in report.platforms}
    assert doubled == {"telegram": False, "slack": False, "feishu": True, "wecom": False}, report.details
    assert report.unacked == 0
    assert report.problems()[0] == "lost = 2"
