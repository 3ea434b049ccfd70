"""What is done through the page and the API to others, or to what everybody shares, is in the log: who, what, to whom
and what came of it. A route that changes something and is in no table here fails a test."""

from __future__ import annotations

import logging
import re
import zipfile
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import APIRoute

from bot.control.actions import EVENT
from bot.http.parts import routers
from bot.skills.folders import SwitchedOff
from bot.skills.service import SkillService
from bot.store import schedules
from bot.store.schedules import ScheduleRow
from channels.message import Address
from harness.guardrails.approvals import ADMINS
from harness.knowledge.config import KnowledgeSettings
from harness.skills.config import SkillsSettings
from harness.skills.library import SkillLibrary
from tests.bot.core import BOB, RULES
from tests.bot.http.served import ADMIN, PERSON, ServedCore, served
from tests.bot.runs.test_approvals import asks
from tests.harness.skills.writing import put_skill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

Route = tuple[str, str]
CHANGES = {"POST", "PUT", "PATCH", "DELETE"}
OWN_PREFIXES = (
    "/api/conversations",
    "/api/uploads",
    "/api/langgraph/",
    "/v1/",
    "/c/{chat}/",
    "/memory/",
    "/api/memory",
    "/research/",
    "/api/research/",
)
"""Below these a caller reaches what is their own, whoever they are."""
OWN: frozenset[Route] = frozenset(
    {
        ("POST", "/signin"),
        ("POST", "/signout"),
        ("POST", "/preferences"),
        ("DELETE", "/api/uploads/{upload_id}"),
        ("POST", "/files/delete"),
        ("POST", "/hooks/{name}"),  # a program with the hook's secret, whose calls have a line of their own in the log
        ("POST", "/configuration/check"),  # these change nothing
        ("POST", "/api/configuration/check"),
    }
)
ELSEWHERE: frozenset[Route] = frozenset({("POST", "/configuration/apply"), ("POST", "/api/configuration/apply")})
"""The reload that they lead to is logged, with who asked for it: see test_adoption."""
LOGGED: frozenset[Route] = frozenset(
    {
        ("POST", "/api/turns/{run_id}/stop"),
        ("POST", "/api/turns/{run_id}/run-now"),
        ("POST", "/api/turns/{run_id}/drop"),
        ("POST", "/api/approvals/{approval}"),
        ("POST", "/api/pairings/{request}"),
        ("POST", "/api/pairings"),
        ("POST", "/api/access"),
        ("DELETE", "/api/access/{subject}"),
        ("DELETE", "/api/schedules/{schedule_id}"),
        ("POST", "/api/skills"),
        ("PUT", "/api/skills/{name}"),
        ("POST", "/api/skills/{name}/on"),
        ("DELETE", "/api/skills/{name}"),
        ("PUT", "/api/uploads/skills/{file_name}"),
        ("POST", "/api/knowledge"),
        ("PUT", "/api/uploads/knowledge/{file_name}"),
        ("DELETE", "/api/knowledge/{document}"),
        ("POST", "/knowledge/add"),
        ("POST", "/knowledge/remove"),
        ("POST", "/now/turns/{run_id}/{action}"),
        ("POST", "/now/approvals/{approval}"),
        ("POST", "/now/pairings/{asked}"),
        ("POST", "/people/requests/{asked}"),
        ("POST", "/people/allow"),
        ("POST", "/people/revoke"),
        ("POST", "/schedules/{schedule_id}/cancel"),
        ("POST", "/skills/install"),
        ("POST", "/skills/{name}/on"),
        ("POST", "/skills/{name}/switch"),
        ("POST", "/skills/{name}/remove"),
    }
)
FETCHED: frozenset[Route] = frozenset({("POST", "/api/skills"), ("POST", "/skills/install")})
"""They need an address on the internet; both do what `PUT /api/uploads/skills` does, see test_skills."""
READ: frozenset[Route] = frozenset({("POST", "/api/knowledge"), ("POST", "/knowledge/add")})
"""They need a website; both do what `PUT /api/uploads/knowledge` does, see test_knowledge."""


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "bot"):
        yield


