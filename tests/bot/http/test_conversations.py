"""Conversations and uploads over HTTP: how one stands, another title, their end."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from bot.store.tables import conversations, inbox, threads
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks
from tests.browser.world import FILES, office

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


async def say(client: httpx.AsyncClient, chat: str, text: str, **more: Any) -> None:
    body = {"text": text, "client_id": uuid.uuid4().hex, **more}
    answer = await client.post(f"/api/conversations/{chat}/messages", json=body)
    assert answer.status_code == 202, answer.text


async def begun(client: httpx.AsyncClient) -> str:
    return str((await client.post("/api/conversations")).json()["chat"])


async def gone(world: ServedCore) -> None:
    """Until what was asked to be deleted is, on the clock that the tests turn."""
    for _ in range(20):
        await world.clock.advance(1)


async def test_of_requests_with_one_client_id_at_once_one_posts_the_message(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.browser()
        chat = await begun(client)
        bodies = [{"text": f"hello {number}", "client_id": "one"} for number in range(5)]
        answers = await asyncio.gather(
            *(client.post(f"/api/conversations/{chat}/messages", json=body) for body in bodies)
        )
        assert sorted(answer.json()["repeated"] for answer in answers) == [False, True, True, True, True]
        assert len({answer.json()["message_id"] for answer in answers}) == 1


async def test_a_message_too_many_is_refused_and_may_be_sent_again(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client, other = await world.browser(), await world.browser(PERSON)
        chat = await begun(client)
        world.parts.manager.flood.allow(60, 2)
        await say(client, chat, "one")
        await say(client, chat, "two", client_id="two")
        body = {"text": "three", "client_id": "three"}
        await world.answered()
        refused = await client.post(f"/api/conversations/{chat}/messages", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
        repeated = await client.post(f"/api/conversations/{chat}/messages", json={"text": "two", "client_id": "two"})
        assert repeated.json()["repeated"], "it was accepted before"
        await say(other, await begun(other), "somebody else's")
        await world.clock.advance(1)
        assert (await client.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202


async def test_the_page_lists_chats_by_the_days_of_the_configured_time_zone(tmp_path: Path) -> None:
    async with served(tmp_path, timezone="America/New_York") as world:
        client = await world.browser()
        await say(client, await begun(client), "good evening")  # at seven
        await world.answered()
        assert "Today" in (await client.get("/chats")).text
        await world.clock.advance(6 * 3600)
        assert "Yesterday" in (await client.get("/chats")).text


async def test_a_conversation_tells_what_goes_on_in_it(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.browser()
        chat = await begun(client)
        path = f"/api/conversations/{chat}"
        assert (await client.get(path)).status_code == 404, "nothing was said in it"
        gate = world.harness.hold("slowly")
        await say(client, chat, "slowly")
        assert (await client.get(path)).json()["state"] in ("queued", "running"), "an answer is to come from now on"
        await world.clock.settle()
        await say(client, chat, "and then")
        await world.clock.settle()
        told = (await client.get(path)).json()
        assert [(turn["state"], turn["words"]) for turn in told["turns"]] == [
            ("running", "slowly"),
            ("queued", "and then"),
        ]
        assert (told["chat"], told["state"], told["approvals"]) == (chat, "running", [])
        other = await begun(client)
        await say(client, other, "elsewhere")
        gate.set()
        await world.answered()
        told = (await client.get(path)).json()
        assert (told["state"], told["turns"]) == ("idle", [])
        stranger = await world.browser(PERSON)
        assert (await stranger.get(path)).status_code == 404


async def test_a_conversation_tells_what_waits_for_a_decision(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.browser()
        chat = await begun(client)
        asks(world, "a letter")
        await say(client, chat, "a letter")
        await world.clock.advance(1)
        told = (await client.get(f"/api/conversations/{chat}")).json()
        assert told["state"] == "waiting"
        (approval,) = told["approvals"]
        assert approval["own"]
        decided = await client.post(f"/api/approvals/{approval['id']}", json={"decision": "deny"})
        assert decided.status_code == 200, decided.text
        await world.answered()
        assert (await client.get(f"/api/conversations/{chat}")).json()["approvals"] == []


async def test_a_conversation_gets_another_title(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.browser()
        chat = await begun(client)
        await say(client, chat, "Where is milk?")
        await world.answered()
        path = f"/api/conversations/{chat}"
        assert (await client.patch(path, json={"title": "  Shops\n of the town "})).status_code == 204
        assert (await client.get(path)).json()["title"] == "Shops of the town"
        (listed,) = (await client.get("/api/conversations")).json()["conversations"]
        assert listed["title"] == "Shops of the town"
        for wrong in ({"title": " "}, {"title": "x" * 101}, {}, {"name": "x"}):
            assert (await client.patch(path, json=wrong)).status_code == 422, wrong
        stranger = await world.browser(PERSON)
        assert (await stranger.patch(path, json={"title": "Mine"})).status_code == 404


async def test_a_conversation_is_deleted_with_what_is_being_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.browser()
        chat, other = await begun(client), await begun(client)
        await say(client, other, "stays")
        await say(client, chat, "the canary 4711")
        await world.answered()
        world.harness.hold("without end")
        await say(client, chat, "without end")
        await world.clock.settle()
        path = f"/api/conversations/{chat}"
        stranger = await world.browser(PERSON)
        assert (await stranger.delete(path)).status_code == 404
        assert (await client.delete(path)).status_code == 202
        await gone(world)
        assert (await client.get(path)).status_code == 404
        assert (await client.get(f"{path}/messages")).json()["messages"] == []
        listed = (await client.get("/api/conversations")).json()["conversations"]
        assert [each["chat"] for each in listed] == [other]
        keys, owners, events = await world.store.read(
            lambda tx: (
                list(tx.scalars(select(conversations.c.key).where(conversations.c.key == f"web:{chat}"))),
                list(tx.scalars(select(threads.c.thread_id).where(threads.c.conversation == f"web:{chat}"))),
                "".join(filter(None, tx.scalars(select(inbox.c.event)))),
            )
        )
        assert (keys, owners) == ([], [])
        assert "4711" not in events
        await say(client, chat, "begins anew")
        await world.answered()
        first, *_ = (await client.get(f"{path}/messages")).json()["messages"]
        assert first["text"] == "begins anew"


async def test_a_thread_of_a_program_is_deleted_too(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client = await world.program(ADMIN)
        thread = (await client.post("/api/langgraph/threads", json={})).json()["thread_id"]
        (listed,) = (await client.get("/api/conversations")).json()["conversations"]
        assert (await client.delete(f"/api/conversations/{listed['chat']}")).status_code == 202
        assert (await client.get(f"/api/langgraph/threads/{thread}")).status_code == 404
        await gone(world)
        assert (await client.get("/api/conversations")).json()["conversations"] == []


async def test_uploads_are_listed_given_back_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        client, stranger = await world.browser(), await world.browser(PERSON)
        assert (await client.get("/api/uploads")).json() == {"uploads": []}
        made = []
        for name, kind in (("notes.txt", "text/plain"), ("page.html", "text/html")):
            answer = await client.post(
                "/api/uploads", params={"name": name}, content=b"words", headers={"Content-Type": kind}
            )
            made.append(answer.json()["id"])
        listed = (await client.get("/api/uploads")).json()["uploads"]
        assert {each["id"]: (each["name"], each["type"], each["size"]) for each in listed} == {
            made[0]: ("notes.txt", "text/plain", 5),
            made[1]: ("page.html", "text/html", 5),
        }
        page = await client.get(f"/api/uploads/{made[1]}")
        assert (page.content, page.headers["content-type"]) == (b"words", "application/octet-stream"), "it could run"
        assert "attachment" in page.headers["content-disposition"]
        assert (await stranger.get("/api/uploads")).json() == {"uploads": []}
        for method in ("GET", "DELETE"):
            assert (await stranger.request(method, f"/api/uploads/{made[0]}")).status_code == 404
            assert (await client.request(method, "/api/uploads/nosuch")).status_code == 404
        chat = await begun(client)
        await say(client, chat, "read it", attachments=[made[0]])
        await world.answered()
        assert (await client.delete(f"/api/uploads/{made[0]}")).status_code == 204
        assert (await client.get(f"/api/uploads/{made[0]}")).status_code == 404
        assert [each["id"] for each in (await client.get("/api/uploads")).json()["uploads"]] == [made[1]]
        entries = (await client.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        assert entries[0]["text"] == "read it", "the message stays"
        refused = await client.post(
            f"/api/conversations/{chat}/messages", json={"text": "again", "client_id": "x", "attachments": [made[0]]}
        )
        assert refused.status_code == 404


async def test_a_chat_is_read_in_pages_of_any_size_without_a_gap(tmp_path: Path) -> None:
    async with office(tmp_path) as world:
        client = await world.browser()
        chat = await begun(client)
        for _ in range(2):
            await say(client, chat, "report")
            await world.quiet()
        path = f"/api/conversations/{chat}/messages"

        async def pages(limit: int) -> list[str]:
            found: list[dict[str, Any]] = []
            older = (await client.get(path, params={"limit": limit})).json()["messages"]
            while older and len(found) < 20:
                found[:0] = older
                before = {"limit": limit, "before": older[0]["at"]}
                older = (await client.get(path, params=before)).json()["messages"]
            return [each["message_id"] for each in found]

        for crashed in (False, True):
            if crashed:
                await world.crash()
                await world.start()
                client = await world.browser()
            whole = await pages(200)
            assert len(whole) == 2 * (2 + len(FILES))
            for limit in (4, 5, 12):  # none parts a question from its answer: on this clock they have one time
                assert await pages(limit) == whole
