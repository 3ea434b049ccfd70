"""OpenAI's chat completions and models, for any client of theirs to talk to an agent; docs/api.md lists the options."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bot.http.api.answers import Answers
from bot.http.api.content import read_messages
from bot.http.api.models import Metadata, Tools
from bot.http.auth import HOLDS_SECONDS, SignedIn, requires, signed_out
from bot.http.errors import HttpProblem
from bot.http.sse import EVENT, EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from bot.http.api.answers import Answer, Reading
    from bot.http.api.runs import Runs
    from bot.http.api.threads import Threads
    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.store.programs import ProgramThread

THREAD_HEADER = "X-Antler-Thread"
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with stream its events",
        "content": {EventStream.media_type: {"schema": EVENT}},
    }
}


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    """A request for a completion; other options (temperature, max_tokens and the like) are left to the agent."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    model: str = Field(max_length=200)
    messages: list[Any] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    metadata: Metadata | None = None
    thread_id: str | None = None
    n: int | None = None
    tools: Tools = None
    functions: Tools = None
    response_format: dict[str, Any] | None = None

    @field_validator("n")
    @classmethod
    def _only_one(cls, value: int | None) -> int | None:
        if value not in (None, 1):
            raise ValueError("only 1 answer can be requested")
        return value

    @field_validator("response_format")
    @classmethod
    def _is_text(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("type", "text") != "text":
            raise ValueError("only text can be requested")
        return value


async def named_thread(threads: Threads, caller: Caller, name: str | None) -> ProgramThread | None:
    """The thread that a client continues, or begins, under an id of its own. Raises HttpProblem."""
    if not name:
        return None
    try:
        stored = str(uuid.UUID(name))
    except ValueError:
        text = "thread_id must be a UUID"
        raise HttpProblem(422, "invalid", text, type="invalid_request_error", param="thread_id") from None
    thread, _ = await threads.create(caller, stored)
    return thread


def error_json(problem: HttpProblem) -> dict[str, Any]:
    """The problem in OpenAI's form."""
    more = {"type": problem.more.get("type", problem.code), "param": problem.more.get("param")}
    return {"error": {"message": str(problem), "code": problem.code, **more}}


async def while_connected(
    parts: HttpParts, caller: Caller, request: Request, work: Callable[[], Awaitable[Response]]
) -> Response:
    """The result of `work`, which is cancelled when the client is gone, or may not have the answer any more. Raises
    HttpProblem."""
    working = asyncio.ensure_future(work())
    try:
        while not working.done():
            await asyncio.wait({working}, timeout=HOLDS_SECONDS)
            if not parts.gatekeeper.signins.holds(caller.key):
                raise signed_out()
            if not working.done() and await request.is_disconnected():
                return Response(status_code=499)
        return working.result()
    finally:
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
        elif not working.cancelled():
            working.exception()  # retrieved, even if it is reported to no one


def openai_router(parts: HttpParts, threads: Threads, runs: Runs) -> APIRouter:
    """The routes of /v1/models and /v1/chat/completions."""
    router, answers = APIRouter(prefix="/v1", tags=["openai"]), Answers(parts, threads, runs)
    since = int(parts.clock.now().timestamp())

    def model(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": since, "owned_by": "antler"}

    @router.get("/models", dependencies=[requires("read")])
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [model(name) for name in parts.agents.definitions]}

    @router.get("/models/{name}", dependencies=[requires("read")])
    async def one_model(name: str) -> dict[str, Any]:
        return model(answers.agent(name))

    @router.post(
        "/chat/completions", dependencies=[requires("runs")], response_model=dict[str, Any], responses=STREAMED
    )
    async def completions(
        caller: SignedIn,
        request: Request,
        body: ChatRequest,
        thread: Annotated[str | None, Header(alias=THREAD_HEADER)] = None,
    ) -> Response:
        agent, said = answers.agent(body.model), read_messages(body.messages)
        found = await named_thread(threads, caller, body.thread_id or thread)
        if body.stream:
            parts.gatekeeper.check_streams(caller)
        reading = await answers.begin(caller, found, said, agent, metadata=body.metadata)
        headers = {THREAD_HEADER: reading.answer.thread.name, "X-Antler-Run": reading.answer.row.run_id}
        if body.stream:
            with_usage = body.stream_options is not None and body.stream_options.include_usage
            chunks = _chunks(parts, reading, agent, with_usage=with_usage)
            told: StreamingResponse = parts.gatekeeper.stream(caller, chunks, retry=False)
            told.headers.update(headers)
            return told

        async def work() -> Response:
            text = json.dumps(completion(await reading.whole(), agent), ensure_ascii=False)
            return Response(parts.redact(text), media_type="application/json", headers=headers)

        return await while_connected(parts, caller, request, work)

    return router


def usage_json(answer: Answer) -> dict[str, Any]:
    read, written, cached = answer.tokens.input, answer.tokens.output, answer.tokens.cached
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def finish_reason(answer: Answer) -> str:
    return "length" if answer.is_cut else "stop"


def completion(answer: Answer, model: str) -> dict[str, Any]:
    """OpenAI's ChatCompletion."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    return {
        **_head(answer, model, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(answer), "logprobs": None}],
        "usage": usage_json(answer),
    }


def _head(answer: Answer, model: str, kind: str) -> dict[str, Any]:
    created = int(answer.row.created_at.timestamp())
    return {"id": f"chatcmpl-{answer.row.run_id}", "object": kind, "created": created, "model": model}


async def _chunks(parts: HttpParts, reading: Reading, model: str, *, with_usage: bool) -> AsyncGenerator[str, None]:
    answer = reading.answer
    head = _head(answer, model, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return data_line(parts, {**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    pieces = reading.pieces()
    try:
        async for text in pieces:
            yield chunk({"content": text})
        if (error := answer.error()) is not None:
            raise error
    except HttpProblem as problem:
        yield data_line(parts, error_json(problem))
        return
    finally:
        await pieces.aclose()
    yield chunk({}, finish_reason(answer))
    if with_usage:
        yield data_line(parts, {**head, "choices": [], "usage": usage_json(answer)})
    yield "data: [DONE]\n\n"


def data_line(parts: HttpParts, value: Any) -> str:
    """A server-sent event without a name, its secrets redacted."""
    return f"data: {parts.redact(json.dumps(value, ensure_ascii=False))}\n\n"
