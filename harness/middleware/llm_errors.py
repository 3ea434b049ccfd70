"""LLMErrorHandling: sorts what goes wrong with a model call, tries again where that helps, else ends the run honestly.

Retries with jitter and Retry-After; a circuit breaker per provider; one summary and retry for a too long context.
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
from harness.failures import classify
from harness.graph.messages import answer_text, finish_reason
from harness.graph.signals import CallDropped, Told, tell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.config import LlmSettings, ModelSettings
    from harness.middleware.summarization import Compacted, Summarization
    from harness.models.health import ModelHealth
    from harness.models.pool import Breaker
    from harness.ports import Clock

    Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

log = logging.getLogger(__name__)

FIRST_DELAY, LONGEST_DELAY = 0.5, 8.0
# A time-out has already cost the whole time once; the rest is worth max_retries attempts.
RETRIED = frozenset({Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.UNAVAILABLE, Kind.BAD_RESPONSE, Kind.EMPTY})
RETRIED_ONCE = frozenset({Kind.TIMEOUT})
# The provider is in trouble, not just this request.
DOWN = frozenset({Kind.TIMEOUT, Kind.UNAVAILABLE})
FILTERED = frozenset({"content_filter", "safety", "refusal", "sensitive"})


@dataclass(slots=True)
class _Attempts:
    """One model call's history. compacted: the shortened messages that it was tried with; shortened: because the
    provider refused longer ones."""

    retries: int = 0
    timeouts: int = 0
    compacted: Compacted | None = None
    shortened: bool = False


class LLMErrorHandling(AgentMiddleware[Any, Any, Any]):
    """Raises ModelFailure when the run is to end; anything that is no model trouble passes through."""

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

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        return await self.ask(request, handler)

    async def ask(
        self, request: ModelRequest[Any], handler: Handler, compacted: Compacted | None = None
    ) -> ModelResponse[Any]:
        """compacted: the history that is sent, and kept, instead of the request's."""
        attempts = _Attempts(compacted=compacted)
        request = request if compacted is None else request.override(messages=compacted.messages)
        while True:
            try:
                response = await self._guarded(request, handler)
            except ModelFailure as failure:
                log.warning("model call failed (retry %d): %s", attempts.retries, failure)
                self._health.failed(self._model, failure.kind)
                if failure.kind is Kind.CONTEXT_LENGTH:
                    request = await self._shortened(request, attempts, failure)
                else:
                    await self._pause(request, attempts, failure)
            else:
                self._health.succeeded(self._model)
                return _with_compacted(response, attempts.compacted)

    async def _guarded(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        """One attempt behind the circuit breaker; raises ModelFailure for model trouble of any kind."""
        wait = self._breaker.wait()
        if wait is not None:
            detail = "the provider failed many times in a row; not asked again yet"
            raise ModelFailure(Kind.UNAVAILABLE, model=self._model, detail=detail, retry_after=wait)
        try:
            response = await handler(request)
        except GraphBubbleUp:
            self._breaker.abandoned()
            raise
        except Exception as error:  # clients of any vendor raise anything; what is not theirs goes on up
            failure = classify(error, model=self._model, now=self._clock.now)
            if failure is None:
                self._breaker.abandoned()
                raise
            self._note(failure.kind)
            log.debug("the model client raised", exc_info=error)
            raise failure from error
        except BaseException:  # cancelled: a probe that nobody reports would keep the breaker open
            self._breaker.abandoned()
            raise
        self._breaker.succeeded()
        self._check_answer(response)
        return response

    def _note(self, kind: Kind) -> None:
        if kind in DOWN:
            self._breaker.failed()
        else:
            self._breaker.succeeded()

    def _check_answer(self, response: ModelResponse[Any]) -> None:
        """An answer that is none: filtered, empty, or with tool calls that nobody can read."""
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

    async def _pause(self, request: ModelRequest[Any], attempts: _Attempts, failure: ModelFailure) -> None:
        """Wait before the next attempt, or raise the failure when there is none."""
        kind, asked = failure.kind, failure.retry_after
        attempts.timeouts += kind in RETRIED_ONCE
        if kind not in RETRIED or attempts.retries >= self._llm.max_retries or attempts.timeouts > 1:
            raise failure
        delay = _backoff(attempts.retries)
        if asked is not None:
            if asked > self._llm.max_retry_wait:
                raise failure
            # A little later than asked, and not all chats at once.
            delay = asked + random.uniform(0, FIRST_DELAY)
        attempts.retries += 1
        tell(request.runtime, CallDropped())
        retrying = partial(ModelRetrying, kind=kind, attempt=attempts.retries, delay=delay)
        tell(request.runtime, Told(retrying))
        await self._clock.sleep(delay)

    async def _shortened(
        self, request: ModelRequest[Any], attempts: _Attempts, failure: ModelFailure
    ) -> ModelRequest[Any]:
        """The same request with a summarised history, once; raises the failure when that cannot help."""
        if attempts.shortened:
            raise failure
        compacted = await self._summarization.compacted(request.messages, hard=True)
        if compacted is None:
            raise failure
        attempts.compacted, attempts.shortened = compacted, True
        tell(request.runtime, CallDropped())
        self._summarization.report(compacted, request.runtime)
        return request.override(messages=compacted.messages)


def _backoff(retries: int) -> float:
    longest: float = min(FIRST_DELAY * 2**retries, LONGEST_DELAY)
    return random.uniform(0.5, 1.0) * longest


def _with_compacted(response: ModelResponse[Any], compacted: Compacted | None) -> ModelResponse[Any]:
    """The shortened history is stored with the answer, or the next turn would run into the same wall."""
    if compacted is None:
        return response
    return replace(response, result=[RemoveMessage(REMOVE_ALL_MESSAGES), *compacted.messages, *response.result])
