"""The messages of a run as sent in the mode `messages-tuple`: texts as they grow; calls of tools, their results and the
tokens of a message once the thread holds them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from harness.events import (
    ApprovalRequested,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    TextReset,
    ToolEnded,
    ToolStarted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bot.redaction import Redactor
    from harness.context import ThreadView
    from harness.events import AnyRunEvent

Growing = TextDelta | TextReset | ReasoningDelta
CALLS = (ToolStarted, ApprovalRequested)
"""Events of one call, whose message is in the thread by then."""
SETTLED = (ToolStarted, ApprovalRequested, TextDelta, ReasoningDelta, Finished, Failed)
"""Events before which the thread holds the results of the calls that ended, as the model was called since; except for a
call of the same message."""


class ToldText:
    """The text of one message, as far as a client has it. Nothing is sent that may be the beginning of a secret, and a
    repeated text is only sent where it differs.

    redact: replaces secrets. told: what the client has; whole: nothing will be added.
    """

    def __init__(self, redact: Redactor, text: str = "") -> None:
        self._redact = redact
        self._text = text
        self._again = False
        self.told = redact(redact.without_beginning(text))
        self.whole = False

    def feed(self, more: str) -> Iterator[str | None]:
        """What to add to what the client has; None: that is void."""
        self._text, self.whole = self._text + more, False
        return self._tell(self._redact(self._redact.without_beginning(self._text)), ended=False)

    def end(self) -> Iterator[str | None]:
        """What to add, or None for void, as from `feed`, once the message is complete."""
        self.whole = True
        return self._tell(self._redact(self._text), ended=True)

    def again(self) -> None:
        """Begin the text again, if the message is repeated at all."""
        self._text, self._again = "", True

    def _tell(self, text: str, *, ended: bool) -> Iterator[str | None]:
        if self._again and self.told.startswith(text) and not (ended and text != self.told):
            return  # the client has it already
        if not text.startswith(self.told):
            yield None
            self.told = ""
        self._again = False
        if more := text[len(self.told) :]:
            self.told = text
            yield more


class ToldMessages:
    """What a client has of a run's messages. What is sent for an event depends on the events and the thread alone, so
    that a client that reconnects gets the rest and nothing twice."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._texts: dict[str, ToldText] = {}
        self._ended: list[str] = []
        """Calls whose results have not been sent yet."""
        self._told: set[tuple[str, str]] = set()
        """(message, call) of the calls that have been sent."""
        self._asking: dict[str, Mapping[str, Any]] = {}
        self._results: dict[str, Mapping[str, Any]] = {}
        self._spoken: dict[str, Mapping[str, Any]] = {}
        """Messages of the thread: by their calls, by the call that they answer, and by id."""

    def begin(self, texts: Mapping[str, str]) -> None:
        """Record that the client has these texts, by message, or gets them otherwise."""
        self._texts = {message_id: ToldText(self._redact, text) for message_id, text in texts.items()}

    def know(self, view: ThreadView | None) -> None:
        """Take over the current state of the thread."""
        for message in view.messages if view is not None else ():
            if message["type"] == "tool":
                self._results[message["tool_call_id"]] = message
            elif message["type"] == "ai":
                self._spoken[message["id"]] = message
                self._asking |= {call["id"]: message for call in message["tool_calls"]}

    def needs_thread(self, event: AnyRunEvent) -> bool:
        """Whether more can be sent for an event with the thread as of that moment."""
        return isinstance(event, (*CALLS, Finished)) or (bool(self._ended) and isinstance(event, SETTLED))

    def growing(self, event: AnyRunEvent) -> Iterator[dict[str, Any]]:
        """What an event adds to a message in progress."""
        match event:
            case TextDelta():
                if event.message_id not in self._texts:
                    self._texts[event.message_id] = ToldText(self._redact)
                yield from _told(event.message_id, self._texts[event.message_id].feed(event.text))
            case TextReset() if event.message_id in self._texts:
                self._texts[event.message_id].again()
            case ReasoningDelta():
                yield chunk(event.message_id, "", reasoning=self._redact(event.text))
            case _:
                pass

    def kept(self, event: AnyRunEvent) -> Iterator[dict[str, Any]]:
        """What is complete with an event: results of tools, the ends of texts, a call, tokens."""
        yield from self._results_by(event)
        if isinstance(event, (ToolStarted, Finished, Failed)):
            for message_id, text in self._texts.items():
                if not text.whole:
                    yield from _told(message_id, text.end())
        if isinstance(event, CALLS):
            yield from self._call(event.call_id)
        elif isinstance(event, ToolEnded):
            self._ended.append(event.call_id)
        elif isinstance(event, Finished):
            usage = self._spoken.get(event.message_id, {}).get("usage_metadata")
            if usage is not None:
                yield chunk(event.message_id, "", usage=usage)

    def _results_by(self, event: AnyRunEvent) -> Iterator[dict[str, Any]]:
        if not isinstance(event, SETTLED):
            return
        own = self._asking.get(event.call_id) if isinstance(event, CALLS) else None
        ended, self._ended = self._ended, []
        for call_id in ended:
            if own is not None and self._asking.get(call_id) is own:
                self._ended.append(call_id)  # this round of calls continues
            elif (result := self._results.get(call_id)) is not None:
                yield dict(result)

    def _call(self, call_id: str) -> Iterator[dict[str, Any]]:
        message = self._asking.get(call_id)
        if message is None or (place := (message["id"], call_id)) in self._told:
            return
        self._told.add(place)
        index = next(number for number, call in enumerate(message["tool_calls"]) if call["id"] == call_id)
        call = message["tool_calls"][index]
        args = self._redact(json.dumps(call["args"], ensure_ascii=False))
        part = {"name": call["name"], "args": args, "id": call_id, "index": index, "type": "tool_call_chunk"}
        told = chunk(message["id"], "", usage=None if index else message["usage_metadata"])
        yield {**told, "tool_calls": [call], "tool_call_chunks": [part]}

    def take(self, event: AnyRunEvent) -> None:
        """Record that the client has what this event sends."""
        for _ in (*self.kept(event), *self.growing(event)):
            pass

    def in_the_making(self) -> tuple[str, str] | None:
        """The newest message and its text so far, if that is incomplete."""
        if not self._texts:
            return None
        message_id, text = next(reversed(self._texts.items()))
        return (message_id, text.told) if text.told and not text.whole else None


def _told(message_id: str, pieces: Iterable[str | None]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        yield removed(message_id) if piece is None else chunk(message_id, piece)


def removed(message_id: str) -> dict[str, Any]:
    """LangChain's RemoveMessage as JSON: what was sent of that message is void."""
    return {"type": "remove", "id": message_id, "content": ""}


def chunk(message_id: str, text: str, *, reasoning: str = "", usage: Any = None) -> dict[str, Any]:
    """LangChain's AIMessageChunk as JSON."""
    return {
        "type": "AIMessageChunk",
        "id": message_id,
        "content": text,
        "name": None,
        "additional_kwargs": {"reasoning_content": reasoning} if reasoning else {},
        "response_metadata": {},
        "tool_calls": [],
        "tool_call_chunks": [],
        "usage_metadata": usage,
    }
