"""Sorting exceptions that no simulator of ours raises: other vendors' clients and their texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from langchain_core.exceptions import ContextOverflowError, ModelTimeoutError

from harness.errors import ModelFailure
from harness.events import FailureKind as Kind
from harness.failures import classify, retry_after
from harness.models.chat_openai import TruncatedStreamError
from tests.tables import table

NOW = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


class VendorError(Exception):
    """As an SDK would raise it."""

    def __init__(self, text: str, status: int | None = None, headers: dict[str, str] | None = None) -> None:
        super().__init__(text)
        if status is not None:
            self.status_code = status
        self.response = SimpleNamespace(headers=headers or {}, status_code=status)


class ReadTimeout(type("TimeoutException", (Exception,), {})):  # type: ignore[misc]
    """httpx's, by name."""


class ConnectError(type("TransportError", (Exception,), {})):  # type: ignore[misc]
    """httpx's, by name."""


@table(
    ("error", "kind"),
    [
        (VendorError("This model's maximum context length is 8192 tokens", 400), Kind.CONTEXT_LENGTH),
        (VendorError("prompt is too long: 210000 tokens > 200000 maximum", 400), Kind.CONTEXT_LENGTH),
        (VendorError("the request exceeds the available context size", 400), Kind.CONTEXT_LENGTH),
        (
            VendorError("The input token count (1200000) exceeds the maximum number of tokens allowed", 400),
            Kind.CONTEXT_LENGTH,
        ),
        (VendorError("Data_inspection_failed: inappropriate content", 400), Kind.CONTENT_FILTER),
        (VendorError("The response was filtered due to Azure's content management policy", 400), Kind.CONTENT_FILTER),
        (VendorError("Insufficient Balance", 402), Kind.QUOTA),
        (VendorError("Your credit balance is too low", 400), Kind.QUOTA),
        (VendorError("You exceeded your current quota", 429), Kind.QUOTA),
        (VendorError("model `context length test` not found", 404), Kind.NOT_FOUND),
        (VendorError("Invalid API key", 401), Kind.AUTH),
        (VendorError("overloaded_error", 529), Kind.OVERLOADED),
        (VendorError("Service Unavailable", 503), Kind.OVERLOADED),
        (VendorError("the model is overloaded", 500), Kind.OVERLOADED),
        (VendorError("Internal Server Error", 500), Kind.UNAVAILABLE),
        (VendorError("Bad Gateway", 502), Kind.UNAVAILABLE),
        (VendorError("gateway timeout", 504), Kind.TIMEOUT),
        (ReadTimeout("read"), Kind.TIMEOUT),
        (TimeoutError(), Kind.TIMEOUT),
        (ConnectError("no route"), Kind.CONNECTION),
        (ConnectionResetError(), Kind.CONNECTION),
        (TruncatedStreamError("no finish reason"), Kind.CUT),
        (TruncatedStreamError("an error in the middle of the answer: rate_limit_exceeded"), Kind.RATE_LIMITED),
        (ContextOverflowError("too long"), Kind.CONTEXT_LENGTH),
        (ModelTimeoutError("slow"), Kind.TIMEOUT),
        (json.JSONDecodeError("bad", "{", 0), Kind.BAD_RESPONSE),
        (ValueError("No generation chunks were returned"), Kind.BAD_RESPONSE),
    ],
)
def test_the_kind_of_a_vendors_error(error: Exception, kind: Kind) -> None:
    failure = classify(error, model="m", now=lambda: NOW)
    assert failure is not None
    assert (failure.kind, failure.model) == (kind, "m")


