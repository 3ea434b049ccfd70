"""Chat models of OpenAI-compatible servers: they accept what those stream besides OpenAI's own fields, and bypass the
SDK's types."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx2
from langchain_core.messages import AIMessage, AIMessageChunk, ai
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from openai import APIConnectionError, APIError, APITimeoutError, AsyncOpenAI, AsyncStream, Omit
from pydantic import PrivateAttr
from pydantic_core import from_json, to_json

from harness.graph.messages import REASONING, readable_by
from harness.models.transport import http_timeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import BaseMessageChunk
    from langchain_core.messages.ai import UsageMetadata
    from langchain_core.outputs import ChatGenerationChunk
    from langchain_core.runnables import Runnable
    from openai.resources.chat import AsyncCompletions

    from harness.config import ModelSettings

SDK_ARGUMENTS = frozenset({"extra_headers", "extra_query", "timeout"})
FORMING = frozenset({"strict", "response_format"})
"""Arguments of bind_tools that change the tools' form."""

DONE = b"[DONE]"
DRAIN_SECONDS = 0.1
"""How long to wait for the end of the body after DONE; a connection that was read to the end is reused."""
LONGEST_REFUSAL = 64 * 1024
"""Bytes that are read of an error in place of a stream."""
TEXTS = frozenset({"content", "reasoning_content", "reasoning"})
"""Keys of a delta that contain text."""


def openai_client(settings: ModelSettings, base_url: str, http: httpx2.AsyncClient) -> AsyncOpenAI:
    """A client with every option set explicitly, if only to "": for None it reads OPENAI_* environment variables."""
    nothing: Any = Omit()
    return AsyncOpenAI(
        # Local servers need no key, but the client does.
        api_key=settings.api_key.get_secret_value() if settings.api_key is not None else "none",
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        base_url=base_url,
        default_headers={"OpenAI-Organization": nothing, "OpenAI-Project": nothing},
        http_client=http,
        max_retries=0,
        timeout=http_timeout(settings.timeout),
    )


