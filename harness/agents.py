"""The agents by model: built at first use from the config and what they share, kept, closed; used by runner.py."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.agent import make_lead_agent
from harness.breaker import Breakers
from harness.errors import ModelFailure, ModelSetupError
from harness.events import FailureKind
from harness.middleware import ChainParts
from harness.middleware.summarization import Summarization
from harness.models import build_model
from harness.prompt import system_prompt
from harness.tools.make import sandbox_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from harness.agent import Graph
    from harness.config import LlmSettings, ModelSettings, SummarizationSettings
    from harness.models import BuiltModel, Route
    from harness.ports import AuditLog, Clock, EffectLog, RunLedger
    from harness.sandboxes import SandboxSetup
    from harness.spool import Spool

MAX_AGENTS = 32


@dataclass(frozen=True, slots=True)
class Agent:
    """One model's graph, and its summarization for `compact`."""

    settings: ModelSettings
    model: BuiltModel
    graph: Graph
    summarization: Summarization


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all agents share. sandbox: None where there is none; audit: of its commands. spool: None where files cannot
    be sent."""

    summarization: SummarizationSettings
    llm: LlmSettings
    model_call_limit: int
    effects: EffectLog
    ledger: RunLedger
    clock: Clock
    route: Callable[[str], Route]
    tools: Sequence[BaseTool]
    sandbox: SandboxSetup | None
    audit: AuditLog
    spool: Spool | None


class Agents:
    """At most MAX_AGENTS are kept; the first model is the default."""

    def __init__(self, models: Sequence[ModelSettings], parts: Parts, saver: BaseCheckpointSaver[str]) -> None:
        self._models = {model.name: model for model in models}
        self._default = models[0].name
        self._parts = parts
        self._saver = saver
        self._breakers = Breakers(parts.clock)
        self._kept: OrderedDict[str, Agent] = OrderedDict()
        self._retired: list[BuiltModel] = []

    def default(self) -> Agent:
        """The agent of the first model."""
        return self.get(self._default)

    def get(self, name: str) -> Agent:
        """The agent of a model, built at its first use. Raises ModelFailure for a model that cannot be had."""
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        settings = self._models.get(name)
        if settings is None:
            raise ModelFailure(FailureKind.NOT_FOUND, model=name, detail="no such model in the config")
        try:
            return self._keep(settings)
        except ModelSetupError as error:
            raise ModelFailure(FailureKind.NOT_FOUND, model=name, detail=str(error)) from error

    def warm_up(self) -> None:
        """Build the default agent before its first message. Blocking: call it in a thread. Raises ModelSetupError."""
        self._keep(self._models[self._default])

    async def close(self) -> None:
        """Give back all connections."""
        for model in [*self._retired, *(agent.model for agent in self._kept.values())]:
            await model.close()
        self._kept.clear()
        self._retired.clear()

    def _keep(self, settings: ModelSettings) -> Agent:
        agent = self._kept[settings.name] = self._build(settings)
        if len(self._kept) > MAX_AGENTS:
            # A run may still use it, so its connections are closed with everything else.
            self._retired.append(self._kept.popitem(last=False)[1].model)
        return agent

    def _build(self, settings: ModelSettings) -> Agent:
        parts = self._parts
        model = build_model(settings, parts.route(settings.name))
        chain = ChainParts(
            model=model.chat,
            settings=settings,
            summarization=parts.summarization,
            llm=parts.llm,
            model_call_limit=parts.model_call_limit,
            effects=parts.effects,
            ledger=parts.ledger,
            clock=parts.clock,
            breaker=self._breakers.of(model.provider),
            audit=parts.audit if parts.sandbox is not None else None,
            views_images=settings.supports_vision and parts.sandbox is not None,
        )
        graph = make_lead_agent(chain, prompt=self._prompt(), tools=self._tools(settings), saver=self._saver)
        return Agent(settings, model, graph, Summarization(model.chat, parts.summarization, settings, parts.clock))

    def _tools(self, settings: ModelSettings) -> list[BaseTool]:
        parts = self._parts
        if parts.sandbox is None:
            return list(parts.tools)
        sees = settings.supports_vision
        own = sandbox_tools(parts.sandbox, spool=parts.spool, sees_images=sees, clock=parts.clock)
        return [*own, *parts.tools]

    def _prompt(self) -> str:
        sandbox = self._parts.sandbox
        return system_prompt(sandbox.report if sandbox else None, sends_files=self._parts.spool is not None)
