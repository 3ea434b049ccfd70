"""Who may call what: every route of the API with no token, without its scope, and with another person's ids."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.flow.api_world import AGENT, Api, said, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
GRAPH, THREAD, RUN = "/api/langgraph", "/threads/{thread_id}", "/threads/{thread_id}/runs/{run_id}"
ASK: dict[str, Any] = {"assistant_id": AGENT, "input": said("!say Mine.")}
CHAT: dict[str, Any] = {"model": AGENT, "messages": [{"role": "user", "content": "!say Mine."}]}
TABLE: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", f"{GRAPH}/info"): ("read", None),
    ("POST", f"{GRAPH}/assistants/search"): ("read", {}),
    ("POST", f"{GRAPH}/assistants/count"): ("read", {}),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}"): ("read", None),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/graph"): ("read", None),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/schemas"): ("read", None),
    ("GET", f"{GRAPH}/assistants/{{assistant_id}}/subgraphs"): ("read", None),
    ("POST", f"{GRAPH}/assistants/{{assistant_id}}/versions"): ("read", {}),
    ("POST", f"{GRAPH}/threads"): ("threads", {}),
    ("POST", f"{GRAPH}{THREAD}/copy"): ("threads", None),
    ("POST", f"{GRAPH}/threads/prune"): ("threads", {"thread_ids": []}),
    ("POST", f"{GRAPH}/threads/search"): ("read", {}),
    ("POST", f"{GRAPH}/threads/count"): ("read", {}),
    ("GET", GRAPH + THREAD): ("read", None),
    ("PATCH", GRAPH + THREAD): ("threads", {"metadata": {}}),
    ("DELETE", GRAPH + THREAD): ("threads", None),
    ("GET", f"{GRAPH}{THREAD}/state"): ("read", None),
    ("POST", f"{GRAPH}{THREAD}/state"): ("threads", {"values": {"messages": [{"role": "user", "content": "Mine."}]}}),
    ("GET", f"{GRAPH}{THREAD}/state/{{checkpoint_id}}"): ("read", None),
    ("POST", f"{GRAPH}{THREAD}/state/checkpoint"): ("read", {"checkpoint": {"checkpoint_id": "{checkpoint_id}"}}),
    ("GET", f"{GRAPH}{THREAD}/history"): ("read", None),
    ("POST", f"{GRAPH}{THREAD}/history"): ("read", {}),
    ("POST", f"{GRAPH}{THREAD}/runs"): ("runs", ASK),
    ("POST", f"{GRAPH}{THREAD}/runs/stream"): ("runs", ASK),
    ("POST", f"{GRAPH}{THREAD}/runs/wait"): ("runs", ASK),
    ("GET", f"{GRAPH}{THREAD}/runs"): ("read", None),
    ("GET", GRAPH + RUN): ("read", None),
    ("DELETE", GRAPH + RUN): ("runs", None),
    ("GET", f"{GRAPH}{RUN}/join"): ("read", None),
    ("GET", f"{GRAPH}{RUN}/files"): ("read", None),
    ("GET", f"{GRAPH}{RUN}/file"): ("read", None),
    ("GET", f"{GRAPH}{RUN}/stream"): ("read", None),
    ("POST", f"{GRAPH}{RUN}/cancel"): ("runs", None),
    ("POST", f"{GRAPH}/runs"): ("runs", ASK),
    ("POST", f"{GRAPH}/runs/stream"): ("runs", ASK),
    ("POST", f"{GRAPH}/runs/wait"): ("runs", ASK),
    ("POST", f"{GRAPH}/runs/cancel"): ("runs", {"thread_id": "{thread_id}"}),
    ("GET", "/v1/models"): ("read", None),
    ("GET", "/v1/models/{name}"): ("read", None),
    ("POST", "/v1/chat/completions"): ("runs", CHAT),
    ("POST", "/v1/responses"): (
        "runs",
        {"model": AGENT, "input": "!say Mine.", "previous_response_id": "resp_{plain_run_id}"},
    ),
    ("GET", "/v1/responses/{response_id}"): ("read", None),
    ("POST", "/v1/responses/{response_id}/cancel"): ("runs", None),
}
"""Every route that needs a token: its scope, and a body with which it works."""
WAITING: dict[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": AGENT, "input": "!say Mine."},
    f"{GRAPH}/runs/wait": ASK,
}
"""Requests that are answered at the end of their run."""
OPEN = {("GET", f"{GRAPH}/ok")}
ROUTES = sorted(TABLE)
OTHERS = [route for route in ROUTES if re.search(r"thread_id\}|run_id\}|response", f"{route[1]}{TABLE[route][1]}")]
"""Those that name something of a person's."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    # All routes are called several times within seconds.
    async with serving(public_world, limits={"messages_per_minute": 1000, "message_burst": 1000}) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owned(api: Api) -> dict[str, str]:
    """Ids of the first program's."""
    client = await api.graph("first")
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, AGENT, input=said("!say Mine."))
    await client.runs.join(thread_id, run["run_id"])
    plain = uuid.UUID(run["run_id"]).hex
    return {
        "thread_id": thread_id,
        "run_id": run["run_id"],
        "plain_run_id": plain,
        "response_id": f"resp_{plain}",
        "assistant_id": AGENT,
        "name": AGENT,
        "checkpoint_id": "1f0",
    }


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: filled(each, ids) for key, each in value.items()}
    if isinstance(value, str) and "{" in value:
        return value.format(**ids)
    return value


