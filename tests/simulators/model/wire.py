"""Answers on the wire: one interface, sent as a stream of events or as one body."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import ToolUse


class Answer(ABC):
    """One response in progress. `calls` get ids that are unique across restarts of the simulator."""

    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        self._request = request
        self._record = record
        self._id = f"chatcmpl-{prefix}{record.id}"
        self._call_prefix = f"call_{prefix}{record.id}_"
        self._model = str(record.body["model"])
        self._prompt_tokens = prompt_tokens
        self._completion_tokens = 0
        self.told = False

    @property
    def begun(self) -> bool:
        """Whether the response's head is on the wire."""
        return self._record.status != 0

    def usage(self) -> dict[str, Any]:
        """Token counts: a quarter of the request's bytes, and one per chunk sent."""
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "total_tokens": self._prompt_tokens + self._completion_tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        }

    async def text(self, text: str) -> None:
        await self._count("content", text)

    async def reasoning(self, text: str) -> None:
        await self._count("reasoning_content", text)

    async def refusal(self, text: str) -> None:
        await self._count("refusal", text)

    async def _count(self, field: str, text: str) -> None:
        self.told = True
        self._completion_tokens += 1
        self._record.last_token = time.monotonic()
        if self._record.first_token is None:
            self._record.first_token = self._record.last_token
        await self._piece(field, text)

    def reset(self) -> None:
        """Reset the connection: the client sees an error, not an end."""
        transport = self._request.transport
        if isinstance(transport, asyncio.Transport):
            # Closing with a linger time of zero sends RST instead of FIN.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()

    @abstractmethod
    async def _piece(self, field: str, text: str) -> None: ...
    @abstractmethod
    async def calls(self, calls: Sequence[ToolUse]) -> None: ...
    @abstractmethod
    async def begin(self) -> None: ...
    @abstractmethod
    async def garbage(self) -> None: ...
    @abstractmethod
    async def error(self, code: str, message: str) -> None: ...
    @abstractmethod
    async def finish(self, reason: str | None) -> web.StreamResponse: ...


class StreamedAnswer(Answer):
    """Server-sent events. A text chunk is two constant byte strings around the JSON of its text."""

    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        super().__init__(request, record, prefix, prompt_tokens)
        self._response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        )
        head = {"id": self._id, "object": "chat.completion.chunk", "created": int(time.time()), "model": self._model}
        self._head = json.dumps(head)[:-1]
        options = record.body.get("stream_options") or {}
        self._with_usage = bool(options.get("include_usage"))
        self._usage = ',"usage":null' if self._with_usage else ""

    async def begin(self) -> None:
        if not self.begun:
            self._record.status = 200
            self._record.first_byte = time.monotonic()
            await self._response.prepare(self._request)
            await self._delta('{"role":"assistant","content":""}')

    async def _piece(self, field: str, text: str) -> None:
        await self.begin()
        await self._delta(f'{{"{field}":{json.dumps(text)}}}')

    async def _delta(self, delta: str, reason: str = "null") -> None:
        choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{reason}}}'
        await self._response.write(f'data: {self._head},"choices":[{choice}]{self._usage}}}\n\n'.encode())

    async def calls(self, calls: Sequence[ToolUse]) -> None:
        """Send ids and names first, then the arguments in two pieces, as providers do."""
        await self.begin()
        self.told = True
        for index, call in enumerate(calls):
            self._completion_tokens += 1
            start = {"index": index, "id": f"{self._call_prefix}{index}", "type": "function"}
            await self._call({**start, "function": {"name": call.name, "arguments": ""}})
            half = len(call.arguments) // 2
            for piece in (call.arguments[:half], call.arguments[half:]):
                await self._call({"index": index, "function": {"arguments": piece}})

    async def _call(self, call: dict[str, Any]) -> None:
        await self._delta(json.dumps({"tool_calls": [call]}))

    async def garbage(self) -> None:
        await self.begin()
        await self._response.write(b'data: {"id": "x", "choices": [{"delta": {"content": "\xff\xfe broken\n\n')

    async def error(self, code: str, message: str) -> None:
        await self.begin()
        error = {"error": {"message": message, "type": code, "code": code, "param": None}}
        await self._response.write(f"data: {json.dumps(error)}\n\n".encode())

    async def finish(self, reason: str | None) -> web.StreamResponse:
        await self.begin()
        if reason is not None:
            await self._delta("{}", json.dumps(reason))
            if self._with_usage:
                await self._response.write(
                    f'data: {self._head},"choices":[],"usage":{json.dumps(self.usage())}}}\n\n'.encode()
                )
            await self._response.write(b"data: [DONE]\n\n")
        await self._response.write_eof()
        return self._response


class WholeAnswer(Answer):
    """One JSON body."""

    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        super().__init__(request, record, prefix, prompt_tokens)
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._body: web.Response | None = None

    async def begin(self) -> None:
        """Do nothing: nothing is sent before the end."""

    async def _piece(self, field: str, text: str) -> None:
        self._message[field] = (self._message.get(field) or "") + text

    async def calls(self, calls: Sequence[ToolUse]) -> None:
        self.told = True
        self._completion_tokens += len(calls)
        self._message["tool_calls"] = [
            {
                "id": f"{self._call_prefix}{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(calls)
        ]

    async def garbage(self) -> None:
        self._body = web.Response(body=b'{"id": "x", "choices": [{"mess', content_type="application/json")

    async def error(self, code: str, message: str) -> None:
        error = {"message": message, "type": code, "code": code, "param": None}
        self._body = web.json_response({"error": error}, status=500)

    async def finish(self, reason: str | None) -> web.StreamResponse:
        response = self._body or web.json_response(
            {
                "id": self._id,
                "object": "chat.completion",
                "created": int(time.time()),
                "model": self._model,
                "choices": [{"index": 0, "message": self._message, "logprobs": None, "finish_reason": reason}],
                "usage": self.usage(),
            }
        )
        self._record.status = response.status
        self._record.first_byte = time.monotonic()
        return response
