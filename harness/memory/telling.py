"""How a thread is told of the memory: a block behind a message of the person, kept in the thread; for runner.py.

So the thread stays one prefix that providers cache. It is told at its first turn, and anew when what is remembered has
changed and it was told more than refresh_minutes ago, or a person changed it: then the older block is taken out of its
message, so that nothing forgotten stays before the model.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from langchain_core.messages import BaseMessage

from harness.memory.port import MemoryUnavailable
from harness.memory.recall import memory_block

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.messages import AnyMessage, HumanMessage
    from langgraph.checkpoint.base import CheckpointTuple

    from harness.context import RunContext
    from harness.memory.config import MemorySettings
    from harness.memory.port import Remembering
    from harness.ports import Clock

log = logging.getLogger(__name__)

Message = TypeVar("Message", bound=BaseMessage)

TOLD = "told_memory"
"""The state's channel: what the thread was told last, {"at", "changed", "digest"}, or empty."""
BLOCK = "antler_memory"
"""additional_kwargs key of a message with the block: where in its first text it begins."""


class Telling:
    """remembering: None: there is no memory, and what a thread was told before is taken out of it."""

    def __init__(self, remembering: Remembering | None, clock: Clock) -> None:
        self._remembering = remembering
        self._clock = clock

    async def turn(
        self,
        ctx: RunContext,
        message: HumanMessage,
        saved: CheckpointTuple | None,
        thread: Callable[[], Awaitable[Sequence[AnyMessage]]],
    ) -> dict[str, Any]:
        """What a turn writes into the graph: the person's message, with the block where it has to be told. thread: its
        messages, read only where an older block has to go."""
        told: Mapping[str, Any] = saved.checkpoint["channel_values"].get(TOLD) or {} if saved is not None else {}
        try:
            block, now_told = await self._block(ctx, told)
        except MemoryUnavailable as error:
            log.warning("run %s goes on without its memory: %s", ctx.run_id, error)
            return {"messages": [message]}
        if now_told == told:
            return {"messages": [message]}
        older = [without_memory(each) for each in await thread() if BLOCK in each.additional_kwargs] if told else []
        return {"messages": [*older, with_memory(message, block) if block else message], TOLD: now_told}

    async def _block(self, ctx: RunContext, told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The block to tell, and what the thread has been told with it; `told` itself where nothing is new."""
        if self._remembering is None:
            return "", {}
        settings, now = self._remembering.settings, self._clock.now()
        recalled = await self._remembering.memories.recalled(ctx)
        if told and recalled.changed == told["changed"] and now < _due(told, settings):
            return "", told
        block = memory_block(recalled.memory, settings, now)
        if not block:
            return "", {}
        digest = hashlib.sha256(block.encode("utf-8", "surrogatepass")).hexdigest()
        if digest == told.get("digest"):
            return "", told
        return block, {"at": now.isoformat(), "changed": recalled.changed, "digest": digest}


def with_memory(message: HumanMessage, block: str) -> HumanMessage:
    """The message with the block behind its text."""
    text = _text(message)
    return _changed(message, f"{text}\n\n{block}", {**message.additional_kwargs, BLOCK: len(text)})


def without_memory(message: Message) -> Message:
    """The message without the block."""
    if BLOCK not in message.additional_kwargs:
        return message
    marks = {key: value for key, value in message.additional_kwargs.items() if key != BLOCK}
    return _changed(message, _text(message)[: message.additional_kwargs[BLOCK]], marks)


def memory_of(messages: Iterable[AnyMessage]) -> str:
    """The block that is among these messages, "" where none is: one that is cut away takes it along."""
    marked = [message for message in messages if BLOCK in message.additional_kwargs]
    return _text(marked[-1])[marked[-1].additional_kwargs[BLOCK] :].strip() if marked else ""


def _due(told: Mapping[str, Any], settings: MemorySettings) -> datetime:
    return datetime.fromisoformat(told["at"]) + timedelta(minutes=settings.refresh_minutes)


def _text(message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return next((b["text"] for b in message.content if isinstance(b, dict) and b.get("type") == "text"), "")


def _changed(message: Message, text: str, marks: dict[str, Any]) -> Message:
    content: Any = text
    if not isinstance(message.content, str):  # prompt.py puts the text first, before pictures
        content = [{"type": "text", "text": text}, *message.content[1:]]
    return message.model_copy(update={"content": content, "additional_kwargs": marks})
