"""The API in LangGraph's protocol, spoken by LangGraph's own client to a running gateway."""

from __future__ import annotations

import asyncio
import json
import uuid
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.flow.api_world import AGENT, Api, contents, said, serving, words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph_sdk.client import LangGraphClient

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    async with serving(public_world) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> LangGraphClient:
    return await api.graph()


async def test_the_agents_are_assistants(client: LangGraphClient) -> None:
    found = await client.assistants.search()
    assert [each["assistant_id"] for each in found] == [AGENT]
    assert (await client.assistants.get(AGENT))["name"] == AGENT
    assert await client.assistants.count() == 1
    assert (await client.assistants.get_schemas(AGENT))["graph_id"] == AGENT
    with pytest.raises(NotFoundError):
        await client.assistants.get("nobody")


async def test_a_thread_is_made_found_changed_and_deleted(client: LangGraphClient) -> None:
    mark = uuid.uuid4().hex
    thread = await client.threads.create(metadata={"mark": mark})
    thread_id = thread["thread_id"]
    assert (thread["status"], thread["values"]) == ("idle", None)
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread_id)
    again = await client.threads.create(thread_id=thread_id, if_exists="do_nothing")
    assert again["metadata"] == {"mark": mark}
    await client.threads.update(thread_id, metadata={"more": 1})
    assert (await client.threads.get(thread_id))["metadata"] == {"mark": mark, "more": 1}
    found = await client.threads.search(metadata={"mark": mark})
    assert [each["thread_id"] for each in found] == [thread_id]
    assert await client.threads.count(metadata={"mark": mark}) == 1
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    assert await client.threads.search(metadata={"mark": mark}) == []


async def test_a_run_is_awaited_and_leaves_the_threads_state(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    created: list[Any] = []
    values = await client.runs.wait(
        thread["thread_id"], AGENT, input=said("!say The answer."), metadata={"a": 1}, on_run_created=created.append
    )
    assert contents(values, "human") == ["!say The answer."]
    assert contents(values) == ["The answer."]
    run = await client.runs.get(thread["thread_id"], created[0]["run_id"])
    assert (run["status"], run["metadata"], run["assistant_id"]) == ("success", {"a": 1}, AGENT)
    values = await client.runs.wait(thread["thread_id"], AGENT, input=said("!say Another."))
    assert contents(values) == ["The answer.", "Another."]
    state = await client.threads.get_state(thread["thread_id"])
    assert state["values"] == values
    assert (state["next"], state["tasks"]) == ([], [])
    history = await client.threads.get_history(thread["thread_id"], limit=20)
    assert history[0]["checkpoint"] == state["checkpoint"]
    assert len(history) > 2
    earlier = await client.threads.get_state(
        thread["thread_id"], checkpoint_id=history[-1]["checkpoint"]["checkpoint_id"]
    )
    assert len(contents(earlier["values"])) < 2
    assert len(await client.runs.list(thread["thread_id"])) == 2
    assert len(await client.runs.list(thread["thread_id"], status="success", limit=1)) == 1


async def test_a_stream_tells_the_run_in_every_mode(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    text = '!tool write_todos {"todos": [{"content": "look", "status": "in_progress"}]}\n!say All done.'
    parts = [
        part
        async for part in client.runs.stream(
            thread["thread_id"],
            AGENT,
            input=said(text),
            stream_mode=["values", "updates", "messages-tuple", "custom"],
        )
    ]
    assert parts[0].event == "metadata"
    assert parts[-1].event == "end"
    assert words(parts) == "All done."
    called, result, *_, last = [part.data for part in parts if part.event == "messages"]
    (call,) = called[0]["tool_call_chunks"]
    assert (called[0]["type"], call["name"], call["index"]) == ("AIMessageChunk", "write_todos", 0)
    assert json.loads(call["args"]) == {"todos": [{"content": "look", "status": "in_progress"}]}
    assert called[0]["tool_calls"][0]["id"] == call["id"] == result[0]["tool_call_id"]
    assert (result[0]["type"], result[1]["langgraph_node"]) == ("tool", "tools")
    assert last[0]["usage_metadata"]["output_tokens"] > 0
    assert called[0]["usage_metadata"]["input_tokens"] > 0
    nodes = [node for part in parts if part.event == "updates" for node in part.data]
    assert nodes[:2] == ["model", "tools"]
    assert nodes[-1] == "model"
    values = [part.data for part in parts if part.event == "values"]
    assert contents(values[0], "human") == [text]
    assert contents(values[-1])[-1] == "All done."
    assert values[-1]["todos"] == [{"content": "look", "status": "in_progress"}]
    told = [part.data["type"] for part in parts if part.event == "custom"]
    assert "tool_started" in told
    assert told[-1] == "finished"
    # The client repeats an id for what has none: of several at once only the last one has it.
    ids = [place for place, _ in groupby(part.id for part in parts if part.id)]
    assert len(ids) == len(set(ids))


async def test_two_clients_follow_one_run(api: Api, client: LangGraphClient) -> None:
    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], AGENT, input=said("!pause two-clients"))
    assert run["status"] in ("pending", "running")
    await api.world.model.wait_for_pause("two-clients")

    async def follow() -> str:
        return "".join(
            [
                part.data[0]["content"]
                async for part in client.runs.join_stream(
                    thread["thread_id"], run["run_id"], stream_mode="messages-tuple", last_event_id="-1"
                )
                if part.event == "messages"
            ]
        )

    followers = [asyncio.create_task(follow()) for _ in range(2)]
    joined = asyncio.create_task(client.runs.join(thread["thread_id"], run["run_id"]))
    await api.world.model.release("two-clients")
    whole = "The first half of the answer, and the second half."
    assert await asyncio.gather(*followers) == [whole, whole]
    assert contents(await joined) == [whole]


