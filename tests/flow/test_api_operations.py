"""Every operation of LangGraph's client: it works here, or the answer says why it is not supported.

What the cases ask for follows LangGraph's own integration tests of its client (langchain-ai/langgraph,
libs/sdk-py/tests/integration), as far as they need no graph of theirs. What is tested elsewhere is only called.
"""

from __future__ import annotations

import inspect
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from tests.flow.api_world import AGENT, Api, contents, said, serving
from tests.simulators.process import REPO_ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from langgraph_sdk.client import LangGraphClient

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Here:
    """What an operation is called with: a client, and a thread of its own in which a run has ended."""

    client: LangGraphClient
    thread_id: str
    run_id: str
    checkpoint: Any
    model: Any

    async def events(self, stream: Any) -> list[str]:
        return [part.event async for part in stream]

    async def gone(self, thread_id: str) -> bool:
        return thread_id not in [each["thread_id"] for each in await self.client.threads.search(limit=100)]

    async def working(self, pause: str) -> str:
        """Another run, which works until it is ended or the pause is."""
        run = await self.client.runs.create(self.thread_id, AGENT, input=said(f"!pause {pause}"))
        await self.model.wait_for_pause(pause)
        return str(run["run_id"])

    async def is_cancelled(self, run_id: str, pause: str) -> None:
        await self.client.runs.join(self.thread_id, run_id)
        assert (await self.client.runs.get(self.thread_id, run_id))["status"] == "interrupted"
        await self.model.release(pause)


async def assistants_search(here: Here) -> None:
    found: Any = await here.client.assistants.search(graph_id=AGENT, limit=1)
    assert [each["graph_id"] for each in found] == [AGENT]
    assert await here.client.assistants.search(metadata={"label": "nobody's"}) == []


async def assistants_get_graph(here: Here) -> None:
    for xray in (False, True):
        graph: Any = await here.client.assistants.get_graph(AGENT, xray=xray)
        nodes = {node["id"] for node in graph["nodes"]}
        assert {"model", "tools"} <= nodes
        assert {end for edge in graph["edges"] for end in (edge["source"], edge["target"])} <= nodes


async def assistants_get_schemas(here: Here) -> None:
    schemas: Any = await here.client.assistants.get_schemas(AGENT)
    assert "messages" in schemas["state_schema"]["properties"]


async def assistants_get(here: Here) -> None:
    assert (await here.client.assistants.get(AGENT))["assistant_id"] == AGENT


async def assistants_count(here: Here) -> None:
    assert await here.client.assistants.count(graph_id="nobody's") == 0


async def assistants_get_subgraphs(here: Here) -> None:
    assert await here.client.assistants.get_subgraphs(AGENT) == {}
    assert await here.client.assistants.get_subgraphs(AGENT, namespace="tools", recurse=True) == {}


async def assistants_get_versions(here: Here) -> None:
    assert [each["version"] for each in await here.client.assistants.get_versions(AGENT)] == [1]


async def threads_create(here: Here) -> None:
    label = uuid.uuid4().hex
    created = await here.client.threads.create(metadata={"label": label}, graph_id=AGENT)
    assert created["metadata"] == {"label": label, "graph_id": AGENT}
    assert (await here.client.threads.get(created["thread_id"]))["metadata"] == created["metadata"]


async def threads_get(here: Here) -> None:
    assert (await here.client.threads.get(here.thread_id))["thread_id"] == here.thread_id


async def threads_update(here: Here) -> None:
    await here.client.threads.update(here.thread_id, metadata={"a": 1}, return_minimal=True)
    assert (await here.client.threads.update(here.thread_id, metadata={"b": 2}))["metadata"] == {"a": 1, "b": 2}


async def threads_delete(here: Here) -> None:
    await here.client.threads.delete(here.thread_id)
    assert await here.gone(here.thread_id)


async def threads_search(here: Here) -> None:
    found: Any = await here.client.threads.search(ids=[here.thread_id], select=["thread_id"])
    assert found == [{"thread_id": here.thread_id}]


async def threads_count(here: Here) -> None:
    label = uuid.uuid4().hex
    await here.client.threads.update(here.thread_id, metadata={"label": label})
    assert await here.client.threads.count(metadata={"label": label}, status="idle") == 1


async def threads_prune(here: Here) -> None:
    ids = [here.thread_id, str(uuid.uuid4())]
    assert await here.client.threads.prune(ids) == {"pruned_count": 1}
    assert await here.gone(here.thread_id)


