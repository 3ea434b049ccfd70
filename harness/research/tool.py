"""research_record: the newest research of a thread, for questions about it that need no further search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool

from harness.graph.calls import IDEMPOTENT, RECORD
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.research.record import research_of
from harness.text.frames import outside
from harness.web.sources import pages_read, texts_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse

    from harness.research.record import Research
    from harness.web.sources import Sources

AROUND = 400
"""Characters on each side of words that were looked for."""
MOST_PASSAGES = 8
LONGEST = 15_000
"""Characters of an answer."""
REPORT, FINDINGS = "report", "findings"
NONE = "There is no finished research in this thread."
READ_AGAIN = "Read its page again, where it matters."


def record_tool(sources: Sources) -> BaseTool:
    """The tool; it reads the thread's own records alone."""

    @tool(RECORD)
    async def research_record(
        what: Annotated[str, 'report, findings, or the number of a source in the report, such as "2"'],
        runtime: Runtime,
        words: Annotated[str, "Of a source only the passages with these words; leave out for its beginning"] = "",
    ) -> Answer:
        """Look up the newest research of this thread: its report, what each step found, what a source says. Answer
        questions about it from here, with its numbers; search again only for what is not in it."""
        research = research_of(runtime.state)
        if research is None or not research.delivered:
            return done(runtime, RECORD, NONE)
        asked = what.strip().strip("[]").lower()
        if asked == REPORT:
            return _told(runtime, "[the report]", research.delivered)
        if asked == FINDINGS:
            return _told(runtime, "[the findings of the steps]", _findings(research))
        cited = next((each for each in research.cited if str(each.number) == asked), None)
        if cited is None:
            known = ", ".join(str(each.number) for each in research.cited)
            return failed(runtime, RECORD, f"Say report, findings, or one of the sources {known or '(there is none)'}.")
        about = f"[source {cited.number}, read {cited.fetched_at[:16].replace('T', ' ')} UTC]"
        pages = await pages_read(sources, scope_of(runtime).ctx.thread_id, research.runs)
        read = [page for page in pages if page.is_at(cited.address)]
        kept = await texts_of(sources, read)
        texts = [text for page in read for text in page.texts(kept)]
        if not texts:
            return failed(runtime, RECORD, f"What was read of source {cited.number} is not kept any more. {READ_AGAIN}")
        text = _passages(texts, words) if words.strip() else "\n\n".join(texts)
        return _told(runtime, about, f"url: {cited.address}\ntitle: {cited.title}\n\n{text}")

    research_record.metadata = {IDEMPOTENT: True}
    return research_record


def _told(runtime: Runtime, about: str, text: str) -> ToolMessage:
    if len(text) > LONGEST:
        about, text = f"{about} [its first {LONGEST} of {len(text)} characters]", text[:LONGEST]
    return ToolMessage(f"{about}\n{outside(text)}", tool_call_id=runtime.tool_call_id or "", name=RECORD)


def _findings(research: Research) -> str:
    room = LONGEST // max(1, len(research.findings))
    return "\n\n".join(
        f"Step {step.id}, {step.title} ({finding.state}):\n{finding.text[:room]}"
        for step in research.steps
        if (finding := research.ended_steps.get(step.id)) is not None
    )


def _passages(texts: Sequence[str], words: str) -> str:
    """What stands around any of these words, in the order of the page."""
    wanted = [word for word in words.casefold().split() if len(word) > 2] or [words.casefold().strip()]
    passages: list[str] = []
    for text in texts:
        folded, end = text.casefold(), 0
        for place in sorted(found for word in wanted if (found := folded.find(word)) >= 0):
            if place >= end and len(passages) < MOST_PASSAGES:
                end = place + AROUND
                passages.append(text[max(0, place - AROUND) : end].strip())
    return "\n[...]\n".join(passages) or f"None of these words stands in what was read of it: {words}"


class ResearchRecord(AgentMiddleware[Any, Any, Any]):
    """Offers the tool only in threads in which it has something to tell."""

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        state: Any = request.state
        research = research_of(state)
        if research is None or not research.delivered:
            request = request.override(tools=_without(request.tools))
        return await handler(request)


def _without(tools: Sequence[Any]) -> list[Any]:
    return [each for each in tools if not (isinstance(each, BaseTool) and each.name == RECORD)]
