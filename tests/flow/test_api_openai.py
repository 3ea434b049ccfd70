"""The API in OpenAI's protocol, spoken by OpenAI's own client to a running gateway."""

from __future__ import annotations

import asyncio
import base64
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio

from tests.flow.api_world import AGENT, Api, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai import AsyncOpenAI

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
WHOLE = "The first half of the answer, and the second half."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    models = public_world.config()["models"]
    public_world.settings["models"] = [{**each, "supports_vision": True} for each in models]
    async with serving(public_world) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def client(api: Api) -> AsyncOpenAI:
    return await api.openai()


def user(content: Any) -> Any:
    return [{"role": "user", "content": content}]


def picture() -> str:
    """A PNG of one red pixel, as a data: URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


async def test_the_agents_are_models(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [AGENT]
    assert (await client.models.retrieve(AGENT)).owned_by == "antler"


async def test_a_completion_has_text_usage_and_a_finish_reason(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=AGENT, messages=user("!say The answer."))
    assert answer.choices[0].message.content == "The answer."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def test_an_answer_that_was_cut_says_so(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model=AGENT, messages=user("!tokens 5\n!finish length"))
    assert answer.choices[0].finish_reason == "length"


async def test_a_completion_is_streamed(client: AsyncOpenAI) -> None:
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(
            model=AGENT, messages=user("!tokens 30 10"), stream=True, stream_options={"include_usage": True}
        )
    ]
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(pieces) > 5
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


async def test_earlier_messages_begin_the_conversation(api: Api, client: AsyncOpenAI) -> None:
    mark = uuid.uuid4().hex
    messages: Any = [
        {"role": "system", "content": "Speak like a pirate."},
        {"role": "user", "content": "My colour is teal."},
        {"role": "assistant", "content": "Aye."},
        {"role": "user", "content": f"!say Teal {mark}"},
    ]
    answer = await client.chat.completions.create(model=AGENT, messages=messages)
    assert answer.choices[0].message.content == f"Teal {mark}"
    asked = next(each for each in await api.world.model.completions() if mark in each.last_user_text)
    told = asked.body["messages"]
    pirate = next(each for each in told if "Speak like a pirate." in str(each["content"]))
    assert pirate["role"] == "user"
    assert [each["content"] for each in told if each["role"] == "assistant"] == ["Aye."]


async def test_a_thread_of_the_clients_own_goes_on(api: Api, client: AsyncOpenAI) -> None:
    thread = {"thread_id": str(uuid.uuid4())}
    mark = uuid.uuid4().hex
    await client.chat.completions.create(model=AGENT, messages=user(f"!say One {mark}"), extra_body=thread)
    await client.chat.completions.create(model=AGENT, messages=user(f"!say Two {mark}"), extra_body=thread)
    asked = [each for each in await api.world.model.completions() if f"Two {mark}" in each.last_user_text]
    assert f"One {mark}" in str(asked[-1].body["messages"])


async def test_a_picture_reaches_the_model(api: Api, client: AsyncOpenAI) -> None:
    mark = uuid.uuid4().hex
    parts = [{"type": "text", "text": f"!say Red {mark}"}, {"type": "image_url", "image_url": {"url": picture()}}]
    answer = await client.chat.completions.create(model=AGENT, messages=user(parts))
    assert answer.choices[0].message.content == f"Red {mark}"
    asked = next(each for each in await api.world.model.completions() if mark in each.last_user_text)
    assert "image_url" in str(asked.body["messages"][-1])


async def test_errors_have_openais_form(api: Api, client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="gpt-nothing", messages=user("hello"))
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    remote: Any = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]
    with pytest.raises(openai.UnprocessableEntityError, match="data: URL"):
        await client.chat.completions.create(model=AGENT, messages=user(remote))
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(openai.UnprocessableEntityError, match="tools"):
        await client.chat.completions.create(model=AGENT, messages=user("hello"), tools=tools)
    with pytest.raises(openai.APIStatusError) as failed:
        await client.chat.completions.create(model=AGENT, messages=user("!status 404"))
    assert failed.value.code == "not_found"
    with pytest.raises(openai.APIError) as cut:
        async for _ in await client.chat.completions.create(model=AGENT, messages=user("!status 404"), stream=True):
            pass
    assert cut.value.code == "not_found"
    stranger = openai.AsyncOpenAI(base_url=f"{api.url}/v1", api_key="ant_nobody", max_retries=0)
    async with stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.models.list()


@pytest.mark.parametrize("streams", [True, False])
async def test_a_run_ends_with_its_client(api: Api, client: AsyncOpenAI, streams: bool) -> None:
    pause, thread_id = f"gone-{streams}", str(uuid.uuid4())
    create: Any = client.with_options(timeout=60).chat.completions.create
    about: Any = {"model": AGENT, "messages": user(f"!pause {pause}"), "extra_body": {"thread_id": thread_id}}
    if streams:
        stream = await create(**about, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
    else:
        asking = asyncio.create_task(create(**about))
        await api.world.model.wait_for_pause(pause)
        asking.cancel()
        await asyncio.wait({asking})
    graph = await api.graph()
    run = (await graph.runs.list(thread_id))[0]
    await graph.runs.join(thread_id, run["run_id"])
    assert (await graph.runs.get(thread_id, run["run_id"]))["status"] == "interrupted"
    await api.world.model.release(pause)


async def test_a_response_is_made_continued_and_read_again(api: Api, client: AsyncOpenAI) -> None:
    mark = uuid.uuid4().hex
    first = await client.responses.create(model=AGENT, input=f"!say One {mark}", instructions="Be brief.")
    assert (first.output_text, first.status) == (f"One {mark}", "completed")
    assert first.usage is not None
    assert first.usage.input_tokens > 0
    second = await client.responses.create(model=AGENT, input=f"!say Two {mark}", previous_response_id=first.id)
    assert second.output_text == f"Two {mark}"
    asked = [each for each in await api.world.model.completions() if f"Two {mark}" in each.last_user_text]
    assert f"One {mark}" in str(asked[-1].body["messages"])
    assert (await client.responses.retrieve(second.id)).output_text == f"Two {mark}"
    with pytest.raises(openai.UnprocessableEntityError):
        await client.responses.create(model=AGENT, input="hello", previous_response_id=first.id)


async def test_a_response_is_streamed(client: AsyncOpenAI) -> None:
    events = [event async for event in await client.responses.create(model=AGENT, input="!tokens 20 1", stream=True)]
    kinds = [event.type for event in events]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-1] == "response.completed"
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas
    assert events[-1].response.output_text == deltas  # type: ignore[union-attr]  # by its type
    assert [event.sequence_number for event in events] == list(range(len(events)))
    failed = [
        event.type async for event in await client.responses.create(model=AGENT, input="!status 404", stream=True)
    ]
    assert failed[-1] == "response.failed"


async def test_responses_of_others_are_not_found(api: Api, client: AsyncOpenAI) -> None:
    mine = await client.responses.create(model=AGENT, input="!say Mine.")
    other = await api.openai("second")
    with pytest.raises(openai.NotFoundError):
        await other.responses.retrieve(mine.id)
    with pytest.raises(openai.NotFoundError):
        await other.responses.create(model=AGENT, input="hello", previous_response_id=mine.id)
