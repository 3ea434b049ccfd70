"""LangGraph's own tests of its clients and servers, case by case: what tests it here, or why it does not apply.

The cases are those of langchain-ai/langgraph, libs/sdk-py/tests/integration, and of langchain-ai/langgraphjs,
libs/langgraph-api/tests/api.test.mts, by their names there (the first without the endings `async` and `sync`). They run
graphs of their own; here the simulated model does what these would. Below are tests for cases that no other file has.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command

from tests.flow.api_world import AGENT, Api, contents, said, serving, words
from tests.flow.letters import Letters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph_sdk.client import LangGraphClient

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORKS, REFUSED = (
    "test_api_operations::test_an_operation_works",
    "test_api_operations::test_an_operation_that_is_not_supported",
)
STREAM = "test_api::test_a_stream_tells_the_run_in_every_mode"
APPROVAL = "test_api_waiting::test_an_approval_is_an_interrupt"
BUSY = "test_api::test_what_a_second_run_does_to_the_first"
MODES = "test_api::test_what_cannot_be_done_is_refused_by_name"
HERE = "test_api_cases::test_"
AGENTS = "-: assistants are the gateway's agents, and are not made over HTTP"
GRAPHS = "-: needs a graph of its own; here there is one"
SUBGRAPHS = "-: there are no subgraphs; subagents are told in the mode custom"
SERVER = "-: about that server's own files, routes or language"

PYTHON = {
    "assistants_crud": REFUSED,
    "assistants_graph_introspection": WORKS,
    "cancel": HERE + "a_stream_ends_when_its_run_is_cancelled",
    "concurrent_streams": HERE + "streams_of_two_threads_do_not_mix",
    "crons_create_search_delete": REFUSED,
    "extensions": GRAPHS,
    "factory_graph_executes": GRAPHS,
    "get_tree_and_extensions_cache": GRAPHS,
    "lifecycle": APPROVAL,
    "messages": STREAM,
    "close_mid_iteration": "test_api::test_what_becomes_of_a_run_whose_client_goes",
    "async_happy_path_yields_output": HERE + "langgraphs_remote_graph_works",
    "async_interrupt_path_surfaces_interrupts": HERE + "langgraphs_remote_graph_works",
    "async_resume_after_interrupt": HERE + "langgraphs_remote_graph_works",
    "sync_happy_path_yields_output": HERE + "langgraphs_remote_graph_works",
    "abort_mid_run_cancels_server_side": "test_api::test_what_becomes_of_a_run_whose_client_goes",
    "runs_create_get_list": WORKS,
    "runs_wait": "test_api::test_a_run_is_awaited",
    "store_put_get_delete": REFUSED,
    "store_search_and_list_namespaces": REFUSED,
    "subgraphs_agent": SUBGRAPHS,
    "subgraphs_deep_agent": SUBGRAPHS,
    "threads_create_get_delete": "test_api::test_a_thread_is_made_found_changed_and_deleted",
    "threads_search": WORKS,
    "threads_copy": WORKS,
    "threads_history_after_run": WORKS,
    "tools": STREAM,
    "update_state": "test_api_state::test_messages_are_added_changed_and_removed",
    "values": HERE + "each_state_of_a_stream_goes_on_from_the_one_before",
    "websocket": "-: streams are server-sent events alone",
}
JAVASCRIPT = {
    "create read update delete": REFUSED,
    "delete assistant and threads": AGENTS,
    "schemas": WORKS,
    "list assistants": WORKS,
    "count assistants": WORKS,
    "get assistant versions": WORKS,
    "set latest version": REFUSED,
    "config from env": SERVER,
    "assistant name": AGENTS,
    "create, read, update, delete thread": "test_api::test_a_thread_is_made_found_changed_and_deleted",
    "list threads": HERE + "threads_are_listed_in_pages_and_in_their_order",
    "update state while run in flight": "test_api_state::test_nothing_is_written_while_a_run_works_or_waits",
    "copy": WORKS,
    "copy runs": WORKS,
    "get thread history": HERE + "the_history_begins_empty_and_ends_with_what_is",
    "copy update": HERE + "a_copy_is_changed_by_itself",
    "list runs": HERE + "runs_are_listed_by_their_status",
    "stream values": HERE + "each_state_of_a_stream_goes_on_from_the_one_before",
    "wait error": "test_api::test_a_failure_of_the_model_is_an_error",
    "wait": "test_api::test_a_run_is_awaited",
    "stream updates": STREAM,
    "stream events": MODES,
    "stream messages": MODES,
    "stream messages tuple": STREAM,
    "stream mixed modes": STREAM,
    "human in the loop - no modification": APPROVAL,
    "human in the loop - modification": "-: a call is allowed or denied as it is; a denial says how it should be",
    "interrupt before": MODES,
    "non-existent graph id": HERE + "there_is_no_run_of_an_agent_that_there_is_not",
    "should be able to set and return data from store in config": GRAPHS,
    "Should be able to use the store client to fetch values": REFUSED,
    "Should be able to use the store client methods": REFUSED,
    "Can put, search, list, get and delete": REFUSED,
    "get subgraphs": WORKS,
    "interrupt inside node": "test_api_waiting::test_a_question_is_an_interrupt",
    "stream": "test_api::test_a_failure_of_the_model_is_an_error",
    "create + join": HERE + "a_run_that_failed_is_joined",
    "create + stream join": HERE + "a_run_that_failed_is_joined",
    "long running task with %dms delay": "test_api::test_two_clients_follow_one_run",
    "updates state via commands": "-: a command only resumes; update_state writes",
    "list-based updates": "-: a command only resumes; update_state writes",
    "stream debug checkpoint": MODES,
    "continue after interrupt must have checkpoint present": "test_api_state::test_a_run_goes_on_from_a_checkpoint",
    "multitasking reject": BUSY,
    "multitasking interrupt": BUSY,
    "multitasking rollback": BUSY,
    "multitasking enqueue": BUSY,
    "stream values (RemoteGraph)": HERE + "langgraphs_remote_graph_works",
    "batch update state": "-: a thread is not made with a history; what was said elsewhere goes into input.messages",
    "dynamic graph": GRAPHS,
    "generative ui": SERVER,
    "custom routes": SERVER,
    "resumable streams": HERE + "a_stream_is_read_once_more_from_its_beginning",
    "tasks / checkpoints stream mode": MODES,
    "runtime API": SERVER,
}
"""Case -> the test of a file here, by how its name begins; or `-: ` and why it does not apply."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    public_world.environment |= Letters(public_world.folder).environment
    rules = {"rules": [{"tool": "send_letter", "decision": "ask"}]}
    tools = [{"use": "tests.flow.letters:send_letter"}]
    limits = {"messages_per_minute": 1000, "message_burst": 1000}
    async with serving(public_world, tools=tools, guardrails=rules, limits=limits) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> LangGraphClient:
    return await api.graph()


