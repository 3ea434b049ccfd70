"""A gateway is copied while messages arrive, restored elsewhere, and the conversation goes on there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.simulators.telegram.seen import ALICE, FileSpec, Person

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.postgres import PostgresServer

OPEN = {
    "access": {"dm": "open", "i_accept_public": True},
    "channels": {"telegram": {"rate": {"per_chat_per_second": 20, "per_group_per_minute": 1200}}},
}
TALKERS = [Person(30_000 + number, f"Talker{number}") for number in range(4)]
NOTES = FileSpec("document", name="notes.txt", mime="text/plain", content=b"the walrus was paul\n")


async def exchange(world: World, person: Person, text: str) -> None:
    await world.telegram.user_says(text, user=person)
    await world.telegram.wait_for_text(person, f"You said: {text}")


async def seen_with(world: World, text: str) -> str:
    """All that the model was shown together with a text."""
    shown = [str(record.body["messages"]) for record in await world.model.completions()]
    return next(messages for messages in shown if text in messages)


async def talk(world: World, person: Person, done: asyncio.Event) -> int:
    """One message after the other, each answered before the next; returns how many."""
    count = 0
    while not done.is_set():
        count += 1
        await exchange(world, person, f"{person.first_name} number {count}.")
    return count


async def copied_under_load(world: World, archive: Path) -> None:
    """A backup that is begun and ended while everybody talks."""
    for person in TALKERS:
        await exchange(world, person, f"{person.first_name} likes pears.")
    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        talking = [group.create_task(talk(world, person, done)) for person in TALKERS]
        code, said = await world.command("backup", str(archive))
        done.set()
    assert code == 0, said
    assert "schema revision" in said
    assert all(task.result() > 1 for task in talking)


def uploads(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("threads/*/user-data/uploads/*-notes.txt")]


async def check_it_goes_on(here: World, elsewhere: World, archive: Path, *, there: Path) -> None:
    async with here:
        await here.telegram.user_says("remember the zebra", file=NOTES)
        await here.telegram.wait_for_text(ALICE, "You said: ")
        await here.telegram.wait_idle(ALICE)
        await copied_under_load(here, archive)
        code, said = await here.command("restore", str(archive), "--force")
        assert (code, "in use by process" in said) == (1, True)
        await here.telegram.user_says("remember the walrus")
        await here.telegram.wait_for_text(ALICE, "You said: remember the walrus")
        assert await here.stop() == 0

    elsewhere.write_config()
    code, said = await elsewhere.command("restore", str(archive))
    assert code == 0, said
    async with elsewhere:
        await elsewhere.telegram.wait_idle()
        await exchange(elsewhere, ALICE, "what now?")
        seen = await seen_with(elsewhere, "what now?")
        assert ("zebra" in seen, "walrus" in seen) == (True, False)
        for person in TALKERS:
            # Into the answer, maybe, to what was not answered yet when the copy was made.
            await elsewhere.telegram.user_says(f"{person.first_name} is back", user=person)
            await elsewhere.telegram.wait_for_text(person, f"{person.first_name} is back")
            # What was answered before the copy was begun is in it.
            assert f"{person.first_name} likes pears." in await seen_with(elsewhere, f"{person.first_name} is back")
        assert uploads(there) == [NOTES.content]
        code, said = await elsewhere.command("restore", str(archive))
        assert (code, "in use by process" in said) == (1, True)
    code, said = await elsewhere.command("restore", str(archive))
    assert (code, "is not empty" in said, "--force" in said) == (1, True, True)
    code, said = await elsewhere.command("restore", str(archive), "--force")
    assert (code, "the previous content is in" in said) == (0, True)
    assert uploads(there) == uploads(next(there.glob("replaced-*"))) == [NOTES.content]  # noqa: ASYNC240


def beside(world: World, folder: Path) -> World:
    """The same bot, in another data folder."""
    folder.mkdir()
    return replace(world, folder=folder, process=None)


@pytest.mark.parametrize("ending", ["tar.zst", "tar.gz"])
async def test_a_copy_of_a_gateway_at_work_goes_on_elsewhere(world: World, tmp_path: Path, ending: str) -> None:
    world.settings = OPEN
    elsewhere = beside(world, tmp_path / "elsewhere")
    await check_it_goes_on(world, elsewhere, tmp_path / f"copy.{ending}", there=elsewhere.data_dir)


@pytest.mark.postgres
@pytest.mark.long
async def test_a_copy_of_a_gateway_on_postgresql_goes_on_in_another_database(
    world: World, postgres: PostgresServer, tmp_path: Path
) -> None:
    first, second = (postgres.database().replace("+psycopg", "") for _ in range(2))
    world.settings = OPEN | {"database": {"url": first}}
    elsewhere = beside(world, tmp_path / "elsewhere")
    elsewhere.settings = OPEN | {"database": {"url": second}}
    await check_it_goes_on(world, elsewhere, tmp_path / "copy.tar.zst", there=elsewhere.data_dir)
