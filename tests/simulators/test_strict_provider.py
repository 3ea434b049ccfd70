"""The strict provider's checks, one by one: what is refused and why, and what is not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.simulators.model import strict
from tests.simulators.model.client import API_KEY, ModelSimulator, take_malformed
from tests.simulators.process import SimulatorProcess
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]

TOOL: Message = {"type": "function", "function": {"name": "look", "parameters": {}}}
PICTURE: Message = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SYSTEM: Message = {"role": "system", "content": "You help."}
USER: Message = {"role": "user", "content": "x"}
ANSWER: Message = {"role": "assistant", "content": "y"}


def asks(*ids: str, **more: Any) -> Message:
    """An assistant message that calls `look` once for each id."""
    functions = {"name": "look", "arguments": "{}"} | more
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": each, "type": "function", "function": functions} for each in ids],
    }


def result(ident: str, content: Any = "R") -> Message:
    return {"role": "tool", "tool_call_id": ident, "content": content}


def said(*parts: Message) -> Message:
    return {"role": "user", "content": list(parts)}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def found(body: Any) -> str | None:
    return strict.problem(body, json.dumps(body).encode())


def found_in(*messages: Any, **more: Any) -> str | None:
    return found({"model": "sim", "messages": list(messages), **more})


@table(
    "messages",
    [
        (USER,),
        (SYSTEM, USER, ANSWER, USER),
        (SYSTEM, USER, USER),
        (USER, asks("a", "b"), result("b"), result("a"), USER),
        (USER, asks("a"), result("a"), asks("b"), result("b")),
        (USER, asks("a") | {"content": ""}, result("a", [text("R")])),
        (said(text("what is it"), PICTURE),),
        (said(PICTURE),),
        (USER | {"name": "loop_warning"},),
        (USER, {"role": "assistant", "content": None, "refusal": "no"}, USER),
    ],
)
def test_what_is_well_formed_passes(messages: tuple[Message, ...]) -> None:
    assert found_in(*messages) is None
    assert found_in(*messages, tools=[TOOL], tool_choice="auto", parallel_tool_calls=True) is None


@table(
    ("messages", "reason"),
    [
        # A call has its result right after its message.
        ((USER, asks("a")), "tool calls without a result: a"),
        ((USER, asks("a"), USER, result("a")), "messages[2]: tool calls without a result: a"),
        ((USER, asks("a"), ANSWER, result("a")), "messages[2]: tool calls without a result: a"),
        ((USER, asks("a", "b"), result("a"), USER), "messages[3]: tool calls without a result: b"),
        ((USER, asks("a", "b"), result("a"), asks("c"), result("c")), "messages[3]: tool calls without a result: b"),
        # A result has its call, and is its only result.
        ((USER, result("a")), "messages[1]: tool result 'a' has no preceding tool call"),
        ((result("a"), asks("a"), USER), "messages[0]: tool result 'a' has no preceding tool call"),
        ((USER, asks("a"), result("a"), result("a")), "messages[3]: tool result 'a' has no preceding tool call"),
        ((USER, asks("a"), result("b"), result("a")), "messages[2]: tool result 'b' has no preceding tool call"),
        ((USER, asks("a"), result("a"), USER, result("a")), "messages[4]: tool result 'a' has no preceding tool call"),
        # Ids are present, and unique in the whole request.
        ((USER, asks("a", "a"), result("a")), "tool call id 'a' is not unique"),
        ((USER, asks("a"), result("a"), asks("a"), result("a")), "tool call id 'a' is not unique"),
        ((USER, asks(""), result("")), "a tool call without an id"),
        ((USER, asks("a"), {"role": "tool", "content": "R"}), "a tool message needs a tool_call_id"),
        # Calls are of a kind that a client could make.
        ((USER, asks("a", name="no such name"), result("a")), "tool call name 'no such name' is not valid"),
        ((USER, asks("a", arguments=""), result("a")), "the arguments of 'a' are not JSON"),
        ((USER, asks("a", arguments="[]"), result("a")), "the arguments of 'a' are not an object"),
        ((USER, ANSWER | {"tool_calls": []}), "tool_calls must be a list of one or more"),
        ((USER | {"tool_calls": asks("a")["tool_calls"]}, result("a")), "of an assistant message"),
    ],
)
def test_calls_and_results_are_paired(messages: tuple[Message, ...], reason: str) -> None:
    problem = found_in(*messages)
    assert problem is not None
    assert reason in problem


@table("content", ["", " \n", None, [], [text("")], [text("x"), text(" ")], [text(""), PICTURE]])
@table("role", ["system", "user", "assistant", "tool"])
def test_no_content_is_empty(role: str, content: Any) -> None:
    messages = [USER, asks("a"), result("a", content)] if role == "tool" else [{"role": role, "content": content}]
    problem = found_in(*messages)
    assert problem is not None
    assert "empty" in problem


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ((SYSTEM, SYSTEM, USER), 1),
        ((SYSTEM, {"role": "developer", "content": "z"}, USER), 1),
        ((USER, SYSTEM), 1),
        ((SYSTEM, USER, ANSWER, SYSTEM, USER), 3),
    ],
)
def test_there_is_one_system_message_and_it_is_first(messages: tuple[Message, ...], place: int) -> None:
    assert found_in(*messages) == f"messages[{place}]: a system message must be the first and only one"


@table(
    ("body", "reason"),
    [
        ([], "the body is not an object"),
        ({"messages": [USER]}, "model is missing"),
        ({"model": "", "messages": [USER]}, "model is missing"),
        ({"model": "sim"}, "messages is missing or empty"),
        ({"model": "sim", "messages": []}, "messages is missing or empty"),
        ({"model": "sim", "messages": ["x"]}, "unknown role"),
        ({"model": "sim", "messages": [{"role": "function", "content": "x"}]}, "unknown role 'function'"),
        ({"model": "sim", "messages": [USER | {"name": "Ann B"}]}, "the name 'Ann B' is not valid"),
        ({"model": "sim", "messages": [said({"text": "x"})]}, "has no type"),
        ({"model": "sim", "messages": [USER | {"content": ["x"]}]}, "has no type"),
        ({"model": "sim", "messages": [USER], "tools": []}, "tools must not be an empty list"),
        ({"model": "sim", "messages": [USER], "tools": [TOOL, TOOL]}, "tool names are not unique"),
        ({"model": "sim", "messages": [USER], "tools": [{"function": {"name": "a b"}}]}, "'a b' is not valid"),
        ({"model": "sim", "messages": [USER], "tool_choice": "auto"}, "tool_choice without tools"),
        ({"model": "sim", "messages": [USER], "parallel_tool_calls": False}, "parallel_tool_calls without tools"),
        ({"model": "sim", "messages": [USER | {"content": "\ud83d"}]}, "a lone surrogate"),
    ],
)
def test_the_rest_of_the_request_is_checked_too(body: Any, reason: str) -> None:
    assert reason in (found(body) or "")


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as running:
        yield running


async def test_a_refusal_is_a_400_and_no_reset_forgets_it(process: SimulatorProcess) -> None:
    async with ModelSimulator(process.port) as model, httpx.AsyncClient(trust_env=False) as http:
        headers = {"Authorization": f"Bearer {API_KEY}"}
        for messages in ([USER], [USER, asks("a")], [SYSTEM, SYSTEM, USER]):
            body = {"model": "sim", "messages": messages}
            answer = await http.post(f"{model.base_url}/chat/completions", json=body, headers=headers)
            assert answer.status_code == (200 if messages == [USER] else 400)
        assert "must be the first and only one" in answer.json()["error"]["message"]
        await model.reset()
    dangling, doubled = take_malformed(process.port)
    assert "without a result" in dangling
    assert "must be the first" in doubled
    assert take_malformed(process.port) == []
