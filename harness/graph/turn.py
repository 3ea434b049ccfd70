"""Turns the output of the running graph into numbered run events; one Turn per run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk

from harness.events import ReasoningDelta, TextDelta, TextReset
from harness.graph.messages import REASONING, THINK_CLOSE, THINK_OPEN, answer_text, next_message_id, round_of
from harness.graph.signals import ApprovalNeeded, CallDropped, CallEnded, CallStarted, Told
from harness.text.frames import VisibleStream
from harness.text.plain import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.messages import BaseMessage

    from harness.events import AnyRunEvent

MODEL_NODE = "model"
"""create_agent's name for the node that calls the model."""

THOUGHT_BLOCKS = {"reasoning": "reasoning", "thinking": "thinking"}
"""Content block type -> the key of its text (LangChain's standard blocks, Anthropic's)."""


class Turn:
    """The state that the events of one run depend on: the sequence number, the message being sent, the last answer, and
    the questions asked of people so far. tells_thinking: emit reasoning as well as the answer."""

    def __init__(self, run_id: str, next_seq: int) -> None:
        self.answer: AIMessage | None = None
        self.asked: list[Mapping[str, str]] = []
        self.tells_thinking = True
        self._run_id = run_id
        self._seq = next_seq
        self._message_id = ""
        self._told = False
        self._text = TextStream()
        self._visible = VisibleStream()

    @property
    def told(self) -> bool:
        """Whether anything was sent of the newest message."""
        return self._told

    def event(self, make: Callable[..., Any], **fields: Any) -> AnyRunEvent:
        """Create an event with the next number: every event of the run is made here, so there are no gaps."""
        event: AnyRunEvent = make(run_id=self._run_id, seq=self._seq, **fields)
        self._seq += 1
        return event

    def events(self, mode: str, payload: Any) -> Iterator[AnyRunEvent]:
        """The events for one item of the graph's stream."""
        if mode == "messages":
            message, metadata = payload
            # Only chunks: whole messages are tool results, inputs, or the end of an answer that was already streamed.
            if isinstance(message, AIMessageChunk) and metadata.get("langgraph_node") == MODEL_NODE:
                yield from self._chunk(message)
        elif isinstance(payload, CallStarted):
            if payload.message_id == self._message_id:
                yield from self._reset()  # a repeated call: the earlier text is discarded
            self._message_id, self._told = payload.message_id, False
            self._text, self._visible = TextStream(), VisibleStream()
        elif isinstance(payload, CallDropped):
            yield from self._reset()
        elif isinstance(payload, CallEnded):
            yield from self._call_ended(payload.message)
        elif isinstance(payload, ApprovalNeeded):
            self.asked.append(payload.asked)
        elif isinstance(payload, Told):
            yield self.event(payload.make)

    def _chunk(self, chunk: AIMessageChunk) -> Iterator[AnyRunEvent]:
        thought, text = _parts(chunk)
        if thought and self.tells_thinking:
            yield self._delta(ReasoningDelta, clean_text(thought))
        if text:
            thought, text = self._text.feed(text)
            if thought and self.tells_thinking:
                yield self._delta(ReasoningDelta, thought)
            if text := self._visible.feed(text):
                yield self._delta(TextDelta, text)

    def _delta(self, make: Callable[..., Any], text: str) -> AnyRunEvent:
        self._told = True
        return self.event(make, message_id=self._message_id, text=text)

    def _call_ended(self, message: AIMessage) -> Iterator[AnyRunEvent]:
        rest = self._visible.feed(self._text.end()) + self._visible.end()
        if rest:
            yield self._delta(TextDelta, rest)
        self.answer = message

    def said_before(self, messages: Sequence[BaseMessage]) -> Iterator[AnyRunEvent]:
        """Resend the texts of the run's complete messages, and void what was sent of the next one."""
        for message in messages:
            if isinstance(message, AIMessage) and round_of(self._run_id, message) and (text := answer_text(message)):
                yield self.event(TextReset, message_id=message.id)
                yield self.event(TextDelta, message_id=message.id, text=text)
        yield self.event(TextReset, message_id=next_message_id(self._run_id, messages))

    def _reset(self) -> Iterator[AnyRunEvent]:
        if self._told:
            self._told = False
            yield self.event(TextReset, message_id=self._message_id)


def _parts(chunk: AIMessageChunk) -> tuple[str, str]:
    """(reasoning, text) of a chunk, in whichever form the provider sends them."""
    thought = chunk.additional_kwargs.get(REASONING) or ""
    if isinstance(chunk.content, str):
        return thought, chunk.content
    text = ""
    for block in chunk.content:
        if isinstance(block, str):
            text += block
        elif block.get("type") == "text":
            text += block.get("text") or ""
        elif (key := THOUGHT_BLOCKS.get(block.get("type", ""))) is not None:
            thought += block.get(key) or ""
    return thought, text


class TextStream:
    """One answer's text as it arrives: separates a leading <think> block, never cuts a surrogate pair."""

    def __init__(self) -> None:
        self._held = ""
        self._place = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """(reasoning, text) that can be sent now; what is still ambiguous is held back."""
        self._held += piece
        if self._place == "text":
            return "", self._take(len(self._held))
        if self._place == "start" and not self._decide():
            return "", ""
        if self._place == "thought":
            return self._thought()
        return "", self._take(len(self._held))

    def end(self) -> str:
        """Text that was held back when the answer ended."""
        rest, self._held = self._held, ""
        return clean_text(rest) if self._place != "thought" else ""

    def _decide(self) -> bool:
        begin = self._held.lstrip()
        if begin.startswith(THINK_OPEN):
            self._held = begin.removeprefix(THINK_OPEN)
            self._place = "thought"
        elif not THINK_OPEN.startswith(begin):
            self._place = "text"
        return self._place != "start"

    def _thought(self) -> tuple[str, str]:
        thought, closed, text = self._held.partition(THINK_CLOSE)
        if not closed:
            return self._take(len(self._held) - _overlap(self._held, THINK_CLOSE)), ""
        self._held, self._place = text.lstrip(), "text"
        return clean_text(thought), self._take(len(self._held))

    def _take(self, count: int) -> str:
        if count and "\ud800" <= self._held[count - 1] <= "\udbff":
            count -= 1  # the other half arrives with the next piece
        taken, self._held = self._held[:count], self._held[count:]
        return clean_text(taken)


def _overlap(text: str, mark: str) -> int:
    """Number of characters at the end of text that may be the beginning of mark."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)
