"""What answers cost, and what happens when a budget is used up, from the model's figures to the chat."""

from __future__ import annotations

import io
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from bot.texts.en import EN
from tests.flow.sandboxed import call
from tests.simulators.sandbox.provider import USE
from tests.simulators.telegram.seen import ALICE, BOB

if TYPE_CHECKING:
    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person

LOOK = call("ls", path="/mnt/user-data/workspace")


@pytest.fixture
def world(world: World) -> World:
    server = {"base_url": world.model.base_url, "api_key": "$MODEL_KEY"}
    world.settings = {
        "models": [{"name": "main", "model": "sim", "price": {"input": 2, "output": 8}, **server}],
        "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
        "access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"], "admins": [f"telegram:{ALICE.id}"]},
        "sandbox": {"use": USE},
    }
    return world


def calls_of(world: World, person: Person) -> list[tuple[int, int]]:
    """(tokens, cost) of each model call for a person, as stored."""
    with sqlite3.connect(world.data_dir / "antler.db") as database:
        query = "SELECT input_tokens + output_tokens, cost FROM usage WHERE speaker = ? ORDER BY id"
        found = database.execute(query, [f"telegram:{person.id}"]).fetchall()
    database.close()
    return found


async def said(world: World, text: str, expected: str, user: Person = BOB) -> str:
    await world.telegram.user_says(text, user=user)
    return (await world.telegram.wait_for_text(user, expected)).text


async def test_usage_is_a_table_and_a_picture(world: World) -> None:
    async with world:
        await said(world, "hello", "You said: hello")
        await world.telegram.wait_idle(BOB)
        table = await said(world, "/usage", EN.usage["title"].strip("*"))
        for name in ("last", "thread", "today", "chat"):
            assert EN.usage[name] in table
        assert "USD" in table
        assert EN.usage["all_today"] not in table
        await world.telegram.wait_for_message(BOB, lambda message: bool(message.files))
        (photo,) = await world.telegram.records("sendPhoto", chat=BOB)
        assert photo.files[0]["name"] == "usage.png"
        (picture,) = (world.data_dir / "spool").glob("*/usage.png")
        assert Image.open(io.BytesIO(picture.read_bytes())).format == "PNG"
        assert not await world.telegram.records("sendDocument", chat=BOB), "the table fits into the message"
        assert EN.usage["all_today"] in await said(world, "/usage", EN.usage["title"].strip("*"), ALICE)


async def test_what_was_used_before_a_kill_is_known_after_it(world: World) -> None:
    async with world:
        await said(world, f"{LOOK}\n!pause half", "The first half")
        await world.kill()
        (first,) = calls_of(world, BOB)
        assert first[1] > 0
        await world.start()
        await world.model.release("half")
        await world.telegram.wait_for_text(BOB, "and the second half.")
        await world.telegram.wait_idle(BOB)
        assert len(calls_of(world, BOB)) == 2
        assert calls_of(world, BOB)[0] == first


async def first_call(world: World) -> int:
    """The tokens of the first call of a turn of a person who never wrote before."""
    async with world:
        await said(world, LOOK, "Tool result", ALICE)
        await world.telegram.wait_idle(ALICE)
    return calls_of(world, ALICE)[0][0]


async def tools_of_newest(world: World) -> Any:
    return (await world.model.completions())[-1].body.get("tools")


async def test_a_run_sums_up_when_its_budget_is_used_up(world: World) -> None:
    tokens = await first_call(world)
    world.settings["budgets"] = {"run": {"tokens": int(tokens * 0.95)}}
    async with world:
        # The note to sum up is the newest thing that is said to the simulated model, and it repeats what is said to it.
        text = await said(world, f"{LOOK}\n!say never asked", EN.budget_of["run"])
        assert text.startswith("You said:")
        assert not await tools_of_newest(world)
        assert len(calls_of(world, BOB)) == 2


async def test_a_run_that_is_far_over_ends_without_a_further_call(world: World) -> None:
    tokens = await first_call(world)
    world.settings["budgets"] = {"run": {"tokens": tokens // 3}}
    async with world:
        before = len(await world.model.completions())
        text = await said(world, f"{LOOK}\n!say never asked", EN.budget_of["run"])
        assert EN.failures["budget"] in text  # type: ignore[index]
        assert len(await world.model.completions()) == before + 1
        assert "never asked" not in text


async def test_a_used_up_day_refuses_also_after_a_restart_and_says_until_when(world: World) -> None:
    world.settings["budgets"] = {"speaker_day": {"money": 0.000001}}
    async with world:
        warned = await said(world, "hello", EN.budget_of["speaker_day"])
        assert warned.startswith("You said: hello")
        before = len(await world.model.completions())
        await world.stop()
        await world.start()
        refused = await said(world, "more", "Not answered")
        assert EN.budget_of["speaker_day"] in refused
        assert "midnight (UTC)" in refused
        assert len(await world.model.completions()) == before
        await said(world, "I am somebody else", "You said: I am somebody else", ALICE)
