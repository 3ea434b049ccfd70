"""An acquaintance of forty turns, over the wire: what is remembered of a person and of a group, put right, forgotten,
and by whom it is never seen."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from bot.texts.en import EN
from tests.simulators.model.request import text_of
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import Person, Room

SAY = EN.memory
ANN = ALICE


@pytest.fixture
def world(world: World) -> World:
    world.settings = {
        "access": {"allow": [f"telegram:{ANN.id}", f"telegram:{BOB.id}"], "admins": [f"telegram:{ANN.id}"]},
        # Tests talk faster than people.
        "channels": {"telegram": {"rate": {"per_chat_per_second": 50, "per_group_per_minute": 3000}}},
        "sandbox": {"use": "off"},
        "limits": {"messages_per_minute": 3000, "message_burst": 300},
        "memory": {"debounce_seconds": 0},
    }
    return world


@dataclass
class Acquaintance:
    """turns: that people had with the bot; each says its number."""

    world: World
    turns: int = 0

    async def tells(self, text: str, who: Person = ANN, where: Room | None = None) -> str:
        """A turn, and what was learnt of it is written. Returns what the model was told."""
        self.turns += 1
        marked = f"{text}\n({self.turns})"
        if where is None:
            await self.world.telegram.user_says(marked, user=who)
        else:
            await self.world.telegram.group_says(f"@antler_bot {marked}", user=who)
        await self.world.telegram.wait_for_text(where or who, f"({self.turns})")
        await self.world.wait_for_log(f"after run(s) {self._newest_run()}")
        asked = [record.body["messages"] for record in await self.world.model.completions()]
        turn = next(messages for messages in asked if marked in text_of(messages[-1]))
        return "\n".join(text_of(message) for message in turn if message["role"] == "user")

    async def commands(self, text: str, expected: str, who: Person = ANN, where: Room | None = None) -> str:
        """What the bot answers to a command."""
        place = where or who
        before = max((each.message_id for each in await self.world.telegram.bot_messages(place)), default=0)
        if where is None:
            await self.world.telegram.user_says(text, user=who)
        else:
            await self.world.telegram.group_says(f"{text.split()[0]}@antler_bot {text.partition(' ')[2]}", user=who)
        seen = await self.world.telegram.wait_for_message(
            place, lambda message: expected in message.text and message.message_id > before
        )
        return seen.text

    def _newest_run(self) -> str:
        with closing(sqlite3.connect(self.world.data_dir / "antler.db")) as database:
            run_id: str = database.execute("SELECT run_id FROM runs ORDER BY seq DESC LIMIT 1").fetchone()[0]
        return run_id

    @property
    def files(self) -> list[Path]:
        return sorted((self.world.data_dir / "users").glob("*/memory.json"))

    def remembered(self) -> list[list[str]]:
        """The facts of each owner."""
        kept = [[fact["content"] for fact in json.loads(path.read_text())["facts"]] for path in self.files]
        return sorted(kept)


async def test_an_acquaintance(world: World) -> None:
    async with world:
        us = Acquaintance(world)

        # The first day: she tells of herself, and talks of this and that.
        assert "antler-memory" not in await us.tells("Hello!")
        await us.tells("Remember that she lives in Berlin.")
        await us.tells("What is the capital of Peru?")
        await us.tells("Remember that her daughter is called Mia.")
        await us.tells("Remember that she likes short answers.\nRemember that she is allergic to nuts.")
        await us.tells("Thanks.")
        assert us.remembered() == [
            ["she lives in Berlin", "her daughter is called Mia", "she likes short answers", "she is allergic to nuts"]
        ]
        await us.tells("Remember that her password is hunter2xyz.")
        assert "hunter2xyz" not in str(us.remembered())

        # Another thread, and another process: it knows her.
        await us.commands("/new", "New thread")
        known = await us.tells("Do you remember me?")
        assert "she lives in Berlin" in known
        assert "Mia" in known
        await us.tells("Nice.")
        await world.kill()
        await world.start()
        await us.commands("/new", "New thread")
        assert "allergic to nuts" in await us.tells("And now?")

        # She moves: what was wrong is put right, and what is said again is not kept twice.
        await us.tells("Actually she lives in Hamburg, not she lives in Berlin.")
        await us.tells("Remember that she likes short answers.")
        shown = await us.commands("/memory", SAY["head"].strip("*"))
        assert "she lives in Hamburg" in shown
        assert "Berlin" not in shown
        assert shown.count("short answers") == 1
        await us.tells("It is over that she likes short answers.")
        assert "short answers" not in str(us.remembered())

        # She looks, searches, puts right and forgets with her own hands; a thread that knew it is told anew.
        assert "Mia" in await us.commands("/memory search mia", "What I remember about mia")
        listed = await us.commands("/memory", SAY["head"].strip("*"))
        assert "Mia" in listed.split("2. ")[1].splitlines()[0]
        await us.commands("/memory forget 2", "Forgotten: 2.")
        assert "Mia" not in await us.tells("Who is my daughter?")
        await us.commands("/memory edit 1 she lives in Rostock", "Number 1 now says: she lives in Rostock")
        assert "she lives in Rostock" in await us.tells("Where do I live?")
        await us.commands("/memory add she plays the cello", "I remember: she plays the cello")
        for number in range(7):
            await us.tells(f"Small talk number {number}.")

        # Bob is another person, with a memory of his own.
        assert "Rostock" not in await us.tells("Hello, who am I?", BOB)
        await us.tells("Remember that he works at night.", BOB)
        await us.commands("/memory", "he works at night", BOB)

        # A group is another place: what was said in private is not known there, and the other way round.
        group = await us.tells("What do you know of us?", ANN, TEAM)
        assert "Rostock" not in group
        assert "he works at night" not in group
        await us.tells("Remember that the team meets in Room Vega.", BOB, TEAM)
        for number in range(3):
            await us.tells(f"A word to the group, number {number}.", ANN, TEAM)
        await us.commands("/new", "New thread", ANN, TEAM)
        assert "the team meets in Room Vega" in await us.tells("When do we meet?", ANN, TEAM)
        assert "Rostock" not in await us.commands("/memory", SAY["head_group"].strip("*"), BOB, TEAM)
        await us.commands("/memory forget all", EN.not_allowed, BOB, TEAM)
        await us.commands("/new", "New thread", ANN)
        assert "Vega" not in await us.tells("When does the team meet?")

        # Off: nothing is used and nothing learnt.
        await us.commands("/memory off", "Memory is off here")
        await us.commands("/memory", SAY["is_off"].replace("`", ""))
        await world.telegram.user_says("Remember that she sings. (off)")
        await world.telegram.wait_for_text(ANN, "(off)")
        assert "Rostock" not in str((await world.model.completions())[-1].body["messages"][-1])
        await us.commands("/memory on", "Memory is on here.")
        for number in range(6):
            await us.tells(f"More small talk, number {number}.")
        assert "she sings" not in str(us.remembered())

        # She takes it with her, and is forgotten.
        await us.commands("/memory export", "to read (Markdown)")
        await world.telegram.wait_for_message(ANN, lambda message: bool(message.files))
        await us.commands("/memory forget all", "Forget everything that I remember about you")
        (asked,) = [each for each in await world.telegram.bot_messages(ANN) if each.buttons]
        await world.telegram.press(asked.message_id, SAY["button_forget"])
        await world.telegram.wait_for_text(ANN, "Everything is forgotten")
        await us.commands("/new", "New thread")
        assert "cello" not in await us.tells("Do you remember me?")
        await us.tells("Remember that she came back.")
        await us.tells("Bye!")
        assert us.remembered() == [["he works at night"], ["she came back"], ["the team meets in Room Vega"]]
        assert us.turns == 40

        # An operator sees that there is something, and not what.
        code, listed = await world.command("memory", "list")
        assert code == 0
        assert all(path.parent.name[:12] in listed for path in us.files)
        assert not any(words in listed for words in ("came back", str(ANN.id)))
    for secret in ("Rostock", "Hamburg", "hunter2xyz", "Vega", "cello"):
        assert secret not in world.log


def blocks(told: str) -> str:
    """What the model was told of a memory; the thread itself holds what was said in it."""
    return "\n".join(re.findall(r"<antler-memory>.*?</antler-memory>", told, re.DOTALL))


async def test_an_agent_with_a_memory_of_its_own(world: World) -> None:
    """What is said to it no other agent learns, nor the other way round; /memory, the command line, a backup and
    `/forget me` know both."""
    folder = world.folder / "agents" / "support"
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are Sam from support.")
    (folder / "config.yaml").write_text("features: {memory: own}")
    async with world:
        us = Acquaintance(world)
        await us.tells("Remember that she lives in Berlin.")
        await us.commands("/agent support", "support")
        assert "Berlin" not in blocks(await us.tells("Remember that her printer is a Lexmark."))
        assert us.remembered() == [["she lives in Berlin"]]
        (own,) = (world.data_dir / "users").glob("*/agents/support/memory.json")
        assert "Lexmark" in own.read_text()

        shown = await us.commands("/memory", "own memory of the agent support")
        assert ("Lexmark" in shown, "Berlin" in shown) == (True, False)
        await us.commands("/memory add her printer is red", "own memory of the agent support")
        await us.commands("/new", "New thread")
        told = blocks(await us.tells("What printer have I?"))
        assert ("Lexmark" in told, "Berlin" in told) == (True, False)

        # The other agent of the same thread: what the first was told is taken out of it.
        await us.commands("/agent default", "default")
        told = blocks(await us.tells("And where do I live?"))
        assert ("Berlin" in told, "Lexmark" in told) == (True, False)
        shown = await us.commands("/memory", "What I remember about you")
        assert ("Berlin" in shown, "Lexmark" in shown) == (True, False)

        code, listed = await world.command("memory", "list")
        assert (code, len(listed.splitlines())) == (0, 3)
        key = next(line.split()[0] for line in listed.splitlines() if "/support" in line)
        _, told = await world.command("memory", "show", key)
        assert "her printer is red" in told

        # A copy brings both back.
        archive = world.folder / "copy.tar.gz"
        assert (await world.command("backup", str(archive)))[0] == 0
        await world.end()
        code, told = await world.command("restore", str(archive), "--force")
        assert code == 0, told
        await world.start()
        assert "Lexmark" in own.read_text()
        await us.commands("/agent support", "support")
        assert "Lexmark" in await us.commands("/memory", "own memory of the agent support")

        await world.telegram.user_says("/forget me")
        asked = await world.telegram.wait_for_text(ANN, "Delete everything")
        await world.telegram.press(asked.message_id, EN.forgetting["button_delete"])
        await world.telegram.wait_for_text(ANN, "I have forgotten you")
        assert list((world.data_dir / "users").glob("**/memory.json")) == []
    assert "Lexmark" not in world.log


async def test_a_wrong_value_of_an_agents_memory_is_told_before_the_start(world: World) -> None:
    folder = world.folder / "agents" / "support"
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text("You are Sam from support.")
    (folder / "config.yaml").write_text("features: {memory: mine}")
    world.write_config()
    code, told = await world.command("check-config")
    assert code != 0
    assert "features.memory: Input should be True, False or 'own'" in told
    assert "support/config.yaml" in told
