"""The differences between the vendors' APIs: the key, the form of a request, its checks, errors, answers.

Scripts, pauses, faults and records are the same for all of them: for those a request is converted to OpenAI's form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.simulators.model import strict
from tests.simulators.model.wire import StreamedAnswer, WholeAnswer

if TYPE_CHECKING:
    from tests.simulators.model.records import Record
    from tests.simulators.model.scripts import Status
    from tests.simulators.model.wire import Answer

MESSAGES = {
    401: "Incorrect API key provided.",
    404: "The model does not exist or you do not have access to it.",
    429: "Rate limit reached for requests.",
    500: "The server had an error while processing your request.",
    503: "The engine is currently overloaded, please try again later.",
}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class Wire:
    """OpenAI's API, and what the others share with it."""

    streamed: type[Answer] = StreamedAnswer
    whole: type[Answer] | None = WholeAnswer
    """None if only streams are simulated."""

    def key(self, headers: dict[str, str]) -> str:
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return key if scheme == "Bearer" else ""

    def body(self, request: web.Request, body: Any) -> Any:
        """The body including `model` and `stream`, wherever the vendor puts them."""
        return body

    def problem(self, body: Any, raw: bytes) -> str | None:
        """The first reason to refuse the request, None if it is well formed."""
        return strict.problem(body, raw)

    def plain(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request in OpenAI's form: `messages` and `tools`."""
        return body

    def refusal(self, record: Record, step: Status) -> web.Response:
        """An HTTP error with a body like the vendor's."""
        code = step.code or CODES.get(step.status)
        kind = "invalid_request_error" if step.status < 429 else "server_error"
        message = step.message or MESSAGES.get(step.status, f"Simulated failure {step.status}.")
        error = {"message": message, "type": code or kind, "code": code, "param": None}
        return self._failed(record, step, {"error": error})

    def _failed(self, record: Record, step: Status, body: Any) -> web.Response:
        headers = {} if step.retry_after is None else {"Retry-After": f"{step.retry_after:g}"}
        record.status = step.status
        return web.json_response(body, status=step.status, headers=headers)


class DeepSeekAnswer(StreamedAnswer):
    """Thinks if requested, and reports cached tokens in separate fields."""

    async def reasoning(self, text: str) -> None:
        if self._record.body.get("thinking", {}).get("type") == "enabled":
            await super().reasoning(text)

    def usage(self) -> dict[str, Any]:
        counted = super().usage()
        del counted["prompt_tokens_details"]
        hit = self._prompt_tokens // 2
        return counted | {"prompt_cache_hit_tokens": hit, "prompt_cache_miss_tokens": self._prompt_tokens - hit}


class DeepSeek(Wire):
    """api-docs.deepseek.com: no pictures; with thinking, a turn must include the thoughts before its calls."""

    streamed = DeepSeekAnswer

    def problem(self, body: Any, raw: bytes) -> str | None:
        return super().problem(body, raw) or self._pictures(body) or self._thoughts(body)

    def _pictures(self, body: dict[str, Any]) -> str | None:
        for index, message in enumerate(body["messages"]):
            if not isinstance(message.get("content"), str | None):
                return f"Failed to deserialize: messages[{index}]: unknown variant `image_url`, expected `text`"
        return None

    def _thoughts(self, body: dict[str, Any]) -> str | None:
        if body.get("thinking", {}).get("type") != "enabled":
            return None
        for index, message in enumerate(body["messages"]):
            if message["role"] == "assistant" and not message.get("reasoning_content"):
                return f"Missing `reasoning_content` field in the assistant message at message index {index}"
        return None


def joined(blocks: Any, kind: str = "text") -> str:
    """The texts of content blocks, one per line."""
    if isinstance(blocks, str):
        return blocks
    return "\n".join(str(block[kind]) for block in blocks or () if isinstance(block, dict) and kind in block)


def call(identity: str, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call in OpenAI's form."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": identity, "type": "function", "function": function}


def picture(mime_type: str, data: str) -> dict[str, Any]:
    """A picture in OpenAI's form. data: base64 with either alphabet."""
    data = data.translate(str.maketrans("-_", "+/"))
    return {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
