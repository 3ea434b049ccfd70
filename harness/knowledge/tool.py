"""The tool `knowledge_search`: passages from what a group, a person or the operator has collected, for citation."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from harness.graph.calls import IDEMPOTENT
from harness.graph.results import Answer, Runtime, done, failed
from harness.graph.signals import scope_of
from harness.knowledge.port import Asker, KnowledgeFailed
from harness.text.frames import harmless, outside
from harness.web.sources import Source, hash_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.tools import BaseTool

    from harness.context import RunContext
    from harness.graph.signals import RunScope
    from harness.knowledge.port import Hit, KnowledgeBase, Looked
    from harness.ports import Clock
    from harness.web.sources import Sources

log = logging.getLogger(__name__)
KNOWLEDGE_SEARCH = "knowledge_search"
LONGEST_QUERY = 500
LONGEST_PLACE = 300
MOST_TEXT = 14_000
"""Characters of all passages of one result; the rest is omitted from the end."""
MEDIA_TYPE = "text/markdown"


def knowledge_tool(base: KnowledgeBase, sources: Sources, clock: Clock) -> BaseTool:
    """The tool knowledge_search. Its results become sources of the run, like pages read by web_fetch."""

    @tool(KNOWLEDGE_SEARCH)
    async def knowledge_search(
        query: Annotated[str, "What to look for: a question, or a few words of it in the documents' language"],
        runtime: Runtime,
        collections: Annotated[list[str] | None, "Names of collections to search; none: all of them"] = None,
    ) -> Answer:
        """Search the documents that the people here and the operator have collected. Returns passages with the
        document, page and heading, and an address to cite each by. Search here first where the question is about their
        own matters, or names a document or collection; search again with other words before you say it is not there."""
        words = " ".join(query.split())
        if not words or len(words) > LONGEST_QUERY:
            return failed(
                runtime, KNOWLEDGE_SEARCH, f"Search for a question or words, at most {LONGEST_QUERY} characters."
            )
        scope = scope_of(runtime)
        try:
            looked = await base.search(words, _asker(scope.ctx), tuple(collections or scope.collections))
        except KnowledgeFailed as failure:
            return failed(runtime, KNOWLEDGE_SEARCH, f"The search failed. {failure}.")
        if looked.unknown and not looked.hits:
            return failed(
                runtime, KNOWLEDGE_SEARCH, f"There is no collection {', '.join(looked.unknown)}. {_there(looked)}"
            )
        if not looked.hits:
            return done(runtime, KNOWLEDGE_SEARCH, f"Nothing was found. Try other words. {_told(looked)}".rstrip())
        shown = _fitting(looked.hits)
        for hit in shown:
            await _keep(sources, scope, hit, clock)
        return _answer(runtime, looked, shown)

    knowledge_search.metadata = {IDEMPOTENT: True}
    return knowledge_search


def _asker(ctx: RunContext) -> Asker:
    return Asker(
        owner=ctx.owner,
        is_group=ctx.is_group,
        speaker=ctx.speaker.id,
        conversation=ctx.conversation,
        run_id=ctx.run_id,
        thread_id=ctx.thread_id,
    )


def _answer(runtime: Runtime, looked: Looked, shown: Sequence[Hit]) -> ToolMessage:
    count = "1 passage" if len(shown) == 1 else f"{len(shown)} passages"
    note = f"[{count}, the best first. Cite what you use as a link with the passage's address: [title](address)"
    note += f"; {_told(looked)}]" if _told(looked) else "]"
    text = "\n\n".join(_passage(number, hit) for number, hit in enumerate(shown, 1))
    content = f"{harmless(note)}\n{outside(text)}"
    return ToolMessage(content, tool_call_id=runtime.tool_call_id or "", name=KNOWLEDGE_SEARCH)


def _passage(number: int, hit: Hit) -> str:
    place = " ".join(hit.place.split())[:LONGEST_PLACE]
    return f"{number}. {place} ({hit.collection})\naddress: {hit.address}\n{hit.text}"


def _fitting(hits: Sequence[Hit]) -> list[Hit]:
    kept: list[Hit] = []
    size = 0
    for hit in hits:
        size += len(hit.text)
        if kept and size > MOST_TEXT:
            break
        kept.append(hit)
    return kept


def _there(looked: Looked) -> str:
    return f"There are: {', '.join(looked.collections)}." if looked.collections else "There are none yet."


def _told(looked: Looked) -> str:
    """What the model should know about the search besides the passages."""
    parts = [f"there is no collection {', '.join(looked.unknown)}"] if looked.unknown else []
    parts += [f"not searched: {each}" for each in looked.missing]
    if not looked.hits:
        parts.append(_there(looked))
    return "; ".join(parts)


async def _keep(sources: Sources, scope: RunScope, hit: Hit, clock: Clock) -> None:
    source = Source(
        thread_id=scope.ctx.thread_id,
        run_id=scope.ctx.run_id,
        url=hit.address,
        address=hit.address,
        title=hit.title or hit.name,
        kind=MEDIA_TYPE,
        fetched_at=clock.now(),
        sha256=hash_of(hit.text),
        characters=len(hit.text),
    )
    try:
        await sources.keep(source, hit.text)
    except OSError as error:  # such as a full disk: the passage can still be read, just not checked
        log.warning("source not stored: %s", error.strerror)
