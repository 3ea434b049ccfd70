"""The authorization table: every resource, who may ask for it, and that other people's ids lead nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from bot.http.panel.operating import now_router, people_router, system_router
from bot.http.panel.reading import (
    agents_router,
    files_router,
    own_router,
    skills_router,
    threads_router,
    usage_router,
)
from bot.http.resources.routes import resource_routers
from bot.store import conversations, runs, tables
from channels.message import Quote
from harness.events import Usage
from harness.memory.config import MemorySettings
from tests.bot.core import ANN, BOB
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from sqlalchemy import Connection

NONE: dict[str, Any] = {}
TABLE: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/api/health"): ("read", None),
    ("GET", "/api/now"): ("operate", None),
    ("GET", "/api/turns"): ("read", None),
    ("POST", "/api/turns/{run_id}/stop"): ("runs", None),
    ("POST", "/api/turns/{run_id}/run-now"): ("runs", None),
    ("POST", "/api/turns/{run_id}/drop"): ("runs", None),
    ("GET", "/api/approvals"): ("read", None),
    ("POST", "/api/approvals/{approval}"): ("runs", {"decision": "deny"}),
    ("GET", "/api/mcp"): ("operate", None),
    ("GET", "/api/pairings"): ("operate", None),
    ("POST", "/api/pairings/{request}"): ("admin", {"let_in": False}),
    ("POST", "/api/pairings"): ("admin", {"code": "ABCD-EFGH"}),
    ("GET", "/api/access"): ("operate", None),
    ("POST", "/api/access"): ("admin", {"subject": "memory:55"}),
    ("DELETE", "/api/access/{subject}"): ("admin", None),
    ("GET", "/api/transcripts"): ("read", None),
    ("GET", "/api/transcripts/{thread_id}"): ("read", None),
    ("GET", "/api/usage"): ("read", None),
    ("GET", "/api/schedules"): ("read", None),
    ("DELETE", "/api/schedules/{schedule_id}"): ("threads", None),
    ("GET", "/api/memory"): ("read", None),
    ("POST", "/api/memory"): ("threads", {"text": "I like tea."}),
    ("PUT", "/api/memory/{fact}"): ("threads", {"text": "I like coffee."}),
    ("DELETE", "/api/memory/{item}"): ("threads", None),
    ("DELETE", "/api/memory"): ("threads", None),
    ("PUT", "/api/memory"): ("threads", {"on": True}),
    ("GET", "/api/memories"): ("operate", None),
    ("GET", "/api/skills"): ("read", None),
    ("POST", "/api/skills"): ("admin", {"address": "http://127.0.0.1/x.zip"}),
    ("GET", "/api/skills/installs"): ("admin", None),
    ("PUT", "/api/skills/{name}"): ("admin", {"on": False}),
    ("POST", "/api/skills/{name}/on"): ("admin", {"digest": "0" * 64}),
    ("PUT", "/api/uploads/skills/{file_name}"): ("admin", NONE),
    ("DELETE", "/api/skills/{name}"): ("admin", None),
    ("GET", "/api/agents"): ("read", None),
    ("GET", "/api/models"): ("read", None),
    ("GET", "/api/configuration"): ("admin", None),
    ("POST", "/api/configuration/check"): ("admin", {"text": "", "base": ""}),
    ("POST", "/api/configuration/apply"): ("admin", {"text": "", "base": ""}),
}
"""(method, path) -> the scope that it needs, and a body that is understood."""
PAGES = {
    "/now": "operate",
    "/people": "operate",
    "/mcp": "operate",
    "/configuration": "admin",
    "/threads": "read",
    "/threads/{thread_id}": "read",
    "/why/{subject}": "read",
    "/files": "read",
    "/agents": "read",
    "/usage": "read",
    "/memory": "read",
    "/schedules": "read",
    "/skills": "read",
}
ALL = ("read", "threads", "runs", "operate", "admin")
FILLED = {
    **dict.fromkeys(("run_id", "approval", "request", "thread_id", "schedule_id", "fact", "item", "name"), "nosuch"),
    "subject": "memory:nosuch",
    "file_name": "nosuch.zip",
}


async def sent(client: httpx.AsyncClient, method: str, path: str, body: Any) -> httpx.Response:
    return await client.request(method, path.format(**FILLED), json=body)


async def test_every_resource_is_in_the_table(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        found = {
            (method, route.path)  # type: ignore[attr-defined]
            for router in resource_routers(world.served)
            for route in router.routes
            for method in route.methods  # type: ignore[attr-defined]
        }
        assert found == TABLE.keys()
        pages = [now_router, people_router, system_router, threads_router, files_router]
        pages += [usage_router, agents_router, own_router, skills_router]
        shown = {
            route.path  # type: ignore[attr-defined]
            for page in pages
            for route in page(world.served, None).routes  # type: ignore[arg-type]  # nothing is shown
            if route.methods == {"GET"}  # type: ignore[attr-defined]
        }
        pieces = {"/now/live", "/people/list", "/memory/list", "/skills/list", "/files/list"}
        assert shown - pieces == PAGES.keys()


async def test_nobody_gets_anything_without_signing_in(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        nobody = world.client()
        for (method, path), (_, body) in TABLE.items():
            answer = await sent(nobody, method, path, body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_signed_in"), path
        for path in PAGES:
            answer = await nobody.get(path.format(**FILLED))
            assert (answer.status_code, answer.headers["location"]) == (303, "/signin"), path
        for path in ("/now/live", "/people/list", "/memory/list", "/skills/list", "/files/list"):
            assert (await nobody.get(path)).status_code == 401


@pytest.mark.parametrize("scope", ALL)
async def test_a_token_is_good_for_its_scope_alone(tmp_path: Path, scope: str) -> None:
    async with served(tmp_path) as world:
        program = await world.program(ADMIN, scope)
        for (method, path), (needed, body) in TABLE.items():
            answer = await sent(program, method, path, body)
            refused = answer.status_code == 403 and answer.json()["error"]["code"] == "missing_scope"
            assert refused == (needed != scope), (method, path, answer.status_code, answer.text)
            assert answer.status_code != 401
            assert answer.status_code < 500, (method, path, answer.text)


async def test_who_is_no_administrator_operates_nothing_whatever_their_token_says(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        person = await world.program(PERSON, *ALL)
        browser = await world.browser(PERSON)
        for (method, path), (needed, body) in TABLE.items():
            for client in (person, browser):
                answer = await sent(client, method, path, body)
                refused = answer.status_code == 403 and answer.json()["error"]["code"] == "missing_scope"
                assert refused == (needed in ("operate", "admin")), (method, path, answer.text)
        for path, needed in PAGES.items():
            answer = await browser.get(path.format(**FILLED))
            assert (answer.status_code == 403) == (needed in ("operate", "admin")), path
        for path in ("/api/turns", "/api/transcripts", "/api/usage", "/api/schedules"):
            answer = await person.get(path, params={"everybody": "true"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")


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


async def test_other_peoples_ids_lead_nowhere(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True)) as world:
        ids = await _of_ann(world)
        bob = await world.program(PERSON, "read", "threads", "runs")
        for method, path, body in (
            ("POST", f"/api/turns/{ids['run']}/stop", None),
            ("POST", f"/api/turns/{ids['run']}/run-now", None),
            ("POST", f"/api/turns/{ids['queued']}/drop", None),
            ("POST", f"/api/approvals/{ids['approval']}", {"decision": "once"}),
            ("GET", f"/api/transcripts/{ids['thread']}", None),
            ("PUT", f"/api/memory/{ids['fact']}", {"text": "I like coffee."}),
            ("DELETE", f"/api/memory/{ids['fact']}", None),
        ):
            theirs = await bob.request(method, path, json=body)
            none = await bob.request(method, path.replace(path.split("/")[3], "nosuch"), json=body)
            assert (theirs.status_code, theirs.json()) == (404, none.json()), path
        assert (await bob.get("/api/turns")).json()["turns"] == []
        assert (await bob.get("/api/approvals")).json() == []
        assert (await bob.get("/api/transcripts")).json()["threads"] == []
        assert (await bob.get("/api/memory")).json()["items"] == []
        page = await (await world.browser(PERSON)).get(f"/threads/{ids['thread']}")
        assert page.status_code == 404
        assert "secret" not in page.text
        ann = await world.program(ADMIN, "read", "threads", "runs")
        assert len((await ann.get("/api/turns")).json()["turns"]) == 2
        assert (await ann.get(f"/api/transcripts/{ids['thread']}")).status_code == 200


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


async def _of_ann(world: ServedCore) -> dict[str, str]:
    """Something of everything that ANN has."""
    asks(world, "a secret letter")
    await world.say("a secret letter", ANN)
    await world.say("another secret", ANN)
    await world.clock.advance(2)
    fact = await world.memory.add(ADMIN, "k", "I like tea.", ADMIN)
    working, queued = await world.store.read(runs.unended)
    (approval,) = (await (await world.program(ADMIN)).get("/api/approvals")).json()
    return {
        "run": working.run_id,
        "queued": queued.run_id,
        "approval": approval["id"],
        "thread": working.thread_id,
        "fact": fact.id,
    }


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
        assert (await admin.get("/api/memories")).json()[0].keys() == {"key", "size", "updated_at"}
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
