"""Who may ask what: every route with every kind of session and token, and with other people's ids."""

from __future__ import annotations

import json
import re
import uuid
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy import select

from bot.access.signin import SCOPES
from bot.http.auth import CSRF_HEADER, SAFE
from bot.http.parts import routers
from bot.http.server import make_app
from bot.knowledge.keeper import FILE, Addition
from bot.store import conversations, prompts, runs, schedules, tables
from channels.message import Quote
from harness.events import Usage
from harness.knowledge.port import Asker as Payer
from harness.memory.config import MemorySettings
from tests.bot.core import ANN, BOB, RULES
from tests.bot.http.routes import ASK, GRAPH, OPEN, SIGNED_IN, TABLE, Route, filled
from tests.bot.http.served import ADMIN, PERSON, Remembering, ServedCore, served, time_goes_on
from tests.bot.http.test_admin_actions import reminder
from tests.bot.http.test_artifacts import makes_a_file
from tests.bot.http.test_research import SOURCES, begun, research
from tests.bot.runs.test_approvals import asks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import httpx
    from sqlalchemy import Connection

NAMED = re.compile(r"\{(\w+)")
OWN, ALL = frozenset({"read", "threads", "runs"}), frozenset(SCOPES)
NOWHERE = {
    "file_name": "nosuch.zip",
    "path": "nosuch/at/all",
    "subject": "memory:nosuch",
    "thread_id": "00000000-0000-4000-8000-000000000000",
}
"""What there is not, where its name has to look like one; else it is called nosuch."""


@dataclass(frozen=True)
class Asker:
    """scopes: what they may do. client: None for nobody."""

    name: str
    scopes: frozenset[str]
    client: httpx.AsyncClient
    is_session: bool = False
    is_somebody: bool = True


async def askers(world: ServedCore) -> list[Asker]:
    async def token(name: str, person: str, scopes: frozenset[str], given: Sequence[str]) -> Asker:
        return Asker(name, scopes, await world.program(person, *given))

    return [
        Asker("nobody", frozenset(), world.client(), is_somebody=False),
        Asker("a member's session", OWN, await world.browser(PERSON), is_session=True),
        Asker("an administrator's session", ALL, await world.browser(ADMIN), is_session=True),
        *[await token(f"a token for {each}", ADMIN, frozenset({each}), [each]) for each in SCOPES],
        await token("a member's token for all", PERSON, OWN, SCOPES),
        await token("a token that is good for nothing", PERSON, frozenset(), ("operate", "admin")),
        await token("a program of its own", "api:own", ALL, SCOPES),
    ]


async def ask(
    world: ServedCore, client: httpx.AsyncClient, method: str, path: str, ids: Mapping[str, str] = NOWHERE
) -> tuple[int, dict[str, Any], str]:
    """What a route of the table answers: the status, the error and the text; of a stream its beginning alone."""
    route = TABLE[method, path]
    known = (
        {name: "nosuch" for name in NAMED.findall(f"{path} {route.body} {route.form}")} | dict(ids) | dict(route.place)
    )
    address = filled(path.replace(":path}", "}"), known)
    about: dict[str, Any] = {"headers": {"Accept": "text/html"}} if route.page else {}
    if route.form is not None:
        about["data"] = filled(route.form, known)
    elif route.body is not None:
        about["json"] = filled(route.body, known)
    # What waits for an answer needs the clock to go on, which takes time.
    clock = time_goes_on(world) if route.scope == "runs" else nullcontext()
    async with clock, client.stream(method, address + route.query, **about) as answer:
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return answer.status_code, {}, ""
        text = (await answer.aread()).decode()
    error = json.loads(text)["error"] if answer.status_code >= 400 and text.startswith('{"error"') else {}
    return answer.status_code, error, text


def expected(route: Route, asker: Asker) -> tuple[int, str]:
    """The status and, where it is the answer to who asks, the error's code."""
    if route.scope == OPEN:
        return route.answer, ""
    if not asker.is_somebody:
        return (303, "") if route.page else (401, "not_signed_in")
    if route.scope not in (SIGNED_IN, *asker.scopes):
        return 403, "" if route.page else f"missing_scope {route.scope}"
    if route.sessions and not asker.is_session:
        return 403, "not_a_session"
    if route.form is not None and route.answer == 204 and not asker.is_session:
        return 303, ""  # who does not send what the pages' scripts send is led on
    if route.operators is not None and "operate" in asker.scopes:
        return route.operators, ""
    return route.answer, ""


