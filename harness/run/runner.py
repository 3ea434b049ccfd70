"""HarnessRunner: the port `Harness`, based on LangGraph. Importing this module loads everything heavy (over a second).

bot/ imports it in a warm-up thread and calls `make_harness`; runs wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from harness.agents.pool import Agents
from harness.agents.tools import load_extras
from harness.errors import ModelFailure
from harness.events import Failed, FailureKind, Notice, Report, Resumed
from harness.graph.messages import usage_event
from harness.graph.sandbox import RunSandbox
from harness.graph.signals import RunScope
from harness.graph.state import RUN_KEY, thread_config
from harness.graph.turn import MODEL_NODE, Turn
from harness.memory.telling import Telling
from harness.models.build import check_model
from harness.ports import Head
from harness.prompt import user_turn
from harness.research.record import CLOSING, COMPANIONS, Phase, belongs, exported, research_of, research_view
from harness.research.record import begun as research_begun
from harness.run.ending import going_on, last_events, last_word, requests, standing, unanswered
from harness.skills.followed import can_follow
from harness.skills.library import NO_SKILLS
from harness.skills.prompt import chosen_skill
from harness.threads import operations as threads
from harness.threads.checkpoints import FinishedTurns, open_checkpoints
from harness.web.sources import pages_read

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from harness.agents.maker import Agent
    from harness.agents.parts import Parts
    from harness.agents.tools import Extras
    from harness.context import (
        HistoryEntry,
        Removal,
        ResearchFiles,
        ResearchView,
        RunContext,
        RunInput,
        ThreadView,
        Titled,
        Unfinished,
    )
    from harness.events import AnyRunEvent, Usage
    from harness.graph.state import Graph
    from harness.memory.model import Exchange, Memory, Updated
    from harness.prompt import Section
    from harness.research.record import Research
    from harness.threads.checkpoints import Checkpoints

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Start:
    """How the graph begins or continues. told: events before its own. works: whether it has to run at all. head: the
    thread's newest checkpoint, if it is unchanged since it was read."""

    told: Sequence[AnyRunEvent] = ()
    graph_input: Any = None
    works: bool = True
    head: Head | None = None


