"""Fallback: when a model cannot answer, the next one of its `fallbacks` answers the same request.

No run waits for a busy provider while another one may answer. Each model has its own retries, name and window, and
shares its provider's circuit breaker with all runs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware

from harness.errors import ModelFailure
from harness.events import FailureKind as Kind
from harness.events import Notice
from harness.graph.messages import has_images, is_users
from harness.graph.signals import CallDropped, Told, scope_of, tell
from harness.middleware.llm_errors import Patience, Tenacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from harness.config import LlmSettings, ModelSettings
    from harness.graph.calls import ModelHandler
    from harness.middleware.llm_errors import LLMErrorHandling
    from harness.middleware.summarization import Compacted, Summarization
    from harness.ports import Clock

log = logging.getLogger(__name__)

FALLS_BACK = frozenset(
    {
        *(Kind.AUTH, Kind.QUOTA, Kind.NOT_FOUND, Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.TIMEOUT),
        *(Kind.CONNECTION, Kind.CUT, Kind.UNAVAILABLE, Kind.BAD_RESPONSE, Kind.EMPTY),
    }
)
"""Failures that another provider may not have. Not content filters, or requests that we have to fix."""

BRIEF = 3.0
"""Seconds for which each model is retried before the next one is called."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model that may answer. handling: its retries; summarization: cuts histories to its window."""

    settings: ModelSettings
    chat: BaseChatModel
    handling: LLMErrorHandling
    summarization: Summarization


class _Call:
    """One model call's history, round by round. waiting: models that may be called, each from some time on. fitted:
    histories cut to a model's window."""

    def __init__(self, clock: Clock, llm: LlmSettings, places: Iterable[int]) -> None:
        self._clock = clock
        self._patience = Patience(clock, llm.patience, llm.max_retry_wait)
        self._waiting = dict.fromkeys(places, clock.monotonic())
        self._failures: dict[int, ModelFailure] = {}
        self.tenacity = Tenacity(min(BRIEF, llm.patience), llm.max_retries)
        self.fitted: dict[int, Compacted | None] = {}

    def due(self) -> list[int]:
        """The models to be called now, in order."""
        now = self._clock.monotonic()
        return [place for place, moment in sorted(self._waiting.items()) if moment <= now]

    def failed(self, place: int, failure: ModelFailure) -> None:
        """Record a failure: the model is not called again, unless its failure may pass in time."""
        self._failures[place] = failure
        del self._waiting[place]
        if self._patience.allows(failure):
            self._waiting[place] = self._clock.monotonic() + (failure.retry_after or 0.0)

    async def pause(self, request: ModelRequest[Any]) -> None:
        """Wait for the next round. Raises the first model's failure if there is none."""
        self.tenacity = Tenacity(0.0, 0, counts=False)
        if not self._waiting or self._patience.left <= 0:
            raise _all_failed(list(self._failures.values()))
        place = min(self._waiting, key=lambda each: self._waiting[each])
        asked = max(0.0, self._waiting[place] - self._clock.monotonic())
        await self._patience.pause(self._failures[place], request.runtime, asked or None)


class Fallback(AgentMiddleware[Any, Any, Any]):
    """candidates: the requested model, then its fallbacks. A run stays with the one that answered it.

    While none of them can answer, those with transient failures are retried until the patience is used up. Then, or if
    there are none, raises the first model's failure.
    """

    def __init__(self, candidates: Sequence[Candidate], llm: LlmSettings, clock: Clock) -> None:
        super().__init__()
        self._candidates = candidates
        self._llm = llm
        self._clock = clock

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        answering = scope_of(request.runtime).answering
        call = _Call(self._clock, self._llm, range(answering.place, len(self._candidates)))
        while True:
            for place in call.due():
                candidate = self._candidates[place]
                answering.model = candidate.settings.name
                try:
                    response = await self._asked(place, request, handler, call)
                except ModelFailure as failure:
                    if failure.kind not in FALLS_BACK:
                        raise
                    call.failed(place, failure)
                    tell(request.runtime, CallDropped())
                    continue
                if place != answering.place:
                    answering.place = place
                    self._tell(place, request)
                return response
            await call.pause(request)

    async def _asked(
        self, place: int, request: ModelRequest[Any], handler: ModelHandler, call: _Call
    ) -> ModelResponse[Any]:
        candidate = self._candidates[place]
        if place == 0:
            return await candidate.handling.ask(request, handler, tenacity=call.tenacity)
        if place not in call.fitted:
            # Not left to the provider: some truncate silently.
            call.fitted[place] = compacted = await candidate.summarization.fitting(request.messages, request.runtime)
            if compacted is not None:
                candidate.summarization.report(compacted, request.runtime)
        request = request.override(model=candidate.chat)
        return await candidate.handling.ask(request, handler, call.fitted[place], call.tenacity)

    def _tell(self, place: int, request: ModelRequest[Any]) -> None:
        wanted, answered = self._candidates[0].settings, self._candidates[place].settings
        log.warning("model %s answers instead of %s", answered.full_name, wanted.full_name)
        tell(request.runtime, Told(partial(Notice, kind="fallback", model=answered.name, instead_of=wanted.name)))
        if wanted.supports_vision and not answered.supports_vision and _shows_images(request.messages):
            tell(request.runtime, Told(partial(Notice, kind="images_not_seen", model=answered.name)))


def _shows_images(messages: Sequence[BaseMessage]) -> bool:
    """Whether the message to be answered has images."""
    newest = next((message for message in reversed(messages) if is_users(message)), None)
    return newest is not None and has_images(newest)


def _all_failed(failures: Sequence[ModelFailure]) -> ModelFailure:
    first = failures[0]
    if len(failures) == 1:
        return first
    detail = "; ".join(f"{failure.model}: {failure.detail}" for failure in failures)
    return ModelFailure(first.kind, model=first.model, detail=detail, retry_after=first.retry_after)