async def threads_copy(here: Here) -> None:
    copy: Any = here.client.threads.copy  # its type says that nothing is returned
    copied = await copy(here.thread_id)
    assert copied["thread_id"] != here.thread_id
    source = await here.client.threads.get(here.thread_id)
    assert (copied["values"], copied["metadata"]) == (source["values"], source["metadata"])
    values = await here.client.runs.wait(copied["thread_id"], AGENT, input=said("!say Copied."))
    assert contents(values) == ["Begun.", "Copied."]
    assert (await here.client.threads.get(here.thread_id))["values"] == source["values"]


async def threads_get_state(here: Here) -> None:
    state: Any = await here.client.threads.get_state(here.thread_id, checkpoint=here.checkpoint, subgraphs=True)
    assert state["checkpoint"] == here.checkpoint


async def threads_update_state(here: Here) -> None:
    note: Any = {"messages": [{"role": "user", "content": "Patched."}]}
    await here.client.threads.update_state(here.thread_id, note)
    state: Any = await here.client.threads.get_state(here.thread_id)
    assert contents(state["values"], "human")[-1] == "Patched."


async def threads_get_history(here: Here) -> None:
    history: Any = await here.client.threads.get_history(here.thread_id, limit=20)
    assert history[0]["checkpoint"] == here.checkpoint
    older: Any = await here.client.threads.get_history(here.thread_id, before=here.checkpoint)
    assert older[0] == history[1]


async def runs_create(here: Here) -> None:
    created = await here.client.runs.create(here.thread_id, AGENT, input=said("!say Created."))
    assert created["thread_id"] == here.thread_id
    await here.client.runs.join(here.thread_id, created["run_id"])


async def runs_get(here: Here) -> None:
    assert (await here.client.runs.get(here.thread_id, here.run_id))["run_id"] == here.run_id


async def runs_list(here: Here) -> None:
    listed: Any = await here.client.runs.list(here.thread_id, limit=10, select=["run_id", "status"])
    assert listed == [{"run_id": here.run_id, "status": "success"}]


async def runs_stream(here: Here) -> None:
    events = await here.events(here.client.runs.stream(here.thread_id, AGENT, input=said("!say Streamed.")))
    assert (events[0], events[-1]) == ("metadata", "end")


async def runs_wait(here: Here) -> None:
    assert contents(await here.client.runs.wait(here.thread_id, AGENT, input=said("!say Waited.")))[-1] == "Waited."


async def runs_join(here: Here) -> None:
    assert contents(await here.client.runs.join(here.thread_id, here.run_id)) == ["Begun."]


async def runs_join_stream(here: Here) -> None:
    stream = here.client.runs.join_stream(here.thread_id, here.run_id, stream_mode="values", last_event_id="-1")
    assert (await here.events(stream))[-1] == "end"


async def runs_cancel(here: Here) -> None:
    run_id = await here.working("cancel")
    await here.client.runs.cancel(here.thread_id, run_id, wait=True)
    await here.is_cancelled(run_id, "cancel")


async def runs_cancel_many(here: Here) -> None:
    run_id = await here.working("cancel-many")
    await here.client.runs.cancel_many(thread_id=here.thread_id, run_ids=[run_id])
    await here.is_cancelled(run_id, "cancel-many")


async def stream_of_a_thread(here: Here) -> None:
    async with here.client.threads.stream(assistant_id=AGENT) as thread:
        await thread.run.start(input=said("!say Never."))


async def join_stream_of_a_thread(here: Here) -> None:
    await here.events(await here.client.threads.join_stream(here.thread_id))


async def create_batch(here: Here) -> None:
    wanted: Any = {"assistant_id": AGENT, "input": said("!say Never.")}
    await here.client.runs.create_batch([wanted])


