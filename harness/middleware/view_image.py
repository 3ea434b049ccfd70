"""ViewImage: shows a vision model the pictures that it asked to look at, in the very next request and no other.

They stand behind the results as a message of their own, since not every provider takes pictures in a result. The thread
never keeps them: a picture costs as much as a thousand words, every turn anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from harness.graph.messages import MARK
from harness.graph.results import IMAGE
from harness.graph.signals import scope_of
from harness.text.frames import IMAGE as FRAME
from harness.text.frames import framed, neutral

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from langchain.agents.middleware import ModelRequest, ModelResponse

SHOWN = "The picture {path}, which you asked to see:"
LOST = "The picture {path} is not at hand any more after a restart: look at it again if you need it."


class ViewImage(AgentMiddleware[Any, Any, Any]):
    """Inside LLMErrorHandling: what is stored after a summary must not hold pictures."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
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
        images.clear()  # seen; a call that failed is tried again with them
        return response


def _asked(messages: list[AnyMessage]) -> Iterator[tuple[str, str]]:
    """(tool call, path) of the pictures that the newest round asked for."""
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
