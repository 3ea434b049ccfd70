"""Google's Gemini API (ai.google.dev/api/generate-content), streamGenerateContent with alt=sse."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.simulators.model.wire import Answer
from tests.simulators.model.wires import Wire, call, joined, picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import Status, ToolUse

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
CODED = {
    "context_length_exceeded": "The input token count (12) exceeds the maximum number of tokens allowed (8).",
}
MESSAGES = {
    429: "You exceeded your current quota, please check your plan and billing details.",
    503: "The model is overloaded. Please try again later.",
}
SCHEMA = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "enum", "default", "example", "anyOf", "items"),
        *("properties", "required", "propertyOrdering", "minProperties", "maxProperties", "pattern"),
        *("minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"),
    }
)
"""The fields of a Schema; `parametersJsonSchema` takes any JSON Schema."""
DATA = ("text", "inlineData", "functionCall", "functionResponse", "fileData")
FREE = frozenset({"args", "response", "parameters", "parametersJsonSchema"})
"""Fields below which names are not the API's."""
SKIP = "skip_thought_signature_validator"
"""The signature that Google documents for calls made by another model."""
SIGNATURE = base64.b64encode(b"signed by the simulator").decode()


class GeminiAnswer(Answer):
    """An answer whose events are whole responses with some parts; token counts are cumulative."""

    def __init__(self, request: web.Request, record: Record, prefix: str, prompt_tokens: int) -> None:
        super().__init__(request, record, prefix, prompt_tokens)
        self._response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self._thoughts = 0
        self._refused = False

    async def begin(self) -> None:
        if not self.begun:
            self._record.status = 200
            await self._response.prepare(self._request)

    async def reasoning(self, text: str) -> None:
        config = self._record.body.get("generationConfig", {}).get("thinkingConfig", {})
        self._thoughts += 1
        if config.get("includeThoughts"):
            await super().reasoning(text)
            self._completion_tokens -= 1

    async def refusal(self, text: str) -> None:
        self.told = self._refused = True

    async def _piece(self, field: str, text: str) -> None:
        await self._parts({"text": text, "thought": True} if field == "reasoning_content" else {"text": text})

    async def calls(self, calls: Sequence[ToolUse]) -> None:
        self.told = True
        parts: list[dict[str, Any]] = []
        for made in calls:
            self._completion_tokens += 1
            parts.append({"functionCall": {"name": made.name, "args": json.loads(made.arguments)}})
        parts[0]["thoughtSignature"] = SIGNATURE
        await self._parts(*parts)

    async def garbage(self) -> None:
        await self.begin()
        await self._response.write(b'data: {"candidates": [{"content": \r\n\r\n')

    async def error(self, code: str, message: str) -> None:
        await self.begin()
        await self._event({"error": {"code": 503, "message": MESSAGES[503], "status": STATUSES[503]}})

    async def finish(self, reason: str | None) -> web.StreamResponse:
        await self.begin()
        if reason is not None:
            why = "SAFETY" if self._refused else REASONS.get(reason, reason)
            await self._parts(*([] if self._refused else [{"text": ""}]), finishReason=why)
        await self._response.write_eof()
        return self._response

    async def _parts(self, *parts: dict[str, Any], **more: Any) -> None:
        await self.begin()
        content = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
        ratings = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "NEGLIGIBLE"}] if more else []
        candidate = {**content, "index": 0, **more, **({"safetyRatings": ratings} if ratings else {})}
        await self._event({"candidates": [candidate]})

    async def _event(self, body: dict[str, Any]) -> None:
        counted = {"promptTokenCount": self._prompt_tokens, "candidatesTokenCount": self._completion_tokens}
        if self._thoughts:
            counted["thoughtsTokenCount"] = self._thoughts
        counted["totalTokenCount"] = sum(counted.values())
        rest = (
            {} if "error" in body else {"usageMetadata": counted, "modelVersion": self._model, "responseId": self._id}
        )
        await self._response.write(f"data: {json.dumps({**body, **rest})}\r\n\r\n".encode())


