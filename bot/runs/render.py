"""Folds a run's events into what the chat shows: the state of the reply, and how it ended, always named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from channels.message import OutboundMessage
from harness.events import (
    Failed,
    Finished,
    ModelRetrying,
    Notice,
    Outcome,
    Resumed,
    TextDelta,
    TextReset,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    Usage,
)

if TYPE_CHECKING:
    from bot.texts.catalogue import Texts
    from harness.ports import AnyRunEvent


_MARKDOWN = MarkdownIt("commonmark", {"html": False})


@dataclass(slots=True)
class RunningTool:
    """A tool call that is under way, for so many seconds; None while it has not told of any."""

    tool: str
    summary: str
    seconds: int | None = None

    def told(self, texts: Texts) -> str:
        if self.seconds is None:
            return texts.tool_running.format(tool=self.tool, summary=self.summary)
        age = texts.duration(self.seconds)
        return texts.tool_running_for.format(tool=self.tool, summary=self.summary, age=age)


@dataclass(slots=True)
class RunView:
    """The state of one run, folded from its events; every reader that fell behind goes on from here."""

    text: str = ""
    message_id: str = ""
    status: str = ""
    notices: list[str] = field(default_factory=list)
    model_calls: int = 0
    tools: dict[str, RunningTool] = field(default_factory=dict)

    def apply(self, event: AnyRunEvent, texts: Texts) -> None:
        match event:
            case TextDelta():
                self._add(event)
            case TextReset():
                self.text = "" if event.message_id == self.message_id else self.text
            case ToolStarted():
                self.tools[event.call_id] = RunningTool(event.tool, event.summary)
                self._show_tools(texts)
            case ToolProgress() if event.call_id in self.tools:
                self.tools[event.call_id].seconds = event.seconds
                self._show_tools(texts)
            case ToolEnded():
                self.tools.pop(event.call_id, None)
                self._show_tools(texts)
            case ModelRetrying():
                self.status = texts.retrying.format(seconds=max(1, round(event.delay)))
            case Resumed():
                self.status = texts.resumed
            case Usage():
                self.model_calls += 1
            case Notice(kind="images_not_seen"):
                self.notices.append(texts.images_not_seen.format(model=event.model))
            case _:
                pass

    def _add(self, event: TextDelta) -> None:
        if event.message_id != self.message_id:
            self.message_id, self.text = event.message_id, ""
        self.text += event.text
        self.status = ""

    def _show_tools(self, texts: Texts) -> None:
        self.status = " · ".join(tool.told(texts) for tool in self.tools.values())

    def draft(self, texts: Texts) -> OutboundMessage:
        """What the chat shows while the run goes on."""
        status = self.status or ("" if self.text else texts.working)
        return OutboundMessage(text=self.text, status=status)

    def ended(self, sentence: str, texts: Texts) -> OutboundMessage:
        """The final state of a run without an answer: what there is of the text, what happened, and that this is no
        answer."""
        partial = [texts.partial] if self.text.strip() else []
        return OutboundMessage(text=_paragraphs(self.text, sentence, *partial, *self.notices), final=True)

    def answer(self, event: Finished, texts: Texts) -> OutboundMessage:
        limited = [_limit(event, texts)] if event.outcome is Outcome.LIMITED else []
        return OutboundMessage(text=_paragraphs(event.text, *limited, *self.notices), final=True)

    def failure(self, event: Failed, texts: Texts) -> OutboundMessage:
        wait = texts.retry_in.format(duration=texts.duration(event.retry_after)) if event.retry_after else ""
        return self.ended(texts.failures[event.kind].format(model=event.model, wait=wait), texts)


def _limit(event: Finished, texts: Texts) -> str:
    return texts.cut_short if event.calls is None else texts.calls_used_up.format(limit=event.calls)


def _paragraphs(text: str, *rest: str) -> str:
    above = _closed(text) if rest and text.strip() else text.strip()
    return "\n\n".join(part for part in (above, *rest) if part)


def _closed(text: str) -> str:
    """The text with the code block closed that its end leaves open, which would swallow what follows."""
    last = _MARKDOWN.parse(f"{text}\n\n.")[-1]
    return f"{text}\n{last.markup}" if last.type == "fence" else text
