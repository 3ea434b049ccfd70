"""Who may call what of a real process's API, beyond the table (tests/bot/http/routes.py): lists, and ends of tokens."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.bot.http.routes import ASK, CHAT, GRAPH
from tests.flow.api_world import AGENT, Api, said, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
THREAD = "/threads/{thread_id}"
WAITING: dict[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": {"model": AGENT, "input": "!say Mine."},
    f"{GRAPH}/runs/wait": ASK,
}
"""Requests that are answered at the end of their run."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    async with serving(public_world) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owned(api: Api) -> dict[str, str]:
    """Ids of the first program's."""
    client = await api.graph("first")
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, AGENT, input=said("!say Mine."))
    await client.runs.join(thread_id, run["run_id"])
    return {"thread_id": thread_id, "run_id": run["run_id"]}


async def test_a_run_from_a_checkpoint_changes_the_thread(api: Api, owned: dict[str, str]) -> None:
    client = await api.http("no-threads", "read", "runs")
    body = {**ASK, "checkpoint": {"checkpoint_id": "1f0"}}
    answer = await client.post(f"{GRAPH}{THREAD}/runs".format(**owned), json=body)
    assert answer.status_code == 403
    assert answer.json()["error"]["scopes"] == ["threads"]


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