def told(status: int, error: dict[str, Any]) -> tuple[int, str]:
    code = error.get("code", "")
    refused = code in ("not_signed_in", "missing_scope", "not_a_session")
    return status, " ".join([code, *error.get("scopes", ())]) if refused else ""


async def test_every_route_is_in_the_table(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        app = make_app(world.parts.settings.http, routers(world.served))
        found = {(method, each.path) for each in iter_route_contexts(app.routes) for method in each.methods or ()}
        assert found == TABLE.keys()


@pytest.mark.slow
async def test_every_route_answers_everybody_as_the_table_says(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True), sections=SOURCES) as world:
        wrong = []
        for asker in await askers(world):
            await world.clock.advance(10)  # signing in has a rate
            for (method, path), route in TABLE.items():
                status, error, _ = await ask(world, asker.client, method, path)
                wanted = expected(route, asker)
                if told(status, error) != wanted:
                    wrong.append((asker.name, method, path, told(status, error), error, wanted))
        assert not wrong, "\n".join(map(str, wrong))


async def test_what_a_browser_was_led_to_send_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        browser = await world.browser(ADMIN)
        del browser.headers[CSRF_HEADER]
        for (method, path), route in TABLE.items():
            if method not in SAFE and route.scope != OPEN:
                status, error, _ = await ask(world, browser, method, path)
                assert (status, error.get("code")) == (403, "csrf"), (method, path)


async def test_a_revoked_person_is_shut_out_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        change = world.editor.allow("memory:7", "test")
        await world.store.write(change.write)
        change.committed()
        seven = await world.program("memory:7")
        assert (await seven.get("/api/memory")).status_code == 200
        admin = await world.program(ADMIN)
        assert (await admin.delete("/api/access/memory:7")).json()["state"] == "blocked"
        assert (await seven.get("/api/memory")).status_code == 401


@dataclass
class Belongings:
    """Makes what a member has, new for each route that names something of it."""

    world: ServedCore
    session: httpx.AsyncClient
    made: int = 0

    async def of(self, path: str) -> dict[str, str]:
        """The ids that a route names."""
        self.made += 1
        if path.startswith((GRAPH, "/v1")):
            async with time_goes_on(self.world):
                return await self._of_program()
        if "{chat}" in path or "{upload_id}" in path:
            return await self._of_chat()
        if "memory" in path:
            fact = await self.world.memory.add(PERSON, f"k{self.made}", f"I like tea {self.made}, a secret.", PERSON)
            return {"fact": fact.id, "item": fact.id}
        if "research" in path:
            record = research(question="a secret question", delivered="a secret", whole="a secret")
            return {"thread_id": await begun(self.world, record, f"g{self.made}")}
        if "knowledge" in path:
            return await self._of_knowledge()
        if "schedule" in path:
            row = replace(reminder(self.world, f"s{self.made}"), person=PERSON)
            await self.world.store.write(lambda tx: schedules.create(tx, row))
            return {"schedule_id": row.id}
        return await self._of_turn(queued=path.endswith(("/run-now", "/drop")))

    async def _of_knowledge(self) -> dict[str, str]:
        knowledge, place = self.world.served.knowledge, f"secret {self.made}.txt"
        addition = Addition(owner=PERSON, collection="main", kind=FILE, place=place, added_by=PERSON)
        row = await knowledge.add_file(addition, lambda: f"a secret {self.made} {place}".encode())
        looked = await knowledge.search(f"secret {self.made}", Payer(owner=PERSON))
        return {"document": row.id, "passage": next(hit.key for hit in looked.hits if hit.name == place)}

    async def _of_program(self) -> dict[str, str]:
        thread_id = (await self.session.post(f"{GRAPH}/threads", json={})).json()["thread_id"]
        run_id = (await self.session.post(f"{GRAPH}/threads/{thread_id}/runs", json=ASK)).json()["run_id"]
        await self.session.get(f"{GRAPH}/threads/{thread_id}/runs/{run_id}/join")
        ids = {"thread_id": thread_id, "run_id": run_id, "checkpoint_id": "now"}
        return ids | {"response_id": f"resp_{uuid.UUID(run_id).hex}"}

    async def _of_chat(self) -> dict[str, str]:
        text = f"a secret file {self.made}"
        await makes_a_file(self.world, text, "secret.txt", "secret")
        chat = (await self.session.post("/api/conversations")).json()["chat"]
        upload = (await self.session.post("/api/uploads", params={"name": "a.txt"}, content=b"secret")).json()["id"]
        body = {"text": text, "client_id": "1", "attachments": [upload]}
        await self.session.post(f"/api/conversations/{chat}/messages", json=body)
        await self.world.clock.advance(1)
        await self.world.answered()
        await self.world.clock.until(self.world.delivery.drained())
        messages = (await self.session.get(f"/api/conversations/{chat}/messages")).json()["messages"]
        (file,) = [each["message_id"] for each in messages if each["author"] == "bot" and each["file"]]
        return {"chat": chat, "message_id": file, "upload_id": upload}

    async def _of_turn(self, *, queued: bool) -> dict[str, str]:
        group, known = f"g{self.made}", await self.world.store.read(runs.unended)
        await self.world.say("a secret letter", BOB, group, name="Bob")
        await self.world.clock.advance(2)
        await self.world.say("another secret", BOB, group, name="Bob")
        await self.world.clock.advance(2)
        found = await self.world.store.read(runs.unended)
        working, waiting = [each for each in found if each.run_id not in {old.run_id for old in known}]
        open_ = await self.world.store.read(lambda tx: prompts.open_approvals(tx, working.run_id))
        ids = {"run_id": (waiting if queued else working).run_id, "thread_id": working.thread_id}
        return ids | {"approval": open_[0].prompt_id}


