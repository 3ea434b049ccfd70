"""SandboxAudit: checks each shell command before it runs, and logs all of them.

Defence in depth, never the boundary: that is the sandbox. Outside EffectGuard, so that a blocked call is not recorded
as one that may have happened.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware

from harness.graph.calls import error_result
from harness.graph.signals import scope_of
from harness.ports import AuditEntry
from sandbox.shell.audit import Verdict, assess

if TYPE_CHECKING:
    from langchain.agents.middleware import ToolCallRequest

    from harness.graph.calls import ToolHandler, ToolResult
    from harness.ports import AuditLog, Clock
    from sandbox.shell.audit import Assessment

log = logging.getLogger(__name__)

SHELL = "bash"
LONG = 4000
"""Characters from which a command is parsed in a thread, so that nothing else is blocked."""
LONGEST_KEPT = 20_000
BLOCKED = (
    "This command was not run; nothing happened. {reason} Do what the person wants in another way, or tell them why "
    "you cannot; do not try to get it past this check."
)
NOT_LOGGED = (
    "This command was not run; nothing happened: the command log cannot be written, and no command runs without it. An "
    "operator has to fix that (a full disk?). Do not try again now; tell the person."
)


class SandboxAudit(AgentMiddleware[Any, Any, Any]):
    """block: an error result that says why; warn: it runs and is noted; every command is logged."""

    def __init__(self, audit: AuditLog, clock: Clock) -> None:
        super().__init__()
        self._audit = audit
        self._clock = clock

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        command = request.tool_call["args"].get("command")
        if request.tool_call["name"] != SHELL or not isinstance(command, str):
            return await handler(request)
        found = assess(command) if len(command) < LONG else await asyncio.to_thread(assess, command)
        if found.verdict is not Verdict.PASS:
            log.warning("command verdict: %s (%s)", found.verdict, found.rule)
        try:
            await self._audit.append(self._entry(request, command, found))
        except OSError as error:
            log.error("command log not writable, so no command runs: %s", error)
            return error_result(request.tool_call, NOT_LOGGED)
        if found.verdict is Verdict.BLOCK:
            return error_result(request.tool_call, BLOCKED.format(reason=found.reason))
        try:
            return await handler(request)
        finally:
            await self._ended(request, command, found)

    async def _ended(self, request: ToolCallRequest, command: str, found: Assessment) -> None:
        """Log the end of a command that this call ran, however it ended."""
        sandbox = scope_of(request.runtime).sandbox
        end = sandbox.commands.pop(request.tool_call["id"] or "", None) if sandbox is not None else None
        if end is None:
            return
        ended = {"ending": end.ending, "exit_code": end.exit_code, "seconds": round(end.seconds, 3)}
        try:
            await self._audit.append(self._entry(request, command, found, event="ended", **ended))
        except OSError as error:
            log.error("command log lacks the end of a command: %s", error)

    def _entry(self, request: ToolCallRequest, command: str, found: Assessment, **more: Any) -> AuditEntry:
        scope = scope_of(request.runtime)
        ctx = scope.ctx
        values: dict[str, Any] = {
            "at": self._clock.now(),
            "event": "asked",
            "speaker": ctx.speaker.id,
            "conversation": ctx.conversation,
            "thread_id": ctx.thread_id,
            "run_id": ctx.run_id,
            "call_id": scope.key(request.tool_call["id"] or ""),
            "command": _kept(command),
            "verdict": found.verdict.value,
            "rule": found.rule,
            "reason": found.reason,
        }
        return AuditEntry(**(values | more))


def _kept(command: str) -> str:
    left_out = len(command) - LONGEST_KEPT
    return command if left_out <= 0 else f"{command[:LONGEST_KEPT]} [{left_out} more characters]"
