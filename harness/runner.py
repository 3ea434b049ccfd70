"""HarnessRunner: the port `Harness` on LangGraph. Importing this module loads everything heavy (over a second).

bot/ imports it in a warm-up thread and calls `make_harness` once; runs wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from harness import threads
from harness.agents import Agent, Agents, Parts
from harness.checkpoint import RUN_KEY, open_checkpoints, thread_config
from harness.errors import ModelFailure
from harness.events import Failed, FailureKind, Finished, Notice, Resumed, TextReset
from harness.messages import answer_text, calls_allowed, next_message_id, outcome_of
from harness.models import check_model
from harness.ports import MemoryAuditLog
from harness.prompt import user_turn
from harness.sandboxes import RunSandbox
from harness.signals import RunScope
from harness.spool import Spool
from harness.turn import Turn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence
    from pathlib import Path

    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.types import StateSnapshot

    from harness.agent import Graph
    from harness.checkpoint import Checkpoints
    from harness.config import LlmSettings, ModelSettings, SummarizationSettings
    from harness.context import HistoryEntry, RunContext, RunInput
    from harness.events import ReadyFile
    from harness.ports import AnyRunEvent, AuditLog, Clock, EffectLog, RunLedger
    from harness.sandboxes import SandboxSetup
    from harness.spool import SpoolSettings

log = logging.getLogger(__name__)

PRUNE_EVERY = 60
"""Steps of the graph between two prunings of a thread: about twenty turns."""
MAX_KNOWN_THREADS = 4096


@dataclass(slots=True)
class Known:
    """What this process saw of a thread. finished: the run that ended its newest turn. era: of its last pruning."""

    finished: str = ""
    era: int = 0


class HarnessRunner:
    """See harness.ports.Harness. Build it with `make_harness`; one run per thread at a time is the caller's duty."""

    def __init__(self, agents: Agents, checkpoints: Checkpoints, parts: Parts) -> None:
        self._agents = agents
        self._checkpoints = checkpoints
        self._parts = parts
        self._known: OrderedDict[str, Known] = OrderedDict()

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
        sandbox = self._parts.sandbox
        return RunScope(ctx, RunSandbox(sandbox.provider, ctx.thread_id) if sandbox is not None else None)

    async def _run(
        self, turn: Turn, scope: RunScope, run_input: RunInput, attempt: int
    ) -> AsyncGenerator[AnyRunEvent, None]:
        ctx = scope.ctx
        agent = self._agents.get(ctx.model)
        saved = await self._checkpoints.newest(ctx.thread_id)
        if saved is not None and saved.metadata.get(RUN_KEY) == ctx.run_id:
            state = await agent.graph.aget_state(thread_config(ctx.thread_id))
            # Not `next`: it leaves out tasks that had written when the process was killed before the next checkpoint.
            if state.tasks:
                yield turn.event(Resumed, attempt=max(attempt, 2))
                # What was told of the message in the making is void: it will be told again.
                yield turn.event(TextReset, message_id=next_message_id(ctx.run_id, state.values["messages"]))
                async for event in self._stream(turn, agent, scope, None):
                    yield event
        else:
            if attempt > 1:
                yield turn.event(Resumed, attempt=attempt)
            if saved is not None and not self._is_finished(ctx.thread_id, saved):
                await threads.settle(agent.graph, self._parts.effects, ctx.thread_id)
            sees, has_sandbox = agent.settings.supports_vision, scope.sandbox is not None
            now = self._parts.clock.now()
            user = await user_turn(ctx, run_input, now=now, sees_images=sees, has_sandbox=has_sandbox)
            if user.unseen:
                yield turn.event(Notice, kind="images_not_seen", model=agent.settings.name)
            async for event in self._stream(turn, agent, scope, {"messages": [user.message]}):
                yield event
        if turn.answer is None:
            # An earlier process had the whole answer: the graph had finished, or its last step only had to be applied.
            turn.answer = (await self._messages(ctx.thread_id))[-1]
        await self._note(ctx, saved)
        spool = self._parts.spool
        yield _finished(turn, await spool.files(ctx.run_id) if spool is not None else ())

    async def _stream(
        self, turn: Turn, agent: Agent, scope: RunScope, graph_input: dict[str, Any] | None
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

    async def compact(self, thread_id: str) -> None:
        """See the port. Asks the default model; when it gives no summary, the old messages are dropped with a note."""
        agent = self._agents.default()
        await threads.settle(agent.graph, self._parts.effects, thread_id)
        messages = await self._messages(thread_id)
        compacted = await agent.summarization.compacted(messages, hard=True)
        if compacted is not None:
            await threads.replace_history(agent.graph, thread_id, compacted.messages)

    async def history(self, thread_id: str) -> list[HistoryEntry]:
        """See the port."""
        return threads.entries(await self._messages(thread_id))

    async def forget(self, thread_id: str) -> None:
        """See the port."""
        self._known.pop(thread_id, None)
        await self._checkpoints.forget(thread_id)

    async def head(self, thread_id: str) -> str | None:
        """See the port."""
        saved = await self._checkpoints.newest(thread_id)
        return saved.checkpoint["id"] if saved is not None else None

    async def close(self) -> None:
        """Give back connections and the database; runs must have ended."""
        await self._agents.close()
        await self._checkpoints.close()

    async def _messages(self, thread_id: str) -> list[Any]:
        state: StateSnapshot = await self._any_graph().aget_state(thread_config(thread_id))
        messages: list[Any] = state.values.get("messages", [])
        return messages

    def _any_graph(self) -> Graph:
        """All graphs have the same nodes and channels, so any of them can read and write any thread."""
        return self._agents.default().graph

    def _is_finished(self, thread_id: str, saved: CheckpointTuple) -> bool:
        """Whether the newest checkpoint is the end of a turn that this process saw; saves reading the whole state."""
        known = self._known.get(thread_id)
        return known is not None and known.finished == saved.metadata.get(RUN_KEY)

    async def _note(self, ctx: RunContext, base: CheckpointTuple | None) -> None:
        """Remember the end of the turn, and now and then drop old checkpoints; the one before this run stays, for a
        rollback."""
        known = self._known.setdefault(ctx.thread_id, Known())
        known.finished = ctx.run_id
        self._known.move_to_end(ctx.thread_id)
        if len(self._known) > MAX_KNOWN_THREADS:
            self._known.popitem(last=False)
        if base is not None and (era := int(base.metadata.get("step", 0)) // PRUNE_EVERY) != known.era:
            try:
                await self._checkpoints.prune(ctx.thread_id, keep=(base.checkpoint["id"],))
            except Exception as error:
                # A full disk, a lost server, a defect: the answer is there, and the next turn clears away as well.
                log.warning("old checkpoints of a thread stay for now: %s: %s", type(error).__name__, error)
            else:
                known.era = era


def _finished(turn: Turn, files: tuple[ReadyFile, ...]) -> AnyRunEvent:
    answer = turn.answer
    if not isinstance(answer, AIMessage) or answer.tool_calls:
        raise RuntimeError("the graph ended without an answer")
    return turn.event(
        Finished,
        outcome=outcome_of(answer),
        text=answer_text(answer),
        message_id=answer.id or "",
        calls=calls_allowed(answer),
        files=files,
    )


async def make_harness(
    *,
    models: Sequence[ModelSettings],
    summarization: SummarizationSettings,
    llm: LlmSettings,
    model_call_limit: int,
    database: str,
    effects: EffectLog,
    ledger: RunLedger,
    clock: Clock,
    route: Callable[[str], tuple[str | None, Path | None]],
    tools: Sequence[BaseTool] = (),
    sandbox: SandboxSetup | None = None,
    audit: AuditLog | None = None,
    spool: SpoolSettings | None = None,
) -> HarnessRunner:
    """Open the checkpoints, build the default agent, make the runner.

    database: the path of a SQLite file, or a postgresql:// URL. route: model name -> (proxy, CA file). sandbox: None:
    the agent has no files and runs no commands. audit: of its commands; None: in memory. spool: where files that it
    presents are kept until they are delivered; None: it presents none.
    Raises ModelSetupError when a model's package is missing or the default model cannot be built.
    """
    for model in models:
        await asyncio.to_thread(check_model, model)
    parts = Parts(
        summarization=summarization,
        llm=llm,
        model_call_limit=model_call_limit,
        effects=effects,
        ledger=ledger,
        clock=clock,
        route=route,
        tools=tools,
        sandbox=sandbox,
        audit=audit if audit is not None else MemoryAuditLog(),
        spool=Spool(spool) if spool is not None and sandbox is not None else None,
    )
    checkpoints = await open_checkpoints(database)
    agents = Agents(models, parts, checkpoints.saver)
    try:
        await asyncio.to_thread(agents.warm_up)
    except BaseException:  # a stop in mid-start among them
        await checkpoints.close()
        raise
    return HarnessRunner(agents, checkpoints, parts)
