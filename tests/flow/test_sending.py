"""`antler send`: scripts write into chats; a restart loses nothing, and nothing is shown twice."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.flow.gateway import World

ANN = f"telegram:{ALICE.id}"


async def texts(world: World, chat: int) -> list[str]:
    return [message.text for message in await world.telegram.bot_messages(chat)]


async def test_a_script_writes_into_chats_and_a_key_counts_once(world: World, tmp_path: Path) -> None:
    (tmp_path / "report.csv").write_text("a,b\n1,2\n")
    async with world:
        code, said = await world.command("send", ANN, "too early")
        assert (code, "no one has written to the bot" in said, "antler access list" in said) == (1, True, True)
        await world.telegram.user_says("hi")
        await world.telegram.wait_for_text(ALICE, "You said: hi")
        await world.telegram.group_says("@antler_bot hello", chat=TEAM, user=ALICE)
        await world.telegram.wait_for_text(TEAM, "You said: hello")

        assert await world.command("send", ANN, "**disk** is full", "--key", "disk") == (0, f"sent to {ANN}\n")
        code, said = await world.command("send", ANN, "**disk** is full", "--key", "disk")
        assert (code, "not sent again" in said) == (0, True)
        code, said = await world.command("send", ANN, "another text", "--key", "disk")
        assert (code, "was used for another text" in said, "--key" in said) == (1, True, True)
        team = f"telegram:{TEAM.id}"
        assert await world.command("send", team, "and here", "--key", "disk") == (0, f"sent to {team}\n")
        file = str(tmp_path / "report.csv")
        assert (await world.command("send", ANN, "the report", "--file", file))[0] == 0
        sent = await world.telegram.bot_messages(ALICE)
        assert [file["name"] for message in sent for file in message.files] == ["report.csv"]
        assert "the report" in [message.text for message in sent]
        code, said = await world.command("send", ANN, "endless", "--file", "/dev/zero")
        assert (code, "it is not a regular file" in said) == (1, True)
        (tmp_path / "large.bin").touch()
        os.truncate(tmp_path / "large.bin", 60_000_000)
        code, said = await world.command("send", ANN, "large", "--file", str(tmp_path / "large.bin"))
        assert (code, "telegram does not accept a file of 60,000,000 bytes" in said) == (1, True)
        assert (await texts(world, ALICE.id)).count("disk is full") == 1
        assert (await texts(world, TEAM.id))[-1] == "and here"

        code, said = await world.command("send", "slack:U1", "hello")
        assert (code, "has no account slack; it has telegram" in said) == (1, True)


async def test_what_was_accepted_survives_a_kill_and_what_is_sent_while_stopped_comes_later(
    world: World,
) -> None:
    async with world:
        await world.telegram.user_says("hi")
        await world.telegram.wait_for_text(ALICE, "You said: hi")
        await world.telegram.wait_idle(ALICE)
        await world.telegram.fail("sendMessage", faults.hold())
        code, said = await world.command("send", ANN, "first", "--key", "one")
        assert (code, "not shown yet" in said) == (0, True)
        await world.kill()
        code, said = await world.command("send", ANN, "second", "--key", "two")
        assert (code, "is sent at its next start" in said) == (0, True)
        assert (await world.command("send", ANN, "second", "--key", "two"))[0] == 0
        code, said = await world.command("send", f"telegram:{BOB.id}", "unasked", "--anyway")
        assert (code, "is sent at its next start" in said) == (0, True)

        await world.telegram.release()
        await world.start()
        await world.telegram.wait_for_text(ALICE, "second")
        await world.telegram.wait_idle(ALICE)
        assert (await texts(world, ALICE.id))[1:] == ["first", "second"]
        code, said = await world.command("send", ANN, "first", "--key", "one")
        assert (code, "not sent again" in said) == (0, True)
        assert await world.stop() == 0
        with sqlite3.connect(world.data_dir / "antler.db") as database:
            keys = database.execute("SELECT reply_key FROM outbox WHERE reply_key LIKE 'send:%'").fetchall()
        assert len(keys) == 3
