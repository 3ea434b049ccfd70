"""Anthropic's Messages API (platform.claude.com/docs, API reference and Streaming): events, thinking, errors."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.simulators.model.wire import Answer
from tests.simulators.model.wires import Wire, call, joined, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import Status, ToolUse

VERSIONS = frozenset({"2023-06-01", "2026-10-21"})
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
CODED = {
    "context_length_exceeded": "prompt is too long: 210000 tokens > 200000 maximum",
    "insufficient_quota": "Your credit balance is too low to access the Anthropic API.",
}
_TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
_PROPERTY = re.compile(r"^[a-zA-Z0-9_.-]{1,64}$")
_ID = re.compile(r"^[a-zA-Z0-9_-]+$")


def signature(thought: str) -> str:
    """A stand-in for the provider's signature of a thought."""
    return "sig-" + hashlib.sha256(thought.encode()).hexdigest()[:24]


class AnthropicAnswer(Answer):
    """Content blocks, one after the other, each with its start, its deltas and its stop."""

    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        super().__init__(request, record, prefix, prompt_tokens)
        self._response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        self._index = -1
        self._block = ""
        self._thought = ""
        self._refused = False

    async def begin(self) -> None:
        if self.begun:
            return
        self._record.status = 200
        await self._response.prepare(self._request)
        message: dict[str, Any] = {"id": self._id.replace("chatcmpl-", "msg_"), "type": "message", "role": "assistant"}
        message |= {"model": self._model, "content": [], "stop_reason": None, "stop_sequence": None}
        await self._event("message_start", message={**message, "usage": self._usage(1)})
        await self._event("ping")

    async def reasoning(self, text: str) -> None:
        if self._record.body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
            await super().reasoning(text)

    async def refusal(self, text: str) -> None:
        self.told = self._refused = True

    async def _piece(self, field: str, text: str) -> None:
        await self.begin()
        if field == "reasoning_content":
            await self._open("thinking", thinking="", signature="")
            self._thought += text
            await self._delta("thinking_delta", thinking=text)
        else:
            await self._open("text", text="")
            await self._delta("text_delta", text=text)

    async def calls(self, calls: Sequence[ToolUse]) -> None:
        await self.begin()
        self.told = True
        for index, made in enumerate(calls):
            self._completion_tokens += 1
            identity = self._call_prefix.replace("call_", "toolu_") + str(index)
            await self._close()
            await self._open("tool_use", id=identity, name=made.name, input={})
            half = len(made.arguments) // 2
            for piece in ("", made.arguments[:half], made.arguments[half:]):
                await self._delta("input_json_delta", partial_json=piece)

    async def garbage(self) -> None:
        await self.begin()
        await self._response.write(b'event: content_block_delta\ndata: {"type": "content_bl\n\n')

    async def error(self, code: str, message: str) -> None:
        await self.begin()
        await self._event("error", error={"type": "overloaded_error", "message": "Overloaded"}, request_id="req_1")

    async def finish(self, reason: str | None) -> web.StreamResponse:
        await self.begin()
        if reason is not None:
            await self._close()
            why = "refusal" if self._refused else REASONS.get(reason, reason)
            delta = {"stop_reason": why, "stop_sequence": None}
            await self._event("message_delta", delta=delta, usage=self._usage(self._completion_tokens))
            await self._event("message_stop")
        await self._response.write_eof()
        return self._response

    def _usage(self, output: int) -> dict[str, int]:
        cached = self._prompt_tokens // 2 if "cache_control" in self._record.body else 0
        usage = {"input_tokens": self._prompt_tokens - cached, "cache_read_input_tokens": cached}
        return usage | {"cache_creation_input_tokens": 0, "output_tokens": output}

    async def _open(self, block: str, **fields: Any) -> None:
        if self._block == block != "tool_use":
            return
        await self._close()
        self._index, self._block = self._index + 1, block
        await self._event("content_block_start", index=self._index, content_block={"type": block, **fields})

    async def _delta(self, kind: str, **fields: Any) -> None:
        await self._event("content_block_delta", index=self._index, delta={"type": kind, **fields})

    async def _close(self) -> None:
        if self._block == "thinking":
            await self._delta("signature_delta", signature=signature(self._thought))
            self._thought = ""
        if self._block:
            await self._event("content_block_stop", index=self._index)
        self._block = ""

    async def _event(self, name: str, **fields: Any) -> None:
        data = json.dumps({"type": name, **fields})
        await self._response.write(f"event: {name}\ndata: {data}\n\n".encode())


