"""`antler memory`, as the control socket asks for it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from bot.clock import SystemClock
from bot.memory.keeper import make_keeper, make_kept, rename_owners
from bot.memory.tool import KEY, MemoryTool, run
from bot.settings import Settings
from bot.store import Store
from bot.store.identity import folder_name
from bot.store.memories import StoreMemories
from harness.memory.model import from_json
from harness.memory.store import FileMemoryStore
from tests.bot.memory.world import ANN, BOB

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bot.memory.world import World


async def ask(world: World, do: str, key: str = "") -> tuple[str, bool]:
    answer: dict[str, Any] = await MemoryTool(world.book).do({"do": do, "key": key})
    json.dumps(answer)
    return answer["text"], answer["done"]


async def test_the_list_has_keys_sizes_and_dates_only(world: World) -> None:
    assert await ask(world, "list") == ("no memories", True)
    await world.learn("Ann likes pears")
    await world.learn("Bob likes figs", owner=BOB, said_by=BOB)
    text, done = await ask(world, "list")
    size = len((await world.kept.load(ANN)).to_json().encode())
    assert done
    assert f"{folder_name(ANN)[:KEY]}  {size:>8}  2026-01-01 00:00" in text
    assert ANN not in text
    assert "pears" not in text
    listed = (await MemoryTool(world.book).do({"do": "list"}))["data"]
    assert {
        "key": folder_name(ANN)[:KEY],
        "agent": "",
        "size": size,
        "updated_at": "2026-01-01T00:00:00+00:00",
    } in listed
    assert len(listed) == 2


@pytest.mark.parametrize("key", [ANN, folder_name(ANN), folder_name(ANN)[:KEY].upper()])
async def test_one_is_named_by_its_key_or_its_owner(world: World, key: str) -> None:
    await world.learn("Ann likes pears")
    await world.learn("Bob likes figs", owner=BOB, said_by=BOB)
    text, done = await ask(world, "show", key)
    assert (done, "- Ann likes pears" in text, "figs" in text) == (True, True, False)
    text, _ = await ask(world, "export", key)
    assert from_json(text) == await world.kept.load(ANN)
    assert await ask(world, "forget", key) == (
        "forgotten: 1 facts, and 0 turns that had not been learned from yet", True
    )  # fmt: skip
    assert await world.facts() == []
    assert await world.facts(BOB) == ["Bob likes figs"]


@pytest.mark.parametrize("whose", [ANN, folder_name(ANN), folder_name(ANN)[:KEY].upper()])
async def test_what_an_agent_keeps_for_itself_has_a_key_of_its_own(world: World, whose: str) -> None:
    await world.learn("Ann likes pears")
    await world.learn("Ann has a broken printer", agent="support")
    text, _ = await ask(world, "list")
    assert [line.split()[0] for line in text.splitlines()[1:]] == [
        folder_name(ANN)[:KEY], f"{folder_name(ANN)[:KEY]}/support"
    ]  # fmt: skip
    assert "pears" in (await ask(world, "show", whose))[0]
    assert "printer" in (await ask(world, "show", f"{whose}/support"))[0]
    assert await ask(world, "show", f"{whose}/sales") == (f"{whose}/sales is the key of no memory", False)
    assert (await ask(world, "forget", f"{whose}/support"))[1]
    assert (await world.facts(), await world.facts(agent="support")) == (["Ann likes pears"], [])


async def test_nothing_that_a_terminal_obeys_is_shown(world: World) -> None:
    await world.learn("Ann \x1b[31mlikes\x07 pears\u202e")
    text, _ = await ask(world, "show", ANN)
    assert "- Ann \\[31mlikes pears" in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("key", ["", "a", "telegram:9", folder_name(ANN)[: KEY - 1]])
async def test_nothing_is_done_for_a_key_that_names_nobody(world: World, key: str) -> None:
    await world.learn("Ann likes pears")
    assert await ask(world, "forget", key) == (f"{key} is the key of no memory", False)
    assert await world.facts() == ["Ann likes pears"]


async def test_what_it_does_not_know_is_told(world: World) -> None:
    text, done = await ask(world, "improve", ANN)
    assert (done, "another version" in text) == (False, True)


async def test_memories_are_where_the_settings_say(world: World, tmp_path: Path) -> None:
    values = {"data_dir": tmp_path, "channels": {"console": {}}}
    chosen = {
        ("auto", None): FileMemoryStore,
        ("auto", "postgresql://host/db"): StoreMemories,
        ("database", None): StoreMemories,
        ("file", "postgresql://host/db"): FileMemoryStore,
    }
    for (storage, url), kind in chosen.items():
        settings = Settings.model_validate(values | {"memory": {"storage": storage}, "database": {"url": url}})
        assert isinstance(make_kept(settings, world.store), kind)


@pytest.mark.parametrize("storage", ["file", "database"])
async def test_an_account_that_is_renamed_keeps_its_memories(world: World, tmp_path: Path, storage: str) -> None:
    settings = Settings.model_validate(
        {"data_dir": tmp_path, "channels": {"console": {}}, "memory": {"storage": storage}}
    )
    book = make_keeper(settings, world.store)
    await book.add(ANN, "event:1", "I like pears", ANN)
    await book.add("slack:T1/U1", "event:2", "I like figs", "slack:T1/U1")
    await book.add(ANN, "event:3", "My printer is broken", ANN, "support")
    await rename_owners(make_kept(settings, world.store), "telegram", "tg")
    (fact,) = (await book.show("tg:1", "support")).facts
    assert (fact.content, fact.said_by) == ("My printer is broken", "tg:1")
    (fact,) = (await book.show("tg:1")).facts
    assert (fact.content, fact.said_by) == ("I like pears", "tg:1")
    assert [stored.owner for stored in await book.owners()] == ["slack:T1/U1", "tg:1", "tg:1"]


def test_while_antler_is_stopped_it_is_done_on_the_store_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings.model_validate({"data_dir": tmp_path, "channels": {"console": {}}})
    asyncio.run(remember(settings, "I like pears"))
    assert run(settings, "list") == 0
    assert folder_name(ANN)[:KEY] in capsys.readouterr().out
    assert run(settings, "show", ANN) == 0
    assert "- I like pears" in capsys.readouterr().out
    assert run(settings, "forget", "telegram:9") == 1
    assert "antler: telegram:9 is the key of no memory" in capsys.readouterr().err
    assert run(settings, "forget", ANN) == 0
    assert list((tmp_path / "users").glob("*/*")) == []


async def remember(settings: Settings, text: str) -> None:
    settings.data_dir.mkdir(exist_ok=True)
    store = await Store.open(settings.database_url, clock=SystemClock())
    try:
        await make_keeper(settings, store).add(ANN, "event:1", text, ANN)
    finally:
        await store.close()
