"""ChatOpenAI for OpenAI-compatible servers: takes what they stream beside OpenAI's own fields; built by models.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI

from harness.chunks import ChunkStream
from harness.messages import REASONING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from langchain_core.outputs import ChatGenerationChunk
    from openai import AsyncOpenAI


class LeanCompletions:
    """`client.chat.completions` for ChatOpenAI, with the streamed call made by the SDK's `post` itself.

    The SDK walks every message through its parameter types and makes a pydantic model of every chunk, which LangChain
    then dumps to the dict it was: more than half of a turn's CPU, growing with the thread. All that is kept here is
    the request, its errors and its stream.
    """

    def __init__(self, client: AsyncOpenAI) -> None:
        self._client = client
        self._plain = client.chat.completions

    @property
    def with_raw_response(self) -> Any:
        """For calls without streaming."""
        return self._plain.with_raw_response

    async def create(self, **payload: Any) -> Any:
        """The stream of chunks as dicts; whatever needs the SDK's handling goes through it."""
        if not payload.get("stream") or not SDK_ARGUMENTS.isdisjoint(payload):
            return await self._plain.create(**payload)
        return await self._client.post(
            "/chat/completions", body=payload, cast_to=object, stream=True, stream_cls=ChunkStream
        )


class TruncatedStreamError(ConnectionError):
    """The stream ended without a finish reason: what came is not the whole answer."""


SDK_ARGUMENTS = frozenset({"extra_headers", "extra_query", "extra_body", "timeout"})


class CompatibleChatOpenAI(ChatOpenAI):
    """Keeps reasoning and refusals, which ChatOpenAI drops, and does not take half an answer for a whole one.

    Reasoning: `reasoning_content` (DeepSeek, vLLM, Moonshot) or `reasoning` (OpenRouter, Ollama).
    """

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        finished = False
        async for chunk in super()._astream(*args, **kwargs):
            finished = finished or bool((chunk.generation_info or {}).get("finish_reason"))
            yield chunk
        if not finished:
            raise TruncatedStreamError("the stream ended without a finish reason")

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        if converted is None or not isinstance(converted.message, AIMessageChunk):
            return converted
        delta = _delta(chunk)
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            converted.message.additional_kwargs[REASONING] = thought
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:  # the model's own words, so they are its answer
            converted.message.content = refusal
        return converted


def _delta(chunk: dict[str, Any]) -> dict[str, Any]:
    choices = chunk.get("choices") or [{}]
    return choices[0].get("delta") or {}
