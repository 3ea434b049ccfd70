"""LLMErrorHandling: classifies failures of model calls, retries where that helps, else ends the run honestly.

A busy or unreachable provider is retried until the patience is used up, with jitter and Retry-After; a circuit breaker
per provider; one summary and retry if the context is too long.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, RemoveMessage
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from harness.errors import ModelFailure
from harness.events import FailureKind as Kind
from harness.events import ModelRetrying
from harness.failures import PASSING, classify
from harness.graph.messages import answer_text, finish_reason
from harness.graph.signals import CallDropped, Told, tell
from harness.models.pool import COUNTED_OF_ONE_CALL

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.config import LlmSettings, ModelSettings
    from harness.graph.calls import ModelHandler
    from harness.graph.signals import HasWriter
    from harness.middleware.summarization import Compacted, Summarization
    from harness.models.health import ModelHealth
    from harness.models.pool import Breaker
    from harness.ports import Clock

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.5, 8.0
SHORTEST_DELAY = 0.001
"""Seconds; less is rounding, and may be too little to advance a clock: the wait would never end."""
TOLD_EVERY = 5.0
"""Seconds between two reports of a waiting call."""
# The model's own errors: waiting does not help, but another answer may be better.
RETRIED = frozenset({Kind.BAD_RESPONSE, Kind.EMPTY, Kind.CUT})
# The provider is in trouble, not just this request.
DOWN = (PASSING | {Kind.CUT}) - {Kind.RATE_LIMITED}
FILTERED = frozenset(
    {
        *("content_filter", "safety", "refusal", "sensitive"),
        *("blocklist", "prohibited_content", "spii", "recitation", "image_safety"),  # Gemini's
    }
)


@dataclass(frozen=True, slots=True)
class Tenacity:
    """How persistently one model is called. patience: seconds for transient failures. retries: of invalid answers.
    counts: its failures count for the circuit breaker."""

    patience: float
    retries: int
    counts: bool = True


class Patience:
    """The pauses of one model call, growing and reported, until its time is up. seconds: from its first failure on.
    longest: that a provider may ask us to wait."""

    def __init__(self, clock: Clock, seconds: float, longest: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._longest = longest
        self._began: float | None = None
        self._pauses = 0

    def allows(self, failure: ModelFailure) -> bool:
        """Whether the failure may pass, and the requested wait fits into the remaining time."""
        fits = (failure.retry_after or 0.0) <= min(self.left, self._longest)
        return failure.kind in PASSING and self.left > 0 and fits

    @property
    def left(self) -> float:
        """Seconds left; 0 when the time is up."""
        left = self._seconds - self._waited()
        return left if left > SHORTEST_DELAY else 0.0

    async def pause(self, failure: ModelFailure, runtime: HasWriter, asked: float | None) -> None:
        """Wait before the next attempt. asked: seconds that the provider requested, which fit into the time."""
        delay = _backoff(self._pauses)
        if asked is not None:  # a little later than requested, and not all chats at once
            delay = max(delay, asked + random.uniform(0, FIRST_DELAY))
        if failure.kind in PASSING:
            delay = min(delay, self.left)
        self._pauses += 1
        tell(runtime, CallDropped())
        while delay > 0:
            again = partial(ModelRetrying, kind=failure.kind, attempt=self._pauses)
            tell(runtime, Told(partial(again, delay=delay, waited=self._waited())))
            step = min(delay, TOLD_EVERY)
            await self._clock.sleep(step)
            delay -= step

    def _waited(self) -> float:
        """Seconds since the first failure, which is now if there was none."""
        now = self._clock.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began


@dataclass(slots=True)
class _Attempts:
    """One model call's history. failed: number of failures. compacted: the shortened messages that were sent;
    shortened: because the provider rejected longer ones."""

    patience: Patience
    tenacity: Tenacity
    failed: int = 0
    retries: int = 0
    compacted: Compacted | None = None
    shortened: bool = False

    @property
    def counts(self) -> bool:
        return self.tenacity.counts and self.failed < COUNTED_OF_ONE_CALL


class LLMErrorHandling(AgentMiddleware[Any, Any, Any]):
    """Raises ModelFailure when the run is to end; errors unrelated to the model propagate."""

    def __init__(
        self,
        model: ModelSettings,
        llm: LlmSettings,
        clock: Clock,
        breaker: Breaker,
        summarization: Summarization,
        health: ModelHealth,
    ) -> None:
        super().__init__()
        self._model = model.name
        self._llm = llm
        self._clock = clock
        self._breaker = breaker
        self._summarization = summarization
        self._health = health

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        return await self.ask(request, handler)

    async def ask(
        self,
        request: ModelRequest[Any],
        handler: ModelHandler,
        compacted: Compacted | None = None,
        tenacity: Tenacity | None = None,
    ) -> ModelResponse[Any]:
        """compacted: a history to send and store instead of the request's. tenacity: overrides the configured one."""
        tenacity = tenacity or Tenacity(self._llm.patience, self._llm.max_retries)
        patience = Patience(self._clock, tenacity.patience, self._llm.max_retry_wait)
        attempts = _Attempts(patience, tenacity, compacted=compacted)
        request = request if compacted is None else request.override(messages=compacted.messages)
        while True:
            try:
                response = await self._guarded(request, handler, counts=attempts.counts)
            except ModelFailure as failure:
                log.warning("model call failed (attempt %d): %s", attempts.failed + 1, self._health.described(failure))
                self._health.failed(self._model, failure.kind)
                attempts.failed += 1
                if failure.kind is Kind.CONTEXT_LENGTH:
                    request = await self._shortened(request, attempts, failure)
                else:
                    await _before_the_next(request, attempts, failure)
            else:
                self._health.succeeded(self._model)
                return _with_compacted(response, attempts.compacted)

    async def _guarded(self, request: ModelRequest[Any], handler: ModelHandler, *, counts: bool) -> ModelResponse[Any]:
        """One attempt through the circuit breaker; raises ModelFailure for any failure of the model."""
        wait = self._breaker.wait()
        if wait is not None:
            detail = "the provider failed many times in a row; not called again yet"
            raise ModelFailure(self._breaker.kind, model=self._model, detail=detail, retry_after=wait)
        try:
            response = await handler(request)
        except GraphBubbleUp:
            self._breaker.abandoned()
            raise
        except Exception as error:  # vendors' clients raise anything; unrelated errors propagate
            failure = classify(error, model=self._model, now=self._clock.now)
            if failure is None:
                self._breaker.abandoned()
                raise
            self._note(failure.kind, counts=counts)
            log.debug("the model client raised", exc_info=error)
            raise failure from error
        except BaseException:  # cancelled: a probe without a report would keep the breaker open
            self._breaker.abandoned()
            raise
        self._breaker.succeeded()
        self._check_answer(response)
        return response

    def _note(self, kind: Kind, *, counts: bool) -> None:
        if kind in DOWN:
            self._breaker.failed(kind if kind in PASSING else Kind.UNAVAILABLE, counts=counts)
        else:
            self._breaker.succeeded()

    def _check_answer(self, response: ModelResponse[Any]) -> None:
        """Raise ModelFailure for an invalid answer: filtered, empty, or with unreadable tool calls."""
        for message in response.result:
            if not isinstance(message, AIMessage):
                continue
            reason = finish_reason(message)
            if reason in FILTERED:
                raise ModelFailure(Kind.CONTENT_FILTER, model=self._model, detail=f"finish_reason {reason}")
            if message.tool_calls:
                continue
            if message.invalid_tool_calls:
                detail = f"unreadable tool call: {message.invalid_tool_calls[0].get('error')}"
                raise ModelFailure(Kind.BAD_RESPONSE, model=self._model, detail=detail)
            if not answer_text(message).strip():
                raise ModelFailure(
                    Kind.EMPTY, model=self._model, detail=f"no text, finish_reason {reason or 'unknown'}"
                )

    async def _shortened(
        self, request: ModelRequest[Any], attempts: _Attempts, failure: ModelFailure
    ) -> ModelRequest[Any]:
        """The same request with a summarised history, once; raises the failure if that cannot help."""
        if attempts.shortened:
            raise failure
        compacted = await self._summarization.compacted(request.messages, hard=True, runtime=request.runtime)
        if compacted is None:
            raise failure
        attempts.compacted, attempts.shortened = compacted, True
        tell(request.runtime, CallDropped())
        self._summarization.report(compacted, request.runtime)
        return request.override(messages=compacted.messages)


async def _before_the_next(request: ModelRequest[Any], attempts: _Attempts, failure: ModelFailure) -> None:
    """Wait before the next attempt, or raise the failure if there is none."""
    if failure.kind in RETRIED and attempts.retries < attempts.tenacity.retries:
        attempts.retries += 1
    elif not attempts.patience.allows(failure):
        raise failure
    await attempts.patience.pause(failure, request.runtime, failure.retry_after)


def _backoff(retries: int) -> float:
    longest: float = min(FIRST_DELAY * 2**retries, LONGEST_DELAY)
    return random.uniform(0.5, 1.0) * longest


def _with_compacted(response: ModelResponse[Any], compacted: Compacted | None) -> ModelResponse[Any]:
    """The response, with the shortened history to be stored too, or the next turn would fail the same way."""
    if compacted is None:
        return response
    return replace(response, result=[RemoveMessage(REMOVE_ALL_MESSAGES), *compacted.messages, *response.result])
