"""Files that people sent as sources of a research: what its agents read of them can be cited like a page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from harness.graph.results import canonical
from harness.graph.signals import scope_of
from harness.web.sources import Source, hash_of
from sandbox.base import UPLOADS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

    from harness.graph.signals import RunScope
    from harness.ports import Clock
    from harness.web.sources import Sources

log = logging.getLogger(__name__)
READ = "read_file"
MEDIA_TYPE = "text/plain"


class CitedFiles(AgentMiddleware[Any, Any, Any]):
    """Keeps what is read of a file that a person sent as a source of the run, under the file's path."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        super().__init__()
        self._sources = sources
        self._clock = clock

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        path = canonical(str(request.tool_call["args"].get("path", "")))
        reads = request.tool_call["name"] == READ and path.startswith(f"{UPLOADS}/")
        if reads and isinstance(result, ToolMessage) and result.status == "success":
            await self._keep(path, str(result.text), scope_of(request.runtime))
        return result

    async def _keep(self, path: str, text: str, scope: RunScope) -> None:
        ctx = scope.ctx
        known = await self._sources.latest(ctx.thread_id, path)
        if known is not None and known[0].run_id == ctx.run_id:
            if text in known[1]:
                return
            text = f"{known[1]}\n\n{text}"  # another part of the file
        source = Source(
            thread_id=ctx.thread_id,
            run_id=ctx.run_id,
            url=path,
            address=path,
            title=path.rpartition("/")[2],
            kind=MEDIA_TYPE,
            fetched_at=self._clock.now(),
            sha256=hash_of(text),
            characters=len(text),
        )
        try:
            await self._sources.keep(source, text)
        except OSError as error:  # a full disk, say: the file can be read all the same, only not be cited
            log.warning("a source was not kept: %s", error.strerror)