class HarnessRunner:
    """See harness.ports.Harness. Build it with `make_harness`.

    The caller must ensure that a thread has only one run at a time, and is not changed during a run.
    """

    def __init__(self, agents: Agents, checkpoints: Checkpoints, parts: Parts, extras: Extras) -> None:
        self.checkpoints = checkpoints
        self._agents = agents
        self._parts = parts
        self._extras = extras
        self._finished = FinishedTurns(checkpoints)
        self._at_work = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(
        self,
        ctx: RunContext,
        run_input: RunInput,
        *,
        attempt: int = 1,
        next_seq: int = 1,
        head: Head | None = None,
    ) -> AsyncGenerator[AnyRunEvent, None]:
        """Start or continue the run. Iterate it inside `contextlib.aclosing`, so that a stop ends it at once."""
        turn = Turn(ctx.run_id, next_seq)
        with self._working():
            scope = replace(await self._scope(ctx), again=attempt > 1)
            try:
                async with aclosing(self._run(turn, scope, run_input, attempt, head)) as events:
                    async for event in events:
                        yield event
            except ModelFailure as failure:
                yield turn.event(
                    Failed,
                    kind=failure.kind,
                    model=failure.model,
                    full_name=self._parts.health.full_name(failure.model),
                    detail_for_log=failure.detail,
                    retry_after=failure.retry_after,
                )
            except Exception as error:
                # The only place where a defect becomes an honest ending instead of a dead conversation.
                log.exception("run %s failed for an unexpected reason", ctx.run_id)
                detail = f"{type(error).__name__}, see above"
                yield turn.event(Failed, kind=FailureKind.INTERNAL, model=ctx.model, detail_for_log=detail)
            finally:
                if scope.sandbox is not None:
                    await scope.sandbox.release()

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Mark models and tools as in use while the block runs."""
        self._at_work += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._idle.set()

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
        values = saved.checkpoint["channel_values"] if saved is not None else {}
        research = None
        if agent.research is not None and belongs(values, ctx, run_input):
            research = await asyncio.to_thread(agent.research)
        graph = research or agent.graph
        if saved is not None and saved.metadata.get(RUN_KEY) == ctx.run_id:
            start = await self._resumed(turn, graph, scope, attempt)
        else:
            start = await self._begun(turn, agent, scope, run_input, saved, attempt, researches=research is not None)
        for event in start.told:
            yield event
        if start.works:
            config = thread_config(ctx.thread_id, run_id=ctx.run_id)
            async with self._refusals(turn, agent, ctx.thread_id), AsyncExitStack() as holding:
                if research is None:
                    steps = await holding.enter_async_context(self.checkpoints.holding.of(ctx.thread_id, start.head))
                    scope = replace(scope, settled=steps.settle)
                elif self._parts.research is not None:  # each step is saved: research takes minutes
                    config["max_concurrency"] = self._parts.research.settings.at_once
                stream: Any = graph.astream(
                    start.graph_input,
                    config,
                    context=scope,
                    stream_mode=["messages", "custom"],
                    durability="sync",
                )
                async with aclosing(stream):
                    async for mode, payload in stream:
                        for event in turn.events(mode, payload):
                            yield event
        if turn.asked:
            for event in requests(turn, turn.asked, self._parts.clock, self._parts.guarding.ask_seconds):
                yield event
            return
        if turn.answer is None:
            # An earlier process had the complete answer: only the graph's last step, if anything, had to be applied.
            turn.answer = last_word(await self._messages(ctx.thread_id))
        await self._finished.note(ctx, saved)
        spool = self._parts.spool
        files = await spool.files(ctx.run_id) if spool is not None else ()
        report = await self._report(agent, scope) if research is not None else None
        for event in last_events(
            turn, ctx.run_id, files, self._parts.clock, personal=research is not None, report=report
        ):
            yield event

    @asynccontextmanager
    async def _refusals(self, turn: Turn, agent: Agent, thread_id: str) -> AsyncIterator[None]:
        """If the provider refuses a request for its content, or the answer, leave that out of the thread: it would
        refuse each later request too."""
        try:
            yield
        except ModelFailure as failure:
            saved = (await self.head(thread_id)).saved
            if failure.kind in (FailureKind.CONTENT_FILTER, FailureKind.BAD_REQUEST) and saved is not None:
                await self._settle(agent, saved, refused=None if turn.told else failure.kind)
            raise

    async def _report(self, agent: Agent, scope: RunScope) -> Report | None:
        """The report that the run delivered, if it completed a research."""
        saved = (await self.head(scope.ctx.thread_id)).saved
        known = research_of(saved.checkpoint["channel_values"]) if saved is not None else None
        if known is None or known.phase is not Phase.DONE or known.run != scope.ctx.run_id or not known.delivered:
            return None
        tools = {tool.name for tool in agent.tools}
        usable = [
            name
            for name, needs in COMPANIONS.items()
            if (skill := scope.skills.get(name)) is not None and needs <= tools and can_follow(skill.document, tools)
        ]
        return Report(title=known.title, path=known.file, skills=tuple(usable))

    async def _resumed(self, turn: Turn, graph: Graph, scope: RunScope, attempt: int) -> Start:
        """Continue what a question, or the end of a process, interrupted."""
        ctx = scope.ctx
        state = await graph.aget_state(thread_config(ctx.thread_id))
        # Not `next`: it omits tasks that had written when the process was killed before the next checkpoint.
        if not state.tasks:
            return Start(list(turn.said_before(state.values.get("messages", []))), works=False)
        stand, approvals = standing(state), self._parts.guarding.approvals
        scope.approvals.decided = await approvals.decisions(ctx.run_id)
        turn.asked += unanswered(stand, scope.approvals.decided)
        told = [turn.event(Resumed, attempt=max(attempt, 2))] if attempt > 1 or not stand.waiting else []
        # A crash may have lost recorded events of complete messages; the unfinished one will be sent again.
        told += turn.said_before(state.values["messages"])
        return Start(told, going_on(stand, scope.approvals.decided), works=not turn.asked)

    async def _begun(
        self,
        turn: Turn,
        agent: Agent,
        scope: RunScope,
        run_input: RunInput,
        saved: CheckpointTuple | None,
        attempt: int,
        *,
        researches: bool,
    ) -> Start:
        """Begin a turn. saved: the thread before it. researches: it belongs to a research."""
        ctx = scope.ctx
        head: Head | None = Head(saved.checkpoint["id"], saved) if saved is not None else Head()
        if saved is not None and not self._finished.ended(ctx.thread_id, saved):
            head = None
            await self._settle(agent, saved)
            if researches:  # with the findings of the stopped run
                saved = (await self.head(ctx.thread_id)).saved
        sees, has_sandbox = agent.settings.supports_vision, scope.sandbox is not None
        now = self._parts.clock.now()
        chosen = await asyncio.to_thread(chosen_skill, run_input.skill, scope.skills) if run_input.skill else ""
        user = await user_turn(ctx, run_input, now=now, sees_images=sees, has_sandbox=has_sandbox, skill=chosen)
        telling = Telling(self._agents.remembering(ctx.agent), self._parts.clock)
        begun = await telling.turn(ctx, user.message, saved, lambda: self._messages(ctx.thread_id))
        if researches and self._parts.research is not None:
            values = saved.checkpoint["channel_values"] if saved is not None else {}
            style = self._parts.research.settings.style
            begun = {**begun, **research_begun(values, ctx, run_input, style, reads_files=has_sandbox)}
        # Numbered last, so that a failure above leaves no gap in the numbers.
        told = [turn.event(Resumed, attempt=attempt)] if attempt > 1 else []
        if user.unseen:
            told.append(turn.event(Notice, kind="images_not_seen", model=agent.settings.name))
        return Start(told, begun, head=head)

    async def prompt(self, ctx: RunContext) -> tuple[list[Section], list[str]]:
        """What a run would send before the conversation: the sections of the system prompt, and each tool as JSON.
        Raises ModelFailure."""
        if self._parts.servers is not None:
            await self._parts.servers.settled()
        agent = self._agents.get(ctx.model, ctx.agent)
        tools = [json.dumps(convert_to_openai_tool(tool), ensure_ascii=False) for tool in agent.tools]
        return agent.prompt(await self._scope(ctx)), tools

    def abandon(self, run_id: str) -> None:
        """End third-party agents that wait for a person on behalf of this run."""
        if self._extras.agents is not None:
            self._extras.agents.abandon(run_id)

    async def settle(self, thread_id: str, unfinished: Unfinished | None = None) -> None:
        """Make a thread that was stopped in mid-turn ready for new input."""
        saved = (await self.head(thread_id)).saved
        if saved is not None:
            await self._settle(self._agents.default(), saved, unfinished)

    async def _settle(
        self,
        agent: Agent,
        saved: CheckpointTuple,
        unfinished: Unfinished | None = None,
        refused: FailureKind | None = None,
    ) -> None:
        """Close what is open at a thread's newest checkpoint, with the graph that the turn belongs to."""
        thread_id, graph, node = saved.config["configurable"]["thread_id"], agent.graph, MODEL_NODE
        known = research_of(saved.checkpoint["channel_values"])
        if known is not None and known.run == saved.metadata.get(RUN_KEY) and agent.research is not None:
            graph, node = await asyncio.to_thread(agent.research), CLOSING
        await threads.settle(graph, self._parts.effects, thread_id, unfinished, node=node, refused=refused)

    async def rewind(self, thread_id: str, checkpoint_id: str | None) -> None:
        """Restore the thread to that checkpoint, None: to an empty thread."""
        if checkpoint_id is None:
            await self.forget(thread_id)
        else:
            await threads.rewind(self._any_graph(), self._parts.effects, thread_id, checkpoint_id)
            await self._finished.changed(thread_id, checkpoint_id)

    async def compact(self, thread_id: str, model: str) -> Usage | None:
        """Summarise the history now; it is unchanged if the model gives no summary (ModelFailure)."""
        agent = self._agents.get(model)
        with self._working():
            await threads.settle(agent.graph, self._parts.effects, thread_id)
            compacted = await agent.summarization.asked_for(await self._messages(thread_id))
        if compacted is None:
            return None
        await threads.replace_history(agent.graph, thread_id, compacted.messages)
        if compacted.usage is None:
            return None
        return usage_event(agent.settings.name, compacted.usage)(run_id="", seq=0)

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """The messages, oldest first."""
        return threads.entries(await self._messages(thread_id))

    async def views(
        self, thread_id: str, *, at: str | None = None, before: str | None = None, limit: int = 1
    ) -> list[ThreadView]:
        """The thread at its newest checkpoints, newest first."""
        return await threads.views(self._any_graph(), thread_id, at=at, before=before, limit=limit)

    async def seed(self, thread_id: str, said: Sequence[HistoryEntry]) -> None:
        """Begin a new thread with messages from elsewhere."""
        await threads.replace_history(self._any_graph(), thread_id, threads.messages_of(said))

    async def change(self, thread_id: str, changes: Sequence[HistoryEntry | Removal], *, at: str | None = None) -> None:
        """Add, replace and remove messages of a thread without an active run."""
        await threads.change(self._any_graph(), self._parts.effects, thread_id, changes, at)
        await self._finished.changed(thread_id, at)

    async def fork(
        self, thread_id: str, fork_id: str, *, before: str = "", through: str = "", checkpoint_id: str | None = None
    ) -> bool:
        """Begin a new thread with another one's contents up to a point."""
        end = threads.ForkEnd(before, through)
        return await threads.fork(self._any_graph(), self._parts.effects, thread_id, fork_id, end, checkpoint_id)

    async def research(self, thread_id: str) -> ResearchView | None:
        """The thread's newest research."""
        known = await self.research_record(thread_id)
        if known is None or self._parts.research is None:
            return None
        return research_view(known, await pages_read(self._parts.sources, thread_id, known.runs))

    async def research_record(self, thread_id: str) -> Research | None:
        """The full record of the thread's newest research."""
        saved = (await self.head(thread_id)).saved
        return research_of(saved.checkpoint["channel_values"]) if saved is not None else None

    async def research_files(self, thread_id: str) -> ResearchFiles | None:
        """The thread's newest research as files for a person."""
        known = await self.research_record(thread_id)
        return exported(known) if known is not None and known.plan is not None else None

    async def forget(self, thread_id: str) -> None:
        """Delete everything stored for the thread."""
        self._finished.forget(thread_id)
        await self.checkpoints.forget(thread_id)

    async def condense(self, thread_id: str, keep: Sequence[str], *, drop: bool) -> None:
        """Keep only the thread's newest state and these checkpoints."""
        await (self.checkpoints.prune if drop else self.checkpoints.copy)(thread_id, keep=keep)

    async def scrub(self) -> None:
        """Remove what was forgotten from the database's files."""
        await self.checkpoints.scrub()

    async def title(self, model: str, said: str, answered: str) -> Titled | None:
        """Name a thread that begins with this exchange."""
        with self._working():
            return await self._agents.title(model, said, answered)

    async def remember(self, memory: Memory, exchanges: Sequence[Exchange]) -> Updated | None:
        """Determine the changes that these turns make to their owner's memory."""
        with self._working():
            return await self._agents.remember(memory, exchanges)

    async def head(self, thread_id: str) -> Head:
        """The thread's newest checkpoint."""
        saved = await self.checkpoints.newest(thread_id)
        return Head(saved.checkpoint["id"], saved) if saved is not None else Head()

    async def retire(self) -> None:
        """Once its work has ended, release everything except the threads."""
        await self._idle.wait()
        await self._agents.close()
        await self._extras.close()

    async def close(self) -> None:
        """Close connections and the database; runs must have ended."""
        await self._agents.close()
        await self._extras.close()
        await self.checkpoints.close()

    async def _messages(self, thread_id: str) -> list[Any]:
        state: StateSnapshot = await self._any_graph().aget_state(thread_config(thread_id))
        messages: list[Any] = state.values.get("messages", [])
        return messages

    def _any_graph(self) -> Graph:
        """All graphs have the same nodes and channels, so any of them can read and write any thread."""
        return self._agents.default().graph


