"""/forget me from end to end: what somebody said is in no file, no table, no log and no checkpoint any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from bot.texts.en import EN
from tests.simulators.telegram.seen import ALICE, FileSpec

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

CANARY = "zebra-4711"
NOTE = FileSpec(name=f"{CANARY}.txt", mime="text/plain", content=f"all about the {CANARY}".encode())
DONE = EN.forgetting["done"].replace("*", "")


def holding(folder: Path) -> list[str]:
    """The files that hold the canary, or have it in their name."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in found if CANARY in path.name or CANARY.encode() in path.read_bytes()]


def tables_holding(url: str) -> list[str]:
    """The tables of a PostgreSQL database that hold the canary, as text or as bytes."""
    found = []
    with psycopg.connect(url) as database:
        names = database.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            query = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name))
            text = "\n".join(row for (row,) in database.execute(query))
            if CANARY in text or CANARY.encode().hex() in text:
                found.append(name)
    return found


async def talk(world: World) -> None:
    telegram = world.telegram
    await telegram.user_says(f"remember the {CANARY}")
    await telegram.wait_for_text(ALICE, f"You said: remember the {CANARY}")
    await telegram.user_says(f"and this {CANARY}", file=NOTE)
    await telegram.wait_for_text(ALICE, f"You said: and this {CANARY}")
    await telegram.user_says(f"/new About the {CANARY}")
    await telegram.wait_for_text(ALICE, "New thread")
    await telegram.user_says(f"more of the {CANARY}")
    await telegram.wait_for_text(ALICE, f"You said: more of the {CANARY}")
    await telegram.wait_idle(ALICE)


async def forget(world: World) -> str:
    await world.telegram.user_says("/forget me")
    asked = await world.telegram.wait_for_text(ALICE, "Delete everything")
    await world.telegram.press(asked.message_id, EN.forgetting["button_delete"])
    return (await world.telegram.wait_for_text(ALICE, DONE)).text


async def test_nothing_of_a_person_is_left_on_the_disk(world: World) -> None:
    async with world:
        await talk(world)
        assert holding(world.data_dir)
        told = await forget(world)
        assert EN.forgetting["count_threads"].format(count=2).removeprefix("- ") in told
        assert EN.forgetting["count_messages"].format(count=3).removeprefix("- ") in told
        assert holding(world.folder) == []
        await world.telegram.user_says("what do you know?")
        await world.telegram.wait_for_text(ALICE, "You said: what do you know?")
        assert CANARY not in str((await world.model.completions())[-1].body)
    assert holding(world.folder) == []


@pytest.mark.postgres
async def test_nor_in_postgresql_when_an_operator_does_it(world: World, postgres: PostgresServer) -> None:
    url = postgres.database().replace("+psycopg", "")
    world.settings = {"database": {"url": url}}
    async with world:
        await talk(world)
        assert {"checkpoint_writes", "runs", "inbox", "outbox"} <= {*tables_holding(url)}
        code, told = await world.command("forget", f"telegram:{ALICE.id}")
        assert (code, "2 threads, 3 messages" in told) == (0, True), told
        assert tables_holding(url) == []
    assert holding(world.folder) == []
