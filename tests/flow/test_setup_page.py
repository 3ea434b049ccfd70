"""docs/setup-telegram.md quotes what Antler prints when something is set up wrongly: here it all goes wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.simulators.process import REPO_ROOT
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, FileSpec, Room

if TYPE_CHECKING:
    from tests.flow.gateway import World

PAGE = REPO_ROOT / "docs" / "setup-telegram.md"
ELSEWHERE = Room(-1001000000009, "supergroup", "Elsewhere")
NOWHERE = "http://127.0.0.1:9"


def quotations() -> list[str]:
    """The left column of the page's table, where it quotes."""
    return re.findall(r"^\|[^|`]*`([^`]+)`[^|]*\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def quoted(words: str) -> str:
    """The page's only quotation that contains these words, as a pattern: its "..." stand for anything."""
    (text,) = [text for text in quotations() if words in text]
    return ".*".join(re.escape(part) for part in text.split("..."))


def says(output: str, *words: str) -> None:
    """The output holds what the page quotes."""
    for pattern in map(quoted, words):
        assert re.search(pattern, output), f"{pattern}\n{output}"


async def test_what_the_config_says_wrongly_is_named_before_anything_starts(world: World) -> None:
    world.settings = {"channels": {"telegram": {"token": "$TELEGRAM_BOT_TOKEN", "base_url": "127.0.0.1:8081"}}}
    world.write_config()
    code, output = await world.command("check-config")
    assert code == 78
    says(output, "TELEGRAM_BOT_TOKEN is not set", "has no scheme")
    world.environment = {"TELEGRAM_BOT_TOKEN": "your_bot"}
    says((await world.command("check-config"))[1], "not a bot token")


@pytest.mark.parametrize("fault", [faults.unauthorized(), faults.not_found()], ids=lambda fault: str(fault.code))
async def test_a_token_that_is_refused_is_told_at_the_start(world: World, fault: faults.Fault) -> None:
    await world.telegram.fail("getMe", fault)
    await world.begin()
    await world.wait_for_log(f"({fault.code});")
    says(world.log, f"({fault.code});")
    assert await world.stop() == 0


async def test_a_telegram_that_cannot_be_reached_is_waited_for(world: World) -> None:
    world.settings = {"channels": {"telegram": {"base_url": NOWHERE}}}
    await world.begin()
    await world.wait_for_log("trying again")
    says(world.log, "ClientConnectorError")
    assert await world.stop() == 0


async def test_what_goes_wrong_while_it_runs_is_said_as_the_page_says(world: World) -> None:
    world.settings = {"access": {"allow": [f"telegram:{ALICE.id}", f"telegram:{BOB.id}"]}}
    telegram = world.telegram
    async with world:
        await telegram.group_says("@antler_bot hello", chat=ELSEWHERE)
        says((await telegram.wait_for_text(ELSEWHERE, "/allow")).text, "I am not allowed to talk here yet")
        await telegram.user_says("my film", file=FileSpec(name="film.mkv", stream_size=3 * 1024**3))
        says((await telegram.wait_for_text(ALICE, "film.mkv")).text, "larger than 20 MB")
        await telegram.membership("kicked", user=BOB)
        await telegram.user_says("who blocks the bot gets no answer", user=BOB)
        await telegram.fail("sendMessage", faults.bad_request("not enough rights to send text messages to the chat"))
        await telegram.group_says("@antler_bot may you write here?")
        await telegram.migrate(ELSEWHERE, -1009999999999)
        for said in ("bot was blocked", "Not enough rights", "put the new id into the config"):
            await world.wait_for_log(said)
            says(world.log, said)
        async with httpx.AsyncClient(trust_env=False) as other:
            await other.post(f"{telegram.base_url}{telegram.token}/getUpdates", json={"timeout": 0})
        await world.wait_for_log("(409)")
        says(world.log, "(409)")
    world.environment["BOT_TOKEN"] = (await telegram.fresh_bot()).token
    await world.begin()
    await world.wait_for_log("belongs to the bot")
    says(world.log, "belongs to the bot")
    assert await world.stop() == 0


def test_every_quotation_is_proven() -> None:
    """By the tests of this file; the silent poll by those of test_trouble_everywhere.py, the poll that is held open by
    tests/channels/telegram/test_receiving.py."""
    before = ("TELEGRAM_BOT_TOKEN is not set", "has no scheme", "not a bot token")
    starting = ("(401);", "(404);", "belongs to the bot", "ClientConnectorError", "no answer to the long poll", "(409)")
    held = ("still holds open",)
    running = (
        "I am not allowed to talk here yet",
        "bot was blocked",
        "Not enough rights",
        "put the new id",
        "larger than 20 MB",
    )
    assert {quoted(words) for words in (*before, *starting, *held, *running)} == {quoted(text) for text in quotations()}