async def make_harness(parts: Parts, database: str, former: HarnessRunner | None = None) -> HarnessRunner:
    """Load the tools, open the checkpoints, build the default agent, and create the runner.

    database: the path of a SQLite file, or a postgresql:// URL. former: the runner whose threads it takes over, and
    which the caller retires. Raises ModelSetupError if a model's package is missing or the default model cannot be
    built, ToolSetupError for a tool of the config.
    """
    for model in parts.models:
        await asyncio.to_thread(check_model, model)
    if parts.sandbox is None:
        parts = replace(parts, spool=None, skills=None)  # both need files
    if parts.subagents is not None and not parts.subagents.enabled:
        parts = replace(parts, subagents=None)
    extras = await load_extras(parts)
    parts = replace(parts, tools=extras.tools, outside=extras.outside, gone=extras.gone)
    async with AsyncExitStack() as undo:  # also if the start is cancelled
        undo.push_async_callback(extras.close)
        if former is not None:
            checkpoints = former.checkpoints
        else:
            checkpoints = await open_checkpoints(database, parts.fence, leads=parts.leads)
            undo.push_async_callback(checkpoints.close)
        agents = Agents(parts, checkpoints.saver)
        undo.push_async_callback(agents.close)
        await asyncio.to_thread(agents.warm_up)
        undo.pop_all()
    return HarnessRunner(agents, checkpoints, parts, extras)
