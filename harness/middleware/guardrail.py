"""Guardrail: every tool call is allowed, denied, or submitted to a person before anything else sees it.

Outside EffectGuard, so that a call that waits for a person is not recorded as one that may have happened. Fails closed.
A person's decision takes precedence over all rules, and is valid only for the exact arguments.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import AgentMiddleware
from langgraph.types import interrupt

from harness.graph.calls import call_place, error_result
from harness.graph.signals import ApprovalNeeded, scope_of, tell
from harness.guardrails.approvals import Approval, Refused
from harness.guardrails.port import MCP, GuardRequest, Verdict
from harness.guardrails.shown import args_hash, shown_arguments, shown_proposal
from harness.memory.taint import LASTS, REASON, needs_word
from harness.scheduling.tool import SCHEDULE
from harness.text.frames import neutral
from harness.text.plain import clean_text, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain.agents.middleware import ToolCallRequest
    from langchain_core.messages import ToolMessage

    from harness.graph.calls import ToolHandler, ToolResult
    from harness.guardrails.approvals import Approvals, Proposal, Proposing
    from harness.guardrails.port import GuardrailProvider

log = logging.getLogger(__name__)

SHELL = "bash"
LONGEST_REASON = 300
DENIED = (
    "This call was not made: the gateway's rules deny it. {reason} Do what the person wants in another way, or tell "
    "them why you cannot; do not try to get it past this check."
)
REFUSED = (
    "This call was not made: the person who was asked did not allow it. {reason}Do not make it again or in another "
    "form; go on without it, or ask the person what they want instead."
)
SAID = "They said: {reason}. "
TOO_MANY = (
    "This call was not made: it needs a person's approval, and too many were requested already. Make no more calls "
    "that need one in this turn; tell the person what you could not do."
)
CHANGED = (
    "This call was not made: what it would do has changed since a person decided on it, so that decision does not "
    "count. Make it again if it is still wanted; they are asked again."
)
NOT_FROM_HERE = "a subagent cannot ask people, so hand this step back to the agent that delegated to you"
BROKEN = "It could not be checked, and calls that cannot be checked are not made."


class Guardrail(AgentMiddleware[Any, Any, Any]):
    """provider_seconds: time limit for its decision. isolation: of the sandbox's commands. proposing: by tool name."""

    def __init__(
        self,
        provider: GuardrailProvider,
        approvals: Approvals,
        *,
        provider_seconds: float,
        isolation: str,
        proposing: Mapping[str, Proposing] | None = None,
    ) -> None:
        super().__init__()
        self._proposing = proposing or {}
        self._provider = provider
        self._approvals = approvals
        self._seconds = provider_seconds
        self._isolation = isolation

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolResult:
        if request.tool is None:
            return await handler(request)  # there is no such tool: nothing can happen, so no approval is needed
        scope, call = scope_of(request.runtime), request.tool_call
        metadata = dict(request.tool.metadata or {})
        place = call_place(request)
        digest = args_hash(call["name"], call["args"], await self._where(request, place, metadata))
        decided = scope.approvals.decided.get((place, digest))
        if decided is None and any(other == place for other, _ in scope.approvals.decided):
            # The server has changed its tool, or commands run elsewhere: the answer waiting in the graph is void.
            return _error(request, CHANGED)
        if decided is None:
            verdict = await self._verdict(request, metadata)
            messages = request.state["messages"]
            # In a scheduled turn the tool itself refuses: no approval is needed.
            can_last = not (scope.ctx.schedule and call["name"] == SCHEDULE)
            name = scope.ctx.speaker.display_name
            asks = can_last and needs_word(request.tool, call["args"], messages, scope.ctx.run_id, name)
            if verdict.decision == "allow" and asks:
                verdict = Verdict("ask", REASON)
            if verdict.decision == "deny":
                log.warning("call of %s denied: %s", call["name"], verdict.reason)
                return _error(request, DENIED.format(reason=verdict.reason))
            proposing = self._proposing.get(call["name"])
            proposal = await proposing.proposal(request.runtime, call["args"], place) if proposing else None
            if isinstance(proposal, Refused):
                return _error(request, proposal.text)
            if _goes_ahead(verdict, proposal, proposes=proposing is not None, is_admin=scope.ctx.speaker.is_admin):
                return await handler(request)
            decided = await self._asked(request, verdict, place, digest, metadata, proposal)
        if decided is None:
            return _error(request, TOO_MANY)
        if decided.allowed:
            return await handler(request)
        said = one_line(decided.reason, LONGEST_REASON).rstrip(".")
        return _error(request, REFUSED.format(reason=SAID.format(reason=said) if said else ""))

    async def _verdict(self, request: ToolCallRequest, metadata: dict[str, Any]) -> Verdict:
        """The provider's decision; any failure of it is a denial."""
        ctx = scope_of(request.runtime).ctx
        guarded = GuardRequest(
            tool=request.tool_call["name"],
            args=request.tool_call["args"],
            speaker=ctx.speaker,
            is_group=ctx.is_group,
            account=ctx.account,
            conversation=ctx.conversation,
            isolation=self._isolation,
            metadata=metadata,
        )
        try:
            async with asyncio.timeout(self._seconds):
                verdict: object = await self._provider.evaluate(guarded)
        except Exception as error:  # an operator's provider may raise anything
            log.error("tool call denied, since it could not be checked", exc_info=error)
            return Verdict("deny", BROKEN)
        if not isinstance(verdict, Verdict) or verdict.decision not in ("allow", "deny", "ask"):
            log.error("call denied: the guardrail provider returned %s, not a verdict", type(verdict).__name__)
            return Verdict("deny", BROKEN)
        return verdict

    async def _asked(
        self,
        request: ToolCallRequest,
        verdict: Verdict,
        place: str,
        digest: str,
        metadata: dict[str, Any],
        proposal: Proposal | None,
    ) -> Approval | None:
        """A person's decision: an existing one for the whole chat, or the graph waits here. None: too many requests."""
        scope, call = scope_of(request.runtime), request.tool_call
        name = call["name"]
        coverage = f"{proposal.kind}:{digest}" if proposal else _coverage(name, digest, metadata)
        if proposal is None and await self._approvals.granted(scope.ctx, name, coverage):
            return Approval(allowed=True)
        if scope.depth > 0:
            return Approval(allowed=False, reason=NOT_FROM_HERE)
        scope.approvals.asking += 1
        if await self._approvals.room(scope.ctx) < scope.approvals.asking:
            log.warning("run %s requests too many approvals", scope.ctx.run_id)
            return None
        asked = {
            "prompt_id": "a" + hashlib.sha256(f"{scope.ctx.run_id}/{place}/{digest}".encode()).hexdigest()[:31],
            "call_id": place,
            "tool": name,
            "args_masked": shown_proposal(proposal.shown) if proposal else shown_arguments(name, call["args"]),
            "args_hash": digest,
            "requester": scope.ctx.speaker.id,
            "reason": one_line(verdict.reason, LONGEST_REASON),
            "coverage": coverage,
        }
        tell(request.runtime, ApprovalNeeded(asked))
        answer = interrupt(asked)
        return Approval(allowed=answer.get("allowed") is True, reason=str(answer.get("reason", "")))

    async def _where(self, request: ToolCallRequest, place: str, metadata: dict[str, Any]) -> str:
        name = request.tool_call["name"]
        proposing = self._proposing.get(name)
        if proposing is not None:
            return await proposing.state(request.runtime, request.tool_call["args"], place)
        about = metadata.get(MCP)
        definition = str(about.get("digest", "")) if isinstance(about, dict) else ""
        return self._isolation if name == SHELL else definition


def _goes_ahead(verdict: Verdict, proposal: Proposal | None, *, proposes: bool, is_admin: bool) -> bool:
    """Whether no approval is needed: a rule allows the call, or it changes nothing."""
    if proposal is None:
        return proposes or verdict.decision == "allow"
    return verdict.decision == "allow" and (is_admin or not proposal.admins_only)


def _coverage(name: str, digest: str, metadata: dict[str, Any]) -> str:
    """What "for this chat" covers: for the shell this one command, for lasting effects this one call, for others the
    tool as currently defined."""
    if name == SHELL or metadata.get(LASTS):
        return f"call:{digest}"
    about = metadata.get(MCP)
    return f"tool:{about.get('server', '')}/{about.get('digest', '')}" if isinstance(about, dict) else "tool:"


def _error(request: ToolCallRequest, text: str) -> ToolMessage:
    return error_result(request.tool_call, neutral(clean_text(text)))
