"""An update of a memory: one model call, separate from the conversation.

Requests structured output if the model supports it, else JSON in text; an unreadable answer is requested once more. The
given memory is never modified: the caller stores the changes.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from harness.events import FailureKind as Kind
from harness.failures import classify
from harness.graph.messages import believed
from harness.memory.answers import changes_of
from harness.memory.asking import AGAIN, FORM, SCHEMA, instructions, material, readable
from harness.memory.merge import merged
from harness.memory.model import Changes, Updated
from harness.memory.repair import Unreadable, read_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.messages import BaseMessage

    from harness.errors import ModelFailure
    from harness.memory.config import MemorySettings
    from harness.memory.model import Exchange, Memory
    from harness.models.build import BuiltModel
    from harness.models.health import ModelHealth
    from harness.ports import Clock

log = logging.getLogger(__name__)

SECONDS = 180.0
"""Time limit for all calls of one update."""
SHOWN_AGAIN = 4000
"""Characters of an unreadable answer that the model sees again."""
NO_STRUCTURE = (NotImplementedError, ValueError, TypeError, AttributeError)
"""Errors of LangChain's models when they do not support structured output."""
NOT_UNDERSTOOD = "the model's answers could not be read"


class Updater:
    """name: of the model, for the log and the meter. Remembers whether the model accepts a schema."""

    def __init__(
        self, model: BuiltModel, name: str, settings: MemorySettings, clock: Clock, health: ModelHealth
    ) -> None:
        self._model = model.chat
        self._name = name
        self._settings = settings
        self._clock = clock
        self._health = health
        self._structured = True

    async def update(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        """The changes from these turns. None if the model fails; `trouble` is set if its answer cannot be understood.
        Raises no errors of the model."""
        turns, now = readable(exchanges), self._clock.now()
        if not turns:
            return Updated(memory=memory, changes=Changes(), model=self._name)
        answers: list[AIMessage] = []
        is_group = any(turn.is_group for turn in turns)
        messages: list[BaseMessage] = [
            SystemMessage(instructions(is_group=is_group)),
            HumanMessage(f"{material(memory, turns, self._settings, now)}\n\n{FORM}"),
        ]
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self._answered(messages, answers)
        except Exception as error:  # vendors' clients raise anything; unrelated errors propagate
            failure = self._failure(error)
            self._health.failed(self._name, failure.kind)
            log.warning("memory not updated: %s", self._health.described(failure))
            return None
        self._health.succeeded(self._name)
        changes = changes_of(answer or {}, turns, memory)
        usages = [each.usage_metadata for each in answers if each.usage_metadata is not None]
        return Updated(
            memory=merged(memory, changes, self._settings, now),
            changes=changes,
            model=self._name,
            input_tokens=sum(believed(usage["input_tokens"]) for usage in usages),
            output_tokens=sum(believed(usage["output_tokens"]) for usage in usages),
            trouble=NOT_UNDERSTOOD if answer is None else "",
        )

    async def _answered(self, messages: list[BaseMessage], answers: list[AIMessage]) -> dict[str, Any] | None:
        """The object in the answer; None if two answers cannot be read. answers: each one is added to it."""
        asked, name = list(messages), self._health.full_name(self._name)
        for attempt in (1, 2):
            text = ""
            try:
                answer = await self._call(asked)
                answers.append(answer)
                text = _text(answer)
                return read_object(text)
            except RecursionError:
                log.warning("answer %d of %s for a memory is nested too deeply", attempt, name)
                asked = [*messages, HumanMessage(AGAIN.format(problem="it is nested too deeply"))]
            except Unreadable as error:
                log.warning("answer %d of %s for a memory is unreadable: %s", attempt, name, error)
                shown = AIMessage(text[:SHOWN_AGAIN] or "(nothing)")
                asked = [*messages, shown, HumanMessage(AGAIN.format(problem=error))]
        return None

    async def _call(self, messages: list[BaseMessage]) -> AIMessage:
        if self._structured:
            try:
                return await self._call_structured(messages)
            except Exception as error:  # as above; the schema is dropped only if the model rejects it
                if not isinstance(error, NO_STRUCTURE) and self._failure(error).kind is not Kind.BAD_REQUEST:
                    raise
                answer = await self._model.ainvoke(messages)
                why = type(error).__name__  # its text may contain the request, and so the memory
                log.info(
                    "model %s accepts no schema; requesting memories as text: %s",
                    self._health.full_name(self._name),
                    why,
                )
                self._structured = False
                return answer
        return await self._model.ainvoke(messages)

    async def _call_structured(self, messages: list[BaseMessage]) -> AIMessage:
        """The raw answer: we parse its content ourselves in any case."""
        answer: Any = await self._model.with_structured_output(SCHEMA, include_raw=True).ainvoke(messages)
        raw = answer["raw"]
        if not isinstance(raw, AIMessage):
            raise TypeError(f"a structured answer without its message: {type(raw).__name__}")
        return raw

    def _failure(self, error: Exception) -> ModelFailure:
        failure = classify(error, model=self._name, now=self._clock.now)
        if failure is None:
            raise error
        return failure


def _text(answer: AIMessage) -> str:
    """The arguments of the call that contains a structured answer, or the answer's text."""
    for call in answer.tool_calls:
        return json.dumps(call["args"], ensure_ascii=False)
    for broken in answer.invalid_tool_calls:
        return broken["args"] or ""
    return str(answer.text)
