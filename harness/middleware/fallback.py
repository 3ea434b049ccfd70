"""Fallback: when a model cannot answer, the next one of its `fallbacks` answers the same request.

Each model has its own retries, name and window, and shares its provider's circuit breaker with all runs.
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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from harness.config import ModelSettings
    from harness.middleware.llm_errors import LLMErrorHandling
    from harness.middleware.summarization import Summarization

    Handler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]

log = logging.getLogger(__name__)

FALLS_BACK = frozenset(
    {
        *(Kind.AUTH, Kind.QUOTA, Kind.NOT_FOUND, Kind.RATE_LIMITED, Kind.TIMEOUT, Kind.UNAVAILABLE),
        *(Kind.BAD_RESPONSE, Kind.EMPTY),
    }
)
"""What another provider may do better. Not what a content filter refused, or a request that is ours to mend."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model that may answer. handling: its retries; summarization: cuts histories to its window."""

    settings: ModelSettings
    chat: BaseChatModel
    handling: LLMErrorHandling
    summarization: Summarization


class Fallback(AgentMiddleware[Any, Any, Any]):
    """candidates: the model that was asked for, then its fallbacks. A run stays with the one that answered it.

    Raises the first model's failure when none of them can answer.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        super().__init__()
        self._candidates = candidates

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        answering = scope_of(request.runtime).answering
        failures: list[ModelFailure] = []
        for place in range(answering.place, len(self._candidates)):
            candidate = self._candidates[place]
            answering.model = candidate.settings.name
            try:
                response = await self._asked(place, request, handler)
            except ModelFailure as failure:
                if failure.kind not in FALLS_BACK:
                    raise
                failures.append(failure)
                tell(request.runtime, CallDropped())
                continue
            if place != answering.place:
                answering.place = place
                self._tell(place, request)
            return response
        raise _all_failed(failures)

    async def _asked(self, place: int, request: ModelRequest[Any], handler: Handler) -> ModelResponse[Any]:
        candidate = self._candidates[place]
        if place == 0:
            return await candidate.handling.awrap_model_call(request, handler)
        # Not left to its provider, some of which cut what is too long without a word.
        compacted = await candidate.summarization.fitting(request.messages)
        if compacted is not None:
            candidate.summarization.report(compacted, request.runtime)
        return await candidate.handling.ask(request.override(model=candidate.chat), handler, compacted)

    def _tell(self, place: int, request: ModelRequest[Any]) -> None:
        wanted, answered = self._candidates[0].settings, self._candidates[place].settings
        log.warning("the model %s answers instead of %s", answered.name, wanted.name)
        tell(request.runtime, Told(partial(Notice, kind="fallback", model=answered.name, instead_of=wanted.name)))
        if wanted.supports_vision and not answered.supports_vision and _shows_images(request.messages):
            tell(request.runtime, Told(partial(Notice, kind="images_not_seen", model=answered.name)))


def _shows_images(messages: Sequence[BaseMessage]) -> bool:
    """Whether the message that is to be answered came with images."""
    newest = next((message for message in reversed(messages) if is_users(message)), None)
    return newest is not None and has_images(newest)


def _all_failed(failures: Sequence[ModelFailure]) -> ModelFailure:
    first = failures[0]
    if len(failures) == 1:
        return first
    detail = "; ".join(f"{failure.model}: {failure.detail}" for failure in failures)
    return ModelFailure(first.kind, model=first.model, detail=detail, retry_after=first.retry_after)
