"""The mode in which all features of the agent take part, on four platforms at once: skills, memory, subagents,
approvals, and messages that an active run includes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from typing import TYPE_CHECKING

from bot.store.memory_tables import memory_queue
from bot.store.rows import RunState
from bot.store.tables import runs
from bot.texts import texts_for
from tests.flow.gateway import merged
from tests.harness.skills.writing import put_skill
from tests.torture.everywhere import Doubled
from tests.torture.facts import marker_of
from tests.torture.machine import NotPossible
from tests.torture.storms import storm

if TYPE_CHECKING:
    from tests.simulators.model.records import Record
    from tests.torture.campaign import Campaign

WEIGHTS = {
    "skill": 14,
    "learn": 12,
    "sign": 14,
    "delegate": 14,
    "tool": 16,
    "say": 12,
    "stream": 10,
    "stop": 4,
    "new": 4,
}
SETTINGS = {
    "conversations": {"busy": "steer"},
    "guardrails": {"rules": [{"tool": "sign", "decision": "ask"}], "ask_seconds": 5},
    "memory": {"debounce_seconds": 0},
    "skills": {"public": False},
}
ALLOW = texts_for("en").approval_buttons["once"]
LEARNING_SECONDS = 30.0
BODY = "Run the script and say the number of words."


class Decided(Doubled):
    """A person on Telegram approves pending calls; elsewhere, or if not seen in time, approvals expire."""

    async def strike(self, campaign: Campaign) -> None:
        await super().strike(campaign)
        telegram = campaign.world.telegram
        for place in campaign.load.platforms["telegram"].places:
            for message in await telegram.bot_messages(place.room):
                if any(button["text"] == ALLOW for button in message.buttons):
                    with contextlib.suppress(AssertionError):  # already decided
                        await telegram.press(message.message_id, ALLOW, chat=place.room, user=place.people[0])


async def together(campaign: Campaign) -> None:
    """Kill at random moments and at windows. Raises NotPossible."""
    if shutil.which("bwrap", path="/usr/bin:/bin") is None:
        raise NotPossible("bubblewrap is not installed")
    campaign.world.settings = merged(campaign.world.settings, SETTINGS)
    campaign.load.weights = WEIGHTS
    put_skill(campaign.world.data_dir / "skills" / "custom", "count-words", "Counts words.", body=BODY)
    await campaign.start()  # messages sent before the first connection to a platform may be lost
    await storm(campaign, Decided())
    if not campaign.world.alive:
        await campaign.start()
    await campaign.settle()
    await _all_learnt(campaign)
    await campaign.finish()
    await _took_part(campaign)
    _remembered(campaign)


async def _all_learnt(campaign: Campaign) -> None:
    """Wait until nothing is left to be learned; `_remembered` reports what is not learned in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEARNING_SECONDS):
            while await asyncio.to_thread(campaign.ledger.rows, memory_queue):
                pass


def _remembered(campaign: Campaign) -> None:
    """Check that facts from answered messages are in the memory."""
    files = (campaign.world.data_dir / "users").glob("*/memory.json")
    known = {marker_of(line) for file in files for line in file.read_text().split("my number is ")[1:]}
    ended = [run.input for run in campaign.ledger.rows(runs) if run.state == RunState.SUCCESS]
    answered = [said.text for turn in ended for said in (turn, *turn.steered)]
    for asked in campaign.load.asked:
        told = f"my number is {asked.marker}"
        if asked.marker not in known and any(told in said for said in answered):
            campaign.report.blame("lost", f"what was told in {asked.marker} was answered and never learnt")


async def _took_part(campaign: Campaign) -> None:
    """Check that each feature was used at least once."""
    records = await campaign.world.model.completions()
    used = {
        "a skill": any(BODY in text for record in records for text in _told(record)),
        "the memory": bool(await campaign.world.model.updates()),
        "a subagent": any("general-purpose: completed" in text for record in records for text in _told(record)),
        "a decision": any(
            "signed with" in text or "did not allow" in text for record in records for text in _told(record)
        ),
        "what was passed on": campaign.report.passed_on > 0,
    }
    for name in (name for name, was_used in used.items() if not was_used):
        campaign.report.blame("missed_windows", f"{name} never took part")


def _told(record: Record) -> list[str]:
    """The tool results in a request to the model."""
    return [str(message["content"]) for message in record.body["messages"] if message["role"] == "tool"]
