"""The buttons below a report: what a press begins, who may press, and what a second press is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.runs.research import said_of_offer
from bot.settings.busy_policies import Busy
from bot.skills.service import SkillService
from bot.store import runs
from bot.texts.en import EN
from channels.message import Attachment
from harness.events import FailureKind, Finished, Outcome, Report
from harness.skills.library import SkillLibrary
from harness.web.known import keys_in
from tests.bot.conversations.test_policies import acting, bubble, press
from tests.bot.core import ANN, BOB, EVE, RULES, core
from tests.harness.skills.writing import put_skill
from tests.memory_channel import NO_BUTTONS

if TYPE_CHECKING:
    from pathlib import Path

    from bot.store.rows import RunRow
    from tests.bot.core import Core
    from tests.bot.scripted_harness import Teller

PATH = "/mnt/user-data/outputs/lamps.md"
PODCAST, SLIDES = EN.offers["podcast-script"], EN.offers["ppt-generation"]
SAID = EN.offer_says["podcast-script"].removeprefix("/podcast-script ").format(report=PATH)


@pytest.fixture
def skills(tmp_path: Path) -> SkillService:
    for name in ("podcast-script", "ppt-generation"):
        put_skill(tmp_path / "public", name)
    (tmp_path / "none").mkdir()
    return SkillService(None, SkillLibrary(tmp_path / "public", tmp_path / "none", tmp_path / "none"))


async def reported(c: Core, person: str = ANN, chat: str | None = None) -> None:
    """A research has ended with a report, from which two skills make something."""

    def ended(tell: Teller) -> Finished:
        report = Report(title="Lamps", path=PATH, skills=("podcast-script", "ppt-generation"))
        return tell(Finished, outcome=Outcome.SUCCESS, text="The summary", message_id="a", report=report)

    c.harness.tells("research", ended)
    await c.say("research", person, chat)
    await c.answered()


async def newest(c: Core, conversation: str = f"memory:{ANN}") -> RunRow:
    run: RunRow
    (run,) = await c.store.read(lambda tx: runs.recent(tx, conversation, 1))
    return run


def test_no_address_of_a_title_becomes_a_persons_words() -> None:
    said = said_of_offer("Costs evil.example/c?d=the-words, https://evil.example", "")
    assert keys_in(said, bare=True) == set()
    assert "Costs evil example" in said


async def test_each_begins_a_run_of_its_skill_and_no_second_one(tmp_path: Path, skills: SkillService) -> None:
    async with core(tmp_path, skills=skills) as c:
        await reported(c)
        shown = bubble(c, 0)
        assert [button.label for row in shown.part.buttons for button in row] == [PODCAST, SLIDES, EN.offers["deeper"]]
        gate = c.harness.hold(SAID)
        assert await press(c, shown, PODCAST) == f"☑ {PODCAST} · {EN.working}"
        assert await press(c, shown, PODCAST) == EN.pressed["making"]
        await c.restart()
        assert await press(c, shown, PODCAST) == EN.pressed["making"]
        gate.set()
        await c.answered()
        assert await press(c, shown, PODCAST) == EN.pressed["made"]
        begun = {start.ctx.run_id: (start.run_input.text, start.run_input.skill) for start in c.harness.starts}
        assert [*begun.values()] == [("research", ""), (SAID, "podcast-script")]
        assert (await newest(c)).reply_to == shown.message_id
        assert await press(c, shown, SLIDES) == f"☑ {SLIDES} · {EN.working}"
        await c.answered()
        assert c.harness.starts[-1].run_input.skill == "ppt-generation"


async def test_it_waits_its_turn_and_stops_nothing(tmp_path: Path, skills: SkillService) -> None:
    async with core(tmp_path, skills=skills, turns=acting(Busy.INTERRUPT)) as c:
        await reported(c)
        gate = c.harness.hold("else")
        await c.say("else")
        assert await press(c, bubble(c, 0), PODCAST) == f"☑ {PODCAST} · {EN.working}"
        assert await press(c, bubble(c, 0), PODCAST) == EN.pressed["making"]
        gate.set()
        await c.answered()
        assert c.harness.asked == ["research", "else", SAID]


async def test_what_waits_for_files_before_it_is_not_begun_twice(tmp_path: Path, skills: SkillService) -> None:
    async with core(tmp_path, skills=skills) as c:
        await reported(c)
        gate = c.channel.downloads = asyncio.Event()
        await c.say("with a file", attachments=(Attachment(kind="file", ref="f", name="a.txt", size=3),))
        assert await press(c, bubble(c, 0), PODCAST) == f"☑ {PODCAST} · {EN.working}"
        assert await press(c, bubble(c, 0), PODCAST) == EN.pressed["making"]
        gate.set()
        await c.answered()
        assert c.harness.asked == ["research", "with a file", SAID]


async def test_one_that_failed_can_be_begun_again(tmp_path: Path, skills: SkillService) -> None:
    async with core(tmp_path, skills=skills) as c:
        await reported(c)
        c.harness.tells(SAID, lambda tell: tell.failed(FailureKind.UNAVAILABLE))
        for _ in range(2):
            assert await press(c, bubble(c, 0), PODCAST) == f"☑ {PODCAST} · {EN.working}"
            await c.answered()
        assert c.harness.asked == ["research", SAID, SAID]


async def test_only_in_its_thread_while_there_is_the_skill_and_by_who_may_speak(
    tmp_path: Path, skills: SkillService
) -> None:
    async with core(tmp_path, replace(RULES, members="listed"), skills=skills) as c:
        await reported(c)
        await reported(c, BOB, "g")
        shown, there = bubble(c, 0), bubble(c, 0, "g")
        assert await press(c, shown, "Go deeper") == EN.research["no_web"]
        assert await press(c, there, PODCAST, EVE, "g") == EN.button_expired
        await c.say("/skills off podcast-script")
        assert await press(c, shown, PODCAST) == EN.pressed["not_here"]
        await c.say("/new")
        assert await press(c, shown, SLIDES) == EN.pressed["other_thread"]
        assert await press(c, there, SLIDES, ANN, "g") == f"☑ {SLIDES} · {EN.working}"
        await c.answered()
        run = await newest(c, "memory:g")
        assert run.speaker == f"memory:{ANN}", "who asks for it pays for it"
        assert len(c.harness.asked) == 3


async def test_where_there_are_no_buttons_a_number_asks_for_it(tmp_path: Path, skills: SkillService) -> None:
    async with core(tmp_path, skills=skills, mode=NO_BUTTONS) as c:
        await reported(c)
        assert c.texts()[0].endswith(f"1. {PODCAST}\n2. {SLIDES}\n3. {EN.offers['deeper']}")
        await c.say("2")
        await c.answered()
        assert [start.run_input.skill for start in c.harness.starts] == ["", "ppt-generation"]
