"""HarnessRunner: the port `Harness` on LangGraph. Importing this module loads everything heavy (over a second).

bot/ imports it in a warm-up thread and calls `make_harness` once; runs wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from harness import threads
from harness.agents import Agents
from harness.checkpoint import RUN_KEY, open_checkpoints, thread_config
from harness.ending import last_events, last_word
from harness.errors import ModelFailure
from harness.events import Failed, FailureKind, Notice, Resumed, TextReset
from harness.extras import ExtraSettings
from harness.finished import FinishedTurns
from harness.guardrails.make import load_guardrails
from harness.mcp.config import ToolSearchSettings
from harness.messages import next_message_id
from harness.middleware.report import usage_event
from harness.models import check_model
from harness.parts import Parts
from harness.ports import MemoryAuditLog
from harness.prompt import user_turn
from harness.sandboxes import RunSandbox
from harness.signals import RunScope
from harness.spool import Spool
from harness.tools.extra import load_extras
from harness.tools.scheduling import schedule_tool
from harness.turn import Turn
from harness.waiting import going_on, requests, standing, unanswered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from langchain_core.tools import BaseTool
    from langgraph.types import Command, StateSnapshot

    from harness.agent import Graph
    from harness.agent_maker import Agent
    from harness.checkpoint import Checkpoints
    from harness.config import LlmSettings, LoopSettings, ModelSettings, SummarizationSettings
    from harness.context import HistoryEntry, RunContext, RunInput, Titled
    from harness.events import Usage
    from harness.guardrails.approvals import Approvals
    from harness.guardrails.config import GuardrailSettings
    from harness.mcp.offering import Servers
    from harness.ports import AnyRunEvent, AuditLog, Budget, Clock, EffectLog, RunLedger
    from harness.sandboxes import SandboxSetup
    from harness.schedules import Scheduling
    from harness.souls import AgentDefinition
    from harness.spool import SpoolSettings
    from harness.subagents.config import SubagentsSettings
    from harness.tools.extra import Extras

log = logging.getLogger(__name__)


class HarnessRunner:
    """See harness.ports.Harness. Build it with `make_harness`; one run per thread at a time is the caller's duty."""

    def __init__(self, agents: Agents, checkpoints: Checkpoints, parts: Parts, extras: Extras) -> None:
        self._agents = agents
        self._checkpoints = checkpoints
        self._parts = parts
        self._extras = extras
        self._finished = FinishedTurns(checkpoints)

    async def run(
        self, ctx: RunContext, run_input: RunInput, *, attempt: int = 1, next_seq: int = 1
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """Start the run or go on with it. Iterate it inside `contextlib.aclosing`, so that a stop ends it at once."""
        turn = Turn(ctx.run_id, next_seq)
        scope = self._scope(ctx)
        try:
            async with aclosing(self._run(turn, scope, run_input, attempt)) as events:
                async for event in events:
                    yield event
        except ModelFailure as failure:
            yield turn.event(
                Failed,
                kind=failure.kind,
                model=failure.model,
                detail_for_log=failure.detail,
                retry_after=failure.retry_after,
            )
        except Exception:
            # The one place where a defect of ours becomes an honest ending instead of a dead conversation.
            log.exception("run %s failed for an unexpected reason", ctx.run_id)
            detail = traceback.format_exc()
            yield turn.event(Failed, kind=FailureKind.INTERNAL, model=ctx.model, detail_for_log=detail)
        finally:
            if scope.sandbox is not None:
                await scope.sandbox.release()

    def _scope(self, ctx: RunContext) -> RunScope:
        sandbox = self._parts.sandbox if self._agents.has_sandbox(ctx.agent) else None
        return RunScope(ctx, RunSandbox(sandbox.provider, ctx.thread_id) if sandbox is not None else None)

    async def _run(
        self, turn: Turn, scope: RunScope, run_input: RunInput, attempt: int
    ) -> AsyncGenerator[AnyRunEvent, None]:
        ctx = scope.ctx
        if self._parts.servers is not None:
            await self._parts.servers.settled()
        agent = self._agents.get(ctx.model, ctx.agent)
        turn.tells_thinking = agent.settings.show_thinking
        saved = await self._checkpoints.newest(ctx.thread_id)
        if saved is not None and saved.metadata.get(RUN_KEY) == ctx.run_id:
            state = await agent.graph.aget_state(thread_config(ctx.thread_id))
            # Not `next`: it leaves out tasks that had written when the process was killed before the next checkpoint.
            if state.tasks:
                stand, approvals = standing(state), self._parts.guarding.approvals
                scope.approvals.decided = await approvals.decisions(ctx.run_id)
                turn.asked += unanswered(stand, scope.approvals.decided)
                if attempt > 1 or not stand.waiting:
                    yield turn.event(Resumed, attempt=max(attempt, 2))
                # What was told of the message in the making is void: it will be told again.
                yield turn.event(TextReset, message_id=next_message_id(ctx.run_id, state.values["messages"]))
                if not turn.asked:
                    async for event in self._stream(turn, agent, scope, going_on(stand, scope.approvals.decided)):
                        yield event
        else:
            if attempt > 1:
                yield turn.event(Resumed, attempt=attempt)
            if saved is not None and not self._finished.ended(ctx.thread_id, saved):
                await threads.settle(agent.graph, self._parts.effects, ctx.thread_id)
            sees, has_sandbox = agent.settings.supports_vision, scope.sandbox is not None
            now = self._parts.clock.now()
            user = await user_turn(ctx, run_input, now=now, sees_images=sees, has_sandbox=has_sandbox)
            if user.unseen:
                yield turn.event(Notice, kind="images_not_seen", model=agent.settings.name)
            async for event in self._stream(turn, agent, scope, {"messages": [user.message]}):
                yield event
        if turn.asked:
            for event in requests(turn, turn.asked, self._parts.clock, self._parts.guarding.ask_seconds):
                yield event
            return
        if turn.answer is None:
            # An earlier process had the whole answer: the graph had finished, or its last step only had to be applied.
            turn.answer = last_word(await self._messages(ctx.thread_id))
        await self._finished.note(ctx, saved)
        spool = self._parts.spool
        files = await spool.files(ctx.run_id) if spool is not None else ()
        for event in last_events(turn, ctx.run_id, files, self._parts.clock):
            yield event

    async def _stream(
        self, turn: Turn, agent: Agent, scope: RunScope, graph_input: dict[str, Any] | Command[Any] | None
    ) -> AsyncGenerator[AnyRunEvent, None]:
        stream: Any = agent.graph.astream(
            graph_input,
            thread_config(scope.ctx.thread_id, run_id=scope.ctx.run_id),
            context=scope,
            stream_mode=["messages", "custom"],
            durability="sync",
        )
        async with aclosing(stream):
            async for mode, payload in stream:
                for event in turn.events(mode, payload):
                    yield event

    async def settle(self, thread_id: str) -> None:
        """See the port."""
        await threads.settle(self._any_graph(), self._parts.effects, thread_id)

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        """See the port."""
        if checkpoint_id is None:
            await self.forget(thread_id)
        else:
            await threads.rewind(self._any_graph(), self._parts.effects, thread_id, checkpoint_id)

    async def compact(self, thread_id: str) -> Usage | None:
        """See the port. Asks the default model; when it gives no summary, the old messages are dropped with a note."""
        agent = self._agents.default()
        await threads.settle(agent.graph, self._parts.effects, thread_id)
        messages = await self._messages(thread_id)
        compacted = await agent.summarization.compacted(messages, hard=True)
        if compacted is None:
            return None
        await threads.replace_history(agent.graph, thread_id, compacted.messages)
        if compacted.usage is None:
            return None
        return usage_event(agent.settings.name, compacted.usage)(run_id="", seq=0)

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """See the port."""
        return threads.entries(await self._messages(thread_id))

    async def forget(self, thread_id: str) -> None:
        """See the port."""
        self._finished.forget(thread_id)
        await self._checkpoints.forget(thread_id)

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        """See the port."""
        return await self._agents.title(model, said, answered)

    async def head(self, thread_id: str) -> str | None:
        """See the port."""
        saved = await self._checkpoints.newest(thread_id)
        return saved.checkpoint["id"] if saved is not None else None

    async def close(self) -> None:
        """Give back connections and the database; runs must have ended."""
        await self._agents.close()
        await self._extras.close()
        await self._checkpoints.close()

    async def _messages(self, thread_id: str) -> list[Any]:
        state: StateSnapshot = await self._any_graph().aget_state(thread_config(thread_id))
        messages: list[Any] = state.values.get("messages", [])
        return messages

    def _any_graph(self) -> Graph:
        """All graphs have the same nodes and channels, so any of them can read and write any thread."""
        return self._agents.default().graph


async def make_harness(
    *,
    models: Sequence[ModelSettings],
    summarization: SummarizationSettings,
    llm: LlmSettings,
    loop: LoopSettings,
    model_call_limit: int,
    database: str,
    effects: EffectLog,
    ledger: RunLedger,
    clock: Clock,
    route: Callable[[str], tuple[str | None, Path | None]],
    budget: Budget | None = None,
    extras: ExtraSettings | None = None,
    tools: Sequence[BaseTool] = (),
    sandbox: SandboxSetup | None = None,
    audit: AuditLog | None = None,
    guardrails: GuardrailSettings | None = None,
    approvals: Approvals | None = None,
    spool: SpoolSettings | None = None,
    servers: Servers | None = None,
    tool_search: ToolSearchSettings | None = None,
    subagents: SubagentsSettings | None = None,
    definitions: Mapping[str, AgentDefinition] | None = None,
    scheduling: Scheduling | None = None,
) -> HarnessRunner:
    """Open the checkpoints, build the default agent, make the runner.

    database: the path of a SQLite file, or a postgresql:// URL. route: model name -> (proxy, CA file). extras: the web
    and the operator's own tools; None: neither. sandbox: None: the agent has no files and runs no commands. audit: of
    its commands; None: in memory. guardrails: on tool calls; None: the built-in rules. approvals: what persons decided;
    None: in memory. spool: where files that it presents are kept until they are delivered; None: none.
    servers: whose tools the agent has besides, started and closed by the caller. subagents: None: it delegates nothing.
    definitions: of agents, by name; None: only the plain one.
    scheduling: what people put off; None: it cannot schedule.
    budget: what may still be spent; None: anything.
    Raises ModelSetupError when a model's package is missing or the default model cannot be built, ToolSetupError for a
    tool of the config, GuardrailSetupError for a provider of guardrails.
    """
    for model in models:
        await asyncio.to_thread(check_model, model)
    spooled = Spool(spool) if spool is not None and sandbox is not None else None
    given = (*tools, schedule_tool(scheduling, clock)) if scheduling is not None else tools
    loaded = await load_extras(extras or ExtraSettings(), given, sandbox, spooled, clock)
    parts = Parts(
        summarization=summarization,
        llm=llm,
        loop=loop,
        model_call_limit=model_call_limit,
        effects=effects,
        ledger=ledger,
        budget=budget,
        clock=clock,
        route=route,
        tools=loaded.tools,
        outside=loaded.outside,
        sandbox=sandbox,
        audit=audit if audit is not None else MemoryAuditLog(),
        guarding=load_guardrails(guardrails, approvals),
        spool=spooled,
        servers=servers,
        tool_search=tool_search or ToolSearchSettings(),
        subagents=subagents if subagents is not None and subagents.enabled else None,
    )
    async with AsyncExitStack() as undo:  # a stop in mid-start too
        undo.push_async_callback(loaded.close)
        checkpoints = await open_checkpoints(database)
        undo.push_async_callback(checkpoints.close)
        agents = Agents(models, parts, checkpoints.saver, definitions)
        await asyncio.to_thread(agents.warm_up)
        undo.pop_all()
    return HarnessRunner(agents, checkpoints, parts, loaded)
