"""Runs of the API that wait for a person, and processes that die under them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from langgraph_sdk.errors import ConflictError, PermissionDeniedError, UnprocessableEntityError

from tests.flow.api_world import AGENT, Api, contents, said, serving, words
from tests.flow.letters import Letters

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
WHOLE = "The first half of the answer, and the second half."


def letter(to: str, *more: str) -> str:
    return "\n".join([f"!tool send_letter {json.dumps({'to': to})}", *more])


def question(text: str, *options: str) -> str:
    return f"!tool ask_clarification {json.dumps({'question': text, 'options': list(options)})}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World) -> AsyncIterator[tuple[Api, Letters]]:
    """One for all these tests: to start one takes longer than most of them."""
    letters = Letters(public_world.folder)
    public_world.environment |= letters.environment
    rule = {"tool": "send_letter", "decision": "ask", "reason": "It cannot be taken back."}
    settings = {"tools": [{"use": "tests.flow.letters:send_letter"}], "guardrails": {"rules": [rule]}}
    async with serving(public_world, **settings) as api:
        yield api, letters


@pytest_asyncio.fixture(loop_scope="module")
async def api(gateway: tuple[Api, Letters]) -> Api:
    api, _ = gateway
    if api.world.process is None:  # a test failed between a death and the next start
        await api.world.start()
        await api.ready()
    return api


@pytest.fixture
def letters(gateway: tuple[Api, Letters]) -> Letters:
    _, letters = gateway
    letters.forget()
    return letters


async def test_an_approval_is_an_interrupt_and_its_answer_goes_on_with_the_run(api: Api, letters: Letters) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    parts = [
        part
        async for part in client.runs.stream(
            thread_id, AGENT, input=said(letter("ann", "!say Sent.")), stream_mode=["values", "updates"]
        )
    ]
    assert parts[-1].event == "end"
    (interrupt,) = next(part.data["__interrupt__"] for part in parts if "__interrupt__" in (part.data or {}))
    assert interrupt["value"]["tool"] == "send_letter"
    assert interrupt["value"]["reason"] == "It cannot be taken back."
    thread = await client.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert list(thread["interrupts"].values()) == [[interrupt]]
    state = await client.threads.get_state(thread_id)
    assert state["interrupts"] == [interrupt]
    assert state["next"] == ["tools"]
    run_id = parts[0].data["run_id"]
    assert (await client.runs.get(thread_id, run_id))["status"] == "interrupted"
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(thread_id, AGENT, command={"resume": "perhaps"})
    assert letters.sent == []
    went_on = [
        part
        async for part in client.runs.stream(
            thread_id, AGENT, command={"resume": {interrupt["id"]: "once"}}, stream_mode=["messages-tuple"]
        )
    ]
    assert went_on[0].data["run_id"] == run_id
    assert words(went_on) == "Sent."
    (result,) = [part.data[0] for part in went_on if part.event == "messages" and part.data[0]["type"] == "tool"]
    assert (result["name"], result["status"]) == ("send_letter", "success")
    assert letters.sent == ["ann"]
    assert (await client.threads.get(thread_id))["status"] == "idle"
    with pytest.raises(ConflictError):
        await client.runs.create(thread_id, AGENT, command={"resume": "once"})


async def test_a_denial_is_told_the_agent_with_its_reason(api: Api, letters: Letters) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    values: Any = await client.runs.wait(thread_id, AGENT, input=said(letter("ann", "!say Then not.")))
    assert len(values["__interrupt__"]) == 1
    decision = {"decisions": [{"type": "reject", "message": "She has moved."}]}
    values = await client.runs.wait(thread_id, AGENT, command={"resume": decision})
    assert "She has moved." in str(contents(values, "tool"))
    assert contents(values)[-1] == "Then not."
    assert letters.sent == []


async def test_who_may_only_read_decides_nothing(api: Api, letters: Letters) -> None:
    client, reader = await api.graph(), await api.graph("reader", "read")
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, AGENT, input=said(letter("ann")))
    with pytest.raises(PermissionDeniedError):
        await reader.runs.create(thread_id, AGENT, command={"resume": "once"})


async def test_a_question_is_an_interrupt_and_its_answer_is_the_next_turn(api: Api) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    values: Any = await client.runs.wait(thread_id, AGENT, input=said(question("Which colour?", "teal", "red")))
    (asked,) = values["__interrupt__"]
    assert (asked["value"]["text"], asked["value"]["options"]) == ("Which colour?", ["teal", "red"])
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    values = await client.runs.wait(thread_id, AGENT, command={"resume": "teal"})
    assert contents(values, "human")[-1] == "teal"
    assert "__interrupt__" not in values
    assert len(await client.runs.list(thread_id)) == 2


async def test_an_approval_is_answered_in_openais_protocol_too(api: Api, letters: Letters) -> None:
    client, graph = await api.openai(), await api.graph()
    thread_id = (await graph.threads.create())["thread_id"]

    async def say(text: str) -> str:
        answer = await client.chat.completions.create(
            model=AGENT, messages=[{"role": "user", "content": text}], extra_body={"thread_id": thread_id}
        )
        return answer.choices[0].message.content or ""

    assert "send_letter" in await say(letter("ann", "!say Sent."))
    assert await say("once") == "Sent."
    assert letters.sent == ["ann"]


async def test_after_kill_9_in_mid_stream_the_gap_is_told_and_the_answer_comes_once(api: Api) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    modes: Any = ["values", "messages-tuple"]
    first: list[Any] = []
    async for part in client.runs.stream(thread_id, AGENT, input=said("!pause killed"), stream_mode=modes):
        first.append(part)
        if part.event == "messages" and part.data[0]["content"].endswith("answer, "):
            break
    run_id, last = first[0].data["run_id"], next(part.id for part in reversed(first) if part.id)
    await api.world.kill()
    await api.world.start()
    await api.ready()
    await api.world.model.release("killed")
    parts = [part async for part in client.runs.join_stream(thread_id, run_id, stream_mode=modes, last_event_id=last)]
    assert [part.event for part in parts].count("gap") == 1
    assert parts[-1].event == "end"
    values = [part.data for part in parts if part.event == "values"]
    assert contents(values[-1]) == [WHOLE]
    assert contents(await client.runs.join(thread_id, run_id)) == [WHOLE]
    assert (await client.runs.get(thread_id, run_id))["status"] == "success"
    assert len(await client.runs.list(thread_id)) == 1


async def test_langgraphs_client_gets_over_a_kill_by_itself(api: Api) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    values: Any = None
    killed = False
    stream = client.runs.stream(thread_id, AGENT, input=said("!pause itself"), stream_mode=["values", "messages-tuple"])
    async for part in stream:
        if part.event == "messages" and not killed:
            killed = True
            await api.world.kill()
            await api.world.start()
            await api.ready()
            await api.world.model.release("itself")
        values = part.data if part.event == "values" else values
    assert killed
    assert contents(values) == [WHOLE]


async def test_what_is_asked_for_is_answered_also_when_the_process_dies_at_once(api: Api) -> None:
    client = await api.graph()
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, AGENT, input=said("!pause early"), metadata={"kept": True})
    await api.world.kill()
    await api.world.model.release("early")
    await api.world.start()
    await api.ready()
    assert contents(await client.runs.join(thread_id, run["run_id"])) == [WHOLE]
    assert (await client.runs.get(thread_id, run["run_id"]))["metadata"] == {"kept": True}
