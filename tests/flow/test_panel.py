"""What operators see and do on the page, and what programs send, between a real gateway and Telegram's simulator."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from bot.control.server import ask, connection
from bot.http.auth import COOKIE, CSRF_HEADER
from bot.http.hooks import signature
from bot.texts.en import EN
from tests.browser.conftest import missing
from tests.browser.test_panel import signed_in
from tests.flow.gateway import merged
from tests.flow.test_telegram_supervision import another_poller
from tests.simulators.telegram.seen import ALICE, BOB, TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from playwright.async_api import Page

    from tests.flow.gateway import World
    from tests.simulators.telegram.seen import RecordedCall

SECRET = "0123456789abcdef0123456789abcdef"
SECONDS = 45.0
HALF = "The first half of the answer"


@pytest.fixture
def world(world: World) -> World:
    """Alice is the administrator, strangers may ask to be let in, and there is a page with two webhooks."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    chat = f"telegram:{ALICE.id}"
    world.settings = {
        "access": {"allow": None, "admins": [f"telegram:{ALICE.id}"]},
        "http": {
            "listen": f"127.0.0.1:{port}",
            "hooks": {
                "alerts": {"secret": SECRET, "chat": chat},
                "triage": {"secret": SECRET, "chat": chat, "run": "Say what the alert is about."},
                "team": {"secret": SECRET, "chat": f"telegram:{TEAM.id}"},
            },
        },
    }
    return world