class Doing:
    """Sends what an administrator does, and looks at what the log says of it. done: the routes that were tried."""

    def __init__(self, world: ServedCore, caplog: pytest.LogCaptureFixture) -> None:
        self._world = world
        self._caplog = caplog
        self.done: set[Route] = set()

    async def send(
        self, client: httpx.AsyncClient, method: str, path: str, *, body: Any = None, form: Any = None, **filled: str
    ) -> list[tuple[str, str, str, str, str]]:
        """What the log says: (action, by, whom or where, what, what came of it)."""
        assert (method, path) in LOGGED
        self.told()
        named = {name: value for name, value in filled.items() if f"{{{name}}}" in path}
        content = body if isinstance(body, bytes) else None
        answer = await client.request(
            method, path.format(**named), content=content, json=None if content else body, data=form
        )
        assert answer.status_code < 300, (path, answer.text)
        await self._world.clock.settle()
        self.done.add((method, path))
        return self.told()

    def told(self) -> list[tuple[str, str, str, str, str]]:
        records = [vars(record) for record in self._caplog.records if getattr(record, "event", "") == EVENT]
        assert "secret" not in self._caplog.text
        self._caplog.clear()
        return [(r["action"], r["by"], r["person"] or r["conversation"], r["what"], r["state"]) for r in records]


