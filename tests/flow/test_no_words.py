"""No words of people in the log, nor on disk where docs/privacy.md says that there are none; also on a bad day.

What holds after every flow test is in tidiness.py; here is what makes it hard.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.flow.tidiness import NOWHERE
from tests.parts import missing
from tests.simulators.telegram.seen import ALICE, BOB, TEAM, Person, Room
from tests.torture.machine import FULL, NotPossible, fill, small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

EVE = Person(1666, "Eve")
CLOSED = Room(-1001000000066, "supergroup", "Nobody opened it")
WORDS = "the diagnosis of my brother"
"""Of a conversation with the bot: they may be in its database, and in no log."""


async def talk_to_others(world: World) -> None:
    """Whatever is not for the bot, with its edits."""
    for chat, person in ((TEAM, BOB), (TEAM, EVE), (CLOSED, ALICE), (CLOSED, EVE)):
        said = await world.telegram.group_says(f"the {NOWHERE} sings", chat=chat, user=person)
        await world.telegram.edits(said.message_id, f"the {NOWHERE} sings no more", chat=chat)
    named = await world.telegram.group_says(f"@antler_bot the {NOWHERE} sings", user=EVE)
    await world.telegram.edits(named.message_id, f"@antler_bot the {NOWHERE} sings no more", chat=TEAM)
    await world.telegram.inject({"message": {"message_id": 4711, "date": 1, "chat": {"id": "x"}, "text": NOWHERE}})
    await world.telegram.inject({"edited_message": {"message_id": [], "caption": NOWHERE, "x": [{"y": NOWHERE}]}})


@pytest.fixture
def world(world: World) -> World:
    """Members of groups are answered only if they are listed."""
    world.settings = {"access": {"groups": {"members": "listed"}, "allow": [f"telegram:{p.id}" for p in (ALICE, BOB)]}}
    return world


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_what_is_not_for_the_bot_is_written_nowhere(world: World, level: str) -> None:
    world.settings["log"] = {"level": level}
    async with world:
        await talk_to_others(world)
        await world.telegram.user_says("hello there, how are you?")
        await world.telegram.wait_for_text(ALICE, "You said: hello there")
        code, told = await world.command("status")
        assert (code, "2 events could not be read" in told) == (0, True), told
        await world.kill()
        await world.start()
        await talk_to_others(world)
        await world.telegram.user_says("and now, after a crash?")
        await world.telegram.wait_for_text(ALICE, "You said: and now")
    assert "cannot be read" in world.log


async def test_a_full_disk_writes_no_words_into_the_log(world: World) -> None:
    try:
        with small_disk(world.data_dir, kills=0):
            async with world:
                await world.telegram.user_says("!pause half")
                await world.telegram.wait_for_text(ALICE, "The first half")
                filler = world.data_dir / "filler"
                fill(filler)
                await talk_to_others(world)
                await world.telegram.user_says(WORDS)
                await world.wait_for_log(FULL)
                await world.model.release("half")
                filler.unlink()
                await world.telegram.wait_for_text(ALICE, f"You said: {WORDS}", timeout=60)
    except NotPossible as error:
        missing(str(error))
    assert WORDS not in world.log


@pytest.mark.postgres
async def test_a_lost_server_writes_no_words_into_the_log(world: World, postgres: PostgresServer) -> None:
    url = postgres.database().replace("+psycopg", "")
    world.settings["database"] = {"url": url}
    async with world:
        await world.telegram.user_says("hello there, how are you?")
        await world.telegram.wait_for_text(ALICE, "You said: hello there")
        with away(postgres):
            await talk_to_others(world)
            await world.telegram.user_says(WORDS)
            await world.wait_for_log("receiving is paused while this process does not lead")
        await world.wait_for_log("receiving again", timeout=60)
        await world.telegram.wait_idle(ALICE, timeout=60)
    assert WORDS not in world.log
    rows = everything(url)
    assert WORDS in rows
    assert NOWHERE not in rows


@contextlib.contextmanager
def away(postgres: PostgresServer) -> Iterator[None]:
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


def everything(url: str) -> str:
    """All rows of all tables."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return str([connection.execute(f'SELECT * FROM "{name}"'.encode()).fetchall() for (name,) in tables])