def extra_body(arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Additional fields of the request; those under `extra_body`, as in examples for the SDK, are included."""
    fields = {name: value for name, value in arguments.items() if name != "extra_body"}
    return {**fields, **arguments.get("extra_body", {})} or None


def partial_json(text: str, *, strict: bool = False) -> Any:
    """A call's arguments, as far as they go if they end too early; what follows them is ignored. Raises ValueError, and
    RecursionError if they are nested too deeply.

    LangChain's own function leaves out ever more characters of what it cannot read: some ten thousand would block the
    process, and with it everybody's answers, for minutes.
    """
    try:
        read = json.JSONDecoder(strict=strict).raw_decode(text.lstrip())[0]
    except json.JSONDecodeError:
        return from_json(text, allow_partial="trailing-strings")
    return {} if read is None else read  # some models write null for a tool without parameters


_messages: Any = ai
_messages.parse_partial_json = partial_json  # called for each part of a call that a model streams, and for the whole


class LeanCompletions:
    """`client.chat.completions` for ChatOpenAI, making the streamed call directly with the SDK's `post`.

    The SDK runs every message through its parameter types and makes a pydantic model of every chunk, which LangChain
    then dumps back to the original dict: more than half of a turn's CPU, growing with the thread. Only the request, its
    errors and its stream are used here.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client

    @property
    def _plain(self) -> AsyncCompletions:
        return self._client.chat.completions  # loaded by the SDK on access, with all its types

    @property
    def with_raw_response(self) -> Any:
        """The client for calls without streaming."""
        return self._plain.with_raw_response

    async def create(self, **payload: Any) -> Any:
        """The stream of chunks as dicts; calls that need the SDK's handling go through it."""
        if not payload.get("stream") or not SDK_ARGUMENTS.isdisjoint(payload):
            return await self._plain.create(**payload)
        extra = payload.pop("extra_body", None) or {}
        return await self._client.post(
            "/chat/completions", content=to_json(payload | extra), cast_to=object, stream=True, stream_cls=ChunkStream
        )


class TruncatedStreamError(ConnectionError):
    """The stream ended without a finish reason: the answer is incomplete."""


class NoEventStreamError(ValueError):
    """The response is something else, such as a web page: often the base_url lacks /v1."""


class FormattedTools:
    """Tools in the API's form, each converted once: an agent binds its tools at every model call."""

    MOST = 1000

    def __init__(self) -> None:
        self._kept: dict[int, tuple[BaseTool, object, dict[str, Any]]] = {}

    def get(self, tool: BaseTool, formatted: Callable[[BaseTool], dict[str, Any]]) -> dict[str, Any]:
        """The tool's current form, made by `formatted`. Must not be modified."""
        described = (tool.name, tool.description, tool.args_schema, tool.extras)
        kept = self._kept.get(id(tool))  # by identity, as tools have no hash; kept alive, so that no other gets the id
        if kept is not None and kept[1] == described:
            return kept[2]
        if len(self._kept) >= self.MOST:
            self._kept.clear()
        form = formatted(tool)
        self._kept[id(tool)] = (tool, described, form)
        return form


class Compatible(BaseChatOpenAI):
    """Keeps reasoning and refusals, which ChatOpenAI drops, and does not accept half an answer as complete. Mixed in
    before the class of a vendor's package.

    Reasoning: `reasoning_content` (DeepSeek, vLLM, Moonshot) or `reasoning` (OpenRouter, Ollama).
    """

    return_thinking: bool = False
    """The server requires the thoughts before each of its answers (DeepSeek and Moonshot, once there were tool calls),
    and some text even if another model answered: an empty one is not enough."""

    _formatted: FormattedTools = PrivateAttr(default_factory=FormattedTools)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = readable_by("", self._convert_input(input_).to_messages(), thoughts=True)
        payload: dict[str, Any] = super()._get_request_payload(messages, stop=stop, **kwargs)
        if self.return_thinking:
            for message, sent in zip(messages, payload["messages"], strict=True):
                if isinstance(message, AIMessage):
                    sent["reasoning_content"] = message.additional_kwargs.get(REASONING) or " "
        return payload

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        if all(kwargs.get(name) is None for name in FORMING):
            tools = [self._formatted.get(t, self._format) if isinstance(t, BaseTool) else t for t in tools]
        return super().bind_tools(tools, **kwargs)

    def _format(self, tool: BaseTool) -> dict[str, Any]:
        bound: Any = super().bind_tools([tool])
        form: dict[str, Any] = bound.kwargs["tools"][0]
        return form

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        begun = told = finished = False
        names: dict[Any, tuple[str | None, str]] = {}
        usage: UsageMetadata | None = None
        try:
            async for chunk in super()._astream(*args, **kwargs):
                begun, finished = True, finished or bool((chunk.generation_info or {}).get("finish_reason"))
                told = told or tells(chunk.message)
                _name_once(chunk.message, names)
                if isinstance(chunk.message, AIMessageChunk) and (so_far := chunk.message.usage_metadata):
                    # Some servers (xAI's) send the total so far in each chunk, and LangChain would add them up.
                    chunk.message.usage_metadata, usage = ai.subtract_usage(so_far, usage), so_far
                yield chunk
        except APITimeoutError:
            raise
        except APIConnectionError as error:
            if not begun:
                raise
            raise TruncatedStreamError("the connection broke in the middle of the answer") from error
        except APIError as error:  # an error event in the stream
            if not told:
                raise
            what = f"{error.code or ''} {error.message}".strip()
            raise TruncatedStreamError(f"an error in the middle of the answer: {what}") from error
        if not finished:
            raise TruncatedStreamError("the stream ended without a finish reason")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        _complete(chunk)
        converted = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if converted is None or not isinstance(converted.message, AIMessageChunk):
            return converted
        delta = _chunk_delta(chunk)
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            converted.message.additional_kwargs[REASONING] = thought
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:  # the model's own words, so this is its answer
            converted.message.content = refusal
        return converted


class CompatibleChatOpenAI(Compatible, ChatOpenAI):
    """OpenAI's own models, and any compatible server."""


def tells(message: BaseMessageChunk) -> bool:
    """Whether the chunk contains any part of the answer: a stream begins with one that only names its author."""
    calls = isinstance(message, AIMessageChunk) and message.tool_call_chunks
    return bool(message.content or message.additional_kwargs or calls)


def _complete(chunk: dict[str, Any]) -> None:
    """Add what some servers omit and LangChain needs: the delta (Azure's asynchronous content filter), and the index of
    a call (Gemini, Ollama)."""
    for choice in chunk.get("choices") or ():
        choice["delta"] = choice.get("delta") or {}
        for place, call in enumerate(choice["delta"].get("tool_calls") or ()):
            if call.get("index") is None:
                call["index"] = place


def _name_once(message: BaseMessageChunk, names: dict[Any, tuple[str | None, str]]) -> None:
    """Remove a call's name where it is repeated: some servers (NVIDIA's) send it in each chunk, and LangChain would
    join them. names: (call id, name) by index, so far."""
    for call in message.tool_call_chunks if isinstance(message, AIMessageChunk) else ():
        known_id, known = names.get(call["index"], (None, ""))
        if known and call["name"] == known and call["id"] in (None, "", known_id):
            call["name"] = None
        elif call["name"]:
            names[call["index"]] = call["id"], call["name"]


def _chunk_delta(chunk: dict[str, Any]) -> dict[str, Any]:
    choices = chunk.get("choices") or [{}]
    return choices[0].get("delta") or {}


class ChunkStream(AsyncStream[object]):
    """The SDK's view of an event-stream response, with the SDK's errors."""

    async def __aiter__(self) -> AsyncIterator[object]:
        request, events, head, begun = self.response.request, Events(), b"", False
        body = self.response.aiter_bytes()
        try:
            async for data in body:
                head += data if not begun and len(head) < LONGEST_REFUSAL else b""
                for chunk in joined(events.feed(data)):
                    begun = True
                    if isinstance(chunk, dict) and (error := chunk.get("error")):
                        raise APIError(_message(error), request, body=error)
                    yield chunk
                if events.done:
                    break
            if not (begun or events.done):
                self._refuse(head)
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    async for _ in body:
                        pass
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request=request) from error
        except httpx2.TransportError as error:
            raise APIConnectionError(request=request) from error

    def _refuse(self, body: bytes) -> None:
        """Raise the error that a response without events reports despite its status, or is; a cut stream is neither."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict) and "choices" not in answer:
            error = answer.get("error") or answer
            raise APIError(_message(error), self.response.request, body=error)
        if not self.response.headers.get("content-type", "").startswith("text/event-stream"):
            raise NoEventStreamError("the response is no event stream; is the base_url right?")


class Events:
    """Reads server-sent events as chat completions use them: `data` only (WHATWG HTML, 9.2.6). done: DONE was seen."""

    def __init__(self) -> None:
        self.done = False
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[Any]:
        """The events completed by these bytes, up to DONE. Raises ValueError for invalid JSON."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._lines.append(line[5:])
            elif not line and self._lines:
                event = b"\n".join(self._lines).strip()
                self._lines.clear()
                if event.startswith(DONE):
                    self.done = True
                    return
                yield json.loads(event.decode())


def joined(chunks: Iterable[Any]) -> Iterator[Any]:
    """The chunks, with neighbours merged that only continue the same text."""
    growing: Any = None
    growing_kind: str | None = None
    for chunk in chunks:
        kind = _kind(chunk)
        if kind is not None and kind == growing_kind:
            _chunk_delta(growing)[kind] += _chunk_delta(chunk)[kind]
            continue
        if growing_kind is not None:
            yield growing
        growing, growing_kind = chunk, kind
        if kind is None:
            yield chunk
    if growing_kind is not None:
        yield growing


def _kind(chunk: Any) -> str | None:
    """The key of the text if the chunk contains nothing else; None otherwise."""
    match chunk:
        case {"choices": [{"delta": dict(delta)} as choice]}:
            if chunk.get("usage") or choice.get("finish_reason") or choice.get("logprobs"):
                return None
            brought = [str(key) for key, value in delta.items() if value and key != "role"]
            if len(brought) == 1 and brought[0] in TEXTS and isinstance(delta[brought[0]], str):
                return brought[0]
    return None


def _message(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) and message else "An error occurred during streaming"