async def test_a_client_that_comes_back_gets_what_it_missed(api: Api, client: LangGraphClient) -> None:
    thread = await client.threads.create()
    first: list[Any] = []
    async for part in client.runs.stream(
        thread["thread_id"], AGENT, input=said("!pause comes-back"), stream_mode="messages-tuple"
    ):
        first.append(part)
        if part.event == "messages" and part.data[0]["content"].endswith("answer, "):
            break
    await api.world.model.release("comes-back")
    run_id = first[0].data["run_id"]
    rest = [
        part
        async for part in client.runs.join_stream(
            thread["thread_id"], run_id, stream_mode="messages-tuple", last_event_id=first[-1].id
        )
    ]
    text = "".join(part.data[0]["content"] for part in [*first, *rest] if part.event == "messages")
    assert text == "The first half of the answer, and the second half."
    assert "gap" not in {part.event for part in rest}
    assert rest[-1].event == "end"


async def test_an_id_that_is_none_of_ours_is_a_gap(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], AGENT, input=said("!say Here."))
    await client.runs.join(thread["thread_id"], run["run_id"])
    parts = [
        part
        async for part in client.runs.join_stream(
            thread["thread_id"], run["run_id"], stream_mode="values", last_event_id="0-7-3"
        )
    ]
    assert [part.event for part in parts] == ["metadata", "gap", "values", "end"]
    assert [message["content"] for message in parts[1].data["messages"]] == ["Here."]


async def test_a_run_is_cancelled(api: Api, client: LangGraphClient) -> None:
    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], AGENT, input=said("!hang"))
    await api.world.model.wait_for_request(lambda record: "!hang" in record.last_user_text)
    await client.runs.cancel(thread["thread_id"], run["run_id"], wait=True)
    assert (await client.runs.get(thread["thread_id"], run["run_id"]))["status"] == "interrupted"
    assert (await client.threads.get(thread["thread_id"]))["status"] == "idle"


async def test_rollback_forgets_the_turn(api: Api, client: LangGraphClient) -> None:
    thread = await client.threads.create()
    await client.runs.wait(thread["thread_id"], AGENT, input=said("!say Kept."))
    run = await client.runs.create(thread["thread_id"], AGENT, input=said("!pause rolled-back"))
    await api.world.model.wait_for_pause("rolled-back")
    await client.runs.cancel(thread["thread_id"], run["run_id"], wait=True, action="rollback")
    await api.world.model.release("rolled-back")
    values = (await client.threads.get_state(thread["thread_id"]))["values"]
    assert contents(values, "human") == ["!say Kept."]