SERVED: dict[str, Callable[[Here], Awaitable[None]]] = {
    "assistants.get": assistants_get,
    "assistants.get_graph": assistants_get_graph,
    "assistants.get_schemas": assistants_get_schemas,
    "assistants.get_subgraphs": assistants_get_subgraphs,
    "assistants.get_versions": assistants_get_versions,
    "assistants.search": assistants_search,
    "assistants.count": assistants_count,
    "threads.create": threads_create,
    "threads.get": threads_get,
    "threads.update": threads_update,
    "threads.delete": threads_delete,
    "threads.search": threads_search,
    "threads.count": threads_count,
    "threads.copy": threads_copy,
    "threads.prune": threads_prune,
    "threads.get_state": threads_get_state,
    "threads.update_state": threads_update_state,
    "threads.get_history": threads_get_history,
    "runs.create": runs_create,
    "runs.get": runs_get,
    "runs.list": runs_list,
    "runs.stream": runs_stream,
    "runs.wait": runs_wait,
    "runs.join": runs_join,
    "runs.join_stream": runs_join_stream,
    "runs.cancel": runs_cancel,
    "runs.cancel_many": runs_cancel_many,
}
YEARLY = "0 0 1 1 *"
REFUSED: dict[str, tuple[Callable[[Here], Awaitable[Any]], str]] = {
    "assistants.create": (lambda here: here.client.assistants.create(AGENT, name="more"), "agents folder"),
    "assistants.update": (lambda here: here.client.assistants.update(AGENT, name="more"), "agents folder"),
    "assistants.delete": (lambda here: here.client.assistants.delete(AGENT), "agents folder"),
    "assistants.set_latest": (lambda here: here.client.assistants.set_latest(AGENT, 1), "agents folder"),
    "threads.stream": (stream_of_a_thread, "belongs to a run"),
    "threads.join_stream": (join_stream_of_a_thread, "belongs to a run"),
    "runs.create_batch": (create_batch, "separately"),
    "runs.delete": (lambda here: here.client.runs.delete(here.thread_id, here.run_id), "with its thread"),
    "crons.create": (lambda here: here.client.crons.create(AGENT, schedule=YEARLY), "/api/schedules"),
    "crons.create_for_thread": (
        lambda here: here.client.crons.create_for_thread(here.thread_id, AGENT, schedule=YEARLY),
        "/api/schedules",
    ),
    "crons.delete": (lambda here: here.client.crons.delete(here.run_id), "/api/schedules"),
    "crons.update": (lambda here: here.client.crons.update(here.run_id, schedule=YEARLY), "/api/schedules"),
    "crons.search": (lambda here: here.client.crons.search(), "/api/schedules"),
    "crons.count": (lambda here: here.client.crons.count(), "/api/schedules"),
    "store.put_item": (lambda here: here.client.store.put_item(["a"], "b", {"c": 1}), "/api/memory"),
    "store.get_item": (lambda here: here.client.store.get_item(["a"], "b"), "/api/memory"),
    "store.delete_item": (lambda here: here.client.store.delete_item(["a"], "b"), "/api/memory"),
    "store.search_items": (lambda here: here.client.store.search_items(["a"]), "/api/memory"),
    "store.list_namespaces": (lambda here: here.client.store.list_namespaces(["a"]), "/api/memory"),
}
"""What is not served, and words of the reason that the answer gives."""
ROW = re.compile(r"^\| (assistants|threads|runs|crons|store) \| (.*) \| (.*) \|$", re.MULTILINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    # Each test has something said.
    async with serving(public_world, limits={"messages_per_minute": 1000, "message_burst": 1000}) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def here(api: Api) -> Here:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, AGENT, input=said("!say Begun."))
    await client.runs.join(thread_id, run["run_id"])
    state: Any = await client.threads.get_state(thread_id)
    return Here(client, thread_id, run["run_id"], state["checkpoint"], api.world.model)


async def test_every_operation_of_the_client_is_in_one_table(api: Api) -> None:
    client = await api.graph()
    operations = {
        f"{name}.{method}"
        for name in ("assistants", "threads", "runs", "crons", "store")
        for method, _ in inspect.getmembers(type(getattr(client, name)), inspect.isfunction)
        if not method.startswith("_")
    }
    assert operations == SERVED.keys() | REFUSED.keys()
    assert not SERVED.keys() & REFUSED.keys()


async def test_the_documentation_has_the_same_table() -> None:
    documented = {True: set[str](), False: set[str]()}
    for name, served, refused in ROW.findall((REPO_ROOT / "docs" / "api.md").read_text(encoding="utf-8")):
        for works, cell in ((True, served), (False, refused)):
            documented[works] |= {f"{name}.{method}" for method in re.findall(r"`(\w+)`", cell)}
    assert documented == {True: set(SERVED), False: set(REFUSED)}


@pytest.mark.parametrize("name", SERVED)
async def test_an_operation_works(here: Here, name: str) -> None:
    await SERVED[name](here)


@pytest.mark.parametrize("name", REFUSED)
async def test_an_operation_that_is_not_supported_says_why(here: Here, name: str) -> None:
    call, why = REFUSED[name]
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await call(here)
    answer = refused.value.response
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "unsupported"
    assert why in answer.json()["error"]["message"]


async def test_what_is_not_supported_is_told_only_who_is_signed_in(api: Api) -> None:
    nobody = await api.http(None)
    for method, path in (("POST", "/runs/crons"), ("GET", "/store/items"), ("POST", "/assistants")):
        assert (await nobody.request(method, f"/api/langgraph{path}")).status_code == 401