@pytest.mark.slow
async def test_other_peoples_ids_lead_nowhere(tmp_path: Path) -> None:
    remembering = MemorySettings(enabled=True)
    about: dict[str, Any] = {"harness": Remembering(), "memory_settings": remembering, "sections": SOURCES}
    rules = replace(RULES, groups=frozenset(f"memory:g{number}" for number in range(len(TABLE))))
    async with served(tmp_path, rules, **about) as world:
        asks(world, "a secret letter")
        change = world.editor.allow("memory:7", "test")
        await world.store.write(change.write)
        change.committed()
        bob = await world.browser(PERSON)
        others = [
            await world.browser("memory:7"),
            await world.program("memory:7"),
            await world.program("api:own", *OWN),
        ]
        admins = [await world.browser(ADMIN), await world.program(ADMIN)]
        belongings = Belongings(world, bob)
        wrong: list[tuple[object, ...]] = []
        for (method, path), route in TABLE.items():
            if route.own is None:
                continue
            ids = await belongings.of(path)
            for client in others if route.admins is not None else [*others, *admins]:
                none, theirs = await ask(world, client, method, path), await ask(world, client, method, path, ids)
                if none[:2] != theirs[:2] or none[0] != route.answer or "secret" in theirs[2]:
                    wrong.append(("another's", method, path, none[:2], theirs[:2]))
            own = await ask(world, bob, method, path, ids)
            if own[0] != route.own:
                wrong.append(("own", method, path, own[:2], route.own))
            if route.admins is not None:
                by_admin = await ask(world, admins[0], method, path, await belongings.of(path))
                if by_admin[0] != route.admins or "secret" in by_admin[2]:
                    wrong.append(("an administrator", method, path, by_admin[:2], route.admins))
        assert not wrong, "\n".join(map(str, wrong))
        for client in (*others, *admins):
            for path in ("/api/turns", "/api/approvals", "/api/transcripts", "/api/memory", "/api/conversations"):
                assert "secret" not in (await client.get(path)).text, path
            assert (await client.post(f"{GRAPH}/threads/search", json={})).json() == []


