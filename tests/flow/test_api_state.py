"""Writing into threads over the API: messages by their ids, at a checkpoint, while nothing runs; and runs that fork."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from langgraph_sdk.errors import ConflictError, NotFoundError, PermissionDeniedError, UnprocessableEntityError

from tests.flow.api_world import AGENT, Api, contents, said, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langgraph_sdk.client import LangGraphClient

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
PLAN = '!tool write_todos {"todos": [{"content": "look", "status": "in_progress"}]}\n!say Planned.'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    async with serving(public_world) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> LangGraphClient:
    return await api.graph()


async def talk(client: LangGraphClient, *texts: str) -> str:
    """A thread in which this was said."""
    thread_id = str((await client.threads.create())["thread_id"])
    for text in texts:
        await client.runs.wait(thread_id, AGENT, input=said(text))
    return thread_id


async def words(client: LangGraphClient, thread_id: str) -> list[tuple[str, str]]:
    state: Any = await client.threads.get_state(thread_id)
    return [(message["type"], message["content"]) for message in state["values"].get("messages", [])]


async def test_messages_are_added_changed_and_removed_by_their_ids(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    state: Any = await client.threads.get_state(thread_id)
    human, ai = state["values"]["messages"]
    changes: Any = [
        {"role": "assistant", "id": ai["id"], "content": "Another answer."},
        {"role": "user", "id": "mine", "content": "My colour is teal."},
        {"type": "ai", "content": "Noted."},
        {"type": "remove", "id": human["id"], "content": ""},
    ]
    updated: Any = await client.threads.update_state(thread_id, {"messages": changes})
    expected = [("ai", "Another answer."), ("human", "My colour is teal."), ("ai", "Noted.")]
    assert await words(client, thread_id) == expected
    state = await client.threads.get_state(thread_id)
    assert updated["checkpoint"] == state["checkpoint"]
    assert (state["next"], state["tasks"]) == ([], [])
    assert state["values"]["messages"][1]["id"] == "mine"
    values = await client.runs.wait(thread_id, AGENT, input=said("!say Teal."))
    assert contents(values)[-1] == "Teal."
    asked = [each for each in await api.world.model.completions() if "!say Teal." in each.last_user_text]
    sent = str(asked[-1].body["messages"])
    assert "My colour is teal." in sent
    assert "Another answer." in sent
    assert "!say First." not in sent


async def test_a_thread_can_begin_with_what_is_written_into_it(client: LangGraphClient) -> None:
    thread_id = await talk(client)
    begun: Any = {"messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello you."}]}
    await client.threads.update_state(thread_id, begun, as_node="model")
    values = await client.runs.wait(thread_id, AGENT, input=said("!say Again."))
    assert contents(values) == ["Hello you.", "Again."]


async def test_all_messages_go_by_langgraphs_word_for_all(client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    everything: Any = [{"type": "remove", "id": "__remove_all__"}, {"role": "user", "content": "Only this."}]
    await client.threads.update_state(thread_id, {"messages": everything})
    assert await words(client, thread_id) == [("human", "Only this.")]
    assert contents(await client.runs.wait(thread_id, AGENT, input=said("!say Yes.")))[-1] == "Yes."


async def test_a_call_and_its_result_go_together(client: LangGraphClient) -> None:
    thread_id = await talk(client, PLAN)
    state: Any = await client.threads.get_state(thread_id)
    _, calling, result, _ = state["values"]["messages"]
    for alone in (calling, result):
        with pytest.raises(UnprocessableEntityError, match="removed together"):
            await client.threads.update_state(thread_id, {"messages": [{"type": "remove", "id": alone["id"]}]})
    both: Any = [{"type": "remove", "id": each["id"]} for each in (calling, result)]
    await client.threads.update_state(thread_id, {"messages": both})
    assert await words(client, thread_id) == [("human", PLAN), ("ai", "Planned.")]


@pytest.mark.parametrize(
    ("values", "more", "why"),
    [
        ({"messages": [{"type": "remove", "id": "nobody's"}]}, {}, "no message has the id"),
        ({"messages": [{"type": "remove"}]}, {}, "id of the message"),
        ({"messages": [{"type": "tool", "tool_call_id": "x", "content": "x"}]}, {}, "belong to the agent"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "x"}]}]}, {}, "belong to the agent"),
        ({"messages": [{"role": "user", "content": " "}]}, {}, "empty"),
        ({"messages": [{"role": "king", "content": "x"}]}, {}, "role must be one of"),
        ({"messages": [{"role": "user", "content": "x"}], "todos": []}, {}, "only messages"),
        ({}, {}, "is missing"),
        (None, {}, "is missing"),
        ({"messages": [{"role": "user", "content": "x"}]}, {"as_node": "tools"}, "as_node"),
    ],
)
async def test_what_does_not_fit_is_refused_and_changes_nothing(
    client: LangGraphClient, values: Any, more: Any, why: str
) -> None:
    thread_id = await talk(client, "!say First.")
    with pytest.raises(UnprocessableEntityError, match=why):
        await client.threads.update_state(thread_id, values, **more)
    assert await words(client, thread_id) == [("human", "!say First."), ("ai", "First.")]


async def test_nothing_is_written_while_a_run_works_or_waits(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client)
    note: Any = {"messages": [{"role": "user", "content": "Written."}]}
    run = await client.runs.create(thread_id, AGENT, input=said("!pause writing"))
    await api.world.model.wait_for_pause("writing")
    assert (await client.threads.get_state(thread_id))["next"] == ["model"]
    with pytest.raises(ConflictError, match="active or waiting"):
        await client.threads.update_state(thread_id, note)
    await api.world.model.release("writing")
    await client.runs.join(thread_id, run["run_id"])
    await client.threads.update_state(thread_id, note)
    assert (await words(client, thread_id))[-1] == ("human", "Written.")


async def test_a_cancelled_run_leaves_a_thread_that_can_be_written(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client)
    run = await client.runs.create(thread_id, AGENT, input=said("!pause cancelled-state"))
    await api.world.model.wait_for_pause("cancelled-state")
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    await api.world.model.release("cancelled-state")
    await client.threads.update_state(thread_id, {"messages": [{"role": "user", "content": "Written."}]})
    assert (await words(client, thread_id))[-1] == ("human", "Written.")
    assert contents(await client.runs.wait(thread_id, AGENT, input=said("!say On.")))[-1] == "On."


async def test_only_the_owner_writes_and_only_with_the_scope(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say Mine.")
    note: Any = {"messages": [{"role": "user", "content": "Written."}]}
    with pytest.raises(NotFoundError):
        await (await api.graph("writes-elsewhere")).threads.update_state(thread_id, note)
    with pytest.raises(PermissionDeniedError):
        await (await api.graph("reads", "read")).threads.update_state(thread_id, note)
    assert await words(client, thread_id) == [("human", "!say Mine."), ("ai", "Mine.")]


async def test_a_state_is_written_as_it_was_at_a_checkpoint(client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    first: Any = await client.threads.get_state(thread_id)
    await client.runs.wait(thread_id, AGENT, input=said("!say Second."))
    note: Any = {"messages": [{"role": "user", "content": "Written."}]}
    await client.threads.update_state(thread_id, note, checkpoint=first["checkpoint"])
    assert await words(client, thread_id) == [("human", "!say First."), ("ai", "First."), ("human", "Written.")]
    await client.threads.update_state(thread_id, None, checkpoint_id=first["checkpoint"]["checkpoint_id"])
    assert await words(client, thread_id) == [("human", "!say First."), ("ai", "First.")]
    with pytest.raises(NotFoundError):
        await client.threads.update_state(thread_id, note, checkpoint_id=str(uuid.uuid4()))


async def test_a_run_goes_on_from_a_checkpoint(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    first: Any = await client.threads.get_state(thread_id)
    second: Any = await client.runs.wait(thread_id, AGENT, input=said("!say Second."))
    newest: Any = await client.threads.get_state(thread_id)
    values = await client.runs.wait(thread_id, AGENT, input=said("!say Instead."), checkpoint=first["checkpoint"])
    assert contents(values, "human") == ["!say First.", "!say Instead."]
    asked = [each for each in await api.world.model.completions() if "!say Instead." in each.last_user_text]
    assert "Second." not in str(asked[-1].body["messages"])
    # What was left behind is still there, and can be returned to.
    left: Any = await client.threads.get_state(thread_id, checkpoint=newest["checkpoint"])
    assert left["values"]["messages"] == second["messages"]
    assert len(await client.runs.list(thread_id)) == 3


async def test_a_fork_that_is_asked_for_twice_is_one(client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    first: Any = await client.threads.get_state(thread_id)
    once: Any = {"checkpoint": first["checkpoint"], "headers": {"Idempotency-Key": "forked"}}
    run = await client.runs.create(thread_id, AGENT, input=said("!say Forked."), **once)
    await client.runs.join(thread_id, run["run_id"])
    await client.runs.wait(thread_id, AGENT, input=said("!say Behind."))
    again = await client.runs.create(thread_id, AGENT, input=said("!say Forked."), **once)
    assert again["run_id"] == run["run_id"]
    assert [text for _, text in await words(client, thread_id)][-1] == "Behind."


async def test_a_fork_is_refused_where_it_cannot_be(api: Api, client: LangGraphClient) -> None:
    thread_id = await talk(client, "!say First.")
    first: Any = await client.threads.get_state(thread_id)
    with pytest.raises(NotFoundError, match="no such checkpoint"):
        await client.runs.create(thread_id, AGENT, input=said("x"), checkpoint_id=str(uuid.uuid4()))
    stateless: Any = {"checkpoint": first["checkpoint"]}
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(None, AGENT, input=said("x"), **stateless)
    elsewhere: Any = {**first["checkpoint"], "checkpoint_ns": "tools:1"}
    with pytest.raises(UnprocessableEntityError, match="checkpoint_ns"):
        await client.runs.create(thread_id, AGENT, input=said("x"), checkpoint=elsewhere)
    other = await talk(client, "!say Other.")
    with pytest.raises(NotFoundError):
        await client.runs.create(other, AGENT, input=said("x"), checkpoint=first["checkpoint"])
    run = await client.runs.create(thread_id, AGENT, input=said("!pause forking"))
    await api.world.model.wait_for_pause("forking")
    with pytest.raises(ConflictError):
        await client.runs.create(thread_id, AGENT, input=said("x"), checkpoint=first["checkpoint"])
    await api.world.model.release("forking")
    await client.runs.join(thread_id, run["run_id"])


async def test_a_state_is_told_in_parts(client: LangGraphClient) -> None:
    thread_id = await talk(client, PLAN)
    state: Any = await client.threads.get_state(thread_id, select=["next", "values.todos"])
    assert state == {"next": [], "values": {"todos": [{"content": "look", "status": "in_progress"}]}}
    history: Any = await client.threads.get_history(thread_id, limit=2, select=["checkpoint"])
    assert [set(each) for each in history] == [{"checkpoint"}] * 2