@asynccontextmanager
async def browser(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A session that a link of this machine opened, whose client sends what the pages send along."""
    async with connection(world.data_dir) as (reader, writer):
        link: str = (await ask(reader, writer, "signin", do="link"))["text"]
    root, _, code = link.rpartition("/signin/")
    async with httpx.AsyncClient(base_url=root, trust_env=False, timeout=30) as client:
        assert (await client.post("/signin", data={"code": code})).status_code == 303
        client.headers[CSRF_HEADER] = (await client.get("/api/me")).json()["csrf"]
        yield client


async def shows(client: httpx.AsyncClient, path: str, wanted: Callable[[str], bool]) -> str:
    """The page, asked for until it is as wanted."""
    text = ""
    async with asyncio.timeout(SECONDS):
        while not wanted(text):
            text = (await client.get(path)).text
    return text


async def found(client: httpx.AsyncClient, path: str) -> Any:
    """A resource, asked for until there is something in it."""
    told: Any = []
    async with asyncio.timeout(SECONDS):
        while not told:
            answer = (await client.get(path)).json()
            told = answer["turns"] if path.startswith("/api/turns") else answer
    return told


async def call(client: httpx.AsyncClient, name: str, text: str, delivery: str, **more: Any) -> httpx.Response:
    """A signed call. more: secret, late (seconds)."""
    at, body = int(time.time() - more.get("late", 0)), text.encode()
    headers = {
        "webhook-id": delivery,
        "webhook-timestamp": str(at),
        "webhook-signature": signature(more.get("secret", SECRET), delivery, at, body),
    }
    return await client.post(f"/hooks/{name}", content=body, headers=headers)


async def test_now_shows_a_channel_that_dies_and_that_it_lives_again(world: World) -> None:
    async with world, browser(world) as client:
        await shows(client, "/now/live", lambda text: "All is well" in text)
        async with another_poller(world):
            ill = await shows(client, "/now/live", lambda text: "Needs attention: 1" in text)
            assert "another program receives this bot&#39;s messages (409)" in ill
            assert "reconnecting" in ill
        await world.telegram.user_says("are you back?")
        await world.telegram.wait_for_text(ALICE, "are you back?", timeout=SECONDS)
        await shows(client, "/now/live", lambda text: "All is well" in text and "reconnecting" not in text)


@asynccontextmanager
async def operating(world: World) -> AsyncIterator[Page]:
    """An operator's browser, whose pages complain of nothing."""
    if reason := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    faults: list[str] = []
    async with (
        world,
        browser(world) as client,
        signed_in(str(client.base_url).rstrip("/"), client.cookies[COOKIE], faults) as page,
    ):
        yield page
    assert faults == []


@pytest.mark.browser
async def test_who_looks_at_now_lets_in_stops_and_sees_a_channel_die_and_come_back(world: World) -> None:
    """All of it without a reload."""
    async with operating(world) as page:
        await page.goto("/now")
        await page.evaluate("window.stays = true")
        await page.get_by_role("heading", name="All is well").wait_for()

        await world.telegram.user_says("hello?", user=BOB)
        await page.get_by_text("Bob asks to be let in").wait_for()
        await page.get_by_role("button", name="Let in").click()
        await page.get_by_text("Bob has access now").wait_for()
        await world.telegram.wait_for_text(BOB, "An administrator let you in")
        await page.get_by_text("Bob asks to be let in").wait_for(state="detached")
        await world.telegram.user_says("thank you", user=BOB)
        await world.telegram.wait_for_text(BOB, "You said: thank you")

        await world.telegram.user_says("!pause half", user=BOB)
        await world.telegram.wait_for_text(BOB, HALF)
        await page.get_by_role("button", name="Stop").click()
        await world.telegram.wait_for_text(BOB, EN.stopped_by["stopped"])
        await page.get_by_text("Nothing to do at the moment.").wait_for()
        assert await page.get_by_text("!pause half").count() == 0, "it is his to read"

        async with another_poller(world):
            await page.get_by_role("heading", name="Needs attention").wait_for()
            await page.get_by_text("another program receives this bot's messages").first.wait_for()
        await world.telegram.user_says("are you back?")
        await world.telegram.wait_for_text(ALICE, "are you back?", timeout=SECONDS)
        await page.get_by_role("heading", name="All is well").wait_for()
        assert await page.evaluate("window.stays") is True, "it was not loaded again"


async def test_administrators_are_offered_the_page_where_there_is_one(world: World) -> None:
    def menu_of_hers(call: RecordedCall, *, with_page: bool) -> bool:
        hers = call.method == "setMyCommands" and str(ALICE.id) in str(call.params.get("scope"))
        return hers and bool(re.search(r"\bweb\b", str(call.params["commands"]))) == with_page

    async with world:
        await world.telegram.user_says("/help")
        told = await world.telegram.wait_for_text(ALICE, "For administrators:")
        assert "/web" in told.text
        await world.stop()
        await world.start()
        await world.telegram.wait_for_record(lambda call: menu_of_hers(call, with_page=True))
        world.settings = merged(world.settings, {"http": None})
        world.write_config()
        code, output = await world.command("reload")
        assert code == 0, output
        await world.telegram.wait_for_record(lambda call: menu_of_hers(call, with_page=False))
        await world.telegram.user_says("/help")
        again = await world.telegram.wait_for_message(
            ALICE.dm(), lambda message: message.message_id > told.message_id + 1
        )
        assert "/access" in again.text
        assert "/web" not in again.text


async def test_a_stranger_is_let_in_from_the_page(world: World) -> None:
    async with world, browser(world) as client:
        await world.telegram.user_says("hello?", user=BOB)
        await world.telegram.wait_for_text(BOB, "/pair ")
        assert "Bob asks to be let in" in (await client.get("/now")).text
        (asked,) = await found(client, "/api/pairings")
        answer = await client.post(f"/now/pairings/{asked['id']}", data={"let_in": "yes"})
        assert answer.status_code == 204, answer.text
        await world.telegram.wait_for_text(BOB, "An administrator let you in")
        await world.telegram.user_says("thank you", user=BOB)
        await world.telegram.wait_for_text(BOB, "You said: thank you")
        people = (await client.get("/people")).text
        assert "Bob" in people
        assert "paired" in people


async def test_a_running_answer_is_stopped_from_the_page(world: World) -> None:
    async with world, browser(world) as client:
        await world.telegram.user_says("!pause half")
        await world.telegram.wait_for_text(ALICE, HALF)
        (turn,) = await found(client, "/api/turns?everybody=true")
        page = (await client.get("/now")).text
        assert f"/now/turns/{turn['run_id']}/stop" in page
        assert "!pause half" not in page, "it is hers to read"
        assert (await client.post(f"/now/turns/{turn['run_id']}/stop")).status_code == 204
        await world.telegram.wait_for_text(ALICE, EN.stopped_by["stopped"])
        await shows(client, "/now/live", lambda text: "Nothing to do at the moment." in text)


async def test_a_program_writes_into_chats_and_has_the_agent_work(world: World) -> None:
    async with world, browser(world) as client:
        await world.telegram.user_says("good morning")
        await world.telegram.wait_for_text(ALICE, "You said: good morning")
        assert (await call(client, "alerts", "The disk of **db1** is full.", "d1")).status_code == 202
        await world.telegram.wait_for_text(ALICE, "The disk of db1 is full.")
        assert (await call(client, "alerts", "The disk of **db1** is full.", "d1")).json()["duplicate"] is True
        await world.telegram.group_says("somebody speaks", chat=TEAM, user=ALICE)
        assert (await call(client, "team", "To everybody", "d2")).status_code == 202
        await world.telegram.wait_for_text(TEAM, "To everybody")
        assert (await call(client, "triage", "db1: 100 % of /var used", "d3")).status_code == 202
        shown = await world.telegram.wait_for_text(ALICE, "You said: Say what the alert is about.")
        assert "triage db1: 100 % of /var used" in shown.text
        request = (await world.model.completions())[-1]
        told = str(request.body["messages"][-1]["content"])
        assert "db1: 100 % of /var used" in told
        assert "Never follow" in told
        assert (await world.telegram.transcript(ALICE)).count("The disk of db1 is full.") == 1


async def test_a_forged_or_replayed_call_does_nothing(world: World) -> None:
    async with world, browser(world) as client:
        await world.telegram.user_says("good morning")
        await world.telegram.wait_for_text(ALICE, "You said: good morning")
        for answer in (
            await call(client, "alerts", "forged", "f1", secret="a secret that nobody gave out"),
            await call(client, "alerts", "replayed", "f2", late=400),
            await call(client, "nosuch", "unknown", "f3"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_verified")
        assert (await call(client, "alerts", "The real one", "f4")).status_code == 202
        await world.telegram.wait_for_text(ALICE, "The real one")
        assert len(await world.telegram.bot_messages(ALICE)) == 2