async def test_of_a_group_a_member_reads_their_own_exchanges_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as world:

        async def asked(text: str, person: str, name: str, **more: Any) -> None:
            world.harness.tells(
                text,
                lambda t: t(Usage, model="sim", input_tokens=10, output_tokens=1),
                lambda t: t.answer(f"re {text}"),
            )
            await world.say(text, person, "g", name=name, **more)
            await world.answered()

        await asked("Ann's secret plan", ANN, "Ann")
        quote = Quote(message_id="1", text="a secret that Ann said before", author="Ann", from_bot=False)
        await asked("What does Bob like?", BOB, "Bob", reply_to=quote)
        await asked("one more secret", ANN, "Ann")
        (thread,) = {run.thread_id for run in await world.store.read(runs_known)}
        await world.store.write(lambda tx: conversations.rename_thread(tx, thread, "The secret of Ann"))
        bob, page = await world.program(PERSON, "read"), await world.browser(PERSON)
        (listed,) = (await bob.get("/api/transcripts")).json()["threads"]
        assert (listed["part"], listed["own"], listed["runs"], listed["cost"]["calls"]) == (True, False, 1, 1)
        assert listed["title"] == "What does Bob like?"
        assert listed["created_at"] == listed["last_at"], "when others wrote is not told"
        told = await bob.get(f"/api/transcripts/{thread}")
        (exchange,) = told.json()["exchanges"]
        assert (exchange["words"], exchange["answer"]) == ("What does Bob like?", "re What does Bob like?")
        for shown in (
            told,
            await bob.get("/api/transcripts"),
            await page.get("/threads"),
            await page.get(f"/threads/{thread}"),
        ):
            assert shown.status_code == 200
            assert "secret" not in shown.text
        admin = await world.program(ADMIN)
        words = [each["words"] for each in (await admin.get(f"/api/transcripts/{thread}")).json()["exchanges"]]
        assert words == ["Ann's secret plan", "one more secret"], "an administrator is a member like any other"
        change = world.editor.allow("memory:7", "test")
        await world.store.write(change.write)
        change.committed()
        seven = await world.program("memory:7", "read")
        assert (await seven.get("/api/transcripts")).json()["threads"] == []
        assert (await seven.get(f"/api/transcripts/{thread}")).status_code == 404
        assert (await admin.delete("/api/access/memory:7")).status_code == 200
        assert (await seven.get(f"/api/transcripts/{thread}")).status_code == 401


async def test_of_anothers_private_chat_nobody_has_a_part(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        await world.say("Ann's secret plan", ANN)
        await world.answered()
        (thread,) = {run.thread_id for run in await world.store.read(runs_known)}
        bob, browser = await world.program(PERSON), await world.browser(PERSON)
        assert (await bob.get(f"/api/transcripts/{thread}")).status_code == 404
        assert (await browser.get(f"/threads/{thread}")).status_code == 404


def runs_known(tx: Connection) -> list[Any]:
    return list(tx.execute(select(tables.runs)).all())


async def test_administrators_see_figures_of_others_and_no_words(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True)) as world:
        asks(world, "a secret letter")
        await world.say("a secret letter", BOB, name="Bob")
        await world.say("a secret reminder", BOB, name="Bob")
        await world.clock.advance(2)
        await world.memory.add(PERSON, "k", "I like rooibos.", PERSON)
        admin, browser = await world.program(ADMIN), await world.browser(ADMIN)
        now = (await admin.get("/api/now")).json()
        assert [(turn["person"], turn["words"], turn["step"]) for turn in now["turns"]] == [(PERSON, None, "")] * 2
        assert [(each["tool"], each["arguments"], each["decisions"]) for each in now["approvals"]] == [
            ("send", None, ["deny"])
        ]
        allowed = await admin.post(f"/api/approvals/{now['approvals'][0]['id']}", json={"decision": "once"})
        assert allowed.status_code == 403
        assert (await admin.get("/api/transcripts")).json()["others"] == {
            "threads": 1, "owners": 1, "runs": 2, "readable": False,
        }  # fmt: skip
        assert (await admin.get("/api/transcripts", params={"everybody": "true"})).json()["threads"] == []
        (row, _) = await world.store.read(runs.unended)
        assert (await admin.get(f"/api/transcripts/{row.thread_id}")).status_code == 404
        assert (await admin.get("/api/memories")).json()[0].keys() == {"key", "agent", "size", "updated_at"}
        for path in ("/now", "/threads", f"/threads/{row.thread_id}", "/memory", "/usage", f"/why/{row.run_id}"):
            shown = (await browser.get(path)).text
            assert "secret" not in shown, path
            assert "rooibos" not in shown, path


async def test_where_the_config_says_so_administrators_read_and_the_chats_tell(tmp_path: Path) -> None:
    async with served(tmp_path, http={"admins_read_threads": True}) as world:
        await world.say("my plans", BOB, name="Bob")
        await world.answered()
        admin = await world.program(ADMIN)
        (listed,) = (await admin.get("/api/transcripts", params={"everybody": "true"})).json()["threads"]
        told = (await admin.get(f"/api/transcripts/{listed['thread_id']}")).json()
        assert told["exchanges"][0]["words"] == "my plans"
        for command in ("/start", "/status", "/help", "/new"):
            await world.say(command, BOB, name="Bob")
            await world.answered()
            assert "Administrators of this gateway can read what is written here." in world.texts(BOB)[-1], command
        bob = await world.program(PERSON)
        assert (await bob.get("/api/transcripts", params={"everybody": "true"})).status_code == 403
