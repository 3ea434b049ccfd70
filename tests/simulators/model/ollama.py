"""Ollama's API (docs.ollama.com/api), POST /api/chat: one JSON object per line."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.simulators.model.wire import Answer
from tests.simulators.model.wires import Wire, call, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import Status, ToolUse

CREATED = "2026-01-05T10:00:00.123456789Z"
MESSAGES = {503: "server busy, please try again.  maximum pending requests exceeded", 401: "unauthorized"}
CODED = {"context_length_exceeded": "the input length exceeds the context length"}
ROLES = frozenset({"system", "user", "assistant", "tool"})


class OllamaAnswer(Answer):
    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        super().__init__(request, record, prefix, prompt_tokens)
        self._response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})

    async def begin(self) -> None:
        if not self.begun:
            self._record.status = 200
            await self._response.prepare(self._request)

    async def reasoning(self, text: str) -> None:
        if self._record.body.get("think") is not False:
            await super().reasoning(text)

    async def refusal(self, text: str) -> None:
        await self.text(text)  # the API has no separate field for it

    async def _piece(self, field: str, text: str) -> None:
        thought = {"thinking": text} if field == "reasoning_content" else {}
        await self._line(message={"role": "assistant", "content": "" if thought else text, **thought}, done=False)

    async def calls(self, calls: Sequence[ToolUse]) -> None:
        self.told = True
        for index, made in enumerate(calls):
            self._completion_tokens += 1
            function = {"index": index, "name": made.name, "arguments": json.loads(made.arguments)}
            message = {"role": "assistant", "content": ""}
            message |= {"tool_calls": [{"id": f"{self._call_prefix}{index}", "function": function}]}  # type: ignore[dict-item]
            await self._line(message=message, done=False)

    async def garbage(self) -> None:
        await self.begin()
        await self._response.write(b'{"model": "x", "mess\n')

    async def error(self, code: str, message: str) -> None:
        await self.begin()
        await self._response.write(json.dumps({"error": "llama runner process no longer running: 2"}).encode() + b"\n")

    async def finish(self, reason: str | None) -> web.StreamResponse:
        await self.begin()
        if reason is not None:
            why = "length" if reason == "length" else "stop"
            spent = {"total_duration": 1977300042, "load_duration": 1345709, "prompt_eval_duration": 159343000}
            counted = {"prompt_eval_count": self._prompt_tokens, "eval_count": self._completion_tokens}
            last = {"role": "assistant", "content": ""}
            await self._line(message=last, done=True, done_reason=why, eval_duration=1, **spent, **counted)
        await self._response.write_eof()
        return self._response

    async def _line(self, **fields: Any) -> None:
        await self.begin()
        line = {"model": self._model, "created_at": CREATED, **fields}
        await self._response.write(json.dumps(line).encode() + b"\n")


class Ollama(Wire):
    streamed = OllamaAnswer
    whole = None

    def body(self, request: web.Request, body: Any) -> Any:
        return {**body, "stream": body.get("stream", True)}

    def problem(self, body: Any, raw: bytes) -> str | None:
        for index, message in enumerate(body["messages"]):
            if message.get("role") not in ROLES or not isinstance(message.setdefault("content", ""), str):
                return f"messages[{index}]: invalid role, or content is not a string"
            for image in message.get("images") or ():
                try:
                    base64.b64decode(image, validate=True)
                except binascii.Error:
                    return "json: illegal base64 data at input byte 4"
            calls = message.get("tool_calls") or ()
            if any(not isinstance(made["function"]["arguments"], dict) for made in calls):
                return "json: cannot unmarshal string into Go struct field .messages.tool_calls.function.arguments"
        return None

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        messages = []
        for message in body["messages"]:
            text = [{"type": "text", "text": message["content"]}]
            parts = text + [picture("image/png", image) for image in message.get("images") or ()]
            calls = [
                call("", c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()
            ]
            messages.append({"role": message["role"], "content": parts, "tool_calls": calls})
        return {"messages": messages, "tools": body.get("tools") or []}

    def refusal(self, record: Record, step: Status) -> web.Response:
        message = step.message or MESSAGES.get(step.status, f"Simulated failure {step.status}.")
        if step.status == 404:
            message = f"model '{record.body['model']}' not found"
        return self._failed(record, step, {"error": CODED.get(step.code or "", message)})
