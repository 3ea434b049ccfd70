"""research_record: a thread's newest research, for questions about it that need no further search."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, tool

from harness.graph.calls import IDEMPOTENT, RECORD, TASK, error_result
from harness.graph.messages import is_users, users_text
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.sent import sent_path
from harness.graph.signals import scope_of
from harness.research.citations import key_findings
from harness.research.record import research_of
from harness.text.frames import outside
from harness.web.sources import Source, hash_of, pages_read, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain.agents.middleware import ModelRequest, ModelResponse, ToolCallRequest

    from harness.graph.calls import ModelHandler, ToolHandler, ToolResult
    from harness.graph.signals import RunScope
    from harness.ports import Clock
    from harness.research.record import Cited, Research
    from harness.web.sources import ReadPage, Sources

log = logging.getLogger(__name__)
FILE_TYPE = "text/plain"
_UPLOADED = re.compile(r"(?:[0-9a-f]{8}-)?(.+?)(?:(?<=\.pdf|\.doc|\.xls|\.ppt)\.md|(?<=\.docx|\.xlsx|\.pptx)\.md)?")
"""A file's name as its sender gave it: stored names have a prefix, and those of converted texts end in .md."""
AROUND = 400
"""Characters on each side of words that were found."""
MOST_PASSAGES = 8
LONGEST = 15_000
"""Characters of an answer."""
REPORT, STEPS = "report", "steps"
_NUMBERED = re.compile(r"(finding|source)?s? ?#?\[?(\d{1,4})\]?")
_WORD = re.compile(r"[^\W_]+")
_CITATION = re.compile(r"\[(\d{1,4})\]")
_WHY = re.compile(
    r"\W{0,20}+(?:(?:and|but|so|then)\W{1,3}+)?"
    r"(?:why (?:do|did|should|would) (?:you|we|i) (?:believe|think|say|claim|trust)|how do you know|"
    r"为什么(?:你|我们|要|会){0,2}(?:相信|认为|觉得|说)|凭什么(?:相信|认为|说)?)"
    r"[^\n\d]{0,40}\d{1,2}(?!\d)",
    re.IGNORECASE,
)
SEARCHING = frozenset({"web_search", "web_fetch", TASK})
"""Tools that find new information."""
FROM_RECORD = f"The basis of a finding is in the record of the research: call {RECORD}, and search nothing."
NONE = "There is no finished research in this thread."
READ_AGAIN = "Read its page again if it matters."


def record_tool(sources: Sources) -> BaseTool:
    """The tool; it reads only the thread's own records."""

    @tool(RECORD)
    async def research_record(
        what: Annotated[str, 'report, steps, "finding 2" of its summary, or "source 2" of its list'],
        runtime: Runtime,
        words: Annotated[str, "For a source, only passages with these words; leave out for its beginning"] = "",
    ) -> Answer:
        """Look up the newest research of this thread: its report, what each step found, what a finding rests on, what a
        source says. "Go deeper on 3" and "why do you believe 2?" mean findings. Answer from here, with the numbers of
        the sources; search again only for what is not in it."""
        research = research_of(runtime.state)
        if research is None or not research.delivered:
            return done(runtime, RECORD, NONE)
        asked = " ".join(what.split()).strip("[]").lower()
        if asked == REPORT:
            return _told(runtime, "[the report]", research.delivered)
        if asked in (STEPS, "findings"):
            return _told(runtime, "[what the steps found]", _findings(research))
        findings, (kind, number) = key_findings(research.delivered), _numbered(asked)
        if kind == "finding" and 0 < number <= len(findings):
            grounds = await _grounds(sources, runtime, research, findings[number - 1])
            return _told(runtime, f"[finding {number}]", grounds)
        cited = next((each for each in research.cited if each.number == number), None) if kind == "source" else None
        if cited is None:
            known = ", ".join(str(each.number) for each in research.cited) or "none"
            there = f"finding 1 to {len(findings)}, " if findings else ""
            return failed(runtime, RECORD, f"Say report, steps, {there}or a source; the sources are: {known}.")
        about = f"[source {cited.number}, read {cited.fetched_at[:16].replace('T', ' ')} UTC]"
        pages = await pages_read(sources, scope_of(runtime).ctx.thread_id, research.runs)
        texts = await _texts(sources, pages, cited)
        if not texts:
            return failed(runtime, RECORD, f"The text of source {cited.number} is no longer stored. {READ_AGAIN}")
        text = _passages(texts, words) if words.strip() else "\n\n".join(texts)
        return _told(runtime, about, f"url: {cited.address}\ntitle: {cited.title}\n\n{text}")

    research_record.metadata = {IDEMPOTENT: True}
    return research_record


def _told(runtime: Runtime, about: str, text: str) -> ToolMessage:
    if len(text) > LONGEST:
        about, text = f"{about} [its first {LONGEST} of {len(text)} characters]", text[:LONGEST]
    return ToolMessage(f"{about}\n{outside(text)}", tool_call_id=runtime.tool_call_id or "", name=RECORD)


def _numbered(asked: str) -> tuple[str, int]:
    """The kind and the number of a reference; a bare number means a source."""
    found = _NUMBERED.fullmatch(asked)
    return (found[1] or "source", int(found[2])) if found is not None else ("", 0)