async def call(client: httpx.AsyncClient, route: tuple[str, str], ids: dict[str, str]) -> httpx.Response:
    method, path = route
    return await client.request(method, path.format(**ids), json=filled(TABLE[route][1], ids))


async def test_the_table_is_complete(api: Api) -> None:
    described = (await (await api.http("first")).get("/api/docs")).json()["paths"]
    served = {
        (method.upper(), path)
        for path, methods in described.items()
        for method in methods
        if path.startswith((GRAPH, "/v1/"))
    }
    assert served == TABLE.keys() | OPEN


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_without_a_token_nothing_is_told(api: Api, owned: dict[str, str], route: tuple[str, str]) -> None:
    answer = await call(await api.http(None), route, owned)
    assert answer.status_code == 401
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_without_its_scope_nothing_is_done(api: Api, owned: dict[str, str], route: tuple[str, str]) -> None:
    scope = TABLE[route][0]
    without = [each for each in ("read", "threads", "runs") if each != scope]
    answer = await call(await api.http(f"no-{scope}", *without), route, owned)
    assert answer.status_code == 403
    assert answer.json()["error"]["scopes"] == [scope]


async def test_a_run_from_a_checkpoint_changes_the_thread(api: Api, owned: dict[str, str]) -> None:
    client = await api.http("no-threads", "read", "runs")
    body = {**ASK, "checkpoint": {"checkpoint_id": "1f0"}}
    answer = await client.post(f"{GRAPH}{THREAD}/runs".format(**owned), json=body)
    assert answer.status_code == 403
    assert answer.json()["error"]["scopes"] == ["threads"]


@pytest.mark.parametrize("route", OTHERS, ids=" ".join)
async def test_what_is_anothers_is_not_found(api: Api, owned: dict[str, str], route: tuple[str, str]) -> None:
    answer = await call(await api.http("second"), route, owned)
    nothing = await call(await api.http("second"), route, {**owned, **dict.fromkeys(owned, str(uuid.uuid4()))})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == nothing.json()["error"]["code"] == "not_found"


async def test_others_threads_are_in_no_list(api: Api, owned: dict[str, str]) -> None:
    second = await api.graph("second")
    assert owned["thread_id"] not in str(await second.threads.search(limit=100))
    assert owned["thread_id"] not in str(await second.threads.search(ids=[owned["thread_id"]]))


async def test_the_same_id_of_two_persons_is_two_threads(api: Api, owned: dict[str, str]) -> None:
    second = await api.graph("second")
    thread = await second.threads.create(thread_id=owned["thread_id"])
    assert thread["values"] is None
    await second.threads.delete(owned["thread_id"])
    first = await api.graph("first")
    assert (await first.threads.get(owned["thread_id"]))["values"] is not None


async def test_what_is_anothers_is_not_pruned(api: Api, owned: dict[str, str]) -> None:
    second = await api.graph("second")
    assert await second.threads.prune([owned["thread_id"]]) == {"pruned_count": 0}
    assert (await (await api.graph("first")).threads.get(owned["thread_id"]))["thread_id"] == owned["thread_id"]


async def test_a_token_that_is_revoked_is_good_for_nothing_at_once(api: Api) -> None:
    client = await api.http("revoked")
    assert (await client.get("/v1/models")).status_code == 200
    code, output = await api.world.command("token", "revoke", "revoked")
    assert code == 0, output
    assert (await client.get("/v1/models")).status_code == 401


@pytest.mark.parametrize("path", WAITING)
async def test_who_waits_for_an_answer_is_told_nothing_once_the_token_is_revoked(api: Api, path: str) -> None:
    name = pause = f"waits{path.replace('/', '-')}"
    client = await api.http(name)
    body = json.loads(json.dumps(WAITING[path]).replace("!say Mine.", f"!pause {pause}"))
    waiting = asyncio.create_task(client.post(path, json=body))
    await api.world.model.wait_for_pause(pause)
    code, output = await api.world.command("token", "revoke", name)
    assert code == 0, output
    answer = await waiting
    await api.world.model.release(pause)
    if path.startswith(GRAPH):  # its head was sent at once, so that proxies do not give up
        assert answer.json()["__error__"]["error"] == "not_signed_in"
    else:
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "not_signed_in"
    assert "second half" not in answer.text


async def test_api_docs_are_for_who_is_signed_in(api: Api) -> None:
    assert (await (await api.http(None)).get("/api/docs")).status_code == 401
