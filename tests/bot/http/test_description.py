"""Whatever a route is asked, it answers as OpenAPI's description of it says: Schemathesis makes the requests up."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bot.access.signin import SCOPES
from harness.memory.config import MemorySettings
from tests.bot.http.routes import ASK, GRAPH, TABLE, filled
from tests.bot.http.served import ADMIN, Remembering, ServedCore, served, time_goes_on
from tests.bot.http.test_research import SOURCES

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    from schemathesis import APIOperation, Case

    Operation = APIOperation[Any, Any, Any, Any]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 2
"""Requests of each kind: valid ones, with what there is, and invalid ones."""
SECONDS = 30.0
UNKNOWN_ONLY = {
    "/api/conversations/{chat}/events": "the stream of a conversation that there is has no end",
    "/api/access/{subject}": "who asks would shut themselves out",
}
"""Routes that are asked only for what there is not."""
NEVER = {
    **dict.fromkeys(("POST /signout", "POST /api/configuration/apply"), "only sessions may"),
    **dict.fromkeys(("GET /api/configuration", "POST /api/configuration/check"), "this gateway has no file"),
    **dict.fromkeys(
        ("POST /hooks/{name}", "POST /api/pairings", "POST /api/pairings/{request}"), "nobody knows a secret"
    ),
    "GET /api/conversations/{chat}/events": "see UNKNOWN_ONLY",
    "DELETE /api/access/{subject}": "see UNKNOWN_ONLY",
    "DELETE /api/langgraph/threads/{thread_id}/runs/{run_id}": "it is not supported",
    **dict.fromkeys(
        (
            *("POST /api/turns/{run_id}/stop", "POST /api/turns/{run_id}/run-now", "POST /api/turns/{run_id}/drop"),
            *("POST /api/approvals/{approval}", "GET /api/transcripts/{thread_id}"),
            *("POST /api/skills/{name}/on", "DELETE /api/skills/{name}", "PUT /api/uploads/skills/{file_name}"),
            *("POST /api/skills", "PUT /api/skills/{name}", f"GET {GRAPH}/threads/{{thread_id}}/runs/{{run_id}}/file"),
            *("GET /api/research/{thread_id}", "POST /api/research/{thread_id}", "POST /api/knowledge"),
            *("GET /api/research/{thread_id}/files/{name}", "DELETE /api/schedules/{schedule_id}"),
            "GET /api/conversations/{chat}/files/{message_id}",
        ),
        "there is no such thing here",
    ),
}
"""Routes that refuse all that they are asked here, and why; their other tests do better."""
STREAMED = ("/v1/chat/completions", "/v1/responses")
"""Routes whose body says whether the answer is a stream."""


async def known(client: httpx.AsyncClient, path: str) -> dict[str, str]:
    """Ids of what the one who asks has, made for one route."""
    ids = {"assistant_id": "default", "name": "default", "checkpoint_id": "now", "subject": "memory:55"}
    if path.startswith((GRAPH, "/v1")):
        thread_id = (await client.post(f"{GRAPH}/threads", json={})).json()["thread_id"]
        run_id = (await client.post(f"{GRAPH}/threads/{thread_id}/runs", json=ASK)).json()["run_id"]
        await client.get(f"{GRAPH}/threads/{thread_id}/runs/{run_id}/join")
        plain = uuid.UUID(run_id).hex
        ids |= {"thread_id": thread_id, "run_id": run_id, "response_id": f"resp_{plain}"}
    if "{chat}" in path:
        ids["chat"] = (await client.post("/api/conversations")).json()["chat"]
        await client.post(f"/api/conversations/{ids['chat']}/messages", json={"text": "Hello", "client_id": "1"})
    if "{upload_id}" in path:
        ids["upload_id"] = (await client.post("/api/uploads", params={"name": "a.txt"}, content=b"x")).json()["id"]
    if path.startswith("/api/memory/"):
        fact = {"text": f"My number is {uuid.uuid4()}."}
        ids["item"] = (await client.post("/api/memory", json=fact)).json()["items"][-1]["id"]
    if "{document}" in path or "{passage}" in path:
        words = uuid.uuid4().hex
        ids["document"] = (await client.put("/api/uploads/knowledge/a.txt", content=words)).json()["id"]
        (found,) = (await client.get("/api/knowledge/search", params={"q": words})).json()["passages"]
        ids["passage"] = found["id"]
    return ids


async def program(world: ServedCore) -> httpx.AsyncClient:
    """A client with a token of its own: of one token so many requests are refused."""
    _, secret = await world.parts.signins.make_token(uuid.uuid4().hex, SCOPES, ADMIN)
    return world.client(Authorization=f"Bearer {secret}")


def kinds(operation: Operation, ids: dict[str, str]) -> list[dict[str, Any]]:
    """How requests of a route are made: anything valid, anything invalid, and what finds what there is."""
    found: list[dict[str, Any]] = [{}]
    if operation.body or operation.query:
        found.append({"generation_mode": GenerationMode.NEGATIVE})
    if operation.path in UNKNOWN_ONLY:
        return found
    place = {each.name: ids[each.name] for each in operation.path_parameters if each.name in ids}
    body = TABLE[operation.method.upper(), operation.path].body
    found.append({"path_parameters": place})
    bodies = [filled(body, ids)] if body else []
    if body and operation.path in STREAMED:
        bodies.append({**bodies[0], "stream": True})
    found += [{"path_parameters": place, "body": each, "media_type": "application/json"} for each in bodies]
    return found


class Asking:
    """Asks the routes, and keeps what was wrong. answered: routes that were asked for something that they could do."""

    def __init__(self, url: str) -> None:
        self.faults: list[str] = []
        self.answered: set[str] = set()
        self._url = url

    def ask(self, operation: Operation, token: str, ids: dict[str, str]) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Authorization"] = token
            for kind in kinds(operation, ids):
                try:
                    self._ask(operation, session, kind)
                except Unsatisfiable:
                    if not kind.get("generation_mode"):  # what takes everything cannot be asked for anything invalid
                        raise
                except (Exception, FailureGroup) as error:
                    reasons = error.exceptions if isinstance(error, FailureGroup) else [error]
                    self.faults += [f"{operation.label}: {reason}" for reason in reasons]

    def _ask(self, operation: Operation, session: requests.Session, kind: dict[str, Any]) -> None:
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(**kind))
        def ask(case: Case[Any]) -> None:
            answer = case.call(self._url, session, timeout=SECONDS)
            case.validate_response(answer, checks=CHECKS)
            if answer.status_code < 300:
                self.answered.add(operation.label)

        ask()


BROKEN = "\\ud800 \\u0000"
"""Half a character, and one that PostgreSQL does not take, as JSON writes them."""
TEXTS = {
    "/api/conversations/{chat}/messages": {"text": BROKEN, "client_id": "2"},
    "/api/conversations/{chat}/presses": {"message_id": BROKEN, "data": BROKEN, "client_id": "2"},
    "/api/memory": {"text": f"My name is {BROKEN}."},
    "/api/access": {"subject": f"memory:{BROKEN}"},
    "/api/pairings": {"code": BROKEN},
    "/api/turns/x/stop": {BROKEN: BROKEN},
    "/api/configuration/check": {"text": BROKEN, "base": BROKEN, BROKEN: BROKEN},
    f"{GRAPH}/threads": {"metadata": {BROKEN: BROKEN}},
    f"{GRAPH}/threads/search": {"metadata": {BROKEN: BROKEN}, "ids": [BROKEN]},
    f"{GRAPH}/threads/{{thread_id}}/state": {"values": {"messages": [{"role": "user", "content": BROKEN}]}},
    f"{GRAPH}/threads/{{thread_id}}/runs/wait": {
        "assistant_id": "default",
        "input": {"messages": [{"role": "user", "content": BROKEN, "id": BROKEN}]},
        "metadata": {"a": BROKEN},
    },
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": BROKEN}]},
    "/v1/responses": {"model": BROKEN, "input": BROKEN, "conversation": BROKEN},
}


async def test_what_is_no_text_breaks_no_route(tmp_path: Path) -> None:
    async with served(tmp_path, memory_settings=MemorySettings(enabled=True)) as world, time_goes_on(world):
        client = await program(world)
        for path, body in TEXTS.items():
            place = path.format(**await known(client, path))
            sent = json.dumps(body).replace("\\\\", "\\")
            assert "\\ud800" in sent
            headers = {"Content-Type": "application/json"}
            answer = await client.post(place, content=sent, headers=headers)
            assert answer.status_code < 500, (path, answer.text)
            assert isinstance(answer.json(), dict | list), path
        for before in ("2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
            answer = await client.get("/api/conversations", params={"before": before})
            assert answer.status_code < 500, before


async def test_the_description_has_each_path_once_and_the_bodies_that_are_read_as_they_come(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        paths = (await (await program(world)).get("/api/docs")).json()["paths"]
    assert len({re.sub(r"{\w+}", "{}", path) for path in paths}) == len(paths), "other names make no other path"
    for operation in (
        paths["/api/uploads"]["post"],
        paths["/api/uploads/knowledge/{file_name}"]["put"],
        paths["/api/uploads/skills/{file_name}"]["put"],
        paths["/hooks/{name}"]["post"],
    ):
        assert operation["requestBody"]["content"]


async def test_every_route_answers_as_it_is_described(tmp_path: Path) -> None:
    about: dict[str, Any] = {"memory_settings": MemorySettings(enabled=True), "sections": SOURCES}
    async with served(tmp_path, harness=Remembering(), **about) as world:
        described = (await (await program(world)).get("/api/docs")).json()
        schema = schemathesis.openapi.from_dict(described)
        operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
        asking = Asking(f"http://127.0.0.1:{world.server.port}")
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:  # not the loop's own, whose work the clock waits for
            async with time_goes_on(world):
                for operation in operations:
                    client = await program(world)
                    ids, token = await known(client, operation.path), client.headers["Authorization"]
                    await loop.run_in_executor(threads, asking.ask, operation, token, ids)
        assert not asking.faults, "\n\n".join(asking.faults)
        assert {operation.label for operation in operations} - asking.answered == NEVER.keys()
        assert len(operations) == sum(len(methods) for methods in described["paths"].values())