@pytest.mark.parametrize("strategy", ["reject", "enqueue", "interrupt", "rollback"])
async def test_what_a_second_run_does_to_the_first(api: Api, client: LangGraphClient, strategy: Any) -> None:
    thread, pause = await client.threads.create(), f"busy-{strategy}"
    thread_id = thread["thread_id"]
    first = await client.runs.create(thread_id, AGENT, input=said(f"!pause {pause}"))
    await api.world.model.wait_for_pause(pause)
    assert (await client.threads.get(thread_id))["status"] == "busy"
    if strategy == "reject":
        with pytest.raises(ConflictError):
            await client.runs.create(thread_id, AGENT, input=said("!say Second."), multitask_strategy=strategy)
        await api.world.model.release(pause)
        assert contents(await client.runs.join(thread_id, first["run_id"]))[-1].endswith("second half.")
        return
    second = await client.runs.create(thread_id, AGENT, input=said("!say Second."), multitask_strategy=strategy)
    assert second["multitask_strategy"] == strategy
    if strategy == "enqueue":
        assert second["status"] == "pending"
        await api.world.model.release(pause)
    values = await client.runs.join(thread_id, second["run_id"])
    await api.world.model.release(pause)
    assert contents(values)[-1] == "Second."
    expected = {"enqueue": "success", "interrupt": "interrupted", "rollback": "interrupted"}[strategy]
    ended: Any = await client.runs.get(thread_id, first["run_id"])
    assert ended["status"] == expected
    assert (ended["cancel_reason"] == "rollback") == (strategy == "rollback")
    asked = contents(values, "human")
    assert asked == (["!say Second."] if strategy == "rollback" else [f"!pause {pause}", "!say Second."])


async def test_a_stateless_run_has_a_thread_of_its_own(client: LangGraphClient) -> None:
    values = await client.runs.wait(None, AGENT, input=said("!say Without a thread."))
    assert contents(values) == ["Without a thread."]
    threads = await client.threads.search(limit=100)
    assert all("Without a thread." not in str(each["values"]) for each in threads)


async def test_what_was_said_elsewhere_begins_a_thread(api: Api, client: LangGraphClient) -> None:
    messages: Any = [
        {"role": "user", "content": "My colour is teal."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "!say Teal."},
    ]
    values = await client.runs.wait(None, AGENT, input={"messages": messages})
    assert contents(values, "human") == ["My colour is teal.", "!say Teal."]
    asked = [record for record in await api.world.model.completions() if "!say Teal." in record.last_user_text]
    assert "My colour is teal." in str(asked[-1].body["messages"])


async def test_words_that_are_commands_in_chats_are_words_here(client: LangGraphClient) -> None:
    for text in ("/new", "stop", "1"):
        values = await client.runs.wait(None, AGENT, input=said(text))
        assert contents(values)[-1].endswith(f"You said: {text}")