async def begun(client: LangGraphClient, **more: Any) -> str:
    return str((await client.threads.create(**more))["thread_id"])


async def test_every_case_has_a_test_or_a_reason() -> None:
    names: dict[str, list[str]] = {}
    for file in Path(__file__).parent.glob("test_api*.py"):
        names[file.stem] = re.findall(r"^async def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    for case, where in {**PYTHON, **JAVASCRIPT}.items():
        if where.startswith("-: "):
            continue
        file_name, _, test = where.partition("::")
        assert any(name.startswith(test) for name in names[file_name]), f"{case}: {where} is no test"


async def test_a_stream_ends_when_its_run_is_cancelled(api: Api, client: LangGraphClient) -> None:
    thread_id, events = await begun(client), []
    async for part in client.runs.stream(
        thread_id, AGENT, input=said("!pause ends"), stream_mode=["values", "messages-tuple"]
    ):
        events.append(part.event)
        if events.count("messages") == 1 and part.event == "messages":
            (run,) = await client.runs.list(thread_id)
            await client.runs.cancel(thread_id, run["run_id"])
    assert events[-1] == "end"
    assert "error" not in events
    assert (await client.runs.list(thread_id))[0]["status"] == "interrupted"
    await api.world.model.release("ends")


async def test_streams_of_two_threads_do_not_mix(client: LangGraphClient) -> None:
    async def told(text: str) -> tuple[str, str]:
        thread_id = await begun(client)
        asked = client.runs.stream(thread_id, AGENT, input=said(f"!say {text}"), stream_mode="messages-tuple")
        parts = [part async for part in asked]
        assert {part.data[1]["thread_id"] for part in parts if part.event == "messages"} == {thread_id}
        return thread_id, words(parts)

    (first, one), (second, two) = await asyncio.gather(told("The one."), told("The other."))
    assert (one, two) == ("The one.", "The other.")
    assert first != second


async def test_each_state_of_a_stream_goes_on_from_the_one_before(client: LangGraphClient) -> None:
    text = '!tool write_todos {"todos": [{"content": "look", "status": "in_progress"}]}\n!say Done.'
    known: list[str] = []
    events = set()
    async for part in client.runs.stream(await begun(client), AGENT, input=said(text), stream_mode="values"):
        events.add(part.event)
        if part.event == "values":
            ids = [message["id"] for message in part.data["messages"]]
            assert ids[: len(known)] == known
            known = ids
    assert len(known) == 4
    assert events == {"metadata", "values", "end"}


async def test_threads_are_listed_in_pages_and_in_their_order(api: Api) -> None:
    client = await api.graph("lists")
    first, second = await begun(client), await begun(client, metadata={"name": "second"})

    async def found(**asked: Any) -> list[str]:
        return [each["thread_id"] for each in await client.threads.search(**asked)]

    assert await found() == [second, first]
    assert await found(metadata={"name": "second"}) == [second]
    assert await found(offset=1, limit=1) == [first]
    assert await found(sort_by="created_at", sort_order="asc") == [first, second]
    assert await found(sort_by="created_at", sort_order="desc") == [second, first]


async def test_the_history_begins_empty_and_ends_with_what_is(client: LangGraphClient) -> None:
    thread_id = await begun(client)
    assert await client.threads.get_history(thread_id) == []
    await client.runs.wait(thread_id, AGENT, input=said("!say One."))
    once: Any = await client.threads.get_history(thread_id, limit=50)
    await client.runs.wait(thread_id, AGENT, input=said("!say Two."))
    twice: Any = await client.threads.get_history(thread_id, limit=50)
    assert contents(twice[0]["values"]) == ["One.", "Two."]
    assert twice[0]["next"] == []
    assert twice[-len(once) :] == once
    assert len(contents(twice[-1]["values"], "human")) < 2


async def test_a_copy_is_changed_by_itself(client: LangGraphClient) -> None:
    thread_id = await begun(client)
    await client.runs.wait(thread_id, AGENT, input=said("!say One."))
    before: Any = await client.threads.get_state(thread_id)
    copied: Any = await client.threads.copy(thread_id)  # type: ignore[func-returns-value]  # it does return the copy
    change: Any = {"messages": [{"type": "human", "id": before["values"]["messages"][0]["id"], "content": "Changed."}]}
    await client.threads.update_state(copied["thread_id"], change)
    state: Any = await client.threads.get_state(copied["thread_id"])
    assert contents(state["values"], "human") == ["Changed."]
    assert await client.threads.get_state(thread_id) == before


async def test_runs_are_listed_by_their_status(api: Api, client: LangGraphClient) -> None:
    thread_id = await begun(client)
    await client.runs.wait(thread_id, AGENT, input=said("!say Done."))
    working = await client.runs.create(thread_id, AGENT, input=said("!pause listed"))
    await api.world.model.wait_for_pause("listed")
    waiting = await client.runs.create(thread_id, AGENT, input=said("!say Later."))

    async def listed(status: Any) -> list[str]:
        return [run["run_id"] for run in await client.runs.list(thread_id, status=status)]

    assert await listed("running") == [working["run_id"]]
    assert await listed("pending") == [waiting["run_id"]]
    await client.runs.cancel(thread_id, waiting["run_id"])
    await client.runs.join(thread_id, waiting["run_id"])
    assert await listed("interrupted") == [waiting["run_id"]]
    assert len(await client.runs.list(thread_id)) == 3
    await api.world.model.release("listed")


async def test_there_is_no_run_of_an_agent_that_there_is_not(client: LangGraphClient) -> None:
    thread_id = await begun(client)
    with pytest.raises(httpx.HTTPStatusError) as waited:
        await client.runs.wait(thread_id, "nobody", input=said("hello"))
    with pytest.raises(httpx.HTTPStatusError) as streamed:
        async for _ in client.runs.stream(thread_id, "nobody", input=said("hello")):
            pass
    assert [each.value.response.status_code for each in (waited, streamed)] == [404, 404]
    assert await client.runs.list(thread_id) == []


async def test_a_run_that_failed_is_joined(client: LangGraphClient) -> None:
    thread_id = await begun(client)
    run = await client.runs.create(thread_id, AGENT, input=said("!status 404"))
    joined: Any = await client.runs.join(thread_id, run["run_id"])
    assert joined["__error__"]["error"] == "not_found"
    assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "error"
    parts = [part async for part in client.runs.join_stream(thread_id, run["run_id"])]
    assert [part.event for part in parts[-2:]] == ["error", "end"]
    assert parts[-2].data["error"] == "not_found"


async def test_a_stream_is_read_once_more_from_its_beginning(client: LangGraphClient) -> None:
    thread_id = await begun(client)
    modes: Any = ["messages-tuple", "custom"]
    text = '!tool write_todos {"todos": [{"content": "look", "status": "in_progress"}]}\n!say Done.'
    source = [part async for part in client.runs.stream(thread_id, AGENT, input=said(text), stream_mode=modes)]
    run_id = source[0].data["run_id"]
    again = client.runs.join_stream(thread_id, run_id, stream_mode=modes, last_event_id="-1")
    assert [part async for part in again] == source


async def test_langgraphs_remote_graph_works(api: Api) -> None:
    client = await api.graph()
    remote = RemoteGraph(AGENT, client=client)
    config: Any = {"configurable": {"thread_id": await begun(client)}}
    values: Any = await remote.ainvoke(said("!say From afar."), config=config)
    assert contents(values) == ["From afar."]
    streamed = [each async for each in remote.astream(said("!say Again."), config=config, stream_mode="values")]
    assert contents(streamed[-1]) == ["From afar.", "Again."]
    state = await remote.aget_state(config)
    assert (contents(state.values), state.next) == (["From afar.", "Again."], ())
    asked: Any = await remote.ainvoke(said('!tool send_letter {"to": "bob"}\n!say Sent.'), config=config)
    assert asked["__interrupt__"][0]["value"]["tool"] == "send_letter"
    waits = await remote.aget_state(config)
    assert waits.next == ("tools",)
    assert len(waits.tasks[0].interrupts) == 1
    went_on: Any = await remote.ainvoke(Command(resume="once"), config=config)
    assert contents(went_on)[-1] == "Sent."
    assert Letters(api.world.folder).sent == ["bob"]
