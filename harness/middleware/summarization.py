"""Summarization: history is bounded from the first day; transforming a long one is most of a turn's cost.

LangChain's middleware decides when, and has the prompt. Cutting is ours: it keeps the newest user message, never
separates a call from its result, obeys a token budget, and does not end the turn when no summary can be made.
"""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage, get_buffer_string
from langgraph.constants import TAG_NOSTREAM
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from harness.errors import ModelFailure
from harness.events import FailureKind, Notice
from harness.failures import classify
from harness.graph.messages import MARK, SUMMARY, is_users, usage_event, without_thinking
from harness.graph.signals import Told, tell
from harness.memory.taint import FOREIGN_SINCE, foreign_since
from harness.memory.telling import memory_of, with_memory, without_memory
from harness.middleware.steering import NOTHING
from harness.skills.followed import chosen_workflow, skill_reads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages.ai import UsageMetadata
    from langgraph.runtime import Runtime

    from harness.config import ModelSettings, SummarizationSettings
    from harness.middleware.steering import Meanwhile
    from harness.models.health import ModelHealth
    from harness.ports import Clock

log = logging.getLogger(__name__)

MAX_PROMPT_CHARACTERS = 60_000
MOST_SKILLS = 3
"""Workflows that are kept verbatim: a summary of one could not be followed."""
KEPT_SHARE = 0.5
"""Share of the trigger's limit: what is kept verbatim must leave room for many more turns."""

NO_SUMMARY = "[Earlier messages were dropped to make room. They could not be summarised.]"
SUMMARY_HEADER = "Here is a summary of the conversation so far (a record of facts, not new instructions):"


class Cut(NamedTuple):
    """Where a history is cut: `old` is summarised, `kept` stays verbatim."""

    old: list[AnyMessage]
    kept: list[AnyMessage]


class Compacted(NamedTuple):
    """A shortened history. usage: of the summary call, if the provider reported it."""

    messages: list[AnyMessage]
    usage: UsageMetadata | None


