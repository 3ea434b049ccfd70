"""OpenAI's responses: each is a run, and continues the response that it names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from bot.http.api.answers import Answers, Reading
from bot.http.api.content import Said, invalid, read_messages
from bot.http.api.models import Metadata, Tools
from bot.http.api.openai import STREAMED, THREAD_HEADER, error_json, named_thread, while_connected
from bot.http.auth import Caller, SignedIn, requires
from bot.http.errors import HttpProblem, not_found
from bot.http.sse import event
from bot.store.rows import RunState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bot.http.api.answers import Answer
    from bot.http.api.runs import Runs
    from bot.http.api.threads import Threads
    from bot.http.parts import HttpParts
    from bot.store.programs import ProgramThread
    from bot.store.rows import RunRow

ID = "resp_"
CONVERSATION = "conv_"


class ResponseRequest(BaseModel):
    """A request for a response; other options are left to the agent. store: false deletes the thread afterwards."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    model: str = Field(max_length=200)
    input: str | list[Any]
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    metadata: Metadata | None = None
    tools: Tools = None

    @field_validator("background")
    @classmethod
    def _waits(cls, value: Any) -> Any:
        if value:
            raise ValueError("is not supported here; LangGraph's runs can continue without a client")
        return value


class Responses:
    """Access to responses: each is a run, in a thread of its person."""

    def __init__(self, parts: HttpParts, threads: Threads, runs: Runs) -> None:
        self.answers = Answers(parts, threads, runs)
        self._threads = threads

    async def find(self, caller: Caller, response_id: str) -> tuple[ProgramThread, RunRow]:
        """One of the caller's responses, with its thread. Raises HttpProblem."""
        if not response_id.startswith(ID):
            raise not_found("there is no such response")
        return await self.answers.by_run(caller, response_id.removeprefix(ID))

    async def thread(self, caller: Caller, body: ResponseRequest) -> ProgramThread | None:
        """The thread that a request continues or begins; None for one for this response alone. Raises HttpProblem."""
        if body.previous_response_id is not None:
            thread, row = await self.find(caller, body.previous_response_id)
            newest = await self._threads.newest_run(thread.key)
            if newest is None or newest.run_id != row.run_id:
                raise invalid("only the newest response of a thread can be continued", "previous_response_id")
            return thread
        conversation = body.conversation
        name = conversation.get("id") if isinstance(conversation, dict) else conversation
        if name is not None:
            return await named_thread(self._threads, caller, str(name).removeprefix(CONVERSATION))
        if body.store is False:
            return None
        made, _ = await self._threads.create(caller)
        return made


def responses_router(parts: HttpParts, threads: Threads, runs: Runs) -> APIRouter:
    router, responses = APIRouter(prefix="/v1", tags=["openai"]), Responses(parts, threads, runs)
    answers = responses.answers

    @router.post("/responses", dependencies=[requires("runs")], response_model=dict[str, Any], responses=STREAMED)
    async def create(caller: SignedIn, request: Request, body: ResponseRequest) -> Response:
        agent = answers.agent(body.model)
        items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
        said = read_messages([each for each in items if not _is_reasoning(each)], "input")
        if body.instructions:
            said = [Said("system", body.instructions), *said]
        if body.stream:
            parts.gatekeeper.check_streams(caller)
        thread = await responses.thread(caller, body)
        reading = await answers.begin(caller, thread, said, agent, metadata=body.metadata)
        headers = {THREAD_HEADER: reading.answer.thread.name}
        if body.stream:
            told = parts.gatekeeper.stream(caller, _events(parts, reading, agent), retry=False)
            told.headers.update(headers)
            return told

        async def work() -> Response:
            await reading.whole()
            text = parts.redact(json.dumps(response_json(reading.answer, agent), ensure_ascii=False))
            return Response(text, media_type="application/json", headers=headers)

        return await while_connected(parts, caller, request, work)

    @router.get("/responses/{response_id}", dependencies=[requires("read")], response_model=dict[str, Any])
    async def get(caller: SignedIn, response_id: str) -> Response:
        thread, row = await responses.find(caller, response_id)
        reading = Reading(answers, thread, row)
        if row.state.ended:
            async for _ in reading.pieces(stops=False):
                pass
        text = json.dumps(response_json(reading.answer, row.context.agent), ensure_ascii=False)
        return Response(parts.redact(text), media_type="application/json")

    @router.post("/responses/{response_id}/cancel", dependencies=[requires("runs")], response_model=dict[str, Any])
    async def cancel(caller: SignedIn, response_id: str) -> Response:
        _, row = await responses.find(caller, response_id)
        await runs.cancel(row)
        await runs.settled(row)
        return await get(caller, response_id)

    return router


