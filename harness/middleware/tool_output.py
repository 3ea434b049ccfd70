"""ToolOutputBudget: a long result goes to a file in the sandbox; the model gets its head, its tail and the path."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from zlib import crc32

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage

from harness.graph.results import MOST_CHARACTERS
from harness.graph.signals import scope_of
from sandbox.base import RESULTS, Problem, SandboxError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from langchain.agents.middleware import ToolCallRequest
    from langgraph.types import Command

log = logging.getLogger(__name__)

BUDGET = 20_000
"""Characters of a result; a tool with the metadata MOST_CHARACTERS has its own."""
ROOM = 400
"""Of them for the note between head and tail."""
HEAD_SHARE = 0.5
LONGEST_KEPT = 2_000_000
"""Characters of the file."""


class ToolOutputBudget(AgentMiddleware[Any, Any, Any]):
    """Results of parts (pictures) are left alone; so are short ones."""

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        result = await handler(request)
        if not isinstance(result, ToolMessage) or not isinstance(result.content, str):
            return result
        most = _budget(request)
        if len(result.content) <= most:
            return result
        path = await _stored(request, result.content)
        return result.model_copy(update={"content": _shortened(result.content, most, path)})


def _budget(request: ToolCallRequest) -> int:
    metadata = request.tool.metadata if request.tool is not None else None
    return int((metadata or {}).get(MOST_CHARACTERS, BUDGET))


async def _stored(request: ToolCallRequest, text: str) -> str:
    """The path of the file with the whole result; "" where it could not be written."""
    scope = scope_of(request.runtime)
    if scope.sandbox is None:
        return ""
    call = re.sub(r"[^\w-]", "_", request.tool_call["id"] or "")[:64]
    # Subagents number their calls on their own, and their keys are long.
    whose = f"{crc32(scope.delegated.key.encode()):08x}-" if scope.delegated is not None else ""
    path = f"{RESULTS}/{scope.ctx.run_id[:8]}-{whose}{call}.txt"
    try:
        sandbox = await scope.sandbox.get()
        written = await sandbox.write_file(path, text[:LONGEST_KEPT])
    except SandboxError as error:
        log.warning("a long result was not kept: %s %s", error, error.hint)
        return ""
    if isinstance(written, Problem):
        log.info("a long result was not kept: %s %s", written.code, written.detail)
        return ""
    return path


def _shortened(text: str, most: int, path: str) -> str:
    left = most - ROOM
    head = int(left * HEAD_SHARE)
    cut = f"[... cut: {len(text) - left} of {len(text)} characters are left out here"
    if path:
        part = "" if len(text) <= LONGEST_KEPT else f"the first {LONGEST_KEPT} characters of "
        note = f"{cut}; {part}the result can be read in {path}, by its lines or with grep ...]"
    else:
        note = f"{cut}, and they are not kept: ask for less at a time ...]"
    return f"{text[:head]}\n\n{note}\n\n{text[head - left :]}"