@table(
    ("status", "text", "kind"),
    [
        (400, "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000", Kind.CONTEXT_LENGTH),
        (400, "This model's maximum prompt length is 131072 but the request contains 537812", Kind.CONTEXT_LENGTH),
        (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096", Kind.CONTEXT_LENGTH),
        (400, "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", Kind.CONTEXT_LENGTH),
        (400, "prompt token count of 131000 exceeds the limit of 128000", Kind.CONTEXT_LENGTH),
        (422, "Input validation error: `inputs` must have less than 4095 tokens", Kind.CONTEXT_LENGTH),
        (422, "`inputs` tokens + `max_new_tokens` must be <= 4096", Kind.CONTEXT_LENGTH),
        (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 3]", Kind.CONTEXT_LENGTH),
        (400, "Total tokens of image and text exceed max message tokens", Kind.CONTEXT_LENGTH),
        (400, "Prompt exceeds max length", Kind.CONTEXT_LENGTH),
        (400, "Prompt 超长", Kind.CONTEXT_LENGTH),
        (400, "Too many input tokens. Max input tokens: 8192", Kind.CONTEXT_LENGTH),
        (400, "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain", Kind.CONTENT_FILTER),
        (400, "InputTextSensitiveContentDetected: The request failed", Kind.CONTENT_FILTER),
        (400, "InputTextRiskDetection", Kind.CONTENT_FILTER),
        (400, "系统检测到输入或生成内容可能包含不安全或敏感内容", Kind.CONTENT_FILTER),
        (400, "input new_sensitive (1026)", Kind.CONTENT_FILTER),
        (400, "Content Exists Risk", Kind.CONTENT_FILTER),
        (403, "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO", Kind.CONTENT_FILTER),
        (400, "your prompt was flagged as potentially violating our usage policy", Kind.CONTENT_FILTER),
        (429, "余额不足或无可用资源包,请充值。", Kind.QUOTA),
        (400, "Arrearage: Access denied, please make sure your account is in good standing", Kind.QUOTA),
        (403, "Access denied due to overdue account", Kind.QUOTA),
        (403, "The request failed because your account has an overdue balance.", Kind.QUOTA),
        (403, "Sorry, your account balance is insufficient", Kind.QUOTA),
        (429, "Your team has used all available credits", Kind.QUOTA),
        (500, "image input is not supported - hint: you may need to provide the mmproj", Kind.BAD_REQUEST),
        (404, "No endpoints found that support image input", Kind.BAD_REQUEST),
    ],
)
def test_each_provider_has_its_own_words(status: int, text: str, kind: Kind) -> None:
    failure = classify(VendorError(text, status), model="m", now=lambda: NOW)
    assert failure is not None
    assert failure.kind is kind


def test_what_is_no_model_trouble_is_left_alone() -> None:
    assert classify(ArithmeticError("ours"), model="m", now=lambda: NOW) is None


def test_a_failure_stays_itself() -> None:
    failure = ModelFailure(Kind.EMPTY, model="m", detail="nothing")
    assert classify(failure, model="other", now=lambda: NOW) is failure


@table(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sat, 01 Mar 2025 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Sat, 01 Mar 2025 11:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_comes_as_seconds_or_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(VendorError("wait", 429, headers), lambda: NOW) == seconds


def test_the_detail_names_the_causes_on_one_line() -> None:
    try:
        try:
            raise OSError("name resolution\nfailed")
        except OSError as cause:
            raise VendorError("Connection error.", 500) from cause
    except VendorError as error:
        failure: Any = classify(error, model="m", now=lambda: NOW)
    assert failure.detail == "VendorError: Connection error. <- OSError: name resolution failed"


def test_what_a_provider_says_of_the_request_is_not_repeated_but_what_it_names_is() -> None:
    error = VendorError("Error code: 400 - Unsupported parameter in 'kanarienvogel'", 400)
    error.body = {"error": {"message": "kanarienvogel", "code": "unsupported_parameter", "param": "max_tokens"}}  # type: ignore[attr-defined]
    failure: Any = classify(error, model="m", now=lambda: NOW)
    assert failure.detail == "VendorError: 400 unsupported_parameter max_tokens"
    error.body = {"error": {"code": "the words kanarienvogel", "param": None}}  # type: ignore[attr-defined]
    failure = classify(error, model="m", now=lambda: NOW)
    assert failure.detail == "VendorError: 400"
    garbage: Any = classify(ValueError("kanarienvogel"), model="m", now=lambda: NOW)
    assert garbage.detail == "ValueError"