class Anthropic(Wire):
    streamed = AnthropicAnswer
    whole = None

    def key(self, headers: dict[str, str]) -> str:
        """The key from either of its headers; clients of an unknown version are refused."""
        key = headers.get("x-api-key") or super().key(headers)
        return key if headers.get("anthropic-version") in VERSIONS else ""

    def problem(self, body: Any, raw: bytes) -> str | None:
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: Field required"
        thinking = body.get("thinking", {})
        if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            return "`max_tokens` must be greater than `thinking.budget_tokens`, and that at least 1024"
        if thinking.get("type") == "enabled" and body.get("temperature", 1) != 1:
            return "`temperature` may only be set to 1 when thinking is enabled"
        return self._tools(body) or self._messages(body["messages"], thinks=thinking.get("type") == "enabled")

    def _tools(self, body: dict[str, Any]) -> str | None:
        for tool in body.get("tools", ()):
            if not _TOOL_NAME.match(tool["name"]) or tool["input_schema"].get("type") != "object":
                return f"tools.{tool['name']}: name or input_schema is not valid"
            bad = [name for name in tool["input_schema"].get("properties", {}) if not _PROPERTY.match(name)]
            if bad:
                return f"tools.{tool['name']}: Property keys should match pattern"
        return None

    def _messages(self, messages: list[dict[str, Any]], *, thinks: bool) -> str | None:
        open_ids: set[str] = set()
        if not messages or messages[0]["role"] != "user":
            return "messages: first message must use the user role"
        asked = max(i for i, m in enumerate(messages) if m["role"] == "user" and not _results(m))
        for index, message in enumerate(messages):
            if message["role"] not in ("user", "assistant") or not message["content"]:
                return f"messages.{index}: unknown role, or content is empty"
            answered = {block["tool_use_id"] for block in _results(message)}
            if answered != open_ids:
                return (
                    f"messages.{index}: `tool_use` ids were found without `tool_result` blocks, or the other way round"
                )
            found = next(filter(None, map(_block, _blocks(message))), None)
            if found:
                return f"messages.{index}: {found}"
            used = [block["id"] for block in _blocks(message) if block["type"] == "tool_use"]
            open_ids = set(used)
            if len(open_ids) < len(used):
                return f"messages.{index}: `tool_use` ids must be unique"
            if thinks and used and index == asked + 1 and _blocks(message)[0]["type"] != "thinking":
                return f"messages.{index}.content.0.type: Expected `thinking`, but found another block"
        return f"`tool_use` ids were found without `tool_result` blocks: {sorted(open_ids)}" if open_ids else None

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": joined(body.get("system", ""))}]
        for message in body["messages"]:
            for result in _results(message):
                messages.append({"role": "tool", "content": [_part(block) for block in _content(result)]})
            rest = [block for block in _blocks(message) if block["type"] in ("text", "image")]
            calls = [call(b["id"], b["name"], b["input"]) for b in _blocks(message) if b["type"] == "tool_use"]
            if rest or calls:
                messages.append({"role": message["role"], "content": [_part(b) for b in rest], "tool_calls": calls})
        tools = [{"function": {"name": tool["name"]}} for tool in body.get("tools", ())]
        return {"messages": messages, "tools": tools}

    def refusal(self, record: Record, step: Status) -> web.Response:
        kind = TYPES.get(step.status, "api_error")
        message = CODED.get(step.code or "") or step.message or f"Simulated failure {step.status}."
        if step.code == "content_filter":
            message = "Output blocked by content filtering policy: content_filter"
        error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
        return self._failed(record, step, error)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    return _content({"content": message["content"]})


def _content(holder: dict[str, Any]) -> list[dict[str, Any]]:
    content = holder.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _results(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _blocks(message) if block["type"] == "tool_result"]


def _block(block: dict[str, Any]) -> str | None:
    match block:
        case {"type": "text", "text": str(text)}:
            return None if text.strip() else "text content blocks must be non-empty"
        case {"type": "thinking", "thinking": str(thought), "signature": str(signed)}:
            return None if signed == signature(thought) else "Invalid `signature` in `thinking` block"
        case {"type": "image", "source": {"type": "base64", "media_type": _, "data": _}}:
            return None
        case {"type": "tool_use", "id": str(identity), "name": _, "input": dict()}:
            return None if _ID.match(identity) else "tool_use.id: String should match pattern"
        case {"type": "tool_result", "tool_use_id": str()}:
            return next(filter(None, map(_block, _content(block))), None)
    return f"a block of type {block.get('type')!r} is not one of the API's, or lacks fields: {sorted(block)}"


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "image":
        return picture(block["source"]["media_type"], block["source"]["data"])
    return block
