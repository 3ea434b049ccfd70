"""Content that a provider refuses to read does not make it refuse the rest of the thread too."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web
from langchain_core.tools import tool

from harness.config import LlmSettings, ModelSettings
from harness.context import InputFile, RunInput, Unfinished
from harness.events import FailureKind as Kind
from harness.graph.messages import LEFT_OUT
from harness.threads.operations import REFUSED
from tests.harness.support import Bench, collect, context, failed, finished, said
from tests.simulators.feishu.seen import PNG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from harness.run.runner import HarnessRunner

CALL = {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}


@tool
async def look() -> str:
    """Look at something."""
    return "FORBIDDEN words"


@asynccontextmanager
async def refusing(bench: Bench, words: str, message: str) -> AsyncIterator[tuple[HarnessRunner, list[Any]]]:
    """A harness whose provider refuses requests with these words; "look" makes it call the tool. And the requests."""
    requests: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        messages = (await request.json())["messages"]
        requests.append(messages)
        if words in json.dumps(messages[1:]):
            return web.json_response({"error": {"message": message}}, status=400)
        calls = messages[-1]["role"] == "user" and str(messages[-1]["content"]).startswith("look")
        delta = {"tool_calls": [CALL]} if calls else {"content": "Fine."}
        reason = "stop"
        if str(messages[-1]["content"]).startswith("write"):
            delta, reason = {"content": "FORBIDDEN too"}, "content_filter"
        chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        return web.Response(body=f"data: {json.dumps(chunk)}\n\n".encode(), content_type="text/event-stream")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    bench.llm, bench.tools = LlmSettings(patience=0, max_retries=0), [look]
    try:
        async with bench.open(ModelSettings(name="main", model="m", base_url=url, supports_vision=True)) as harness:
            yield harness, requests
    finally:
        await runner.cleanup()


async def test_a_message_that_the_filter_refused_is_not_sent_again(bench: Bench) -> None:
    async with refusing(bench, "FORBIDDEN", "Content Exists Risk") as (harness, requests):
        await collect(harness, context("r1"), said("hello"))
        assert failed(await collect(harness, context("r2"), said("FORBIDDEN"))).kind is Kind.CONTENT_FILTER
        assert finished(await collect(harness, context("r3"), said("something else"))).text == "Fine."
        users = [message["content"] for message in requests[-1] if message["role"] == "user"]
        assert (users[0].startswith("hello"), users[1]) == (True, REFUSED)
        assert users[2].startswith("something else")


async def test_a_result_that_the_filter_refused_is_not_sent_again(bench: Bench) -> None:
    async with refusing(bench, "FORBIDDEN", "Content Exists Risk") as (harness, requests):
        assert failed(await collect(harness, context("r1"), said("look"))).kind is Kind.CONTENT_FILTER
        assert finished(await collect(harness, context("r2"), said("and now?"))).text == "Fine."
        assert [message["content"] for message in requests[-1] if message["role"] == "tool"] == [REFUSED]
        assert any(str(message["content"]).startswith("look") for message in requests[-1])


async def test_a_picture_that_the_model_refused_is_not_sent_again(bench: Bench, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    shown = InputFile(path=picture, name="a.png", mime_type="image/png", size=len(PNG))
    async with refusing(bench, "image_url", "this model does not read pictures") as (harness, requests):
        ended = await collect(harness, context("r1"), RunInput(message_id="m1", text="what is it?", files=(shown,)))
        assert failed(ended).kind is Kind.BAD_REQUEST
        assert finished(await collect(harness, context("r2"), said("and now?"))).text == "Fine."
        asked = next(message["content"] for message in requests[-1] if message["role"] == "user")
        assert asked.startswith("what is it?")
        assert LEFT_OUT in asked


async def test_an_answer_that_the_filter_cut_is_not_sent_again(bench: Bench) -> None:
    async with refusing(bench, "FORBIDDEN", "Content Exists Risk") as (harness, requests):
        assert failed(await collect(harness, context("r1"), said("write it"))).kind is Kind.CONTENT_FILTER
        await harness.settle("thread-1", Unfinished(run_id="r1", message_id="r1-1", text="FORBIDDEN too"))
        assert finished(await collect(harness, context("r2"), said("and now?"))).text == "Fine."
        assert any(str(message["content"]).startswith("write it") for message in requests[-1])