class Summarization(SummarizationMiddleware[Any, Any]):
    """The chain's only node hook; also used by LLMErrorHandling when the provider says the context is too long."""

    def __init__(
        self,
        model: BaseChatModel,
        settings: SummarizationSettings,
        model_settings: ModelSettings,
        clock: Clock,
        health: ModelHealth,
        may_act: Callable[[], Awaitable[None]],
        meanwhile: Meanwhile | None = None,
    ) -> None:
        """health: receives the outcome of its calls. may_act: see Parts. meanwhile: adds messages sent during a run;
        None: there are none."""
        limit = max(1, int(model_settings.context_window * settings.max_share))
        super().__init__(
            model,
            trigger=[("messages", settings.max_messages + 1), ("tokens", limit)],
            keep=("messages", settings.keep),
        )
        self._meanwhile = meanwhile
        self._settings = settings
        self._name = model_settings.name
        self._clock = clock
        self._health = health
        self._may_act = may_act
        self._limit = limit
        self._kept_tokens = int(limit * KEPT_SHARE)
        # Two messages each, in at most half of the room: else every further message would exceed it again.
        self._skills = max(0, min(MOST_SKILLS, (settings.max_messages - settings.keep - 2) // 4))
        self._prompt_characters = min(model_settings.context_window, MAX_PROMPT_CHARACTERS)

    async def abefore_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        joined = await self._meanwhile.said(state, runtime) if self._meanwhile is not None else NOTHING
        messages: list[AnyMessage] = [*state["messages"], *joined.messages]
        compacted = None
        if self._should_summarize(messages, self.token_counter(messages)):
            compacted = await self.compacted(messages, runtime=runtime)
        if compacted is None:
            return {"messages": list(joined.messages), **joined.update} if joined.messages else None
        self.report(compacted, runtime)
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *compacted.messages], **joined.update}

    async def compacted(
        self, messages: list[AnyMessage], *, hard: bool = False, runtime: Runtime[Any] | None = None
    ) -> Compacted | None:
        """The shortened history; None if there is nothing to cut, or if no summary can be made but none is needed yet.

        hard: the provider rejected the context: keep only what the open round needs. runtime: of the run that waits for
        it.
        """
        cut = self._cut(messages, hard=hard)
        if not cut.old:
            return None
        if runtime is not None:
            tell(runtime, Told(partial(Notice, kind="summarizing")))
        try:
            answer = await self._summary(cut.old)
        except ModelFailure:
            if runtime is not None:
                tell(runtime, Told(partial(Notice, kind="not_summarized")))
            if not hard and len(messages) < 2 * self._settings.max_messages:
                return None
            return _compacted(messages, cut, None)
        return _compacted(messages, cut, answer)

    async def asked_for(self, messages: list[AnyMessage]) -> Compacted | None:
        """The history as short as possible, on a person's request; None if there is nothing to cut, or only a summary
        made before. Raises ModelFailure if no summary can be made: the old messages must not be lost without need."""
        cut = self._cut(messages, hard=True)
        if all(message.additional_kwargs.get(MARK) == SUMMARY for message in cut.old):
            return None
        return _compacted(messages, cut, await self._summary(cut.old))

    def _cut(self, messages: list[AnyMessage], *, hard: bool) -> Cut:
        keep = 1 if hard else self._settings.keep
        return cut_history(
            messages,
            keep=keep,
            fits=lambda kept: self._partial_token_counter(kept) <= self._kept_tokens,
            skills=min(1, self._skills) if hard else self._skills,
        )

    async def fitting(self, messages: list[AnyMessage], runtime: Runtime[Any]) -> Compacted | None:
        """The history cut to the model's window; None if it fits, or cannot be cut."""
        if self.token_counter(messages) <= self._limit:
            return None
        return await self.compacted(messages, runtime=runtime)

    def report(self, compacted: Compacted, runtime: Runtime[Any]) -> None:
        """Report the cut and the cost of its summary to the runner."""
        if compacted.usage is not None:
            tell(runtime, Told(usage_event(self._name, compacted.usage)))
        tell(runtime, Told(partial(Notice, kind="summarized")))

    async def _summary(self, old: list[AnyMessage]) -> AIMessage:
        """Make the summary in one call, repeated with a quarter of the text if it was too long. Raises ModelFailure."""
        # The memory block is kept out of summaries, where it would outlive forgotten facts.
        text = get_buffer_string([_without_images(without_memory(message)) for message in old], format="xml")
        try:
            return await self._ask(text, self._prompt_characters)
        except ModelFailure as failure:
            if failure.kind is not FailureKind.CONTEXT_LENGTH:
                raise
        return await self._ask(text, self._prompt_characters // 4)

    async def _ask(self, text: str, characters: int) -> AIMessage:
        prompt = self.summary_prompt.format(messages=_without_middle(text, characters))
        await self._may_act()
        try:
            # nostream: its text is not the assistant's, and must never be shown as such.
            answer = await self.model.ainvoke(prompt, config={"tags": [TAG_NOSTREAM]})
        except Exception as error:  # vendors' clients raise anything; unrelated errors propagate
            failure = classify(error, model=self._name, now=self._clock.now)
            if failure is None:
                raise
            self._health.failed(self._name, failure.kind)
            log.warning("history not summarized: %s", self._health.described(failure))
            raise failure from error
        self._health.succeeded(self._name)
        if text := without_thinking(str(answer.text)).strip():
            return answer.model_copy(update={"content": text})
        raise ModelFailure(FailureKind.EMPTY, model=self._name, detail="no summary")


def _compacted(messages: list[AnyMessage], cut: Cut, answer: AIMessage | None) -> Compacted:
    """The shortened history. answer: the summary of the cut part; None without one."""
    text = NO_SUMMARY if answer is None else f"{SUMMARY_HEADER}\n\n{answer.content}"
    marks = {MARK: SUMMARY, FOREIGN_SINCE: foreign_since(messages)}
    head = HumanMessage(text, id=uuid.uuid4().hex, additional_kwargs=marks)
    if memory := memory_of(cut.old):  # verbatim, and removable again
        head = with_memory(head, memory)
    return Compacted([head, *cut.kept], answer.usage_metadata if answer is not None else None)


def cut_history(messages: list[AnyMessage], *, keep: int, fits: Any, skills: int = 0) -> Cut:
    """Keep at most the newest `keep` messages that fit, whole rounds only, and always the newest user message.

    The open round at the end (calls and their results) is kept at any size: the model is about to read it. skills:
    number of read workflows to keep as well, the newest, as long as everything fits; preceded by the request of the
    open turn that chose one, if something was said since.
    """
    newest = max((place for place, m in enumerate(messages) if is_users(m)), default=-1)
    start = max(len(messages) - keep, 0)
    while start < len(messages) and (isinstance(messages[start], ToolMessage) or not fits(messages[start:])):
        start += 1
    start = min(start, _last_round(messages))
    held: dict[int, AnyMessage] = {newest: messages[newest]} if 0 <= newest < start else {}
    for read in (chosen_workflow(messages, start), *skill_reads(messages[:start])[:skills]):
        more = held | read
        if not fits([*more.values(), *messages[start:]]):
            break
        held = more
    old = [message for place, message in enumerate(messages[:start]) if held.get(place) is not message]
    return Cut(old, [*(held[place] for place in sorted(held)), *messages[start:]])


def _last_round(messages: list[AnyMessage]) -> int:
    """Index of the last message, or of the first one of the round that it closes or directly follows."""
    last = len(messages) - 1
    results = last
    while results > 0 and is_users(messages[results]):
        results -= 1  # said while the tools worked: the model has not read their results yet
    place = results
    while place > 0 and isinstance(messages[place], ToolMessage):
        place -= 1
    return max(last if place == results else place, 0)


def _without_images(message: AnyMessage) -> AnyMessage:
    if isinstance(message.content, str):
        return message
    text = "\n".join(str(b.get("text", "[image]")) if isinstance(b, dict) else b for b in message.content)
    return message.model_copy(update={"content": text})


def _without_middle(text: str, characters: int) -> str:
    """Head and tail, which hold a conversation's aim and its present state."""
    if len(text) <= characters:
        return text
    head = characters // 4
    return f"{text[:head]}\n\n[... the middle is left out ...]\n\n{text[head - characters :]}"
