"""What the harness tests share: a clock that they turn, scripted models, and runners on a file of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage, message_chunk_to_message
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from harness.agents.parts import ExtraSettings, Parts
from harness.config import LlmSettings, LoopSettings, ModelSettings, SummarizationSettings
from harness.context import RunContext, RunInput, Speaker
from harness.events import Failed, Finished
from harness.files.spool import Spool, SpoolSettings
from harness.graph.calls import FOREIGN
from harness.graph.sandbox import SandboxSetup
from harness.guardrails.approvals import MemoryApprovals
from harness.guardrails.rules import load_guardrails
from harness.mcp.config import ToolSearchSettings
from harness.middleware import ChainParts
from harness.models.health import ModelHealth
from harness.models.pool import Breaker, Standby
from harness.ports import MemoryAuditLog, MemoryEffectLog, MemoryRunLedger, Overdraft
from harness.prompt import Abilities, sections
from harness.run.runner import HarnessRunner, make_harness
from harness.tools.asking import ask_tool
from harness.web.sources import MemorySources
from sandbox.base import Isolation, Report
from tests.simulators.sandbox.provider import MemoryProvider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from langchain_core.tools import BaseTool

    from harness.agents.profiles import AgentDefinition
    from harness.events import AnyRunEvent
    from harness.guardrails.config import GuardrailSettings
    from harness.mcp.offering import Servers
    from harness.memory.store import Remembering
    from harness.ports import AuditLog, Budget, EffectLog, Steering
    from harness.scheduling.schedules import Scheduling
    from harness.skills.library import SkillSource
    from harness.subagents.config import SubagentsSettings
    from harness.web.sources import Sources

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


class TurnedClock:
    """Sleeping passes at once and moves the clock; `slept` says how long it was asked to."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._passed = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def advance(self, seconds: float) -> None:
        self._passed += seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._passed += seconds
        await asyncio.sleep(0)


class HeldClock(TurnedClock):
    """Sleepers wait until the clock is advanced past their time."""

    def __init__(self) -> None:
        super().__init__()
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self.asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._passed + seconds, waker))
        self.asleep.set()
        await waker

    async def tick(self, seconds: float) -> None:
        """Once somebody sleeps: let time pass, and wake whose time has come."""
        await self.asleep.wait()
        self.asleep.clear()
        self.advance(seconds)
        due = [waker for at, waker in self._sleepers if at <= self._passed]
        self._sleepers = [(at, waker) for at, waker in self._sleepers if at > self._passed]
        for waker in due:
            if not waker.done():
                waker.set_result(None)


Step = str | AIMessage | Exception | Callable[[], Awaitable[str | AIMessage]]


@dataclass
class Script:
    """What a ScriptedModel says, call by call, and what it was asked. It echoes when the steps are used up."""

    steps: list[Step] = field(default_factory=list)
    requests: list[list[BaseMessage]] = field(default_factory=list)
    tools_offered: list[bool] = field(default_factory=list)
    tool_names: list[list[str]] = field(default_factory=list)
    check: Callable[[list[BaseMessage]], None] | None = None


SCRIPTS: dict[str, Script] = {}
"""By the model's name in the config: a class path cannot carry a script."""


class ScriptedModel(BaseChatModel):
    """`use: tests.harness.support:ScriptedModel`; `model` names the script."""

    model: str
    tools: bool = False
    names: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.model_copy(update={"tools": bool(tools), "names": tuple(each.name for each in tools)})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        raise NotImplementedError("the harness streams")

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        chunks = [chunk async for chunk in self._astream(messages)]
        whole = chunks[0].message
        for chunk in chunks[1:]:
            whole = whole + chunk.message
        message = message_chunk_to_message(whole)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        script = SCRIPTS[self.model]
        script.requests.append(messages)
        script.tools_offered.append(self.tools)
        script.tool_names.append(list(self.names))
        if script.check is not None:
            script.check(messages)
        step: Any = script.steps.pop(0) if script.steps else f"answer {len(script.requests)}"
        if callable(step):
            step = await step()
        if isinstance(step, Exception):
            raise step
        for chunk in _chunks(step):
            if run_manager is not None:
                await run_manager.on_llm_new_token(str(chunk.message.content), chunk=chunk)
            yield chunk


