"""HarnessRunner: the port `Harness` on LangGraph. Importing this module loads everything heavy (over a second).

bot/ imports it in a warm-up thread and calls `make_harness` once; runs wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from harness.agents.extras import ExtraSettings
from harness.agents.parts import Parts
from harness.agents.pool import Agents
from harness.agents.tools import load_extras
from harness.errors import ModelFailure
from harness.events import Failed, FailureKind, Notice, Resumed, TextReset
from harness.files.spool import Spool
from harness.graph.messages import next_message_id
from harness.graph.sandbox import RunSandbox
from harness.graph.signals import RunScope
from harness.graph.turn import Turn
from harness.guardrails.rules import load_guardrails
from harness.mcp.config import ToolSearchSettings
from harness.memory.telling import Telling
from harness.memory.tool import memory_tools
from harness.models.build import check_model
from harness.models.health import ModelHealth
from harness.ports import MemoryAuditLog
from harness.prompt import user_turn
from harness.run.beside import BesideRuns
from harness.run.ending import going_on, last_events, last_word, requests, standing, unanswered
from harness.scheduling.tool import schedule_tool
from harness.skills.library import NO_SKILLS
from harness.skills.prompt import chosen_skill
from harness.threads import operations as threads
from harness.threads.checkpoints import RUN_KEY, open_checkpoints, thread_config

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from pathlib import Path

    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import Command

    from harness.agents.maker import Agent
    from harness.agents.profiles import AgentDefinition
    from harness.agents.tools import Extras
    from harness.config import LlmSettings, LoopSettings, ModelSettings, SummarizationSettings
    from harness.context import RunContext, RunInput
    from harness.files.spool import SpoolSettings
    from harness.graph.sandbox import SandboxSetup
    from harness.guardrails.approvals import Approvals
    from harness.guardrails.config import GuardrailSettings
    from harness.mcp.offering import Servers
    from harness.memory.port import Remembering
    from harness.ports import AnyRunEvent, AuditLog, Budget, Clock, EffectLog, Head, RunLedger, Steering
    from harness.sandboxes import SandboxSetup
    from harness.schedules import Scheduling
    from harness.skills.library import SkillSource
    from harness.souls import AgentDefinition
    from harness.spool import SpoolSettings
    from harness.ports import AnyRunEvent, AuditLog, Budget, Clock, EffectLog, RunLedger, Steering
    from harness.scheduling.schedules import Scheduling
    from harness.skills.source import SkillSource
    from harness.subagents.config import SubagentsSettings
    from harness.threads.checkpoints import Checkpoints

log = logging.getLogger(__name__)


class HarnessRunner(BesideRuns):
    """See harness.ports.Harness. Build it with `make_harness`; one run per thread at a time is the caller's duty."""

    def __init__(self, agents: Agents, checkpoints: Checkpoints, parts: Parts, extras: Extras) -> None:
        super().__init__(agents, checkpoints, parts)
        self._extras = extras

    async def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """Start the run or go on with it. Iterate it inside `contextlib.aclosing`, so that a stop ends it at once."""
        with self._working():
            async with aclosing(self._whole_run(ctx, run_input, attempt, next_seq, head)) as events:
                async for event in events:
                    yield event

    async def _whole_run(
        self, ctx: RunContext, run_input: RunInput, attempt: int, next_seq: int, head: Head | None
    ) -> AsyncGenerator[AnyRunEvent, None]:
        turn = Turn(ctx.run_id, next_seq)
        scope = await self._scope(ctx)
        try:
            async with aclosing(self._run(turn, scope, run_input, attempt, head)) as events:
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
        except Exception as error:
            # The one place where a defect of ours becomes an honest ending instead of a dead conversation.
            log.exception("run %s failed for an unexpected reason", ctx.run_id)
            yield turn.event(
                Failed, kind=FailureKind.INTERNAL, model=ctx.model, detail_for_log=f"{type(error).__name__}, see above"
            )
        finally:
            if scope.sandbox is not None:
                await scope.sandbox.release()

    async def _scope(self, ctx: RunContext) -> RunScope:
        sandbox = self._parts.sandbox if self._agents.has_sandbox(ctx.agent) else None
        if sandbox is None:
            return RunScope(ctx, NO_SKILLS)
        source, skills = self._parts.skills, NO_SKILLS
        if source is not None:
            skills = (await asyncio.to_thread(source.of, ctx)).only(self._agents.skills_of(ctx.agent))
        return RunScope(ctx, skills, RunSandbox(sandbox.provider, ctx.thread_id))

    async def _run(
        self, turn: Turn, scope: RunScope, run_input: RunInput, attempt: int, head: Head | None
    ) -> AsyncGenerator[AnyRunEvent, None]:
        ctx = scope.ctx
        if self._parts.servers is not None:
            await self._parts.servers.settled()
        agent = self._agents.get(ctx.model, ctx.agent)
        turn.tells_thinking = agent.settings.show_thinking
        saved = (head or await self.head(ctx.thread_id)).saved
        if saved is not None and saved.metadata.get(RUN_KEY) == ctx.run_id:
            working = self._going_on(turn, agent, scope, attempt)
        else:
            working = self._begun(turn, agent, scope, run_input, saved, attempt)
        async with aclosing(working):
            async for event in working:
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

    async def _going_on(
        self, turn: Turn, agent: Agent, scope: RunScope, attempt: int
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """What a question, or the end of a process, left in its middle."""
        ctx = scope.ctx
        state = await agent.graph.aget_state(thread_config(ctx.thread_id))
        # Not `next`: it leaves out tasks that had written when the process was killed before the next checkpoint.
        if not state.tasks:
            return
        stand, approvals = standing(state), self._parts.guarding.approvals
        scope.approvals.decided = await approvals.decisions(ctx.run_id)
        turn.asked += unanswered(stand, scope.approvals.decided)
        if attempt > 1 or not stand.waiting:
            yield turn.event(Resumed, attempt=max(attempt, 2))
        # What was told of the message in the making is void: it will be told again.
        yield turn.event(TextReset, message_id=next_message_id(ctx.run_id, state.values["messages"]))
        if not turn.asked:
            async with aclosing(self._stream(turn, agent, scope, going_on(stand, scope.approvals.decided))) as events:
                async for event in events:
                    yield event

    async def _begun(
        self,
        turn: Turn,
        agent: Agent,
        scope: RunScope,
        run_input: RunInput,
        saved: CheckpointTuple | None,
        attempt: int,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """saved: how the thread was before it."""
        ctx = scope.ctx
        if attempt > 1:
            yield turn.event(Resumed, attempt=attempt)
        if saved is not None and not self._finished.ended(ctx.thread_id, saved):
            await threads.settle(agent.graph, self._parts.effects, ctx.thread_id)
        sees, has_sandbox = agent.settings.supports_vision, scope.sandbox is not None
        now = self._parts.clock.now()
        chosen = await asyncio.to_thread(chosen_skill, run_input.skill, scope.skills) if run_input.skill else ""
        user = await user_turn(ctx, run_input, now=now, sees_images=sees, has_sandbox=has_sandbox, skill=chosen)
        if user.unseen:
            yield turn.event(Notice, kind="images_not_seen", model=agent.settings.name)
        telling = Telling(self._agents.remembering(ctx.agent), self._parts.clock)
        begun = await telling.turn(ctx, user.message, saved, lambda: self._messages(ctx.thread_id))
        async with aclosing(self._stream(turn, agent, scope, begun)) as events:
            async for event in events:
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

    async def close(self) -> None:
        """Give back connections and the database; runs must have ended."""
        await self._agents.close()
        await self._extras.close()
        await self.checkpoints.close()

    async def retire(self) -> None:
        """See the port."""
        await self._idle.wait()
        await self._agents.close()
        await self._extras.close()


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
    former: HarnessRunner | None = None,
    skills: SkillSource | None = None,
    remembering: Remembering | None = None,
    steering: Steering | None = None,
    health: ModelHealth | None = None,
) -> HarnessRunner:
    """Open the checkpoints, build the default agent, make the runner.

    database: the path of a SQLite file, or a postgresql:// URL. route: model name -> (proxy, CA file). extras: the web
    and the operator's own tools; None: neither. sandbox: None: the agent has no files and runs no commands. audit: of
    its commands; None: in memory. guardrails: on tool calls; None: the built-in rules. approvals: what persons decided;
    None: in memory. spool: where files that it presents are kept until they are delivered; None: none.
    servers: whose tools the agent has besides, started and closed by the caller. subagents: None: it delegates nothing.
    definitions: of agents, by name; None: only the plain one.
    scheduling: what people put off; None: it cannot schedule. skills: which ones runs have; None: none, as without a
    sandbox.
    steering: what is said to runs that work; None: nothing. health: is told how calls of models went; None: nobody is.
    budget: what may still be spent; None: anything. former: whose threads it takes over, and which the caller retires.
    Raises ModelSetupError when a model's package is missing or the default model cannot be built, ToolSetupError for a
    tool of the config, GuardrailSetupError for a provider of guardrails.
    """
    for model in models:
        await asyncio.to_thread(check_model, model)
    spooled = Spool(spool) if spool is not None and sandbox is not None else None
    given = (*tools, schedule_tool(scheduling, clock)) if scheduling is not None else tools
    given = (*given, *memory_tools(remembering, clock)) if remembering is not None else given
    guarding = load_guardrails(guardrails, approvals)
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
        guarding=guarding,
        spool=spooled,
        servers=servers,
        tool_search=tool_search or ToolSearchSettings(),
        subagents=subagents if subagents is not None and subagents.enabled else None,
        skills=skills if sandbox is not None else None,
        remembering=remembering,
        steering=steering,
        health=health if health is not None else ModelHealth(),
    )
    async with AsyncExitStack() as undo:  # a stop in mid-start too
        undo.push_async_callback(loaded.close)
        if former is not None:
            checkpoints = former.checkpoints
        else:
            checkpoints = await open_checkpoints(database)
            undo.push_async_callback(checkpoints.close)
        agents = Agents(models, parts, checkpoints.saver, definitions)
        undo.push_async_callback(agents.close)
        await asyncio.to_thread(agents.warm_up)
        undo.pop_all()
    return HarnessRunner(agents, checkpoints, parts, loaded)
