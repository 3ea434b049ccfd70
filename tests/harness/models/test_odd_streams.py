"""What servers that call themselves compatible with OpenAI stream besides, and instead of, what OpenAI documents."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from harness.config import LlmSettings, ModelSettings
from harness.events import FailureKind as Kind
from tests.harness.support import Bench, collect, context, failed, finished, in_memory, said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from harness.run.runner import HarnessRunner

STREAM = "text/event-stream"
ARGUMENTS = json.dumps({"path": "/mnt/user-data/workspace/a", "content": "words"})
STOP: dict[str, Any] = {"delta": {}, "finish_reason": "stop"}
CALLED: dict[str, Any] = {"delta": {}, "finish_reason": "tool_calls"}


def events(*choices: dict[str, Any]) -> bytes:
    chunks = [{"id": "c", "choices": [{"index": 0, "finish_reason": None} | choice]} for choice in choices]
    return b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"


def call(arguments: str | None, function: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"delta": {"tool_calls": [{"function": {"arguments": arguments} | function} | more]}}


def said_so(text: str) -> dict[str, Any]:
    return {"delta": {"content": text}}


@asynccontextmanager
async def answered(bench: Bench, *bodies: bytes, content_type: str = STREAM) -> AsyncIterator[HarnessRunner]:
    """A harness whose model answers with these bodies in turn, the last one again and again."""
    waiting = list(bodies)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=waiting.pop(0) if len(waiting) > 1 else waiting[0], content_type=content_type)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        bench.llm = LlmSettings(patience=0, max_retries=1)
        async with bench.open(ModelSettings(name="main", model="m", base_url=url)) as harness:
            yield harness
    finally:
        await runner.cleanup()


async def test_what_a_content_filter_adds_after_the_end_is_no_part_of_the_answer(bench: Bench) -> None:
    """Azure's asynchronous filter: a choice without a delta."""
    annotated = {"content_filter_results": {}, "content_filter_offsets": {"check_offset": 4}}
    async with answered(bench, events(annotated, said_so("The answer."), STOP, annotated)) as harness:
        assert finished(await collect(harness, context("r1"), said("go"))).text == "The answer."


NAMED: dict[str, Any] = {"function": {"name": "write_file"}}
PARTS = (ARGUMENTS[:9], ARGUMENTS[9:30], ARGUMENTS[30:])


@pytest.mark.parametrize(
    ("calls", "tools"),
    [
        ([call(ARGUMENTS, id="a", **NAMED)], ["write_file"]),
        ([call(part, index=0, **NAMED) for part in PARTS], ["write_file"]),
        ([call(part, index=0, id="a", **NAMED) for part in PARTS], ["write_file"]),
        ([call("{}", index=0, id=each, function={"name": "ls"}) for each in ("a", "b")], ["ls", "ls"]),
        ([call("null", index=0, id="a", function={"name": "ls"})], ["ls"]),
        ([call(None, index=0, id="a", function={"name": "ls"})], ["ls"]),
    ],
)
async def test_calls_are_made_whatever_their_chunks_lack_or_repeat(
    bench: Bench, calls: Sequence[dict[str, Any]], tools: Sequence[str]
) -> None:
    in_memory(bench)
    async with answered(bench, events(*calls, CALLED), events(said_so("Done."), STOP)) as harness:
        told = await collect(harness, context("r1"), said("go"))
    assert finished(told).text == "Done."
    assert [(each.tool, each.ok) for each in told if each.type == "tool_ended"] == [(name, True) for name in tools]


@pytest.mark.parametrize("words", [[], [said_so("I save it.")]])
async def test_a_call_that_cannot_be_read_is_no_answer(bench: Bench, words: Sequence[dict[str, Any]]) -> None:
    in_memory(bench)
    broken = events(*words, call('{"path": "/a", "content": no', index=0, id="a", **NAMED), CALLED)
    async with answered(bench, broken, broken, events(said_so("Fine."), STOP)) as harness:
        assert failed(await collect(harness, context("r1"), said("go"))).kind is Kind.BAD_RESPONSE
        assert finished(await collect(harness, context("r2"), said("again"))).text == "Fine."


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        ({"error": {"message": "The model is overloaded", "code": 1305}}, "application/json", Kind.OVERLOADED),
        ({"error": "boom"}, STREAM, Kind.UNAVAILABLE),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "application/json", Kind.QUOTA),
        ({"choices": [{"message": {"content": "whole"}}]}, "application/json", Kind.BAD_RESPONSE),
        ("<html>", "text/html", Kind.BAD_RESPONSE),
        ("[" * 5000, "application/json", Kind.BAD_RESPONSE),
        ("", STREAM, Kind.CUT),
    ],
)
async def test_what_comes_in_place_of_a_stream_is_named(bench: Bench, body: Any, content_type: str, kind: Kind) -> None:
    whole = body if isinstance(body, str) else json.dumps(body, indent=2)
    async with answered(bench, whole.encode(), content_type=content_type) as harness:
        assert failed(await collect(harness, context("r1"), said("go"))).kind is kind


async def test_usage_that_each_chunk_repeats_counts_once(bench: Bench) -> None:
    """xAI and Perplexity: each chunk has the total so far."""
    chunks = [
        {"choices": [{"index": 0} | choice], "usage": {"prompt_tokens": 1000, "completion_tokens": tokens}}
        for tokens, choice in enumerate((said_so("The "), said_so("answer."), STOP), 1)
    ]
    body = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in (*chunks, chunks[-1] | {"choices": []}))
    async with answered(bench, body) as harness:
        told = await collect(harness, context("r1"), said("go"))
    assert finished(told).text == "The answer."
    assert [(each.input_tokens, each.output_tokens) for each in told if each.type == "usage"] == [(1000, 3)]
