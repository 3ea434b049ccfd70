"""Pictures in requests: shown once to a vision model that requested them, omitted for a model without vision.

They follow the results as a separate message, since not every provider accepts pictures in a result. The thread never
keeps them: a picture costs as much as a thousand words in every turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from harness.graph.messages import MARK, has_images, without_images
from harness.graph.results import IMAGE
from harness.graph.signals import scope_of
from harness.text.frames import IMAGE as FRAME
from harness.text.frames import framed, neutral
from harness.tools.presenting import VIEW

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.graph.calls import ModelHandler

SHOWN = "The image {path}, which you asked to see:"
LOST = "The image {path} is no longer available after a restart: view it again if you need it."


class ViewImage(AgentMiddleware[Any, Any, Any]):
    """Shows the pictures of the newest round in the very next request only. Inside LLMErrorHandling: what is stored
    after a summary must not contain pictures."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        sandbox = scope_of(request.runtime).sandbox
        images = sandbox.images if sandbox is not None else {}
        asked = dict(_asked(request.messages))
        if asked:
            content: list[str | dict[Any, Any]] = [
                block for call_id, path in asked.items() for block in _blocks(path, images.get(call_id))
            ]
            shown = HumanMessage(content, additional_kwargs={MARK: FRAME})
            request = request.override(messages=[*request.messages, shown])
        response = await handler(request)
        images.clear()  # seen; a failed call is retried with them
        return response


def _asked(messages: list[AnyMessage]) -> Iterator[tuple[str, str]]:
    """(tool call, path) of the pictures that the newest round requested."""
    newest: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            break
        if isinstance(message, ToolMessage):
            newest.append(message)
    for message in reversed(newest):
        if isinstance(message.artifact, dict) and (path := message.artifact.get(IMAGE)):
            yield message.tool_call_id, str(path)


def _blocks(path: str, picture: str | None) -> Iterator[dict[str, Any]]:
    text = (LOST if picture is None else SHOWN).format(path=neutral(path))
    yield {"type": "text", "text": framed(FRAME, text)}
    if picture is not None:
        yield {"type": "image_url", "image_url": {"url": picture}}


class Sightless(AgentMiddleware[Any, Any, Any]):
    """Removes images, and the tool that views them, from requests to models without vision. They come from a turn of
    another model: one that this one replaces, or that /models chose before.

    models: the names of those without vision. model: the default one that answers."""

    def __init__(self, models: Collection[str], model: str) -> None:
        super().__init__()
        self._models = models
        self._model = model

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        if (scope_of(request.runtime).answering.model or self._model) not in self._models:
            return await handler(request)
        if any(getattr(tool, "name", "") == VIEW for tool in request.tools):
            request = request.override(tools=[tool for tool in request.tools if getattr(tool, "name", "") != VIEW])
        if any(map(has_images, request.messages)):
            request = request.override(messages=[without_images(message) for message in request.messages])
        return await handler(request)
