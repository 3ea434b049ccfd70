"""A message that kills the process is found and abandoned, and all others are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.texts import texts_for
from tests.torture.campaign import Campaign, Scale
from tests.torture.load import final_words, squeezed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.simulators.model.client import ModelSimulator
    from tests.simulators.telegram.client import TelegramSimulator

pytestmark = pytest.mark.timeout(600)  # as in test_torture.py
EN = texts_for("en")
MOST_DEATHS = 5
"""Three with no other run active; more if others were active at some of them."""


async def started_again_and_again(campaign: Campaign) -> int:
    """Restart the process until everything is answered; return how often it died by itself."""
    deaths = 0
    while not await campaign.rests():
        if not campaign.world.alive:
            assert (await campaign.world.over()).ending == "exit -6"
            deaths += 1
            assert deaths <= MOST_DEATHS
            await campaign.launch()
            await campaign.world.polls()
    return deaths


@pytest.mark.parametrize("kind", ["abort", pytest.param("aborts", marks=pytest.mark.long)])
async def test_a_tool_that_aborts_the_process(
    telegram: TelegramSimulator, model: ModelSimulator, tmp_path: Path, kind: str
) -> None:
    """abort: the same call at every start; aborts: a different one each time, so that each start progresses."""
    scale = Scale(kills=0)
    async with await Campaign.of("poison", telegram, model, tmp_path, seed=7, scale=scale) as campaign:
        load = campaign.load
        await campaign.start()
        poisoned, *others = load.places
        await load.say(kind, poisoned)
        behind = await load.say("say", poisoned)
        said = [behind, *[await load.say(what, place) for place in others for what in ("slow", "tool", "say")]]
        assert await started_again_and_again(campaign) >= 3
        platform = load.platforms["telegram"]
        for asked in said:
            place = next(place for place in load.places if place.chat == asked.chat)
            shown = [b for b in await platform.bubbles(place) if final_words(asked) in squeezed(b.text)]
            assert len(shown) == 1, asked
        # A draft may precede them: it was sent, and the process died before recording it.
        *_, given_up, answer = await campaign.world.telegram.bot_messages(poisoned.room)
        assert EN.gave_up.partition("{")[0] in given_up.text
        assert [button["text"] for button in given_up.buttons] == [EN.button_retry]
        assert answer.text == f"Answer to {behind.marker}."
        await campaign.stop()
