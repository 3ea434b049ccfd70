"""The model simulator speaks the provider's protocol: the real client is the judge."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from PIL import Image

from tests.simulators.model.client import ModelSimulator
from tests.simulators.model.scripts import Call, Say, ToolUse
from tests.simulators.process import SimulatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from openai.types.chat import ChatCompletionChunk

TOOLS: Any = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("look", "count")]


@pytest.fixture(scope="module")
def process() -> Iterator[SimulatorProcess]:
    with SimulatorProcess("tests.simulators.model") as running:
        yield running


@pytest.fixture
async def model(process: SimulatorProcess) -> AsyncIterator[ModelSimulator]:
    async with ModelSimulator(process.port) as simulator:
        await simulator.reset()
        yield simulator


@pytest.fixture
async def client(model: ModelSimulator) -> AsyncIterator[openai.AsyncOpenAI]:
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    async with openai.AsyncOpenAI(
        base_url=model.base_url, api_key=model.api_key, max_retries=0, timeout=5.0, http_client=http
    ) as made:
        yield made


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def stream(client: openai.AsyncOpenAI, *messages: Any, **more: Any) -> list[ChatCompletionChunk]:
    chunks = await client.chat.completions.create(model="sim", messages=list(messages), stream=True, **more)
    return [chunk async for chunk in chunks]


async def ask(client: openai.AsyncOpenAI, *messages: Any, **more: Any) -> str:
    answer = await client.chat.completions.create(model="sim", messages=list(messages), **more)
    return answer.choices[0].message.content or ""


def told(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def reasons(chunks: list[ChatCompletionChunk]) -> list[str]:
    return [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]


async def test_plain_text_is_echoed_in_a_stream_with_usage_in_the_last_chunk(client: openai.AsyncOpenAI) -> None:
    chunks = await stream(client, user("hello"), stream_options={"include_usage": True})
    assert told(chunks) == "You said: hello"
    assert reasons(chunks) == ["stop"]
    assert not chunks[-1].choices
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 1


async def test_without_streaming_the_same_answer_comes_whole(client: openai.AsyncOpenAI) -> None:
    assert await ask(client, user("hello")) == "You said: hello"
    assert await ask(client, user("!tokens 3 0")) == "one two three "
    assert len(await ask(client, user("!long 5000"))) == 5000


async def test_the_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert "sim" in [listed.id async for listed in client.models.list()]


async def test_tokens_come_at_their_pace(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    assert len(told(await stream(client, user("!tokens 20 10"))).split()) == 20
    (record,) = await model.completions()
    assert record.ended is not None
    assert 0.19 <= record.ended - record.started < 2


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_tool_round_ends_in_an_answer_with_the_result(client: openai.AsyncOpenAI, streaming: bool) -> None:
    text = '!tools look {"at": "a b"} count {}'
    if streaming:
        chunks = await stream(client, user(text), tools=TOOLS)
        assert reasons(chunks) == ["tool_calls"]
        pieces = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
        calls = [
            {
                "id": next(piece.id for piece in pieces if piece.index == index),
                "type": "function",
                "function": {
                    "name": "".join((p.function and p.function.name) or "" for p in pieces if p.index == index),
                    "arguments": "".join(
                        (p.function and p.function.arguments) or "" for p in pieces if p.index == index
                    ),
                },
            }
            for index in (0, 1)
        ]
    else:
        answer = await client.chat.completions.create(model="sim", messages=[user(text)], tools=TOOLS)  # type: ignore[list-item]
        calls = [call.model_dump() for call in answer.choices[0].message.tool_calls or ()]
    assert [call["function"] for call in calls] == [
        {"name": "look", "arguments": '{"at": "a b"}'},
        {"name": "count", "arguments": "{}"},
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"R{i}"} for i, call in enumerate(calls)]
    asked = {"role": "assistant", "content": None, "tool_calls": calls}
    assert await ask(client, user(text), asked, *results, tools=TOOLS) == "Tool result: R0\n\nTool result: R1"


async def test_a_message_of_several_directives_is_played_in_order(client: openai.AsyncOpenAI) -> None:
    text = "Ann: !say First.\n!reasoning hm\n!tool look {}\n!say Done."
    chunks = await stream(client, user(text), tools=TOOLS)
    assert (told(chunks), reasons(chunks)) == ("First.", ["tool_calls"])
    call = {"id": "a1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    after = ({"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a1", "content": "R"})
    assert await ask(client, user(text), *after, tools=TOOLS) == "Done."


async def test_counting_shows_gaps_and_repetitions(client: openai.AsyncOpenAI) -> None:
    chunks = await stream(client, user("!count 1000"))
    assert told(chunks).split() == [str(number) for number in range(1, 1001)]


async def test_a_registered_script_wins_over_the_text(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    await model.script("!empty", [Say(text="registered")])
    await model.script("weather", [Call(calls=(ToolUse(name="look", arguments='{"x": 1}'),))], match="contains")
    assert await ask(client, user("!empty")) == "registered"
    chunks = await stream(client, user("the weather today"), tools=TOOLS)
    assert reasons(chunks) == ["tool_calls"]
    assert "No tools are offered" in await ask(client, user("the weather today"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("!status 401", openai.AuthenticationError),
        ("!status 404", openai.NotFoundError),
        ("!status 429 retry-after=2", openai.RateLimitError),
        ("!status 503", openai.InternalServerError),
        ("!context 1", openai.BadRequestError),
        ("!filter request", openai.BadRequestError),
        ("!error", openai.APIError),
        ("!reset", openai.APIError),
        ("!garbage", ValueError),
    ],
)
async def test_every_failure_reaches_the_client_as_its_own_error(
    client: openai.AsyncOpenAI, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        await stream(client, user(text))
    if isinstance(caught.value, openai.RateLimitError):
        assert caught.value.response.headers["retry-after"] == "2"
    if text == "!context 1":
        assert isinstance(caught.value, openai.BadRequestError)
        assert caught.value.code == "context_length_exceeded"


async def test_a_fault_with_times_spares_the_retry_of_its_conversation_only(client: openai.AsyncOpenAI) -> None:
    for text in ("!status 500 times=1 chat-1", "!status 500 times=1 chat-2"):
        with pytest.raises(openai.InternalServerError):
            await stream(client, user(text))
        assert told(await stream(client, user(text))) == f"You said: {text}"
    dated = "!status 500 times=1\n\n<antler-context>\ndate: 2026-11-29 00:{} UTC (Sunday)\n</antler-context>"
    with pytest.raises(openai.InternalServerError):
        await stream(client, user(dated.format("04")))
    assert told(await stream(client, user(dated.format("05")))), "its retry came in the next minute"


async def test_endings_that_are_not_stop(client: openai.AsyncOpenAI) -> None:
    assert reasons(await stream(client, user("!filter"))) == ["content_filter"]
    assert reasons(await stream(client, user("!finish length"))) == ["length"]
    empty = await stream(client, user("!empty"))
    assert (told(empty), reasons(empty)) == ("", ["stop"])
    assert reasons(await stream(client, user("!cut"))) == []
    refused = await stream(client, user("!refuse"))
    assert any(chunk.choices[0].delta.refusal for chunk in refused)


async def test_a_client_that_leaves_is_noticed(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.3).chat.completions.create(model="sim", messages=[user("!hang")])  # type: ignore[list-item]
    record = await model.wait_for_request(lambda r: r.last_user_text == "!hang" and r.ended is not None)
    assert (record.state, record.status) == ("disconnected", 0)


async def test_a_pause_holds_the_second_half_until_it_is_released(
    client: openai.AsyncOpenAI, model: ModelSimulator
) -> None:
    answer = asyncio.create_task(stream(client, user("!pause here")))
    assert (await model.wait_for_pause("here")).state == "paused"
    assert not answer.done()
    await model.release("here")
    assert told(await answer) == "The first half of the answer, and the second half."
    assert (await model.wait_for_request(lambda r: r.state == "done")).last_user_text == "!pause here"


async def test_a_released_name_lets_the_repeated_request_of_a_killed_client_through(
    client: openai.AsyncOpenAI, model: ModelSimulator
) -> None:
    killed = asyncio.create_task(stream(client, user("!pause twice")))
    first = await model.wait_for_pause("twice")
    killed.cancel()
    await model.wait_for_request(lambda record: record.id == first.id and record.state == "disconnected")
    again = asyncio.create_task(stream(client, user("!pause twice")))
    assert (await model.wait_for_pause("twice")).id > first.id
    await model.release("twice")
    assert told(await again).endswith("second half.")
    assert told(await stream(client, user("!pause twice"))).endswith("second half.")


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "R"}


@pytest.mark.parametrize(
    "messages",
    [
        [user("x"), CALLING],
        [user("x"), CALLING, user("y"), RESULT],
        [user("x"), RESULT],
        [user("x"), CALLING, RESULT, CALLING, RESULT],
        [user("")],
        [user("x"), {"role": "system", "content": "late"}],
        [{"role": "system", "content": "a"}, {"role": "system", "content": "b"}, user("x")],
        [user("x"), {"role": "assistant", "content": ""}],
        [],
    ],
)
async def test_a_malformed_history_is_refused(
    client: openai.AsyncOpenAI, model: ModelSimulator, messages: list[Any]
) -> None:
    with pytest.raises(openai.BadRequestError):
        await ask(client, *messages)
    (record,) = await model.completions()
    assert record.status == 400
    assert record.error


async def test_lone_surrogates_and_missing_keys_are_refused(model: ModelSimulator) -> None:
    async with httpx.AsyncClient(base_url=model.base_url, trust_env=False) as http:
        body = b'{"model": "sim", "messages": [{"role": "user", "content": "\\ud83d"}]}'
        headers = {"Authorization": f"Bearer {model.api_key}"}
        assert (await http.post("/chat/completions", content=body, headers=headers)).status_code == 400
        assert (await http.post("/chat/completions", content=body)).status_code == 401


async def test_images_are_measured_and_not_kept(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48)).save(buffer, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    content = [{"type": "text", "text": "what is it"}, {"type": "image_url", "image_url": {"url": url}}]
    assert "Image: 64x48" in await ask(client, {"role": "user", "content": content})
    (record,) = await model.completions()
    (image,) = record.images
    assert (image.width, image.height, image.size) == (64, 48, len(buffer.getvalue()))
    assert url not in str(record.body)


async def test_many_streams_at_once(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    answers = await asyncio.gather(*(stream(client, user(f"!tokens 10 5 {n}")) for n in range(100)))
    assert {len(told(chunks).split()) for chunks in answers} == {10}
    assert len(await model.completions()) == 100


async def test_a_record_tells_when_tokens_were_written(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    await stream(client, user("!tokens 3 20"))
    record = await model.wait_for_request(lambda record: record.ended is not None)
    assert record.first_token is not None
    assert record.last_token is not None
    assert record.ended is not None
    assert record.started <= record.first_token <= record.last_token - 0.03 <= record.ended


async def test_lean_records_keep_no_bodies(client: openai.AsyncOpenAI, model: ModelSimulator) -> None:
    await model.keep_lean()
    try:
        await ask(client, user("hello"))
        record = await model.wait_for_request(lambda record: record.ended is not None)
    finally:
        await model.keep_lean(False)
    assert record.body is None
    assert record.last_user_text == "hello"