async def _texts(sources: Sources, pages: Sequence[ReadPage], cited: Cited) -> list[str]:
    """The stored texts of a source."""
    read = [page for page in pages if page.is_at(cited.address)]
    kept = await texts_of(sources, read)
    return [text for page in read for text in page.texts(kept)]


async def _grounds(sources: Sources, runtime: Runtime, research: Research, finding: str) -> str:
    """A finding with its evidence: what else the report says from the same sources, and passages from them."""
    numbers = {int(number) for number in _CITATION.findall(finding)}
    same = [
        part.strip()
        for part in research.delivered.split("\n\n")
        if finding not in part and numbers.intersection(map(int, _CITATION.findall(part)))
    ]
    parts = [finding, *(["What the report says from the same sources:", *same] if same else [])]
    pages = await pages_read(sources, scope_of(runtime).ctx.thread_id, research.runs)
    for cited in (each for each in research.cited if each.number in numbers):
        texts = await _texts(sources, pages, cited)
        quoted = [_passages(texts, words, whole=True) for words in cited.quotes if words in finding]
        about = quoted or [_passages(texts, _CITATION.sub("", finding))]
        head = (
            f"Source {cited.number}, {cited.title} {cited.address}, read {cited.fetched_at[:16].replace('T', ' ')} UTC:"
        )
        parts += [head, "\n[...]\n".join(about) if texts else f"Its text is no longer stored. {READ_AGAIN}"]
    if not numbers:
        parts.append("It cites no source: it is a conclusion of the report.")
    return "\n\n".join(parts)


def _findings(research: Research) -> str:
    room = LONGEST // max(1, len(research.findings))
    return "\n\n".join(
        f"Step {step.id}, {step.title} ({finding.state}):\n{finding.text[:room]}"
        for step in research.steps
        if (finding := research.ended_steps.get(step.id)) is not None
    )


def _apart(words: str) -> list[str]:
    """Parts of a sentence that are searched for individually: its longer words; in a script without spaces, character
    pairs."""
    apart: list[str] = []
    for word in _WORD.findall(words):
        if word > "\u2e80":
            apart += [word[place : place + 2] for place in range(0, len(word) - 1, 2)]
        elif len(word) > 3 or (len(word) > 1 and word.isdecimal()):
            apart.append(word)
    return apart


def _passages(texts: Sequence[str], words: str, *, whole: bool = False) -> str:
    """The passages around any of these words, in page order. whole: the words form one passage."""
    wanted = ([] if whole else _apart(words.casefold())) or [words.casefold().strip()]
    passages: list[str] = []
    for text in texts:
        folded, end = text.casefold(), 0
        for place in sorted(found for word in wanted if (found := folded.find(word)) >= 0):
            if place >= end and len(passages) < MOST_PASSAGES:
                end = place + AROUND
                passages.append(text[max(0, place - AROUND) : end].strip())
    return "\n[...]\n".join(passages) or f"None of these words occurs in what was read of it: {words}"


def asks_why(text: str) -> bool:
    """Whether a person asks for the evidence of a finding: "why do you believe 2?"."""
    return _WHY.match(text) is not None


class ResearchRecord(AgentMiddleware[Any, Any, Any]):
    """Offers the tool only in threads with a research. The evidence of a finding is in the record: no search is offered
    for it."""

    async def awrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        hidden = _hidden(request.state)
        tools = [each for each in request.tools if not (isinstance(each, BaseTool) and each.name in hidden)]
        return await handler(request.override(tools=tools) if hidden else request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        if request.tool_call["name"] in _hidden(request.state) & SEARCHING:
            return error_result(request.tool_call, FROM_RECORD)
        return await handler(request)


def _hidden(state: Any) -> frozenset[str]:
    """The tools to hide now."""
    research = research_of(state)
    if research is None or not research.delivered:
        return frozenset({RECORD})
    asked = next((users_text(each) for each in reversed(state["messages"]) if is_users(each)), "")
    return SEARCHING if asks_why(asked) else frozenset()


class CitedFiles(AgentMiddleware[Any, Any, Any]):
    """Stores what is read of an unmodified file that a person sent as a source of the run, under the file's path."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        super().__init__()
        self._sources = sources
        self._clock = clock

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        result = await handler(request)
        if isinstance(result, ToolMessage) and result.status == "success":
            text, scope = str(result.text), scope_of(request.runtime)
            if path := await sent_path(request.tool_call, text, scope):
                await self._keep(path, text, scope)
        return result

    async def _keep(self, path: str, text: str, scope: RunScope) -> None:
        ctx = scope.ctx
        known = await self._sources.latest(ctx.thread_id, path)
        if known is not None and known[0].run_id == ctx.run_id:
            if text in known[1]:
                return
            text = f"{known[1]}\n\n{text}"  # another part of the same file
        source = Source(
            thread_id=ctx.thread_id,
            run_id=ctx.run_id,
            url=path,
            address=path,
            title=_named(path.rpartition("/")[2]),
            kind=FILE_TYPE,
            fetched_at=self._clock.now(),
            sha256=hash_of(text),
            characters=len(text),
        )
        try:
            await self._sources.keep(source, text)
        except OSError as error:  # such as a full disk: the file can still be read, just not cited
            log.warning("source not stored: %s", error.strerror)


def _named(name: str) -> str:
    found = _UPLOADED.fullmatch(name)
    return found[1] if found is not None else name
