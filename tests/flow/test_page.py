"""A person of Telegram on the page: signed in by /web, the same person there, through a kill -9, until they are
forgotten."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from bot.http.auth import COOKIE, CSRF_HEADER
from tests.bot.http.test_http import free_port
from tests.bot.http.test_signing import followed, until_final
from tests.browser.conftest import answered
from tests.browser.conftest import missing as incomplete
from tests.browser.conftest import say as say_there
from tests.browser.test_panel import signed_in
from tests.flow.test_forgetting import CANARY, forget, holding
from tests.flow.test_life_of_a_message import FIRST_HALF, WHOLE
from tests.parts import missing
from tests.simulators.telegram.seen import ALICE, TEAM
from tests.simulators.transcription import client as transcription_client
from tests.simulators.transcription import speech

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Page

    from tests.flow.gateway import World
    from tests.simulators.process import SimulatorProcess


@asynccontextmanager
async def browser(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=world.settings["http"]["url"], trust_env=False, timeout=40) as client:
        yield client


def listening(world: World) -> None:
    port = free_port()
    world.settings |= {"http": {"listen": f"127.0.0.1:{port}", "url": f"http://127.0.0.1:{port}"}}


async def sign_in(world: World, client: httpx.AsyncClient) -> None:
    """Write /web, open the link, and keep what its pages send along."""
    await world.telegram.user_says("/web")
    await world.telegram.wait_for_text(ALICE, "Open this link")
    async with asyncio.timeout(40):  # there may be an older one
        while (code := re.search(r"/signin/([\w-]{32})", (await world.telegram.bot_messages(ALICE))[-1].text)) is None:
            await world.telegram.wait_idle(ALICE)
    answer = await client.post("/signin", data={"code": code[1]})
    assert answer.status_code == 303, answer.text
    client.headers[CSRF_HEADER] = (await client.get("/api/me")).json()["csrf"]


async def say(client: httpx.AsyncClient, chat: str, text: str) -> None:
    said = await client.post(f"/api/conversations/{chat}/messages", json={"text": text, "client_id": text.split()[0]})
    assert said.status_code == 202, said.text


async def told(client: httpx.AsyncClient, chat: str) -> list[tuple[str, str]]:
    history = (await client.get(f"/api/conversations/{chat}/messages")).json()["messages"]
    return [(each["author"], each["text"]) for each in history]


async def test_who_signs_in_from_a_chat_is_that_person_and_an_answer_survives_a_kill(world: World) -> None:
    listening(world)
    async with world, browser(world) as client:
        await world.telegram.group_says("@antler_bot /web")
        refused = await world.telegram.wait_for_text(TEAM, "in a private chat")
        assert "signin" not in refused.text
        await sign_in(world, client)
        me = (await client.get("/api/me")).json()
        assert (me["person"], me["is_admin"]) == (f"telegram:{ALICE.id}", False)
        assert "operate" not in me["scopes"]
        chat = (await client.post("/api/conversations")).json()["chat"]
        async with followed(client, chat) as events:
            await say(client, chat, "hello there")
            assert (await until_final(events))[0] == "You said: hello there"
        await say(client, chat, "!pause half")
        await world.model.wait_for_pause("half")
        async with asyncio.timeout(60), followed(client, chat) as events:
            while FIRST_HALF not in (await told(client, chat))[-1][1]:
                await anext(events)
        await world.kill()
        await world.model.release("half")
        await world.start()
        async with asyncio.timeout(60), followed(client, chat, **{"Last-Event-ID": "00000000-9"}) as events:
            first = await anext(events)
            assert (first["event"], first["data"]["gap"]) == ("snapshot", True)
            while (shown := await told(client, chat))[-1] != ("bot", WHOLE):
                await anext(events)
        assert [author for author, _ in shown] == ["person", "bot", "person", "bot"], "one whole answer"


async def test_access_that_is_taken_away_ends_the_session(world: World) -> None:
    listening(world)
    async with world, browser(world) as client:
        await sign_in(world, client)
        world.settings |= {"access": {"allow": []}}
        world.write_config()
        assert (await world.command("reload"))[0] == 0
        assert (await client.get("/api/me")).status_code == 401


async def test_nothing_of_a_person_is_left_of_what_they_said_on_the_page(world: World) -> None:
    listening(world)
    async with world, browser(world) as client:
        await sign_in(world, client)
        chat = (await client.post("/api/conversations")).json()["chat"]
        note = await client.post("/api/uploads", params={"name": f"{CANARY}.txt"}, content=f"the {CANARY}".encode())
        assert note.status_code == 201, note.text
        async with followed(client, chat) as events:
            body = {"text": f"remember the {CANARY}", "client_id": "1", "attachments": [note.json()["id"]]}
            assert (await client.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
            assert CANARY in (await until_final(events))[0]
            assert CANARY in str((await world.model.completions())[-1].body)
            assert holding(world.data_dir)
            await forget(world)
        assert holding(world.folder) == []
        assert (await client.get("/api/me")).status_code == 401, "signed out"
        await sign_in(world, client)
        assert await told(client, chat) == []
    assert holding(world.folder) == []


async def test_a_branch_knows_the_chat_up_to_there_and_the_chat_goes_on_without_it(world: World) -> None:
    listening(world)
    async with world, browser(world) as client:
        await sign_in(world, client)
        chat = (await client.post("/api/conversations")).json()["chat"]
        async with followed(client, chat) as events:
            for text in ("zebras first", "herons second"):
                await say(client, chat, text)
                assert (await until_final(events))[0] == f"You said: {text}"
        history = (await client.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        made = await client.post(f"/c/{chat}/branch", data={"message": history[1]["message_id"]})
        assert made.status_code == 201, made.text
        branch = made.json()["chat"]
        began = [("person", "zebras first"), ("bot", "You said: zebras first")]
        assert await told(client, branch) == began
        await world.kill()
        await world.start()
        async with followed(client, branch) as events:
            await say(client, branch, "otters then")
            assert (await until_final(events))[0] == "You said: otters then"
        asked = str((await world.model.completions())[-1].body["messages"])
        assert ("zebras first" in asked, "herons second" in asked) == (True, False)
        assert await told(client, branch) == [*began, ("person", "otters then"), ("bot", "You said: otters then")]
        async with followed(client, chat) as events:
            await say(client, chat, "ibexes too")
            assert (await until_final(events))[0] == "You said: ibexes too"
        asked = str((await world.model.completions())[-1].body["messages"])
        assert ("herons second" in asked, "otters then" in asked) == (True, False)
        await forget(world)
        await sign_in(world, client)
        assert await told(client, branch) == []


@pytest.mark.browser
async def test_an_answer_is_made_again_and_an_exchange_undone_from_the_menu_of_a_chat(world: World) -> None:
    """What the chat shows, and what the model hears of it afterwards."""
    if reason := incomplete():
        missing(reason)
    listening(world)
    faults: list[str] = []
    async with world, browser(world) as client:
        await sign_in(world, client)
        root = world.settings["http"]["url"]
        async with signed_in(root, client.cookies[COOKIE], faults) as page:
            await page.goto("/")
            for number, text in enumerate(("the zebra", "the walrus"), 1):
                await say_there(page, text)
                await answered(page, number)
            before = len(await world.model.completions())
            await choose(page, "Answer again")
            await page.locator(".prose", has_text="You said: the walrus").nth(1).wait_for()
            await answered(page, 3)
            asked = str((await world.model.completions())[-1].body["messages"])
            assert len(await world.model.completions()) == before + 1
            assert (asked.count("the zebra"), asked.count("the walrus")) == (2, 1), "its first answer is not heard of"

            await choose(page, "Undo the last exchange")
            forgotten = page.locator("#messages").get_by_text("I have forgotten the last exchange (the walrus)")
            await forgotten.wait_for()
            await page.reload()
            await forgotten.wait_for()
            await say_there(page, "what now?")
            await page.locator(".prose", has_text="You said: what now?").wait_for()
            asked = str((await world.model.completions())[-1].body["messages"])
            assert ("the zebra" in asked, "the walrus" in asked) == (True, False)
    assert faults == []


async def choose(page: Page, name: str) -> None:
    """An entry of the chat's menu, by the keyboard."""
    await page.focus("summary[aria-label='More actions']")
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name=name).press("Enter")


