"""Chat models from vendors' own LangChain packages: Anthropic, Gemini, DeepSeek, Ollama, over our HTTP, by our rules.

Each package is an extra of Antler's and is imported when its first model is built.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import httpx2
from langchain_core.language_models.chat_models import agenerate_from_stream

from harness.failures import GARBAGE
from harness.graph.messages import readable_by, reason_in
from harness.models.chat_openai import (
    Compatible,
    LeanCompletions,
    TruncatedStreamError,
    extra_body,
    openai_client,
    tells,
)
from harness.models.transport import MAX_CONNECTIONS, http_client, http_timeout
from sandbox.egress.tls import trust

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.outputs import ChatGenerationChunk, ChatResult

    from harness.config import ModelSettings
    from harness.models.transport import Route

    Built = tuple[BaseChatModel, Callable[[], Awaitable[None]]]

KEPT = ("finish_reason", "stop_reason", "done_reason", "model_name", "model_provider")
"""Metadata of a vendor's answer that a thread keeps, all text: other fields hold the SDK's own types."""
NO_SYNC = "only asynchronous calls are supported"


class Guarded:
    """Mixed in before a vendor's chat model: sends it a history that its API accepts, streams every call, and does not
    accept half an answer as complete."""

    provider: ClassVar[str]
    """The vendor's name in response_metadata."""

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        told = ended = False
        history = readable_by(self.provider, messages)
        stream = super()._astream(history, stop=stop, **kwargs)  # type: ignore[misc]  # of the next class in the MRO
        try:
            async with aclosing(stream):
                async for chunk in stream:
                    _strip(chunk)
                    told = told or tells(chunk.message)
                    ended = ended or bool(reason_in(chunk.message.response_metadata))
                    yield chunk
        except GARBAGE:
            raise
        except Exception as error:  # each SDK has its own; all that is known is that an answer had begun
            if not told:
                raise
            raise TruncatedStreamError(f"in the middle of the answer: {type(error).__name__}") from error
        if not ended:
            raise TruncatedStreamError("the stream ended without a reason")

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return await agenerate_from_stream(self._astream(messages, stop=stop, **kwargs))


def _strip(chunk: ChatGenerationChunk) -> None:
    """Keep the finish reason and names as text; nothing that a checkpoint could not restore unchanged."""
    found = {**(chunk.generation_info or {}), **chunk.message.response_metadata}
    kept = {key: str(found[key]) for key in KEPT if found.get(key)}
    blocked = (found.get("prompt_feedback") or {}).get("block_reason")
    if blocked:  # Gemini's answer is then empty
        kept["finish_reason"] = "content_filter"
    chunk.generation_info, chunk.message.response_metadata = None, kept
    # Gemini's package keeps its newest call there too: merged from several chunks, it is a call that was never made.
    chunk.message.additional_kwargs.pop("function_call", None)


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor. build: makes the chat model for an address, and a function that closes its connections. It raises
    ImportError without the package, TypeError or ValueError for settings that the package rejects."""

    base_url: str
    build: Callable[[ModelSettings, str, Route], Built]


def _arguments(settings: ModelSettings, **more: Any) -> dict[str, Any]:
    """The arguments common to all, without those that the config leaves to the vendor."""
    common = {"model": settings.model or settings.name, "temperature": settings.temperature}
    given = common | more | settings.thinking_arguments
    return {name: value for name, value in given.items() if value is not None}


def _key(settings: ModelSettings) -> str:
    """The key, never empty: a missing one would be read from the environment."""
    return settings.api_key.get_secret_value() if settings.api_key is not None else "none"


@cache
def _anthropic_class() -> Any:
    from langchain_anthropic import ChatAnthropic

    class Anthropic(Guarded, ChatAnthropic):
        provider: ClassVar[str] = "anthropic"

    return Anthropic


def _anthropic(settings: ModelSettings, url: str, route: Route) -> Built:
    from anthropic import AsyncAnthropic

    http, key = http_client(settings.timeout, route), _key(settings)
    chat = _anthropic_class()(
        **_arguments(settings, max_tokens=settings.max_tokens, base_url=url, api_key=key, max_retries=0),
        stream_usage=True,
        # Without it Anthropic caches nothing, and each step of a turn pays for the whole thread.
        model_kwargs={"cache_control": {"type": "ephemeral"}},
    )
    # Replaces the package's own client, which is shared between models and reads proxies from the environment.
    chat.__dict__["_async_client"] = AsyncAnthropic(
        api_key=key, base_url=url, max_retries=0, timeout=http_timeout(settings.timeout), http_client=http
    )
    return chat, http.aclose


class _SilenceOnly(httpx2.AsyncClient):
    """Drops the SDK's timeout, which would limit the whole answer; this client's own timeout applies."""

    def build_request(self, *args: Any, timeout: Any = None, **kwargs: Any) -> httpx2.Request:
        return super().build_request(*args, **kwargs)


@cache
def _gemini_class() -> Any:
    from google.genai import Client
    from google.genai.types import HttpOptions
    from langchain_google_genai import ChatGoogleGenerativeAI
    from langchain_google_genai.chat_models import _ClientCleanup
    from pydantic import Field, model_validator

    class Gemini(Guarded, ChatGoogleGenerativeAI):
        provider: ClassVar[str] = "google_genai"

        http: Any = Field(exclude=True, repr=False)

        @model_validator(mode="after")
        def validate_environment(self) -> Any:
            """Make the client with our HTTP; replaces the package's validator of the same name."""
            key = self.google_api_key.get_secret_value() if self.google_api_key is not None else ""
            options = HttpOptions(base_url=str(self.base_url), httpx_async_client=self.http)
            self.client = Client(api_key=key, vertexai=False, http_options=options)
            self._client_cleanup = _ClientCleanup(self.client)
            return self

    return Gemini


