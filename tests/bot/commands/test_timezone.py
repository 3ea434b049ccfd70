"""/timezone: times are those of the conversation, in what the agent is told and in what it schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.store import conversations
from harness.scheduling.when import zone_name
from tests.bot.core import ANN, BOB, core
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path


@table(
    ("said", "known"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("berlin", "Europe/Berlin"),
        ("new york", "America/New_York"),
        ("utc", "UTC"),
        ("Berlim", None),
        ("Europe", None),
        ("GMT+8", None),
        ("Etc/GMT+8", "Etc/GMT+8"),
        ("", None),
        ("../../etc/passwd", None),
    ],
)
def test_a_zone_by_its_name_or_its_city(said: str, known: str | None) -> None:
    assert zone_name(said) == known


async def test_it_is_shown_changed_and_taken_back(tmp_path: Path) -> None:
    async with core(tmp_path, timezone="Asia/Shanghai") as c:
        for text in ("/timezone", "/timezone berlin", "hello", "/timezone Berlim", "/timezone default", "hello again"):
            await c.say(text)
            await c.answered()
        told = [text for text in c.texts() if "/timezone" in text or "now uses" in text]
        zones = [start.ctx.timezone for start in c.harness.starts]
    assert "uses the time zone Asia/Shanghai" in told[0]
    assert "This chat now uses the time zone Europe/Berlin" in told[1]
    assert told[2] == "I do not know the time zone Berlim. Write it like this: `/timezone Europe/Berlin`."
    assert "This chat now uses the time zone Asia/Shanghai" in told[3]
    assert zones == ["Europe/Berlin", "Asia/Shanghai"]


async def test_in_a_group_it_is_for_those_who_control_it(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/timezone berlin", BOB, chat="g")
        await c.say("hello", BOB, chat="g")
        await c.say("/timezone berlin", ANN, chat="g")
        await c.say("hello", BOB, chat="g")
        await c.answered()
        assert [start.ctx.timezone for start in c.harness.starts] == ["UTC", "Europe/Berlin"]


async def test_one_that_this_machine_does_not_know_any_more_is_not_used(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("hello")
        await c.answered()
        await c.store.write(lambda tx: conversations.choose(tx, f"memory:{ANN}", "timezone", "Nowhere/Gone"))
        await c.restart()
        await c.say("hello")
        await c.say("/timezone")
        await c.answered()
        assert [start.ctx.timezone for start in c.harness.starts] == ["UTC", "UTC"]
        assert "uses the time zone UTC" in c.texts()[-1]


async def test_an_answer_that_is_asked_for_again_is_told_the_time_of_now(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        for text in ("remind me at 9", "/timezone berlin", "/retry"):
            await c.say(text)
            await c.answered()
        assert [start.ctx.timezone for start in c.harness.starts] == ["UTC", "Europe/Berlin"]