async def test_every_route_that_changes_something_is_in_a_table(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        found = set()
        for router in routers(world.served):
            for route in router.routes:
                if isinstance(route, APIRoute):
                    found |= {(method, route.path) for method in CHANGES & (route.methods or set())}
                else:
                    assert router.prefix == "/api/langgraph", "what is within another router is not looked at"
    assert found >= LOGGED | OWN | ELSEWHERE
    unknown = {
        (method, path)
        for method, path in found - LOGGED - OWN - ELSEWHERE
        if not path.startswith(OWN_PREFIXES) or path.startswith("/api/uploads/")
    }
    assert unknown == set(), "who does it to whom must be logged, or a table says why not"


def reminder(world: ServedCore, name: str) -> ScheduleRow:
    now = world.clock.now()
    return ScheduleRow(
        id=name,
        address=Address(account="memory", chat=BOB),
        conversation=PERSON,
        person=PERSON,
        name="Bob",
        language="en",
        text="a secret reminder",
        kind="once",
        spec=(now + timedelta(days=1)).isoformat(),
        timezone="UTC",
        next_at=now + timedelta(days=1),
        created_at=now,
    )


WAITS = "import requests\nprint(requests.get('https://example.org/x').json())\n"
"""A script that an administrator is asked about."""


def skills_in(folder: Path) -> SkillService:
    """The skills of a gateway whose data is in the folder."""
    library = SkillLibrary(None, folder / "skills" / "custom")
    return SkillService(SkillsSettings(), library, switched_off=SwitchedOff(folder))


def archive(folder: Path, name: str, script: str = "") -> bytes:
    skill = put_skill(folder, name, "Tidies.")
    packed = folder / f"{name}.skill"
    with zipfile.ZipFile(packed, "w") as file:
        file.write(skill, f"{name}/SKILL.md")
        if script:
            file.writestr(f"{name}/scripts/x.py", script)
    return packed.read_bytes()


async def test_turns_of_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as world:
        doing, program, page = Doing(world, caplog), await world.program(ADMIN), await world.browser(ADMIN)
        by_program = f"{ADMIN} (token {world.parts.signins.tokens[0].id})"
        api, now = "/api/turns/{{run_id}}/{}", "/now/turns/{run_id}/{action}"
        for client, by, stop, run_now, drop in (
            (program, by_program, api.format("stop"), api.format("run-now"), api.format("drop")),
            (page, ADMIN, now, now, now),
        ):
            gates = [world.harness.hold(f"a secret {number}") for number in range(3)]
            for number in range(3):
                await world.say(f"a secret {number}", BOB, name="Bob")
            await world.clock.advance(2)
            turns = (await program.get("/api/turns", params={"everybody": "true"})).json()["turns"]
            first, second, third = (turn["run_id"] for turn in turns)
            told = await doing.send(client, "POST", run_now, run_id=third, action="run-now")
            assert told == [("stop", by, PERSON, "", "stop"), ("run_next", by, PERSON, "", "now")]
            await world.clock.advance(1)
            told = await doing.send(client, "POST", drop, run_id=second, action="drop")
            assert told == [("drop", by, PERSON, "", "drop")]
            told = await doing.send(client, "POST", stop, run_id=third, action="stop")
            assert told == [("stop", by, PERSON, "", "stop")]
            await world.answered()
            told = await doing.send(client, "POST", stop, run_id=first, action="stop")
            assert told == [("stop", by, PERSON, "", "over")]
            assert not any(gate.is_set() for gate in gates)
        assert doing.done == {route for route in LOGGED if "/turns/" in route[1]}


async def test_what_is_ones_own_is_no_action(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path) as world:
        doing, bob = Doing(world, caplog), await world.program(PERSON)
        world.harness.hold("a secret")
        await world.say("a secret", BOB)
        await world.say("another secret", BOB)
        await world.clock.advance(2)
        first, second = (turn["run_id"] for turn in (await bob.get("/api/turns")).json()["turns"])
        assert await doing.send(bob, "POST", "/api/turns/{run_id}/drop", run_id=second) == []
        assert await doing.send(bob, "POST", "/api/turns/{run_id}/stop", run_id=first) == []
        await world.answered()
        asks(world, "a secret letter")
        await world.say("a secret letter", BOB)
        await world.clock.advance(2)
        (asked,) = (await bob.get("/api/approvals")).json()
        deny = {"decision": "deny"}
        assert await doing.send(bob, "POST", "/api/approvals/{approval}", body=deny, approval=asked["id"]) == []
        await world.store.write(lambda tx: schedules.create(tx, reminder(world, "abc")))
        assert await doing.send(bob, "DELETE", "/api/schedules/{schedule_id}", schedule_id="abc") == []


async def test_requests_people_and_reminders(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, replace(RULES, pairing=True)) as world:
        doing, program, page = Doing(world, caplog), await world.program(ADMIN), await world.browser(ADMIN)
        by_program = f"{ADMIN} (token {world.parts.signins.tokens[0].id})"
        for number, (client, by, path) in enumerate(
            ((program, by_program, "/api/approvals/{approval}"), (page, ADMIN, "/now/approvals/{approval}"))
        ):
            asks(world, f"a secret letter {number}", coverage=f"{ADMINS}:x")
            await world.say(f"a secret letter {number}", BOB, name="Bob")
            await world.clock.advance(2)
            (asked,) = (await program.get("/api/approvals")).json()
            once = {"decision": "once"}
            body, form = (once, None) if client is program else (None, once)
            told = await doing.send(client, "POST", path, body=body, form=form, approval=asked["id"])
            assert told == [("approval", by, PERSON, "send", "once")]
            await world.answered()

        for chat, name in (("71", "Carla"), ("72", "Dan"), ("73", "Ed")):
            await world.say("hello", chat, name=name)
        asked = {row["name"]: row["id"] for row in (await program.get("/api/pairings")).json()}
        let_in, kept_out = {"let_in": True}, {"let_in": "no"}
        told = await doing.send(program, "POST", "/api/pairings/{request}", body=let_in, request=asked["Carla"])
        assert told == [("access_allow", by_program, "memory:71", "", "paired")]
        told = await doing.send(page, "POST", "/now/pairings/{asked}", form=kept_out, asked=asked["Dan"])
        assert told == [("access_refuse", ADMIN, "memory:72", "", "refused")]
        told = await doing.send(page, "POST", "/people/requests/{asked}", form=kept_out, asked=asked["Ed"])
        assert told == [("access_refuse", ADMIN, "memory:73", "", "refused")]
        await world.say("hello", "74", name="Flo")
        code = world.texts("74")[0].split("`")[1]
        told = await doing.send(program, "POST", "/api/pairings", body={"code": code})
        assert told == [("access_allow", by_program, "memory:74", "", "paired")]
        told = await doing.send(program, "POST", "/api/access", body={"subject": "memory:-5", "kind": "group"})
        assert told == [("access_allow", by_program, "memory:-5", "", "allowed")]
        told = await doing.send(program, "DELETE", "/api/access/{subject}", subject="memory:71")
        assert told == [("access_revoke", by_program, "memory:71", "", "blocked")]
        told = await doing.send(page, "POST", "/people/allow", form={"subject": "memory:55", "admin": "yes"})
        assert told == [("access_allow", ADMIN, "memory:55", "", "admin")]
        told = await doing.send(page, "POST", "/people/revoke", form={"subject": "memory:55", "kind": "person"})
        assert told == [("access_revoke", ADMIN, "memory:55", "", "blocked")]

        for client, by, method, path in (
            (program, by_program, "DELETE", "/api/schedules/{schedule_id}"),
            (page, ADMIN, "POST", "/schedules/{schedule_id}/cancel"),
        ):
            await world.store.write(partial(schedules.create, row=reminder(world, method)))
            told = await doing.send(client, method, path, schedule_id=method)
            assert told == [("reminder_cancel", by, PERSON, "", "")]
        words = re.compile("approvals|pairings|access|people|schedules")
        assert doing.done == {route for route in LOGGED if words.search(route[1])}


async def test_skills(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, skills=skills_in(tmp_path)) as world:
        doing, program, page = Doing(world, caplog), await world.program(ADMIN), await world.browser(ADMIN)
        by_program = f"{ADMIN} (token {world.parts.signins.tokens[0].id})"
        for client, by in ((program, by_program), (page, ADMIN)):
            api = client is program
            name = "tidy" if api else "neat"
            packed = archive(tmp_path / "made", name, WAITS)
            upload = "/api/uploads/skills/{file_name}"
            ((*done, what, state),) = await doing.send(client, "PUT", upload, body=packed, file_name=f"{name}.skill")
            assert (done, what.partition(" ")[0], state) == (["skill_install", by, ""], name, "waiting")
            (waiting,) = (await program.get("/api/skills")).json()["waiting"]
            digest = {"digest": waiting["digest"]}
            agree = "/api/skills/{name}/on" if api else "/skills/{name}/on"
            body, form = (digest, None) if api else (None, digest)
            told = await doing.send(client, "POST", agree, body=body, form=form, name=name)
            assert told == [("skill_approve", by, "", f"{name} {waiting['digest'][:12]}", "")]
            for on in (False, True):
                if api:
                    told = await doing.send(client, "PUT", "/api/skills/{name}", body={"on": on}, name=name)
                else:
                    form = {"on": "yes" if on else "no"}
                    told = await doing.send(client, "POST", "/skills/{name}/switch", form=form, name=name)
                assert told == [("skill_on" if on else "skill_off", by, "", name, "")]
            method, remove = ("DELETE", "/api/skills/{name}") if api else ("POST", "/skills/{name}/remove")
            told = await doing.send(client, method, remove, name=name)
            assert told == [("skill_remove", by, "", name, "")]
        assert doing.done == {route for route in LOGGED if "/skills" in route[1]} - FETCHED


async def test_documents_for_everybody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, sections={"knowledge": KnowledgeSettings(enabled=True)}) as world:
        doing, program, page = Doing(world, caplog), await world.program(ADMIN), await world.browser(ADMIN)
        by_program = f"{ADMIN} (token {world.parts.signins.tokens[0].id})"
        upload = "/api/uploads/knowledge/{file_name}"
        program.params = page.params = {"everybody": "true", "collection": "handbook"}
        for client, by, method, remove in (
            (program, by_program, "DELETE", "/api/knowledge/{document}"),
            (page, ADMIN, "POST", "/knowledge/remove"),
        ):
            told = await doing.send(client, "PUT", upload, body=b"a secret", file_name="secret.txt")
            assert told == [("knowledge_add", by, "", "handbook", "")]
            (row,) = (await program.get("/api/knowledge")).json()["documents"]
            form = {"id": row["id"]} if client is page else None
            told = await doing.send(client, method, remove, form=form, document=row["id"])
            assert told == [("knowledge_remove", by, "", "handbook", "")]
        program.params = {}
        told = await doing.send(program, "PUT", upload, body=b"a secret", file_name="secret.txt")
        assert told == [], "what is one's own is no action"
        assert doing.done == {route for route in LOGGED if "knowledge" in route[1]} - READ