async def is_heard(world: World, client: httpx.AsyncClient) -> None:
    await sign_in(world, client)
    page = await client.get("/", headers={"Accept": "text/html"})
    assert 'id="record"' in page.text
    assert page.headers["permissions-policy"].endswith("microphone=(self)")
    chat = (await client.post("/api/conversations")).json()["chat"]
    audio = {"Content-Type": "audio/ogg"}
    upload = {"name": "voice.ogg", "voice": "true"}
    kept = await client.post("/api/uploads", params=upload, content=speech.ogg("buy two zebras"), headers=audio)
    assert (kept.status_code, kept.json()["kind"]) == (201, "voice")
    async with followed(client, chat) as events:
        body = {"client_id": "1", "attachments": [kept.json()["id"]]}
        assert (await client.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
        assert (await until_final(events))[0] == "You said: buy two zebras"
    assert "transcribed by a machine" in str((await world.model.completions())[-1].body)
    shown = await client.get(f"/c/{chat}", headers={"Accept": "text/html"})
    assert f'<audio controls preload="metadata" src="/uploads/{kept.json()["id"]}"' in shown.text
    wrong = await client.post("/api/uploads", params=upload, content=b"x", headers={"Content-Type": "text/html"})
    assert wrong.status_code == 422


async def test_what_is_recorded_on_the_page_is_answered_like_what_is_written(
    world: World, transcription_process: SimulatorProcess
) -> None:
    listening(world)
    async with transcription_client.connect(transcription_process) as service:
        world.settings |= {"transcription": service.settings}
        world.environment |= {"VOICE_KEY": service.api_key}
        async with world, browser(world) as client:
            await is_heard(world, client)


async def test_nothing_is_recorded_where_nobody_would_hear_it(world: World) -> None:
    listening(world)
    async with world, browser(world) as client:
        await sign_in(world, client)
        page = await client.get("/", headers={"Accept": "text/html"})
        assert 'id="record"' not in page.text
        assert "voice." not in page.text
        assert page.headers["permissions-policy"].endswith("microphone=()")
