"""Classifies errors raised by model clients as FailureKind; used by the LLMErrorHandling and Summarization middlewares.

Providers name the same thing differently, so status, code and text are all considered. Exception classes are compared
by name: clients of other vendors need not be installed.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from langchain_core import exceptions as core

from harness.errors import ModelFailure
from harness.events import FailureKind as Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# OpenAI and Azure, vLLM, llama.cpp, Anthropic, Mistral, Moonshot, DeepSeek, Gemini, Ollama, LiteLLM
CONTEXT_TEXTS = (
    "context_length_exceeded",
    "contextwindowexceeded",
    "maximum context length",
    "context window",
    "context size",
    "context length",
    "exceed_context_size",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many tokens",
    "token limit",
    "exceeds the maximum number of tokens",
    "input tokens exceed",
    "reduce the length of the messages",
    *("context limit", "maximum prompt length"),  # Anthropic, xAI
    *("maximum model length", "maximum allowed length"),  # vLLM, SGLang
    *("prompt token count", "too many input tokens"),  # GitHub, Bedrock
    *("`inputs` must have less than", "`inputs` tokens + `max_new_tokens` must be"),  # TGI
    *("range of input length", "exceed max message tokens"),  # DashScope, Volcengine
    *("prompt exceeds max length", "prompt 超长"),  # Zhipu
)
FILTER_TEXTS = (
    "content_filter",
    "content_policy",
    "content management policy",
    "responsibleaipolicy",
    *("data_inspection", "datainspectionfailed"),  # DashScope
    *("sensitivecontentdetected", "riskdetection"),  # Volcengine
    *("不安全或敏感内容", "new_sensitive", "content exists risk"),  # Zhipu, MiniMax, DeepSeek
    *("violates usage guidelines", "violating our usage policy"),  # xAI, with 403; OpenAI
)
QUOTA_TEXTS = (
    *("insufficient_quota", "exceeded your current quota", "insufficient balance", "billing", "credit balance"),
    *("余额不足", "arrearage", "overdue account", "overdue balance", "balance is overdue"),
    *("balance is insufficient", "used all available credits"),
)
RATE_TEXTS = ("rate_limit", "rate limit", "too many requests")
OVERLOAD_TEXTS = ("overloaded", "over capacity", "at capacity", "server is busy", "engine is busy")
AUTH_TEXTS = (
    *("invalid_api_key", "incorrect api key", "invalid_authentication", "unauthorized"),
    *("api_key_invalid", "api key not valid"),  # Gemini's, with 400
)
NO_PICTURES = ("image input is not supported", "support image input")
"""llama.cpp's words, with 500, and OpenRouter's, with 404."""
RETRY_INFO = "google.rpc.RetryInfo"
"""Type of the error detail in which Google's APIs say how long to wait."""

STATUS_KINDS: Mapping[int, Kind] = {
    400: Kind.BAD_REQUEST,
    401: Kind.AUTH,
    402: Kind.QUOTA,
    403: Kind.AUTH,
    404: Kind.NOT_FOUND,
    408: Kind.TIMEOUT,
    413: Kind.CONTEXT_LENGTH,
    422: Kind.BAD_REQUEST,
    429: Kind.RATE_LIMITED,
    503: Kind.OVERLOADED,
    504: Kind.TIMEOUT,
    529: Kind.OVERLOADED,
}
TEXT_KINDS = (
    (CONTEXT_TEXTS, Kind.CONTEXT_LENGTH),
    (FILTER_TEXTS, Kind.CONTENT_FILTER),
    (QUOTA_TEXTS, Kind.QUOTA),
    (AUTH_TEXTS, Kind.AUTH),
    (RATE_TEXTS, Kind.RATE_LIMITED),
    (OVERLOAD_TEXTS, Kind.OVERLOADED),
)
CORE_KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (core.ContextOverflowError, Kind.CONTEXT_LENGTH),
    (core.ModelTimeoutError, Kind.TIMEOUT),
    (core.ModelConnectionError, Kind.CONNECTION),
)
TIMEOUT_NAMES = frozenset({"APITimeoutError", "TimeoutException", "StreamChunkTimeoutError", "TimeoutError"})
API_NAMES = frozenset({"APIError", "ModelAPIError", "ResponseError"})
# Ours, aiohttp's and http.client's names for a body that ends too early.
CUT_NAMES = frozenset({"TruncatedStreamError", "ClientPayloadError", "IncompleteRead"})
# httpx's TransportError and its family, httpcore's and the SDKs' connection errors.
TRANSPORT_NAMES = frozenset({"APIConnectionError", "TransportError", "ConnectionError", "ClientConnectionError"})
# What clients raise when the response violates the protocol: not JSON, a chunk without its keys.
GARBAGE = (json.JSONDecodeError, UnicodeError, KeyError, IndexError, TypeError, AttributeError, ValueError)


HARMLESS = frozenset(
    {
        *(Kind.AUTH, Kind.NOT_FOUND, Kind.QUOTA, Kind.RATE_LIMITED, Kind.OVERLOADED),
        *(Kind.TIMEOUT, Kind.CONNECTION, Kind.CUT, Kind.UNAVAILABLE),
    }
)
"""Failures unrelated to the content of the request. Error messages for other failures may repeat the request, and
people's words must not reach the log."""
BUSY = frozenset({Kind.RATE_LIMITED, Kind.OVERLOADED})
PASSING = BUSY | {Kind.TIMEOUT, Kind.CONNECTION, Kind.UNAVAILABLE}
"""Transient failures, which are retried for a while."""
NAME = re.compile(r"[A-Za-z0-9_.\[\]-]{1,80}")


