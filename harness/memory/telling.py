"""How the agent reads a memory: a block after a message of the person, and the tools remember and recall.

The block is kept in the thread, which stays one prefix that providers cache. A thread receives it at its first turn,
and again when the memory has changed and refresh_minutes have passed, or at once after a change by a person: then the
older block is removed from its message, so that the model does not see anything forgotten. Everything in a block was
once someone's words: nothing in it can open or close a block.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT, asking_message
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.memory.injection import words
from harness.memory.merge import is_correction, is_over, ranked
from harness.memory.model import LONGEST_FACT, Category, summaries
from harness.memory.store import MemoryUnavailable, NotKept
from harness.memory.taint import LASTS, THEIRS
from harness.text.frames import MEMORY, as_data, framed
from harness.text.plain import clean_text, tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from langchain_core.messages import AnyMessage, HumanMessage
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import CheckpointTuple

    from harness.context import RunContext
    from harness.memory.config import MemorySettings
    from harness.memory.model import Fact, Memory
    from harness.memory.store import Remembering
    from harness.ports import Clock


log = logging.getLogger(__name__)
Message = TypeVar("Message", bound=BaseMessage)
TOLD = "told_memory"
"""The state's channel: what the thread last received, {"at", "changed", "digest", "agent"}, or empty."""
BLOCK = "antler_memory"
"""additional_kwargs key of a message with the block: the block's offset in its first text."""
HEADINGS = {
    "user.workContext": "work",
    "user.personalContext": "personal",
    "user.topOfMind": "on their mind",
    "history.recentMonths": "recent months",
    "history.earlierContext": "before that",
    "history.longTermBackground": "background",
}
URGENT = ("user.topOfMind", "user.workContext", "user.personalContext")
"""Summaries that precede the facts if the budget is short; the others follow them."""
SUMMARY_SHARE = 6
"""Divisor: a summary may use at most this part of the budget."""
MOST_FOUND = 12

REMEMBER, RECALL = "remember", "recall"
REMEMBERING = """\
Remember one thing about the person (in a group: about the group and its work) for later conversations, because they ask
for it or correct what you know. One sentence in their language that is complete without this conversation. Never
secrets such as passwords, keys, codes and card numbers."""
RECALLING = """\
Look up what is remembered of earlier conversations with the person (in a group: with the group) by words that may be in
it. Without a query: what matters most."""
NOT_A_PERSON = "Nothing is remembered: this message was sent anonymously or in the name of a chat."
NOTHING = "Nothing about that is remembered."


def memory_tools(remembering: Remembering, clock: Clock) -> list[BaseTool]:
    """The tools remember and recall. A stored fact is identified by its call, so a call may be repeated."""

    @tool(REMEMBER, description=REMEMBERING)
    async def remember(
        content: Annotated[str, f"The sentence, at most {LONGEST_FACT} characters"],
        runtime: Runtime,
        category: Category = "context",
    ) -> Answer:
        scope, text = scope_of(runtime), " ".join(clean_text(content).split())
        if not scope.ctx.speaker.is_person:
            return failed(runtime, REMEMBER, NOT_A_PERSON)
        if len(text) > LONGEST_FACT:
            return failed(runtime, REMEMBER, f"Nothing is remembered: at most {LONGEST_FACT} characters.")
        call_id = runtime.tool_call_id or ""
        call = f"{scope.key(asking_message(runtime.state['messages'], call_id))}/{call_id}"
        try:
            fact = await remembering.memories.remember(scope.ctx, call, text, category)
        except NotKept as error:
            return failed(runtime, REMEMBER, f"Nothing is remembered. {error}")
        except MemoryUnavailable:
            return failed(
                runtime, REMEMBER, "Nothing is remembered: the memory cannot be written now. Tell the person."
            )
        return done(runtime, REMEMBER, f"Remembered: {fact.content}")

    @tool(RECALL, description=RECALLING)
    async def recall(runtime: Runtime, query: Annotated[str, "A few words"] = "") -> Answer:
        try:
            known = await remembering.memories.recalled(scope_of(runtime).ctx)
        except MemoryUnavailable:
            return failed(runtime, RECALL, "The memory cannot be read now.")
        lines = found(known.memory, query[:1000], remembering.settings, clock.now())
        return done(runtime, RECALL, "\n".join(lines) or NOTHING)

    remember.metadata = {IDEMPOTENT: True, LASTS: "content", THEIRS: True}
    recall.metadata = {IDEMPOTENT: True}
    return [remember, recall]


