"""Builds chat models from the config: class by path, explicit proxy and CA, no retries of their own."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel

from harness.config import install_command, package_of
from harness.errors import ModelSetupError
from harness.models.chat_openai import CompatibleChatOpenAI, LeanCompletions, extra_body, openai_client
from harness.models.transport import http_client
from harness.models.vendors import VENDORS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import httpx2
    from openai import AsyncOpenAI

    from harness.config import ModelSettings
    from harness.models.transport import Route

DEMO = "demo"
OPENAI = "langchain_openai:ChatOpenAI"
OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class BuiltModel:
    """A built model. provider: key of the shared circuit breaker. close: closes its connections."""

    chat: BaseChatModel
    provider: str
    close: Callable[[], Awaitable[None]]


def build_model(settings: ModelSettings, route: Route) -> BuiltModel:
    """Build a model. Raises ModelSetupError if the class cannot be found or does not accept the config."""
    if settings.use == DEMO:
        from harness.models.demo import DemoModel  # imported with its tour and data, which no other model needs

        return BuiltModel(DemoModel(), DEMO, _nothing)
    if settings.use == OPENAI:
        return _build_openai(settings, route)
    cls = _load(settings)
    try:
        return _build_vendor(settings, route) if settings.use in VENDORS else _build_other(cls, settings, route)
    except (TypeError, ValueError, ImportError) as error:
        raise ModelSetupError(f"model {settings.name}: {settings.use} rejects its settings: {error}") from error


def _build_vendor(settings: ModelSettings, route: Route) -> BuiltModel:
    vendor = VENDORS[settings.use]
    url = settings.base_url or vendor.base_url
    chat, close = vendor.build(settings, url, route)
    return BuiltModel(chat, urlsplit(url).netloc, close)


def check_model(settings: ModelSettings) -> None:
    """Check at startup whether the model's class exists; may import its package. Raises ModelSetupError."""
    if settings.use not in (DEMO, OPENAI):
        _load(settings)


def _build_openai(settings: ModelSettings, route: Route) -> BuiltModel:
    base_url = settings.base_url or OPENAI_URL
    client, http = connected(settings, route)
    optional: dict[str, Any] = {} if settings.max_tokens is None else {"max_tokens": settings.max_tokens}
    chat = CompatibleChatOpenAI(
        model=settings.model or settings.name,
        base_url=base_url,
        api_key=_no_key,
        openai_proxy="",
        root_async_client=client,
        async_client=LeanCompletions(client),
        # It uses asyncio.wait_for, which on Python 3.11 can swallow a cancellation: /stop would not stop. The HTTP
        # client's own timeout detects a silent provider too.
        stream_chunk_timeout=None,
        stream_usage=True,
        use_responses_api=False,
        temperature=settings.temperature,
        extra_body=extra_body(settings.thinking_arguments),
        return_thinking=settings.thinks and settings.return_thinking,
        **optional,
    )
    return BuiltModel(chat, urlsplit(base_url).netloc, http.aclose)


def connected(settings: ModelSettings, route: Route) -> tuple[AsyncOpenAI, httpx2.AsyncClient]:
    """A client for an OpenAI-compatible server, and its connections, which the caller closes."""
    http = http_client(settings.timeout, route)
    return openai_client(settings, settings.base_url or OPENAI_URL, http), http


async def _no_key() -> str:
    """Never called, the client above has the key; asynchronous, so that ChatOpenAI makes no synchronous client."""
    raise NotImplementedError


def _build_other(cls: type[BaseChatModel], settings: ModelSettings, route: Route) -> BuiltModel:
    """Build any LangChain chat model; it receives those of our settings that it knows by name."""
    if route != (None, None):
        raise ModelSetupError(f"model {settings.name}: {settings.use} cannot use network.proxy or network.ca_file")
    wanted: dict[str, Any] = {
        "model": settings.model or settings.name,
        "base_url": settings.base_url,
        "api_key": settings.api_key,
        "max_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "timeout": settings.timeout,
        "max_retries": 0,
        "stream_usage": True,
    }
    known = {name for field, info in cls.model_fields.items() for name in (field, info.alias) if name is not None}
    arguments = {name: value for name, value in wanted.items() if value is not None and name in known}
    arguments |= settings.thinking_arguments
    return BuiltModel(cls(**arguments), settings.base_url or settings.use, _nothing)


def _load(settings: ModelSettings) -> type[BaseChatModel]:
    module_name, _, class_name = settings.use.partition(":")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise _missing(settings, error) from error
    except AttributeError as error:
        raise ModelSetupError(f"model {settings.name}: {module_name} has no class {class_name}") from error
    if not (isinstance(cls, type) and issubclass(cls, BaseChatModel)):
        raise ModelSetupError(f"model {settings.name}: {settings.use} is not a LangChain chat model")
    return cls


def _missing(settings: ModelSettings, error: ImportError) -> ModelSetupError:
    """The error for a missing package, the class's own or one that it needs."""
    module, lacking = settings.use.partition(":")[0].partition(".")[0], (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError):
        return ModelSetupError(f"model {settings.name}: {settings.use} cannot be imported: {error}")
    if lacking != module:
        need = f"{settings.use} needs {lacking}, which is not installed"
        return ModelSetupError(f"model {settings.name}: {need}; run: {install_command(lacking.replace('_', '-'))}")
    command = install_command(package_of(settings.use))
    return ModelSetupError(f"model {settings.name}: the package for {settings.use} is not installed; run: {command}")


async def _nothing() -> None:
    """No-op: the model manages its own client."""
