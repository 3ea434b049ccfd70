"""Probes a configured model: whether it answers, streams, calls a tool, sees a picture."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk, HumanMessage

from harness.errors import ModelSetupError
from harness.events import FailureKind as Kind
from harness.failures import classify
from harness.models.build import build_model

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.runnables import Runnable

    from harness.config import ModelSettings
    from harness.errors import ModelFailure
    from harness.models.transport import Route

COUNT = "Count from one to forty in words, and write nothing else."
"""Long enough for even a very fast model to send several chunks."""
USE_THE_TOOL = "Look up the weather in Paris with the tool, and write nothing else."
NAME_THE_COLOUR = "What color is this picture? Answer in one English word."
_COLOUR = "red"
_PICTURE = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsItw/dMZxQi+hcEKLNO+Fg"
    "EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywLQTQDx3uY1cQAAAABJRU5ErkJg"
    "gg=="
)
"""64 by 64 pixels, all red."""
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city, now.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_REMEDIES = {
    Kind.AUTH: "set {key}.api_key to a key of this provider, and check that base_url is the provider's",
    Kind.QUOTA: "the provider's account has no credit left: top it up, or name another model first",
    Kind.NOT_FOUND: "set {key}.model to a name that the provider lists; base_url usually ends in /v1",
    Kind.RATE_LIMITED: "the provider accepts no more calls now: wait, or raise the account's limits there",
    Kind.OVERLOADED: "the provider is busy: try again later, and configure fallbacks for {key}",
    Kind.TIMEOUT: "check that the server at {key}.base_url has loaded the model, and check network.proxy",
    Kind.CONNECTION: "check that this machine reaches {key}.base_url, and check network.proxy and ca_file",
    Kind.BAD_RESPONSE: "{key}.base_url does not serve this API: it usually ends in /v1",
}
_OTHER_REMEDY = "check the provider's status page, and {key}.model and base_url"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProblem:
    """what: one line; it may contain the provider's words. remedy: what to change. fatal: it gives no answers."""

    what: str
    remedy: str
    fatal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The result of a probe. first_word: seconds until the answer began, None without one. streams, calls_tools, sees:
    None if not tested: without an answer, and for pictures also without `supports_vision`."""

    first_word: float | None = None
    streams: bool | None = None
    calls_tools: bool | None = None
    sees: bool | None = None
    problems: tuple[ModelProblem, ...] = ()


async def probe(settings: ModelSettings, route: Route, key: str = "models[0]") -> ModelReport:
    """Ask a model for a streamed answer, then for a tool call and, with `supports_vision`, for a picture's colour.

    Two or three short calls, which cost a few hundred tokens; limited in time only by the settings' timeout. key: of
    the settings in the config, for remedies. Never raises for errors of the model or its provider.
    """
    try:
        built = await asyncio.to_thread(build_model, settings, route)  # may import its package
    except ModelSetupError as error:
        return ModelReport(problems=(ModelProblem(what=str(error), remedy=f"correct {key}"),))
    try:
        return await _Questions(built.chat, settings, key).ask()
    finally:
        await built.close()


@dataclass(frozen=True, slots=True)
class _Answer:
    text: str
    pieces: int
    tools: tuple[str, ...]
    first_word: float


class _Questions:
    """The calls to one model, and the messages about their results."""

    def __init__(self, chat: Any, settings: ModelSettings, key: str) -> None:
        self._chat = chat
        self._settings = settings
        self._key = key

    async def ask(self) -> ModelReport:
        answer = await self._call(self._chat, COUNT)
        if not isinstance(answer, _Answer):
            return ModelReport(problems=(answer,))
        asked = [self._tools(), self._sight()] if self._settings.supports_vision else [self._tools()]
        found = await asyncio.gather(*asked)
        streams = answer.pieces > 1
        problems = [problem for problem in (None if streams else self._in_one_piece(), *found) if problem is not None]
        return ModelReport(
            first_word=answer.first_word,
            streams=streams,
            calls_tools=found[0] is None,
            sees=found[1] is None if len(found) > 1 else None,
            problems=tuple(problems),
        )

    async def _tools(self) -> ModelProblem | None:
        remedy = f"use a model that calls tools for {self._key}; a local server usually has an option for it"
        try:
            able = self._chat.bind_tools([_TOOL])
        except NotImplementedError:
            return ModelProblem(what=f"{self._settings.use} does not accept tools", remedy=remedy)
        answer = await self._call(able, USE_THE_TOOL)
        if not isinstance(answer, _Answer):
            return ModelProblem(what=f"it fails when given a tool: {answer.what}", remedy=remedy)
        if "weather" in answer.tools:
            return None
        return ModelProblem(what="it did not call the tool that it was told to call", remedy=remedy, fatal=False)

    async def _sight(self) -> ModelProblem | None:
        remedy = f"remove supports_vision from {self._key}, or use a model with vision"
        picture: list[str | dict[str, Any]] = [
            {"type": "text", "text": NAME_THE_COLOUR},
            {"type": "image_url", "image_url": {"url": _PICTURE}},
        ]
        answer = await self._call(self._chat, picture)
        if not isinstance(answer, _Answer):
            return ModelProblem(what=f"it rejects images: {answer.what}", remedy=remedy, fatal=False)
        if _COLOUR in answer.text.lower():
            return None
        return ModelProblem(what="it does not recognize a red image as red", remedy=remedy, fatal=False)

    def _in_one_piece(self) -> ModelProblem:
        what = "its answer comes in one piece, so nothing is shown while it writes"
        return ModelProblem(what=what, remedy=f"check whether a proxy in front of {self._key} buffers", fatal=False)

    async def _call(
        self, chat: Runnable[LanguageModelInput, Any], content: str | list[str | dict[str, Any]]
    ) -> _Answer | ModelProblem:
        began, first, pieces = time.monotonic(), None, 0
        whole: AIMessageChunk | None = None
        try:
            async for chunk in chat.astream([HumanMessage(content)]):
                if chunk.content or chunk.tool_call_chunks:
                    first = first or time.monotonic() - began
                    pieces += 1
                whole = chunk if whole is None else whole + chunk
        except Exception as error:  # every client has its own errors: classify sorts them
            failure = classify(error, model=self._settings.name, now=lambda: datetime.now(UTC))
            if failure is None:
                raise
            return self._failed(failure)
        if whole is None or first is None:
            return ModelProblem(what="it returns an empty answer", remedy=f"check {self._key}.model and its max_tokens")
        called = tuple(call["name"] for call in whole.tool_calls)
        return _Answer(text=str(whole.text), pieces=pieces, tools=called, first_word=first)

    def _failed(self, failure: ModelFailure) -> ModelProblem:
        remedy = _REMEDIES.get(failure.kind, _OTHER_REMEDY).format(key=self._key)
        cause = failure.detail.rpartition(" <- ")[2]  # with nested clients, the innermost error says most
        return ModelProblem(what=f"{failure.kind.value.replace('_', ' ')}: {cause}", remedy=remedy)
