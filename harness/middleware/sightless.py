"""Sightless: a model without vision gets no images, whoever put them into the thread, and no tool to look at any.

They come from a turn of another model: one that this one stands in for, or that /models chose before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware

from harness.graph.picture_blocks import has_images, without_images
from harness.graph.signals import scope_of
from harness.tools.pictures import VIEW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from langchain.agents.middleware import ModelRequest, ModelResponse


class Sightless(AgentMiddleware[Any, Any, Any]):
    """models: the names of those without vision. model: the one that answers where there is no other."""

    def __init__(self, models: Collection[str], model: str) -> None:
        super().__init__()
        self._models = models
        self._model = model

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        if (scope_of(request.runtime).answering.model or self._model) not in self._models:
            return await handler(request)
        if any(getattr(tool, "name", "") == VIEW for tool in request.tools):
            request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", "") != VIEW])
        if any(map(has_images, request.messages)):
            request = request.override(messages=[without_images(message) for message in request.messages])
        return await handler(request)