def classify(error: Exception, *, model: str, now: Callable[[], datetime]) -> ModelFailure | None:
    """The failure that `error` represents; None if the fault is not the model's but ours."""
    if isinstance(error, ModelFailure):
        return error
    kind = _kind(error)
    if kind is None:
        return None
    detail = _detail(error) if kind in HARMLESS else _bare(error)
    return ModelFailure(kind, model=model, detail=detail, retry_after=retry_after(error, now))


def _kind(error: Exception) -> Kind | None:
    for core_type, kind in CORE_KINDS:
        if isinstance(error, core_type):
            return kind
    names = {cls.__name__ for cls in type(error).__mro__}
    status = status_of(error)
    if status is None and not names & CUT_NAMES:  # packages wrap the SDK's errors in their own
        status = next(filter(None, map(status_of, _causes(error))), None)
    if status is not None and any(known in _text(error).lower() for known in NO_PICTURES):
        return Kind.BAD_REQUEST
    if status is not None and status >= 500:
        by_text = _kind_of_text(_text(error))
        busy = by_text if by_text in BUSY else None
        return STATUS_KINDS.get(status) or busy or Kind.UNAVAILABLE
    by_text = _kind_of_text(_text(error))
    if status is not None:
        if by_text is Kind.QUOTA and RETRY_INFO in _text(error):  # Gemini reports a per-minute limit the same way
            by_text = Kind.RATE_LIMITED
        return _kind_of_status(status, by_text)
    if names & TIMEOUT_NAMES:
        return Kind.TIMEOUT
    if names & CUT_NAMES:
        return by_text or Kind.CUT
    if names & TRANSPORT_NAMES or isinstance(error, OSError):
        return Kind.CONNECTION
    if names & API_NAMES:  # an error event before any data of the stream; it has no status
        return by_text or Kind.UNAVAILABLE
    return Kind.BAD_RESPONSE if isinstance(error, GARBAGE) else None


def _kind_of_status(status: int, by_text: Kind | None) -> Kind:
    """The kind for a status. The text refines an ambiguous status; it must not reinterpret a 404 for a model."""
    plain = STATUS_KINDS.get(status, Kind.BAD_REQUEST)
    if plain is Kind.BAD_REQUEST and by_text is not None:
        return by_text
    if status == 429 and by_text is Kind.QUOTA:
        return Kind.QUOTA
    if status == 403 and by_text in (Kind.CONTENT_FILTER, Kind.QUOTA):
        return by_text
    return plain


def _kind_of_text(text: str) -> Kind | None:
    lowered = text.lower()
    return next((kind for texts, kind in TEXT_KINDS if any(known in lowered for known in texts)), None)


def status_of(error: Exception) -> int | None:
    """The HTTP status that the exception carries, by the attribute names that SDKs use."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "code", "http_status"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value < 600:
                return value
    return None


def retry_after(error: Exception, now: Callable[[], datetime]) -> float | None:
    """Seconds that the provider asks us to wait: Retry-After as seconds or a date (RFC 9110, 10.2.3), or RETRY_INFO."""
    for cause in (error, *_causes(error, implicit=True)):
        headers = getattr(getattr(cause, "response", None), "headers", None) or {}
        for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            value = headers.get(name)
            if value is None:
                continue
            try:
                seconds = float(value) / unit
            except ValueError:
                return _seconds_until(value, now())
            return max(0.0, seconds) if math.isfinite(seconds) else None
        if (asked := _retry_info(getattr(cause, "details", None))) is not None:
            return asked
    return None


def _retry_info(body: Any) -> float | None:
    """The delay in a response like {"error": {"details": [{"@type": RETRY_INFO, "retryDelay": "21s"}]}}."""
    match body:
        case {"error": {"details": [*details]}}:
            for detail in details:
                if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(RETRY_INFO):
                    delay = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", str(detail.get("retryDelay")))
                    return float(delay[1]) if delay else None
    return None


def _causes(error: BaseException, *, implicit: bool = False) -> Iterator[Exception]:
    """The exceptions that led to it, at most four. implicit: also those that were merely being handled."""
    for _ in range(4):
        cause = error.__cause__ or (error.__context__ if implicit else None)
        if not isinstance(cause, Exception):
            return
        yield cause
        error = cause


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _text(error: Exception) -> str:
    body: Any = getattr(error, "body", None)
    return f"{getattr(error, 'code', '')} {error} {body if body is not None else ''}"


def _bare(error: Exception) -> str:
    """A failure for the log, without the provider's message: only the status and the error code."""
    body = getattr(error, "body", None)
    fields = body.get("error", body) if isinstance(body, dict) else None
    named = [fields.get(key) for key in ("type", "code", "param")] if isinstance(fields, dict) else []
    known = [str(value) for value in (status_of(error), *named) if value is not None]
    return " ".join([f"{type(error).__name__}:", *(word for word in known if NAME.fullmatch(word))]).rstrip(":")


def _detail(error: Exception) -> str:
    """The chain of causes for the log, so that "Connection error." also shows which one."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 4:
        parts.append(" ".join(f"{type(cause).__name__}: {cause}".split())[:500])
        cause = cause.__cause__ or cause.__context__
    return " <- ".join(dict.fromkeys(parts))