def memory_block(memory: Memory, settings: MemorySettings, now: datetime) -> str:
    """The block, at most max_injection_tokens long; "" for an empty memory."""
    room = settings.max_injection_tokens - tokens(framed(MEMORY, "facts:"))
    told = {name: summary.summary for name, summary in summaries(memory).items() if summary.summary}
    facts = [fact for fact in ranked(memory.facts, settings, now) if not is_over(fact, now)][: settings.injected_facts]
    shown: dict[str, str] = {}
    lines: list[str] = []
    most = max(settings.max_injection_tokens // SUMMARY_SHARE, 20)
    for name in (*URGENT, "", *(name for name in HEADINGS if name not in URGENT)):
        if not name:
            lines, room = _fitting((_fact(fact) for fact in facts), room)
        elif name in told:
            line = _within(f"{HEADINGS[name]}: {_safe(told[name])}", min(most, room))
            shown |= {name: line} if line else {}
            room -= tokens(line) + 1 if line else 0
    body = [shown[name] for name in HEADINGS if name in shown] + (["facts:", *lines] if lines else [])
    return framed(MEMORY, "\n".join(body)) if body else ""


def found(memory: Memory, query: str, settings: MemorySettings, now: datetime) -> list[str]:
    """Remembered lines that contain words of the query, best first; without a query the most important ones."""
    asked = set(words(query))
    facts = ranked(memory.facts, settings, now)
    lines = [_fact(fact) + (" (over)" if is_over(fact, now) else "") for fact in facts]
    lines += [f"- {HEADINGS[name]}: {_safe(each.summary)}" for name, each in summaries(memory).items() if each.summary]
    if not asked:
        return lines[:MOST_FOUND]
    scored = [(len(asked.intersection(words(line))), -place, line) for place, line in enumerate(lines)]
    return [line for score, _, line in sorted(scored, reverse=True)[:MOST_FOUND] if score > 0]


def _fact(fact: Fact) -> str:
    until = f" (until {fact.valid_until})" if fact.valid_until else ""
    before = f" (not: {_safe(fact.source_error)})" if is_correction(fact) and fact.source_error else ""
    return f"- [{fact.category}] {_safe(fact.content)}{until}{before}"


def _safe(text: str) -> str:
    """The text on one line, without any markup: what is remembered needs none."""
    return as_data(" ".join(text.split())).replace("<", "&lt;").replace(">", "&gt;")


def _fitting(lines: Iterable[str], room: int) -> tuple[list[str], int]:
    """The lines that fit, in order, and the remaining room: shorter lines may follow one that does not fit."""
    kept = []
    for line in lines:
        size = tokens(line) + 1
        if size <= room:
            kept.append(line)
            room -= size
    return kept, room


def _within(line: str, room: int) -> str:
    """The beginning of a line, up to so many tokens; "" if that would say nothing."""
    if tokens(line) <= room:
        return line
    if room < 12:
        return ""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(line[:middle]) < room else (low, middle - 1)
    return line[:low].rstrip() + "…"


class Telling:
    """Adds the memory to turns. remembering: None: no memory, and earlier blocks are removed from the thread."""

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
        """What a turn writes into the graph: the person's message, with the block if it is due. thread: its messages,
        read only if an older block has to be removed."""
        told: Mapping[str, Any] = saved.checkpoint["channel_values"].get(TOLD) or {} if saved is not None else {}
        try:
            block, now_told = await self._block(ctx, told)
        except MemoryUnavailable as error:
            log.warning("run %s continues without memory: %s", ctx.run_id, error)
            return {"messages": [message]}
        if now_told == told:
            return {"messages": [message]}
        older = [without_memory(each) for each in await thread() if BLOCK in each.additional_kwargs] if told else []
        return {"messages": [*older, with_memory(message, block) if block else message], TOLD: now_told}

    async def _block(self, ctx: RunContext, told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The block to add, and the record of it for the thread; `told` itself if nothing is new."""
        if self._remembering is None:
            return "", {}
        settings, now = self._remembering.settings, self._clock.now()
        recalled = await self._remembering.memories.recalled(ctx)
        same = told and (recalled.changed, recalled.agent) == (told["changed"], told.get("agent", ""))
        if same and now < _due(told, settings):
            return "", told
        block = memory_block(recalled.memory, settings, now)
        if not block:
            return "", {}
        digest = hashlib.sha256(block.encode("utf-8", "surrogatepass")).hexdigest()
        if digest == told.get("digest"):
            return "", told
        return block, {
            "at": now.isoformat(),
            "changed": recalled.changed,
            "digest": digest,
            "agent": recalled.agent,
        }


def with_memory(message: HumanMessage, block: str) -> HumanMessage:
    """The message with the block after its text."""
    text = _text(message)
    return _changed(message, f"{text}\n\n{block}", {**message.additional_kwargs, BLOCK: len(text)})


def without_memory(message: Message) -> Message:
    """The message without the block."""
    if BLOCK not in message.additional_kwargs:
        return message
    marks = {key: value for key, value in message.additional_kwargs.items() if key != BLOCK}
    return _changed(message, _text(message)[: message.additional_kwargs[BLOCK]], marks)


def memory_of(messages: Iterable[AnyMessage]) -> str:
    """The block among these messages, "" if there is none: cutting its message away removes it."""
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
