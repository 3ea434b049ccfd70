"""The real process says what of it does not work, in its health check and to administrators, and when it works again: a
provider that refuses, an account that cannot send, a database that cannot be written, a full disk."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from typing import TYPE_CHECKING

import pytest

from bot.delivery.plan import FIRST_TRIAL
from bot.texts.en import EN
from tests.parts import missing
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB
from tests.torture.machine import NotPossible, fill, small_disk

if TYPE_CHECKING:
    from tests.flow.gateway import World

_TOKENS = itertools.count(1)

KNOWN = 30.0
"""Seconds; a minute is promised."""
ADMIN = {"access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"], "admins": [f"telegram:{ALICE.id}"]}}


ROOM = 280
"""Megabytes of the small disk, besides what a start needs: more than what counts as almost full."""


async def answered(world: World, text: str) -> None:
    await world.telegram.user_says(text, user=BOB)
    await world.telegram.wait_for_text(BOB, f"You said: {text}", timeout=KNOWN)


async def met(world: World) -> None:
    """The administrator has talked to the bot, so that it may write to her."""
    await world.telegram.user_says("good morning")
    await world.telegram.wait_for_text(ALICE, "You said: good morning", timeout=KNOWN)


async def test_a_provider_that_refuses_the_key_is_not_fine(world: World) -> None:
    world.settings = ADMIN
    async with world:
        await met(world)
        assert await world.command("status", "--check") == (0, "")
        await world.telegram.user_says("!status 401", user=BOB)
        refused = await world.telegram.wait_for_text(BOB, "⚠️")
        assert "choose another one with /models" in refused.text
        assert "key" not in refused.text, "a member can do nothing about it"
        assert await world.command("status", "--check") == (1, "")
        code, shown = await world.command("status")
        assert code == 1
        assert "NOT WELL model main (sim): model auth for" in shown
        told = await world.telegram.wait_for_text(ALICE, "The provider refuses the API key", timeout=KNOWN)
        assert "the model main (sim)" in told.text
        assert world.model.api_key not in str(told)
        assert "failed (auth, main (sim))" in world.log
        await world.telegram.user_says("!status 401 and again", user=BOB)
        await world.telegram.wait_for_message(
            BOB, lambda seen: seen.message_id > refused.message_id and "⚠️" in seen.text
        )
        await answered(world, "is it better now?")
        assert await world.command("status", "--check") == (0, "")
        await world.telegram.wait_for_text(ALICE, "✅ The model main (sim) is answering again", timeout=KNOWN)
        assert "✅" not in await world.telegram.transcript(BOB)
        assert (await world.telegram.transcript(ALICE)).count("refuses the API key") == 1, "once for an outage"


async def test_a_busy_provider_is_waited_for_and_the_chat_shows_since_when(world: World) -> None:
    """With the patience that is the default; the provider asks for eight seconds."""
    async with world:
        await world.telegram.user_says("!status 429 retry-after=8 times=1\n!say There.")
        await world.telegram.wait_for_text(ALICE, "The model is busy, trying again in 8 s…")
        shown = await world.telegram.wait_for_text(ALICE, "The model is busy, still trying after 5 s…")
        answer = await world.telegram.wait_for_text(ALICE, "There.")
        assert answer.message_id == shown.message_id
        first, second = await world.model.completions()
        assert second.started - first.started >= 8


async def test_stop_and_the_end_of_the_process_do_not_wait_for_a_busy_provider(world: World) -> None:
    async with world:
        await world.telegram.user_says("!status 529 retry-after=50")
        await world.telegram.wait_for_text(ALICE, "The model is busy")
        await world.telegram.user_says("/stop")
        await world.telegram.wait_for_text(ALICE, EN.stopped_by["stopped"], timeout=5)
        # Another pause than the first, whose bubble goes a moment after the end was told.
        await world.telegram.user_says("!status 529 retry-after=45 times=1\n!say After all.")
        await world.telegram.wait_for_text(ALICE, "trying again in 4")
        began = asyncio.get_running_loop().time()
        assert await world.stop() == 0
        assert asyncio.get_running_loop().time() - began < 6
        await world.start()
        await world.telegram.wait_for_text(ALICE, "After all.")


async def test_an_account_that_cannot_send_is_not_healthy_although_it_receives(world: World) -> None:
    spare = await world.telegram.add_bot(f"77{next(_TOKENS)}:SPARE-bot-token-{'0' * 25}")
    world.settings = {
        "channels": {"spare": {"type": "telegram", "token": spare.token, "base_url": world.telegram.root}},
        "access": {
            "allow": [f"telegram:{BOB.id}"],
            "admins": [f"telegram:{ALICE.id}", f"spare:{ALICE.id}"],
        },
    }
    async with world:
        await spare.wait_polled(20)
        await spare.user_says("good morning")
        await spare.wait_for_text(ALICE, "You said: good morning", timeout=KNOWN)
        assert (await world.command("status", "--check"))[0] == 0
        for method in ("sendMessage", "editMessageText", "sendChatAction"):
            await world.telegram.fail(method, faults.unauthorized(), times=1000)
        await world.telegram.user_says("hello", user=BOB)
        await spare.wait_for_text(ALICE, "The account telegram cannot send anything", timeout=KNOWN)
        assert (await world.command("status", "--check"))[0] == 1
        shown = (await world.command("status"))[1]
        assert "telegram: connected" in shown
        assert "NOT WELL sending telegram: sending stopped" in shown


@pytest.mark.long
async def test_a_database_that_cannot_be_written_is_told_all_the_same(world: World) -> None:
    world.settings = ADMIN
    async with world:
        await met(world)
        other_program = sqlite3.connect(world.data_dir / "antler.db", isolation_level=None)
        other_program.execute("BEGIN IMMEDIATE")
        await world.telegram.user_says("hello", user=BOB)
        await world.telegram.wait_for_text(ALICE, "⚠️ The database cannot be written", timeout=KNOWN)
        assert (await world.command("status", "--check"))[0] == 1
        other_program.close()
        await world.telegram.wait_for_text(BOB, "You said: hello", timeout=KNOWN)
        await world.telegram.wait_for_text(ALICE, "✅ The database can be written to again", timeout=KNOWN)
        assert (await world.command("status", "--check"))[0] == 0


async def test_a_full_disk_is_told_and_that_there_is_room_again(world: World) -> None:
    world.settings = ADMIN
    try:
        with small_disk(world.data_dir, ROOM):
            async with world:
                await met(world)
                assert await world.command("status", "--check") == (0, "")
                filler = world.data_dir / "filler"
                fill(filler)
                await world.telegram.user_says("hello", user=BOB)
                await world.telegram.wait_for_text(ALICE, "⚠️ The database cannot be written", timeout=KNOWN)
                await world.telegram.wait_for_text(
                    ALICE, "⚠️ The disk that holds data_dir is almost full", timeout=KNOWN
                )
                assert await world.command("status", "--check") == (1, "")
                shown = (await world.command("status"))[1]
                assert "NOT WELL disk: disk low" in shown
                assert "NOT WELL store: store unavailable" in shown
                filler.unlink()
                await world.telegram.wait_for_text(BOB, "You said: hello", timeout=KNOWN)
                for over in (
                    "✅ The database can be written to again",
                    "✅ The disk that holds data_dir has free space again",
                ):
                    await world.telegram.wait_for_text(ALICE, over, timeout=KNOWN)
                assert await world.command("status", "--check") == (0, "")
    except NotPossible as error:
        missing(str(error))


async def test_what_an_account_could_not_send_is_tried_at_its_first_hello(world: World) -> None:
    """Long before it is tried by itself: what waits was refused at the start, before the connection stood."""
    world.settings = ADMIN
    async with world:
        await world.telegram.fail("sendMessage", faults.unauthorized(), times=1000)
        await world.telegram.user_says("hello", user=BOB)
        await world.wait_for_log("nothing is sent for now")
        await world.kill()
        await world.telegram.fail("getMe", faults.hold())
        await world.begin()
        await world.wait_for_log("nothing is sent for now")
        await world.telegram.clear_faults()
        await world.telegram.release()
        await world.telegram.wait_for_text(BOB, "", timeout=FIRST_TRIAL - 5)


async def test_that_an_outage_is_over_is_told_after_a_restart(world: World) -> None:
    world.settings = ADMIN
    async with world:
        await met(world)
        await world.telegram.user_says("!status 401", user=BOB)
        await world.telegram.wait_for_text(ALICE, "The provider refuses the API key", timeout=KNOWN)
        await world.stop()
        await world.start()
        await answered(world, "is it better now?")
        await world.telegram.wait_for_text(ALICE, "✅ The model main (sim) is answering again", timeout=KNOWN)