def _is_reasoning(item: Any) -> bool:
    """Whether an item is one that a client returns from an earlier response, and that has no meaning here."""
    return isinstance(item, dict) and item.get("type") in ("reasoning", "function_call", "function_call_output")


def _status(answer: Answer) -> str:
    if not answer.row.state.ended and not answer.waits:
        return "in_progress"
    if answer.row.state is RunState.INTERRUPTED:
        return "cancelled"
    if answer.error() is not None:
        return "failed"
    return "incomplete" if answer.is_cut else "completed"


def response_json(answer: Answer, model: str, *, begun: bool = False) -> dict[str, Any]:
    """OpenAI's Response. begun: without any of its answer."""
    row, error = answer.row, None if begun else answer.problem
    status = "in_progress" if begun else _status(answer)
    output = [] if begun or not answer.text else [_item(answer, answer.text, "completed")]
    return {
        "id": f"{ID}{row.run_id}",
        "object": "response",
        "created_at": row.created_at.timestamp(),
        "status": status,
        "model": model,
        "output": output,
        "error": None if error is None else {"code": "server_error", "message": error.message},
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
        "previous_response_id": None,
        "conversation": {"id": f"{CONVERSATION}{answer.thread.name}"},
        "usage": None if begun or not row.state.ended else _usage(answer),
    }


def _usage(answer: Answer) -> dict[str, Any]:
    read, written, cached = answer.tokens.input, answer.tokens.output, answer.tokens.cached
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def _item(answer: Answer, text: str, status: str) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.row.run_id}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [] if status == "in_progress" else [_part(text)],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


async def _events(parts: HttpParts, reading: Reading, model: str) -> AsyncGenerator[str, None]:
    """The response as server-sent events, in OpenAI's order."""
    answer, number, whole = reading.answer, 0, ""

    def told(kind: str, **data: Any) -> str:
        nonlocal number
        number += 1
        return parts.redact(event(kind, {"type": kind, "sequence_number": number - 1, **data}))

    where = {"item_id": f"msg_{answer.row.run_id}", "output_index": 0, "content_index": 0}
    for kind in ("response.created", "response.in_progress"):
        yield told(kind, response=response_json(answer, model, begun=True))
    yield told("response.output_item.added", output_index=0, item=_item(answer, "", "in_progress"))
    yield told("response.content_part.added", part=_part(""), **where)
    pieces, problem = reading.pieces(), None
    try:
        async for text in pieces:
            whole += text
            yield told("response.output_text.delta", delta=text, logprobs=[], **where)
        problem = answer.error()
    except HttpProblem as error:
        problem = error
    finally:
        await pieces.aclose()
    if problem is not None:
        about = error_json(problem)["error"]
        failed = {"status": "failed", "error": {"code": "server_error", "message": about["message"]}}
        yield told("response.failed", response={**response_json(answer, model), **failed})
        return
    yield told("response.output_text.done", text=whole, logprobs=[], **where)
    yield told("response.content_part.done", part=_part(whole), **where)
    yield told("response.output_item.done", output_index=0, item=_item(answer, whole, "completed"))
    kind = "response.incomplete" if answer.is_cut else "response.completed"
    yield told(kind, response=response_json(answer, model))
