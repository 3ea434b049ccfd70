"""What is not for the bot: talk in groups, closed groups, unlisted members, edits of all that. Nothing of it is stored,
and none of it costs a stranger the pairing code that a direct message gets."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bot.access.pairing import shown
from bot.store import inbox
from bot.texts.en import EN
from tests.bot.core import ANN, BOB, EVE, RULES, Core, core

if TYPE_CHECKING:
    from pathlib import Path

    from bot.access.admission import AccessRules

CODE = re.compile(r"`[2-9A-Z]{4}-[2-9A-Z]{4}-[2-9A-Z]{4}`")
PAIRING = replace(RULES, pairing=True)


async def stored(c: Core) -> str:
    return str(await c.store.read(lambda tx: inbox.load(tx, range(10_000))))


async def test_an_edit_of_what_was_said_to_others_is_background_and_never_stored(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("lunch at noon?", BOB, "g", mention=False, name="Bob")
        await c.say("and coffee?", BOB, "g", mention=False, name="Bob")
        await c.edit(said, "lunch at one?")
        assert await stored(c) == "[]"
        await c.say("what did Bob ask?", ANN, "g")
        await c.answered()
        assert c.harness.starts[0].run_input.background == ("Bob: lunch at one?", "Bob: and coffee?")
        await c.edit(said, "lunch at two?")
        await c.say("and now?", ANN, "g")
        await c.answered()
        assert c.harness.starts[1].run_input.background == ("Bob: lunch at two?",)
        assert "two" not in await stored(c)


async def test_words_that_are_edited_away_are_no_background(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("what a day", BOB, "g", mention=False)
        await c.edit(said, "")
        await c.say("well?", ANN, "g")
        await c.answered()
        assert c.harness.starts[0].run_input.background == ()


async def test_an_edit_that_names_the_bot_makes_background_no_question(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        said = await c.say("lunch at noon?", BOB, "g", mention=False, name="Bob")
        await c.edit(replace(said, mention=True), "@memory lunch at one?")
        await c.clock.advance(2)
        assert (c.harness.asked, await stored(c)) == ([], "[]")


async def test_where_nothing_is_overheard_an_edit_is_not_either(tmp_path: Path) -> None:
    async with core(tmp_path, group_context=False) as c:
        said = await c.say("lunch at noon?", BOB, "g", mention=False)
        await c.edit(said, "lunch at one?")
        await c.say("well?", ANN, "g")
        await c.answered()
        assert c.harness.starts[0].run_input.background == ()


@pytest.mark.parametrize("mention", [True, False])
async def test_an_edit_of_a_question_that_waits_counts_with_and_without_the_mention(
    tmp_path: Path, mention: bool
) -> None:
    async with core(tmp_path) as c:
        end = c.harness.hold("the first")
        await c.say("the first", ANN, "g")
        said = await c.say("the secnd", ANN, "g")
        await c.edit(replace(said, mention=mention), "the second")
        end.set()
        await c.answered()
        assert c.harness.asked[-1] == "the second"


@pytest.mark.parametrize(
    ("rules", "chat", "person", "mention"),
    [
        (replace(PAIRING, members="listed"), "g", EVE, False),
        (replace(PAIRING, members="listed"), "g", EVE, True),
        (replace(PAIRING, answer="off"), "g", ANN, True),
        (PAIRING, "nobody opened it", EVE, False),
        (PAIRING, "nobody opened it", ANN, False),
        (replace(PAIRING, blocked=frozenset({"memory:closed"})), "closed", EVE, True),
        (replace(PAIRING, blocked=frozenset({f"memory:{EVE}"})), "g", EVE, True),
    ],
)
async def test_what_gets_no_answer_is_not_stored_and_costs_no_stranger_the_code(
    tmp_path: Path, rules: AccessRules, chat: str, person: str, mention: bool
) -> None:
    async with core(tmp_path, rules) as c:
        for number in range(200):
            said = await c.say(f"canary {number}", person, chat, mention=mention)
            await c.edit(said, f"canary, once more {number}")
        assert await stored(c) == "[]"
        await c.say("hello?", "777")
        await c.answered()
        assert CODE.search(c.texts("777")[0])
        assert c.harness.asked == []


async def test_groups_that_speak_to_the_bot_all_day_cost_no_stranger_the_code(tmp_path: Path) -> None:
    async with core(tmp_path, PAIRING) as c:
        for number in range(300):
            await c.say("@memory hello", EVE, f"new{number % 100}")
        rows = await c.store.read(lambda tx: inbox.load(tx, range(10_000)))
        assert 0 < len(rows) <= 20
        await c.say("hello?", "777")
        await c.answered()
        assert CODE.search(c.texts("777")[0])


async def test_in_a_group_that_was_told_how_to_be_let_in_nothing_more_is_stored_that_day(tmp_path: Path) -> None:
    async with core(tmp_path, PAIRING) as c:
        for _ in range(5):
            await c.say("@memory hello", EVE, "new")
        await c.answered()
        assert c.texts("new") == [EN.group_unknown]
        assert len(await c.store.read(lambda tx: inbox.load(tx, range(100)))) == 1
        await c.clock.advance(86_401)
        await c.say("@memory hello", EVE, "new")
        await c.answered()
        assert len(c.texts("new")) == 2


async def test_a_code_that_an_edit_shows_in_a_group_is_void(tmp_path: Path) -> None:
    async with core(tmp_path, replace(PAIRING, admins=frozenset(), allow=frozenset())) as c:
        code = c.claims.make("memory")
        said = await c.say("look at this", EVE, "elsewhere", mention=False)
        await c.edit(said, f"look at this: {shown(code)}")
        await c.answered()
        assert not c.claims.is_open("memory")


async def test_what_nobody_can_read_is_told_so_in_a_direct_message_and_asks_no_model(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.receive(replace(c.message("", ANN), unread="sticker"))
        await c.receive(replace(c.message("", ANN, "g"), unread="sticker"))
        await c.clock.advance(5)
        assert c.texts() == [EN.cannot_read["sticker"]]
        assert c.texts("g") == []
        assert c.harness.starts == []
        await c.receive(replace(c.message("", EVE), unread="sticker"))
        await c.clock.advance(5)
        assert EN.cannot_read["sticker"] not in c.texts(EVE)
