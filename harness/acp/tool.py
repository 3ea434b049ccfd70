"""invoke_acp_agent: hands a task to another agent, and asks people for the permissions that it requests.

A permission is an approval request like any other: the run waits for a person, for hours if necessary, while the agent
waits in its sandbox. After a crash the agent is gone; this is reported, and it is never restarted automatically.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Annotated

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from harness.acp.session import Session
from harness.graph.calls import IDEMPOTENT, INTERRUPTED, place_of
from harness.graph.results import Answer as ToolAnswer
from harness.graph.results import Runtime, failed
from harness.graph.signals import ApprovalNeeded, scope_of, tell
from harness.guardrails.approvals import ONCE
from harness.guardrails.shown import shown_proposal
from harness.text.frames import harmless, outside
from harness.tools.shell import telling_progress
from sandbox.providers import SharedProvider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.tools import BaseTool

    from harness.acp.config import AcpAgentSettings
    from harness.acp.session import Answer, Permission
    from harness.files.spool import Spool
    from harness.graph.sandbox import SandboxSetup
    from harness.guardrails.approvals import Approvals
    from harness.ports import Clock

INVOKE = "invoke_acp_agent"
LONGEST_PROMPT = 50_000
LONGEST_ANSWER = 16_000
DESCRIPTION = """\
Hand a task to another agent and wait for it. It works alone in its own folder, /mnt/user-data/workspace/acp/AGENT, and
knows only what `prompt` says; what it says is unverified, so check its files. Agents: """
ENDINGS = {
    "end_turn": "It says that it is done.",
    "refusal": "It refused the task.",
    "max_tokens": "It stopped because its model's limit was reached; the task may not be done.",
    "max_turn_requests": "It stopped because it had made too many requests; the task may not be done.",
    "cancelled": "It was cancelled.",
}


class AcpAgents:
    """The tool, and the agents that are running or waiting. spool: records which calls have begun."""

    def __init__(
        self,
        agents: Mapping[str, AcpAgentSettings],
        setup: SandboxSetup,
        *,
        spool: Spool,
        approvals: Approvals,
        clock: Clock,
    ) -> None:
        provider = setup.provider
        self._agents = agents
        self._provider = provider if isinstance(provider, SharedProvider) else SharedProvider(provider)
        self._spool = spool
        self._approvals = approvals
        self._clock = clock
        self._sessions: dict[tuple[str, str], Session] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self.tools: list[BaseTool] = [self._tool()]

    async def close(self) -> None:
        """End all agents; runs must have ended."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*self._ending, *(session.cancel() for session in sessions))

    def abandon(self, run_id: str) -> None:
        """End the agents that wait for a person on behalf of a run that will not continue."""
        for key in [each for each in self._sessions if each[0] == run_id]:
            session = self._sessions.pop(key)
            ending = asyncio.create_task(session.cancel(), name=f"end of acp agent {session.name}")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _tool(self) -> BaseTool:
        listed = "; ".join(f"{name}: {each.description or each.command}" for name, each in self._agents.items())

        @tool(INVOKE, description=DESCRIPTION.replace("\n", " ") + listed)
        async def invoke_acp_agent(
            agent: Annotated[str, "Which agent"],
            prompt: Annotated[str, "The whole task: goal, everything it needs to know, which files"],
            runtime: Runtime,
        ) -> ToolAnswer:
            settings = self._agents.get(agent)
            if settings is None:
                return failed(runtime, INVOKE, f"There is no such agent. Use one of: {', '.join(self._agents)}.")
            if not prompt.strip() or len(prompt) > LONGEST_PROMPT:
                return failed(runtime, INVOKE, f"prompt needs between 1 and {LONGEST_PROMPT} characters.")
            place = place_of(runtime)
            key = (scope_of(runtime).ctx.run_id, place)
            if await self._spool.begun(*key) and key not in self._sessions:
                return failed(runtime, INVOKE, INTERRUPTED)
            session = self._sessions.get(key)
            if session is None:
                session = await self._begun(key, agent, settings, prompt, runtime)
            try:
                async with telling_progress(runtime, INVOKE, self._clock) as progress:
                    session.progress = progress.feed
                    while (permission := await session.next()) is not None:
                        session.decide(permission, await self._allowed(runtime, place, permission, settings))
            except GraphInterrupt:
                raise  # a person is asked: the agent waits, and the call is repeated with the answer
            except BaseException:  # a stop: the agent ends with the run
                self._sessions.pop(key, None)
                await session.cancel()
                raise
            self._sessions.pop(key, None)
            return _told(runtime, agent, session)

        invoke_acp_agent.metadata = {IDEMPOTENT: True}
        return invoke_acp_agent

    async def _begun(
        self, key: tuple[str, str], agent: str, settings: AcpAgentSettings, prompt: str, runtime: Runtime
    ) -> Session:
        """Start a session. Agents left waiting by earlier, stopped runs of the thread are ended."""
        thread_id = scope_of(runtime).ctx.thread_id
        for other in [each for each in self._sessions if each[0] != key[0]]:
            if self._sessions[other].thread_id == thread_id:
                await self._sessions.pop(other).cancel()
        alone = not any((each.thread_id, each.name) == (thread_id, agent) for each in self._sessions.values())
        session = Session(
            settings=settings, name=agent, thread_id=thread_id, prompt=prompt, provider=self._provider, goes_on=alone
        )
        self._sessions[key] = session
        session.start()
        return session

    async def _allowed(
        self, runtime: Runtime, place: str, permission: Permission, settings: AcpAgentSettings
    ) -> Answer:
        """A person's decision; raises GraphInterrupt while it is pending."""
        scope = scope_of(runtime)
        if not settings.permissions or scope.depth > 0:
            return "deny"
        call = f"{place}/permission-{permission.number}"
        digest = hashlib.sha256(f"{call}\0{permission.shown}".encode()).hexdigest()
        # A permanent grant is valid for the thread, since people see the agent's sessions there as one.
        same = hashlib.sha256(f"{scope.ctx.thread_id}\0{permission.shown}".encode()).hexdigest()
        coverage = f"call:{same}" if permission.always else f"{ONCE}:{digest}"
        decided = scope.approvals.decided.get((call, digest))
        if decided is not None and not decided.allowed:
            return "deny"
        if permission.always and await self._approvals.granted(scope.ctx, INVOKE, coverage):
            return "always"
        if decided is not None:
            return "once"
        scope.approvals.asking += 1
        if await self._approvals.room(scope.ctx) < scope.approvals.asking:
            return "deny"
        asked = {
            "prompt_id": "a" + hashlib.sha256(f"{scope.ctx.run_id}/{call}/{digest}".encode()).hexdigest()[:31],
            "call_id": call,
            "tool": INVOKE,
            "args_masked": shown_proposal(permission.shown),
            "args_hash": digest,
            "requester": scope.ctx.speaker.id,
            "reason": "",
            "coverage": coverage,
        }
        tell(runtime, ApprovalNeeded(asked))
        while True:
            # The values returned here are answers to earlier requests of this same call, not to this one, so only the
            # record counts. Once they are used up, it raises.
            interrupt(asked)


def _told(runtime: Runtime, agent: str, session: Session) -> ToolAnswer:
    ended, said = session.ended, session.said
    assert ended is not None
    if ended.failure:
        note = f"{agent} did not finish: {ended.failure}."
    else:
        note = ENDINGS.get(ended.reason, f"It ended: {ended.reason}.")
    text = said if len(said) <= LONGEST_ANSWER else f"[…]\n{said[-LONGEST_ANSWER:]}"
    return ToolMessage(
        f"{harmless(note)}\n{outside(text or '[it said nothing]')}",
        tool_call_id=runtime.tool_call_id or "",
        name=INVOKE,
        status="error" if ended.failure else "success",
    )