async def test_a_failure_of_the_model_is_an_error(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    parts = [part async for part in client.runs.stream(thread["thread_id"], AGENT, input=said("!status 404"))]
    assert [part.event for part in parts[-2:]] == ["error", "end"]
    assert parts[-2].data["error"] == "not_found"
    assert (await client.threads.get(thread["thread_id"]))["status"] == "error"
    with pytest.raises(Exception, match="not_found"):
        await client.runs.wait(None, AGENT, input=said("!status 404"))


async def test_what_cannot_be_done_is_refused_by_name(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(thread["thread_id"], AGENT, input=said("hello"), interrupt_before=["tools"])
    unknown: tuple[Any, ...] = ("debug", "events", "messages", "tasks", "checkpoints")
    for mode in unknown:
        with pytest.raises(UnprocessableEntityError):
            await client.runs.create(thread["thread_id"], AGENT, input=said("hello"), stream_mode=mode)
    with pytest.raises(NotFoundError):
        await client.runs.create(str(uuid.uuid4()), AGENT, input=said("hello"))
    with pytest.raises(ConflictError):
        await client.runs.create(thread["thread_id"], AGENT, command={"resume": "yes"})


async def test_a_thread_is_made_where_that_is_asked_for(client: LangGraphClient) -> None:
    thread_id = str(uuid.uuid4())
    values = await client.runs.wait(thread_id, AGENT, input=said("!say Made."), if_not_exists="create")
    assert contents(values) == ["Made."]
    assert (await client.threads.get(thread_id))["status"] == "idle"
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create("nope", AGENT, input=said("hello"), if_not_exists="create")


async def test_a_request_that_is_sent_twice_is_one_run(client: LangGraphClient) -> None:
    thread = await client.threads.create()
    once = {"Idempotency-Key": "the-same"}
    asked = [
        await client.runs.create(thread["thread_id"], AGENT, input=said("!say Once."), headers=once) for _ in range(2)
    ]
    assert asked[0]["run_id"] == asked[1]["run_id"]
    await client.runs.join(thread["thread_id"], asked[0]["run_id"])
    assert len(await client.runs.list(thread["thread_id"])) == 1


@pytest.mark.parametrize(("on_disconnect", "status"), [("cancel", "interrupted"), ("continue", "success")])
async def test_what_becomes_of_a_run_whose_client_goes(
    api: Api, client: LangGraphClient, on_disconnect: Any, status: str
) -> None:
    thread, pause = await client.threads.create(), f"goes-{on_disconnect}"
    run_id = ""
    stream: Any = client.runs.stream(
        thread["thread_id"],
        AGENT,
        input=said(f"!pause {pause}"),
        stream_mode="messages-tuple",
        on_disconnect=on_disconnect,
    )
    async for part in stream:
        run_id = run_id or part.data.get("run_id", "") if part.event == "metadata" else run_id
        if part.event == "messages":
            break
    await stream.aclose()
    if on_disconnect == "continue":
        await api.world.model.release(pause)
    await client.runs.join(thread["thread_id"], run_id)
    assert (await client.runs.get(thread["thread_id"], run_id))["status"] == status
    await api.world.model.release(pause)


@pytest.mark.parametrize(("on_disconnect", "status"), [("cancel", "interrupted"), ("continue", "success")])
async def test_what_becomes_of_a_run_for_which_nobody_waits_any_more(
    api: Api, client: LangGraphClient, on_disconnect: Any, status: str
) -> None:
    thread, pause = await client.threads.create(), f"waits-{on_disconnect}"
    asked = client.runs.wait(thread["thread_id"], AGENT, input=said(f"!pause {pause}"), on_disconnect=on_disconnect)
    waiting = asyncio.create_task(asked)
    await api.world.model.wait_for_pause(pause)
    (run,) = await client.runs.list(thread["thread_id"])
    waiting.cancel()
    await asyncio.wait([waiting])
    if on_disconnect == "continue":
        await api.world.model.release(pause)
    await client.runs.join(thread["thread_id"], run["run_id"])
    assert (await client.runs.get(thread["thread_id"], run["run_id"]))["status"] == status
    await api.world.model.release(pause)


@pytest.mark.parametrize(("cancels", "status"), [(True, "interrupted"), (False, "success")])
async def test_what_becomes_of_a_run_whose_follower_goes(
    api: Api, client: LangGraphClient, cancels: bool, status: str
) -> None:
    thread, pause = await client.threads.create(), f"follows-{cancels}"
    run = await client.runs.create(thread["thread_id"], AGENT, input=said(f"!pause {pause}"))
    stream: Any = client.runs.join_stream(
        *(thread["thread_id"], run["run_id"]),
        cancel_on_disconnect=cancels,
        stream_mode="messages-tuple",
        last_event_id="-1",
    )
    async for part in stream:
        if part.event == "messages":
            break
    await stream.aclose()
    if not cancels:
        await api.world.model.release(pause)
    await client.runs.join(thread["thread_id"], run["run_id"])
    assert (await client.runs.get(thread["thread_id"], run["run_id"]))["status"] == status
    await api.world.model.release(pause)