def _chunks(step: str | AIMessage) -> list[ChatGenerationChunk]:
    message = AIMessage(step) if isinstance(step, str) else step
    text = str(message.text)
    pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
    calls = [
        {"name": call["name"], "args": _json(call["args"]), "id": call["id"], "index": place}
        for place, call in enumerate(message.tool_calls)
    ]
    last = AIMessageChunk(
        content="",
        tool_call_chunks=calls,  # type: ignore[arg-type]
        response_metadata=message.response_metadata,
        additional_kwargs=message.additional_kwargs,
        usage_metadata=message.usage_metadata or {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    )
    return [ChatGenerationChunk(message=m) for m in [*(AIMessageChunk(content=piece) for piece in pieces), last]]


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


def calls(*named: tuple[str, dict[str, Any]], text: str = "", ids: Sequence[str] = ()) -> AIMessage:
    """An assistant message with tool calls; ids default to call-0, call-1, ..."""
    made = [
        {"name": name, "args": args, "id": ids[place] if ids else f"call-{place}", "type": "tool_call"}
        for place, (name, args) in enumerate(named)
    ]
    return AIMessage(text, tool_calls=made)


def system_prompt(
    abilities: Abilities | None = None, *, servers: str = "", delegation: str = "", soul: str = "", skills: str = ""
) -> str:
    return "\n".join(each.text for each in sections(abilities or Abilities(), servers, delegation, soul, skills))


def context(run: str, *, thread: str = "thread-1", model: str = "main", **changes: Any) -> RunContext:
    """A run's context in a direct chat with Ann."""
    values: dict[str, Any] = {
        "thread_id": thread,
        "run_id": run,
        "account": "telegram",
        "conversation": "telegram:1",
        "owner": "telegram:1",
        "speaker": Speaker(id="telegram:1", display_name="Ann"),
        "is_group": False,
        "locale": "en",
        "model": model,
    }
    return RunContext(**(values | changes))


def said(text: str, message_id: str = "") -> RunInput:
    """A turn's input; the message id follows from the text unless it is given."""
    return RunInput(message_id=message_id or f"inbox-{text}", text=text)


async def collect(harness: HarnessRunner, ctx: RunContext, run_input: RunInput, **more: Any) -> list[AnyRunEvent]:
    """All events of a run; checks that they are numbered without a gap."""
    async with aclosing(harness.run(ctx, run_input, **more)) as stream:
        events = [event async for event in stream]
    first = more.get("next_seq", 1)
    assert [event.seq for event in events] == list(range(first, first + len(events)))
    assert {event.run_id for event in events} == {ctx.run_id}
    return events


def finished(events: Sequence[AnyRunEvent]) -> Finished:
    """The end of a run that has an answer."""
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


def failed(events: Sequence[AnyRunEvent]) -> Failed:
    """The end of a run that has none."""
    assert isinstance(events[-1], Failed), events[-1]
    return events[-1]


def visible(events: Sequence[AnyRunEvent]) -> str:
    """The text that a reader of the events shows at the end, before Finished."""
    shown: dict[str, str] = {}
    for event in events:
        if event.type == "text_delta":
            shown[event.message_id] = shown.get(event.message_id, "") + event.text
        elif event.type == "text_reset":
            shown.pop(event.message_id, None)
    return "".join(shown.values())


@dataclass
class Bench:
    """Opens runners one after another on the same checkpoint file, like restarts of one process."""

    file: Path
    clock: TurnedClock = field(default_factory=TurnedClock)
    effects: EffectLog = field(default_factory=MemoryEffectLog)
    ledger: MemoryRunLedger = field(default_factory=MemoryRunLedger)
    budget: Budget | None = None
    summarization: SummarizationSettings = field(default_factory=SummarizationSettings)
    llm: LlmSettings = field(default_factory=LlmSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)
    model_call_limit: int = 100
    tools: Sequence[BaseTool] = ()
    sandbox: SandboxSetup | None = None
    audit: AuditLog = field(default_factory=MemoryAuditLog)
    guardrails: GuardrailSettings | None = None
    approvals: MemoryApprovals = field(default_factory=MemoryApprovals)
    spool: SpoolSettings | None = None
    subagents: SubagentsSettings | None = None
    servers: Servers | None = None
    tool_search: ToolSearchSettings = field(default_factory=ToolSearchSettings)
    database: str = ""
    extras: ExtraSettings = field(default_factory=ExtraSettings)
    definitions: Mapping[str, AgentDefinition] = field(default_factory=dict)
    scheduling: Scheduling | None = None
    remembering: Remembering | None = None
    skills: SkillSource | None = None
    steering: Steering | None = None
    health: ModelHealth = field(default_factory=ModelHealth)
    sources: Sources = field(default_factory=MemorySources)

    def __post_init__(self) -> None:
        self.database = self.database or str(self.file)

    def parts(self, *models: ModelSettings) -> Parts:
        """What an agent of this bench is made of."""
        return Parts(
            models=models or [scripted_settings()],
            summarization=self.summarization,
            llm=self.llm,
            loop=self.loop,
            model_call_limit=self.model_call_limit,
            tool_search=self.tool_search,
            subagents=self.subagents,
            extras=self.extras,
            definitions=self.definitions,
            effects=self.effects,
            ledger=self.ledger,
            clock=self.clock,
            route=lambda name: (None, None),
            budget=self.budget,
            guarding=load_guardrails(self.guardrails, self.approvals),
            sandbox=self.sandbox,
            audit=self.audit,
            spool=Spool(self.spool) if self.spool is not None else None,
            servers=self.servers,
            scheduling=self.scheduling,
            skills=self.skills,
            remembering=self.remembering,
            steering=self.steering,
            health=self.health,
            sources=self.sources,
            tools=self.tools,
        )

    @asynccontextmanager
    async def open(self, *models: ModelSettings) -> AsyncIterator[HarnessRunner]:
        harness = await make_harness(self.parts(*models), self.database)
        try:
            yield harness
        finally:
            await harness.close()


def chain_parts(
    *,
    supports_vision: bool = False,
    blind_fallback: bool = False,
    whole: bool = True,
    budget: Budget | None = None,
    skills: SkillSource | None = None,
    **graph: Any,
) -> ChainParts:
    """What a chain is made of. whole: with a sandbox and a tool of the operator's. graph: what the graph has alone."""
    clock, settings = TurnedClock(), scripted_settings(supports_vision=supports_vision)
    report = Report(provider="memory", isolation=Isolation.FULL, bash=True)
    parts = Parts(
        models=[settings],
        effects=MemoryEffectLog(),
        ledger=MemoryRunLedger(),
        clock=clock,
        route=lambda name: (None, None),
        budget=budget,
        skills=skills,
        sandbox=SandboxSetup(provider=MemoryProvider(), report=report) if whole else None,
        tools=[ask_tool().model_copy(update={"metadata": {FOREIGN: True}})] if whole else [],
    )
    blind = [Standby(scripted_settings(), ScriptedModel(model="other"), Breaker(clock))] if blind_fallback else []
    main = ScriptedModel(model="main")
    return ChainParts(parts=parts, model=main, settings=settings, breaker=Breaker(clock), fallbacks=blind, **graph)


def in_memory(bench: Bench, *, bash: bool = True, provider: MemoryProvider | None = None) -> MemoryProvider:
    """Give the bench a sandbox in memory, and a folder for the files that it presents."""
    provider = provider or MemoryProvider()
    report = Report(provider="memory", isolation=Isolation.FULL, bash=bash)
    bench.sandbox = SandboxSetup(provider=provider, report=report)
    bench.spool = SpoolSettings(folder=bench.file.parent / "spool")
    return provider


def results(script: Script) -> list[ToolMessage]:
    """The tool results in the newest request."""
    return [message for message in script.requests[-1] if isinstance(message, ToolMessage)]


async def answers(
    bench: Bench,
    script: Script,
    *rounds: AIMessage,
    run: str = "r1",
    model: ModelSettings | None = None,
    timezone: str = "UTC",
) -> list[str]:
    """One run of these rounds of tool calls: what the model read as their results."""
    script.steps = [*rounds, "done"]
    script.check = _require_pairs
    async with bench.open(model or scripted_settings()) as harness:
        events = await collect(harness, context(run, timezone=timezone), said(f"go {run}"))
    assert finished(events).text == "done"
    count = sum(len(each.tool_calls) for each in rounds)
    return [str(message.content) for message in results(script)][-count:]


async def stopped_after(harness: HarnessRunner, script: Script, *rounds: AIMessage) -> None:
    """Run r1 with these rounds, and stop it while the model is asked once more: as a crash leaves it."""
    asked = asyncio.Event()

    async def silent() -> str:
        asked.set()
        await asyncio.Event().wait()
        return ""

    script.steps = [*rounds, silent]
    running = asyncio.create_task(collect(harness, context("r1"), said("go")))
    async with asyncio.timeout(10):
        await asked.wait()
    running.cancel()
    await asyncio.wait({running})


def _require_pairs(messages: list[BaseMessage]) -> None:
    assert unpaired(messages) is None


def scripted_settings(**changes: Any) -> ModelSettings:
    return ModelSettings(**({"name": "main", "use": "tests.harness.support:ScriptedModel", "model": "main"} | changes))


def unpaired(messages: Sequence[BaseMessage]) -> str | None:
    """What a strict provider would refuse: a call not answered right after it, or a result that answers none."""
    open_ids: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in open_ids:
                return f"result without a call: {message.tool_call_id}"
            open_ids.remove(message.tool_call_id)
            continue
        if open_ids:
            return f"calls without results: {sorted(open_ids)}"
        if isinstance(message, AIMessage):
            open_ids = {call["id"] or "" for call in message.tool_calls}
    return f"calls without results: {sorted(open_ids)}" if open_ids else None


@dataclass(slots=True)
class MemoryBudget:
    """Budget in memory: so many calls of each run are affordable, None: any number. One more call is a small overdraft,
    further ones are not."""

    calls: int | None = None
    asked: dict[str, int] = field(default_factory=dict)

    async def overdraft(self, ctx: RunContext) -> Overdraft | None:
        count = self.asked[ctx.run_id] = self.asked.get(ctx.run_id, 0) + 1
        if self.calls is None or count <= self.calls:
            return None
        return Overdraft("run.calls", small=count == self.calls + 1)


@dataclass(slots=True)
class MemorySteering:
    """Steering in memory. waiting: messages to a run that its next call takes in."""

    waiting: dict[str, list[RunInput]] = field(default_factory=dict)
    heard: dict[str, list[RunInput]] = field(default_factory=dict)

    async def said(self, ctx: RunContext, *, more: bool = True) -> Sequence[RunInput]:
        heard = self.heard.setdefault(ctx.run_id, [])
        if more:
            heard += self.waiting.pop(ctx.run_id, [])
        return tuple(heard)