class Gemini(Wire):
    streamed = GeminiAnswer
    whole = None

    def key(self, headers: dict[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def body(self, request: web.Request, body: Any) -> Any:
        sse = request.query.get("alt") == "sse" and request.match_info["method"] == "streamGenerateContent"
        return {**_camel(body), "model": request.match_info["model"], "stream": sse}

    def problem(self, body: Any, raw: bytes) -> str | None:
        if not body.get("contents"):
            return "contents is not specified"
        schemas = (part for tool in body.get("tools", ()) for part in tool.get("functionDeclarations", ()))
        unknown = sorted({name for part in schemas for name in _unknown(part.get("parameters", {}))})
        if unknown:
            return f"Invalid JSON payload received. Unknown name {unknown[0]!r} at 'tools[0].function_declarations'"
        return self._contents(body["contents"], signed=body["model"].startswith("gemini-3"))

    def _contents(self, contents: list[dict[str, Any]], *, signed: bool) -> str | None:
        asked = max(
            (i for i, c in enumerate(contents) if any("text" in p for p in c["parts"]) and _users(c)), default=0
        )
        called = 0
        for index, content in enumerate(contents):
            parts = content.get("parts") or []
            if content.get("role") not in ("user", "model") or not parts:
                return f"contents[{index}]: Please use a valid role: user, model; with parts"
            if any(sum(name in part for name in DATA) != 1 for part in parts):
                return f"contents[{index}].parts: required oneof field 'data' must have one initialized field"
            answered = sum("functionResponse" in part for part in parts)
            if answered != called:
                return "Please ensure that the number of function response parts is equal to the number of calls"
            calls = [part for part in parts if "functionCall" in part]
            called = len(calls)
            if signed and calls and index > asked and not calls[0].get("thoughtSignature"):
                return f"Function call is missing a thought_signature in functionCall parts: contents[{index}]"
            if any(part.get("thoughtSignature", SKIP) not in (SKIP, SIGNATURE) for part in parts):
                return f"Thought signature is not valid: contents[{index}]"
        return "Please ensure that function call turn is followed by its responses" if called else None

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        system = joined(body.get("systemInstruction", {}).get("parts"))
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        for content in body["contents"]:
            parts = content["parts"]
            for part in parts:
                if "functionResponse" in part:
                    messages.append({"role": "tool", "content": _result(part["functionResponse"]["response"])})
            rest = [_part(part) for part in parts if "text" in part or "inlineData" in part]
            calls = [call("", p["functionCall"]["name"], p["functionCall"].get("args")) for p in parts if _calls(p)]
            if rest or calls:
                role = "user" if _users(content) else "assistant"
                messages.append({"role": role, "content": rest, "tool_calls": calls})
        declared = (part for tool in body.get("tools", ()) for part in tool.get("functionDeclarations", ()))
        return {"messages": messages, "tools": [{"function": {"name": part["name"]}} for part in declared]}

    def refusal(self, record: Record, step: Status) -> web.Response:
        if step.code == "content_filter":
            record.status = 200
            body = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "modelVersion": record.body["model"]}
            counted = {"promptTokenCount": 9, "totalTokenCount": 9}
            sent = f"data: {json.dumps({**body, 'usageMetadata': counted})}\r\n\r\n"
            return web.Response(text=sent, content_type="text/event-stream")
        status, message = step.status, step.message or MESSAGES.get(step.status, f"Simulated failure {step.status}.")
        details: list[dict[str, Any]] = []
        if status == 401:
            status, message = 400, "API key not valid. Please pass a valid API key."
            details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"})
        if step.retry_after is not None:
            delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{step.retry_after:g}s"}
            details.append(delay)
        error = {"code": status, "message": CODED.get(step.code or "", message)}
        error |= {"status": STATUSES.get(status, "UNKNOWN"), "details": details}
        record.status = status
        return web.json_response({"error": error}, status=status)


def _camel(value: Any) -> Any:
    """The value with field names in one form: the API accepts `inlineData` and `inline_data`."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), key): item for key, item in value.items()}
    return {key: item if key in FREE else _camel(item) for key, item in named.items()}


def _unknown(schema: Any) -> Iterator[str]:
    yield from schema.keys() - SCHEMA
    for part in (*schema.get("properties", {}).values(), *schema.get("anyOf", ())):
        yield from _unknown(part)
    if isinstance(schema.get("items"), dict):
        yield from _unknown(schema["items"])


def _users(content: dict[str, Any]) -> bool:
    return content.get("role") == "user"


def _calls(part: dict[str, Any]) -> bool:
    return "functionCall" in part


def _result(response: Any) -> str:
    output = response.get("output", response) if isinstance(response, dict) else response
    return output if isinstance(output, str) else json.dumps(output)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if "inlineData" in part:
        return picture(part["inlineData"]["mimeType"], part["inlineData"]["data"])
    return {"type": "text", "text": part["text"]}