def _gemini(settings: ModelSettings, url: str, route: Route) -> Built:
    http = http_client(settings.timeout, route, _SilenceOnly)
    thoughts = True if settings.thinks and settings.show_thinking else None
    more = {"max_output_tokens": settings.max_tokens, "include_thoughts": thoughts}
    chat = _gemini_class()(
        **{"temperature": None, **_arguments(settings, **more)},
        base_url=url,
        api_key=_key(settings),
        max_retries=1,  # number of calls: 0 would mean the SDK's own default
        vertexai=False,
        http=http,
    )

    async def close() -> None:
        await chat.aclose()
        await http.aclose()

    return chat, close


@cache
def _deepseek_class() -> Any:
    from langchain_deepseek import ChatDeepSeek

    class DeepSeek(Compatible, ChatDeepSeek):
        pass

    return DeepSeek


def _deepseek(settings: ModelSettings, url: str, route: Route) -> Built:
    http = http_client(settings.timeout, route)
    client = openai_client(settings, url, http)
    chat = _deepseek_class()(
        model=settings.model or settings.name,
        base_url=url,
        api_key=_key(settings),
        client=NO_SYNC,
        root_async_client=client,
        async_client=LeanCompletions(client),
        stream_chunk_timeout=None,
        stream_usage=True,
        temperature=settings.temperature,
        extra_body=extra_body(settings.thinking_arguments),
        # It rejects a turn that continues after tool calls without the thoughts before them.
        return_thinking=settings.thinks,
        **({} if settings.max_tokens is None else {"max_tokens": settings.max_tokens}),
    )
    return chat, http.aclose


@cache
def _ollama_class() -> Any:
    from langchain_ollama import ChatOllama

    class Ollama(Guarded, ChatOllama):
        provider: ClassVar[str] = "ollama"

    return Ollama


def _ollama(settings: ModelSettings, url: str, route: Route) -> Built:
    proxy, ca_file = route
    connect = http_timeout(settings.timeout).connect
    http = {
        "timeout": httpx.Timeout(settings.timeout, connect=connect),
        "limits": httpx.Limits(max_connections=MAX_CONNECTIONS),
        "trust_env": False,
        "verify": trust(ca_file),
        "proxy": proxy,
        "headers": {"authorization": f"Bearer {_key(settings)}"},
    }
    # Without it, Ollama silently truncates a thread at its beginning.
    window = settings.context_window if "context_window" in settings.model_fields_set else None
    address = url.rstrip("/").removesuffix("/v1")  # strips the path of its OpenAI-compatible API
    chat = _ollama_class()(
        **_arguments(settings, num_predict=settings.max_tokens, num_ctx=window), base_url=address, client_kwargs=http
    )
    chat._client.close()

    return chat, chat._async_client.close


VENDORS = {
    "langchain_anthropic:ChatAnthropic": Vendor("https://api.anthropic.com", _anthropic),
    "langchain_google_genai:ChatGoogleGenerativeAI": Vendor("https://generativelanguage.googleapis.com", _gemini),
    "langchain_deepseek:ChatDeepSeek": Vendor("https://api.deepseek.com", _deepseek),
    "langchain_ollama:ChatOllama": Vendor("http://localhost:11434", _ollama),
}
"""By class path in the config."""
