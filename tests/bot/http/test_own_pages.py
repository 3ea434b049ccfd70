"""What people find, open and delete of their own on the page: words, files, chats, reasons; and nothing of others."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bot.agents.profiles import AgentChoices
from bot.http.auth import SEARCHES_AT_ONCE, Caller
from bot.http.listener import listening
from bot.http.parts import routers
from bot.http.resources.agents import Agents, Price, models_of
from bot.http.server import HttpServer
from bot.store import conversations, personal, tables
from bot.store.search import excerpt
from channels.http.channel import HttpChannel
from channels.message import Address
from harness.agents.profiles import DEFAULT, AgentDefinition, AgentSettings, Features
from harness.config import ModelSettings, PriceSettings, ToolSettings
from harness.events import Usage
from harness.memory.config import MemorySettings
from harness.models.tour import STEPS
from harness.models.tour_texts import texts_in
from harness.subagents.config import SubagentSettings, SubagentsSettings
from tests.bot.core import ANN, BOB
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.http.test_artifacts import makes_a_file

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

VISIT = {"Accept": "text/html"}
PNG = {"Content-Type": "image/png"}
PIECE = {"Accept": "application/json, text/html"}


async def chat_of(world: ServedCore, client: httpx.AsyncClient, *texts: str) -> str:
    """A chat in which these were said and answered."""
    chat: str = (await client.post("/api/conversations")).json()["chat"]
    for number, text in enumerate(texts):
        body = {"text": text, "client_id": str(number)}
        assert (await client.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
        await world.answered()
    await world.clock.until(world.delivery.drained())
    return chat


async def found_chats(client: httpx.AsyncClient, q: str) -> list[str]:
    return re.findall(r'href="/c/([^"]+)"', (await client.get("/chats", params={"q": q}, headers=PIECE)).text)


async def found_threads(client: httpx.AsyncClient, q: str, **more: str) -> str:
    return (await client.get("/threads", params={"q": q, **more}, headers=PIECE)).text


async def test_words_are_found_in_titles_questions_and_answers_of_ones_own_chats(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, other = await world.browser(PERSON), await world.browser()
        world.harness.tells("the Übersee question", lambda t: t.answer('It says "100%_sure" about <b>herons</b>.'))
        herons = await chat_of(world, bob, "the Übersee question")
        plain = await chat_of(world, bob, "something about geese", "and about ducks")
        assert set(await found_chats(bob, "")) == {plain, herons}
        for q in ("HERONS", "übersee", "QUESTION the", '"100%_sure"', "<b>herons</b>"):
            assert await found_chats(bob, q) == [herons], q
        assert await found_chats(bob, "geese ducks") == [], "all words are in one message, or in the title"
        assert await found_chats(bob, "100__sure") == []
        assert "&lt;b&gt;herons" in (await bob.get("/chats", params={"q": "herons"}, headers=PIECE)).text
        for q in ("herons", "geese", "a"):
            assert await found_chats(other, q) == [], "other people's words are never found"
        await bob.post(f"/c/{plain}/title", data={"title": "Straße nach Norden"})
        assert await found_chats(bob, "STRASSE norden") == [plain]


async def test_a_chat_beyond_those_that_are_listed_is_found_named_and_renamed(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        old = await chat_of(world, bob, "of herons")
        now = world.clock.now() + timedelta(seconds=1)

        def many(tx: Any) -> None:
            for number in range(210):
                key = f"web:{old.partition('-')[0]}-{number}"
                conversations.ensure(tx, key, "web", PERSON, now)
                tx.execute(update(tables.threads).where(tables.threads.c.conversation == key).values(touched_at=now))

        await world.store.write(many)
        assert old not in await found_chats(bob, "")
        assert await found_chats(bob, "herons") == [old]
        assert (await bob.post(f"/c/{old}/title", data={"title": "Grey birds"})).status_code == 204
        assert "<title>Grey birds" in (await bob.get(f"/c/{old}", headers=VISIT)).text


async def test_threads_are_found_by_what_one_may_read_of_them_alone(tmp_path: Path) -> None:
    async with served(tmp_path, http={"admins_read_threads": True}) as world:
        world.harness.tells("of herons", lambda t: t.answer("They stand still."))
        world.harness.tells("of owls", lambda t: t.answer("They fly at night."))
        for text in ("in the group: storks", "in the group: cranes"):
            # What members of groups asked for is found by what it cost.
            world.harness.tells(
                text, lambda t: t(Usage, model="demo", input_tokens=5, output_tokens=5), lambda t: t.answer("Well.")
            )
        await world.say("of herons", BOB, name="Bob")
        await world.say("of owls", ANN, name="Ann")
        await world.say("in the group: storks", ANN, chat="g", name="Ann")
        await world.answered()
        await world.say("in the group: cranes", BOB, chat="g", name="Bob")
        await world.answered()
        bob, ann = await world.browser(PERSON), await world.browser(ADMIN)
        assert "of herons" in await found_threads(bob, "stand STILL")
        assert "in the group: cranes" in await found_threads(bob, "cranes")
        for q in ("owls", "night", "storks"):
            assert "Nothing was found" in await found_threads(bob, q), q
            assert "Nothing was found" in await found_threads(bob, q, all="yes"), "only administrators read all"
        assert "Nothing was found" in await found_threads(ann, "herons")
        assert "of herons" in await found_threads(ann, "herons", all="yes")
        told = (await (await world.program(PERSON)).get("/api/transcripts", params={"q": "herons"})).json()
        assert [each["excerpt"] for each in told["threads"]] == ["of herons"]
        whole = await bob.get("/threads", params={"q": "owls"}, headers=VISIT)
        assert 'value="owls"' in whole.text


async def test_a_deleted_chat_is_gone_with_its_words_and_files_and_others_stay(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, other = await world.browser(PERSON), await world.browser()
        await makes_a_file(world, "of herons", "herons.txt", "grey")
        chat = await chat_of(world, bob, "of herons", "/status", "/new", "more herons")
        stays = await chat_of(world, bob, "geese")
        assert "data-confirm" in (await bob.get(f"/c/{chat}", headers=VISIT)).text
        kept = []
        for name, where in (("gone.png", (chat,)), ("stays.png", (chat, stays))):
            mine = (await bob.post("/api/uploads", params={"name": name}, content=b"x", headers=PNG)).json()["id"]
            kept.append(mine)
            for place in where:
                body = {"text": "look", "client_id": name, "attachments": [mine]}
                assert (await bob.post(f"/api/conversations/{place}/messages", json=body)).status_code == 202
        await world.answered()
        (file,) = (world.folder / "spool").rglob("herons.txt")
        assert (await other.post(f"/c/{chat}/delete")).status_code == 404
        assert (await bob.post(f"/c/{chat.partition('-')[0]}-new/delete")).status_code == 404
        answer = await bob.post(f"/c/{chat}/delete")
        assert (answer.status_code, answer.headers["x-antler-location"]) == (204, "/")
        assert await found_chats(bob, "") == [stays], "it is not listed from now on"
        await world.clock.advance(5)
        await world.answered()
        assert await found_chats(bob, "") == [stays]
        assert (await bob.get(f"/api/conversations/{chat}/messages")).json()["messages"] == []
        assert not file.exists()
        assert [(await bob.get(f"/uploads/{each}")).status_code for each in kept] == [404, 200]

        def left(tx: Any) -> str:
            rows = [
                tx.execute(select(table)).all()
                for table in (tables.inbox, tables.outbox, tables.runs, tables.run_events)
            ]
            return repr(rows)

        told = await world.store.read(left)
        assert "herons" not in told
        assert "geese" in told
        assert "geese" in (await bob.get(f"/api/conversations/{stays}/messages")).text
        body = {"text": "again", "client_id": "9"}
        assert (await bob.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
        await world.answered()
        assert await found_chats(bob, "again") == [chat], "who writes there begins it anew"


async def test_a_chat_is_deleted_while_it_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        gate = world.harness.hold("work")
        chat: str = (await bob.post("/api/conversations")).json()["chat"]
        await bob.post(f"/api/conversations/{chat}/messages", json={"text": "work", "client_id": "1"})
        await world.clock.advance(2)
        assert (await bob.post(f"/c/{chat}/delete")).status_code == 204
        assert await found_chats(bob, "") == []
        await world.clock.advance(60)
        assert not gate.is_set()
        assert (await bob.get("/api/turns")).json()["turns"] == []
        assert await found_chats(bob, "") == []


async def test_words_of_a_deleted_chat_go_also_where_somebody_writes_before_they_are_gone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        chat = await chat_of(world, bob, "herons", "/whoami of storks")
        address, now = Address(account="web", chat=chat), world.clock.now()
        asked = await world.store.write(lambda tx: personal.ask_deletion_of_chat(tx, address, PERSON, now))
        await world.clock.advance(1)
        body = {"text": "of owls", "client_id": "9"}
        assert (await bob.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
        await world.answered()
        assert await world.store.write(lambda tx: personal.clear_chat(tx, asked[-1])) is None, "it is used again"
        events = repr(await world.store.read(lambda tx: tx.execute(select(tables.inbox.c.event)).all()))
        assert "storks" not in events
        assert "of owls" in (await bob.get(f"/api/conversations/{chat}/messages")).text


async def test_files_of_a_deleted_chat_go_also_after_a_crash(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        gone, stays = await chat_of(world, bob), await chat_of(world, bob)
        kept: dict[str, str] = {}
        for name, chats in {"own": (gone,), "shared": (gone, stays)}.items():
            sent = await bob.post("/api/uploads", params={"name": f"{name}.txt"}, content=name.encode())
            kept[name] = sent.json()["id"]
            for chat in chats:
                body = {"text": name, "client_id": f"{name}{chats.index(chat)}", "attachments": [kept[name]]}
                assert (await bob.post(f"/api/conversations/{chat}/messages", json=body)).status_code == 202
                await world.answered()
        address, now = Address(account="web", chat=gone), world.clock.now()
        # As a kill leaves it that comes when the deletion is recorded and nothing is deleted.
        await world.store.write(lambda tx: personal.ask_deletion_of_chat(tx, address, PERSON, now))
        assert (await bob.get(f"/api/uploads/{kept['own']}")).status_code == 200
        await world.parts.forgetting.resume()
        await world.clock.advance(60)
        await world.answered()
        assert (await bob.get(f"/api/uploads/{kept['own']}")).status_code == 404
        assert (await bob.get(f"/api/uploads/{kept['shared']}")).status_code == 200


async def test_a_deleted_chat_is_shown_anew_to_its_own_readers_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob = await world.browser(PERSON)
        gone, stays = await chat_of(world, bob, "herons"), await chat_of(world, bob, "geese")
        channel = world.parts.connections.channels["web"]
        assert isinstance(channel, HttpChannel)
        assert channel.board(stays).messages
        assert (await bob.post(f"/c/{gone}/delete")).status_code == 204
        await world.clock.advance(5)
        await world.answered()
        assert (channel.board(gone).messages, len(channel.board(stays).messages)) == ([], 1)


async def test_a_person_searches_so_often_and_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, program = await world.browser(PERSON), await world.program(PERSON)
        asked = [await bob.get("/chats", params={"q": "geese"}, headers=PIECE) for _ in range(SEARCHES_AT_ONCE)]
        assert {each.status_code for each in asked} == {200}
        assert (await program.get("/api/transcripts", params={"q": "geese"})).status_code == 429
        assert (await (await world.browser(ADMIN)).get("/chats", params={"q": "a"}, headers=PIECE)).status_code == 200
        await world.clock.advance(2)
        assert (await program.get("/api/transcripts", params={"q": "geese"})).status_code == 200


async def test_people_are_told_why_of_their_own_messages(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, ann = await world.browser(PERSON), await world.browser(ADMIN)
        chat = await chat_of(world, bob, "of herons")
        page = (await bob.get(f"/c/{chat}", headers=VISIT)).text
        (message,) = re.findall(r'data-why="([^"]+)"', page)
        told = await bob.get(f"/c/{chat}/why/{message}")
        assert told.status_code == 200
        assert "herons" not in told.text
        assert "success" in told.text
        assert (await ann.get(f"/c/{chat}/why/{message}")).status_code == 404
        await world.say("of owls", BOB, name="Bob")
        await world.say("of storks", ANN, name="Ann")
        await world.answered()
        runs = {
            row.speaker: row.run_id
            for row in await world.store.read(lambda tx: tx.execute(select(tables.runs)).all())
            if row.account == "memory"
        }
        own = await bob.get(f"/why/{runs[PERSON]}", headers=VISIT)
        assert (own.status_code, "success" in own.text) == (200, True)
        for run in (runs[ADMIN], "0" * 32):
            theirs = await bob.get(f"/why/{run}", headers=VISIT)
            assert (theirs.status_code, "There is nothing here" in theirs.text) == (404, True)
        assert (await bob.get("/why/1", headers=VISIT)).status_code == 404, "numbers of events are for who operates"
        assert (await ann.get(f"/why/{runs[PERSON]}", headers=VISIT)).status_code == 200


async def test_files_of_all_chats_are_listed_and_deleted_by_their_person_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        bob, other = await world.browser(PERSON), await world.browser()
        assert "No files yet" in (await bob.get("/files", headers=VISIT)).text
        await makes_a_file(world, "make it", "herons.txt", "grey")
        made = await chat_of(world, bob, "make it")
        kept = []
        for name in ("in a chat.png", "in none.png"):
            mine = await bob.post("/api/uploads", params={"name": name}, content=b"x" * 10, headers=PNG)
            kept.append(mine.json()["id"])
        sent: str = (await bob.post("/api/conversations")).json()["chat"]
        body = {"text": "look", "client_id": "1", "attachments": kept[:1]}
        assert (await bob.post(f"/api/conversations/{sent}/messages", json=body)).status_code == 202
        await world.answered()
        page = (await bob.get("/files", headers=VISIT)).text
        for told in ("herons.txt", "4 B", "in a chat.png", "10 B", "in none.png", "in no chat"):
            assert told in page, told
        assert f'href="/c/{made}"' in page
        assert f'href="/c/{sent}"' in page
        assert "herons" not in (await other.get("/files/list")).text
        (message,) = re.findall(r'href="/c/[^"]+\?file=([^"]+)"', page)
        path = "/files/delete"
        theirs = {"kind": "made", "chat": made, "id": message}
        assert (await other.post(path, data=theirs)).status_code == 404
        for upload in kept:
            assert (await other.post(path, data={"kind": "sent", "chat": "", "id": upload})).status_code == 404
        for wrong in ({"kind": "sent", "id": "../../antler.db"}, {"kind": "other", "id": message}, {}):
            assert (await bob.post(path, data=wrong)).status_code == 404
        assert (await bob.post(path, data=theirs)).status_code == 204
        assert (await bob.post(path, data={"kind": "sent", "chat": "", "id": kept[1]})).status_code == 204
        page = (await bob.get("/files/list")).text
        assert "in none.png" not in page
        assert "not kept any more" in page, "the message that gave it is still there"
        assert (await bob.get(f"/api/conversations/{made}/files/{message}")).status_code == 404
        assert (await bob.get(f"/uploads/{kept[1]}")).status_code == 404
        assert (await bob.get(f"/uploads/{kept[0]}")).status_code == 200


def test_an_excerpt_shows_the_word_in_its_surroundings() -> None:
    text = "far " * 100 + "herons\nstand " + "still " * 100
    told = excerpt(text, ("Herons",))
    assert "herons stand still" in told
    assert told.startswith("…")
    assert told.endswith("…")
    assert excerpt("short", ("short",)) == "short"


async def test_agents_and_models_are_told_with_what_they_have_and_cost(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        own = AgentDefinition(
            "scribe",
            "You write.",
            AgentSettings(
                description="Writes <b>letters</b>",
                model="large",
                tool_groups=("post",),
                subagents=("clerk",),
                features=Features(web=False, mcp=False, memory=False),
            ),
        )
        changed = world.settings.model_copy(
            update={
                "models": (
                    ModelSettings(
                        name="main",
                        supports_vision=True,
                        context_window=200_000,
                        price=PriceSettings(input=3, output=15.5, cached=0.3, currency="EUR"),
                        fallbacks=("large",),
                    ),
                    ModelSettings(name="large"),
                ),
                "subagents": SubagentsSettings(
                    per_run=4,
                    types={
                        "clerk": SubagentSettings(description="d", system_prompt="File.", tools=("ls",), max_turns=7)
                    },
                ),
                "tools": (
                    ToolSettings(use="a.b:stamp", group="post"),
                    ToolSettings(use="a.b:weigh", group="scales"),
                ),
                "limits": world.settings.limits.model_copy(update={"model_calls": 12}),
            }
        )
        world.served.agents.adopt(changed, {**world.served.agents.definitions, "scribe": own})
        parts = replace(world.served, settings=lambda: changed)
        caller = Caller(person=PERSON, scopes=frozenset({"read"}), is_admin=False, is_program=False, key="k")
        default, scribe = await Agents(parts).list(caller)
        assert [each.name for each in default.subagents] == ["general-purpose", "bash", "clerk"]
        assert {each.kind for each in default.tools} >= {"files", "commands", "planning", "schedules", "own"}
        (clerk,) = scribe.subagents
        assert (clerk.tools, clerk.model, clerk.model_calls) == (("ls",), None, 7)
        assert (scribe.model, scribe.limits.model_calls, scribe.limits.subagents) == ("large", 12, 4)
        assert [each.names for each in scribe.tools if each.kind == "own"] == [("stamp",)]
        assert not {each.kind for each in scribe.tools} & {"web", "memory"}
        main, large = models_of(parts)
        assert main.price == Price(read=3, written=15.5, cached=0.3, currency="EUR")
        assert (main.sees, main.context_window, main.fallbacks) == (True, 200_000, ("large",))
        assert (large.price, large.sees) == (None, False)
        await world.server.close()
        world.server = HttpServer(changed.http, listening(changed.http), routers(parts), parts.gatekeeper, 1000)
        world.server.start()
        bob = await world.browser(PERSON)
        page = (await bob.get("/agents", headers=VISIT)).text
        for told in ("Writes &lt;b&gt;letters&lt;/b&gt;", "/agent scribe", "write_todos", "general-purpose"):
            assert told in page, told
        assert "/configuration" not in page, "it is for administrators"
        page = (await bob.get("/usage", headers=VISIT)).text
        for told in ("200k tokens of context", "3 EUR read, 15.5 EUR written", "0.3 EUR from cache", "sees pictures"):
            assert told in page, told
        assert "no price is set" in page


def test_what_the_first_screen_says_for_each_step_begins_that_step() -> None:
    for language in ("en", "zh"):
        texts = texts_in(language)
        assert len(texts.names) == len(texts.steps) == len(STEPS)
        for name, (known, _) in zip(texts.names, STEPS, strict=True):
            assert re.fullmatch(known, name.lower()), name


async def test_what_an_agent_keeps_of_a_person_is_shown_and_changed_apart(tmp_path: Path) -> None:
    own = AgentDefinition("support", "Kind.", AgentSettings(features=Features(memory="own")))
    agents = AgentChoices({DEFAULT: AgentDefinition(), "support": own})
    async with served(tmp_path, agents=agents, memory_settings=MemorySettings(enabled=True)) as world:
        await world.memory.add(PERSON, "k1", "I like pears.", PERSON)
        await world.memory.add(PERSON, "k2", "My printer is broken.", PERSON, "support")
        await world.memory.add(PERSON, "k3", "I am owed money.", PERSON, "removed")
        await world.memory.add(ADMIN, "k4", "I want a discount.", ADMIN, "sales")
        program, support = await world.program(PERSON), {"agent": "support"}
        shared = (await program.get("/api/memory")).json()
        assert ([each["text"] for each in shared["items"]], shared["agent"]) == (["I like pears."], "")
        assert shared["agents"] == ["removed", "support"]  # not that in which only somebody else is remembered
        (fact,) = (await program.get("/api/memory", params=support)).json()["items"]
        assert fact["text"] == "My printer is broken."
        wrong = await program.put(f"/api/memory/{fact['id']}", json={"text": "No."})
        assert wrong.status_code == 404
        edited = await program.put(f"/api/memory/{fact['id']}", json={"text": "It is repaired."}, params=support)
        assert [each["text"] for each in edited.json()["items"]] == ["It is repaired."]
        added = await program.post("/api/memory", json={"text": "It is red."}, params=support)
        assert len(added.json()["items"]) == 2
        for unknown in ("sales", "../support", "nobody"):
            assert (await program.get("/api/memory", params={"agent": unknown})).json()["items"] == []
            assert (await program.delete("/api/memory", params={"agent": unknown})).status_code == 404
            refused = await program.post("/api/memory", json={"text": "Keep this."}, params={"agent": unknown})
            assert refused.status_code == 404
        figures = (await (await world.program(ADMIN)).get("/api/memories")).json()
        assert sorted(each["agent"] for each in figures) == ["", "removed", "sales", "support"]

        bob = await world.browser(PERSON)
        page = (await bob.get("/memory", headers=VISIT)).text
        assert "I like pears." in page
        assert 'href="/memory?agent=support"' in page
        page = (await bob.get("/memory?agent=support", headers=VISIT)).text
        assert ("It is red." in page, "pears" in page) == (True, False)
        assert "The agent support keeps this for itself" in page
        assert 'data-region="/memory/list?agent=support"' in page
        assert (await bob.get("/memory?agent=nobody", headers=VISIT)).status_code == 404
        gone = await bob.post("/memory/forget-all", data=support)
        assert gone.headers["location"] == "/memory?agent=support" if gone.status_code == 303 else gone.is_success
        assert (await program.get("/api/memory", params=support)).json()["items"] == []
        gone = await program.delete("/api/memory", params={"agent": "removed"})
        assert (gone.status_code, gone.json()["items"], gone.json()["agents"]) == (200, [], ["support"])
        assert len((await program.get("/api/memory")).json()["items"]) == 1
