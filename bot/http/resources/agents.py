"""The agents and models that can be chosen, with what each of them has, can do and costs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.http.auth import Caller
    from bot.http.parts import HttpParts
    from bot.settings import Settings
    from harness.agents.profiles import AgentDefinition
    from harness.subagents.kinds import Kind

NO_FILES = ("off", "failed")
"""States of the sandbox in which agents have no files."""
ToolKind = Literal["files", "commands", "web", "planning", "schedules", "memory", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """The abilities of an agent of one kind. names: of the tools, as the model calls them."""

    kind: ToolKind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServer:
    """A server of tools. tools: how many it offers now."""

    name: str
    tools: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subagent:
    """A type of subagent. model: its own, None: that of the delegating agent. tools, skills: names; None: those of the
    delegating agent. without: tools that it does not get. model_calls and seconds: limits of one task."""

    name: str
    description: str
    model: str | None
    tools: tuple[str, ...] | None
    without: tuple[str, ...]
    skills: tuple[str, ...] | None
    model_calls: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one answer. tokens and money: including its subagents; None: unlimited. subagents: at once, 0
    without delegation."""

    model_calls: int
    seconds: float
    subagents: int
    tokens: int | None
    money: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent. model: its own, None: the chat's. accounts: where it answers unless a chat has chosen another. skills:
    those that the caller's own chats have with it."""

    name: str
    description: str
    model: str | None
    accounts: tuple[str, ...]
    tools: tuple[ToolSet, ...]
    servers: tuple[ToolServer, ...]
    skills: tuple[str, ...]
    subagents: tuple[Subagent, ...]
    limits: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens. cached: of tokens read from the provider's cache, None: as read."""

    read: float
    written: float
    cached: float | None
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model. detail: its name elsewhere. works: None: not called yet; default: where no other is chosen.
    context_window: tokens. sees: pictures. price: None: unknown. fallbacks: models that answer when it cannot."""

    name: str
    detail: str
    thinks: bool
    default: bool
    works: bool | None
    context_window: int | None
    sees: bool
    price: Price | None
    fallbacks: tuple[str, ...]


class Agents:
    """The agents that can be chosen in a chat."""

    def __init__(self, parts: HttpParts) -> None:
        self._parts = parts

    async def list(self, caller: Caller) -> tuple[Agent, ...]:
        """All agents, the default one first."""
        return await asyncio.to_thread(lambda: tuple(self._all(caller.person)))

    def _all(self, person: str) -> Iterator[Agent]:
        settings, choices = self._parts.settings(), self._parts.agents
        sandbox = self._parts.status.asked.sandbox().state
        files, commands = sandbox not in NO_FILES, sandbox not in (*NO_FILES, "files")
        for name, definition in choices.definitions.items():
            subagents = tuple(_subagents(settings, definition, commands=commands))
            yield Agent(
                name=name,
                description=choices.descriptions[name],
                model=definition.settings.model,
                accounts=tuple(each for each in settings.channels if settings.agent_for(each) == name),
                tools=tuple(_tools(settings, definition, files=files, commands=commands)),
                servers=self._servers(definition),
                skills=tuple(each.name for each in self._parts.skills.usable(person, name, ()).skills),
                subagents=subagents,
                limits=_limits(settings, delegates=bool(subagents)),
            )

    def _servers(self, definition: AgentDefinition) -> tuple[ToolServer, ...]:
        if not definition.settings.features.mcp:
            return ()
        found, only = self._parts.status.asked.servers(), definition.settings.mcp_servers
        there = (each for each in found if each.state != "off" and (only is None or each.name in only))
        return tuple(ToolServer(name=each.name, tools=each.tools) for each in there)


def _tools(settings: Settings, definition: AgentDefinition, *, files: bool, commands: bool) -> Iterator[ToolSet]:
    # Imported here, since it pulls in what the agent is made of, which is loaded by now.
    from harness.agents.tools import MEMORY_TOOLS
    from harness.scheduling.tool import SCHEDULE
    from harness.subagents.kinds import SANDBOX_TOOLS
    from harness.tools.planning import WRITE_TODOS
    from harness.tools.presenting import PRESENT
    from harness.tools.shell import BASH

    features, web = definition.settings.features, settings.web
    if features.sandbox and files:
        yield ToolSet(kind="files", names=(*sorted(SANDBOX_TOOLS - {BASH}), PRESENT))
        if commands:
            yield ToolSet(kind="commands", names=(BASH,))
    if features.web and web.is_on:
        search = ("web_search",) if web.search.provider != "none" else ()
        yield ToolSet(kind="web", names=(*search, *(("web_fetch",) if web.fetch.enabled else ())))
    if features.planning:
        yield ToolSet(kind="planning", names=(WRITE_TODOS,))
    if settings.schedules.enabled:
        yield ToolSet(kind="schedules", names=(SCHEDULE,))
    if features.memory and settings.memory.enabled:
        yield ToolSet(kind="memory", names=tuple(sorted(MEMORY_TOOLS)))
    groups = (settings.tool_groups or None, definition.settings.tool_groups)
    own = [each for each in settings.tools if all(named is None or each.group in named for named in groups)]
    if own:
        yield ToolSet(kind="own", names=tuple(each.name or each.use.rpartition(":")[2] for each in own))


def _subagents(settings: Settings, definition: AgentDefinition, *, commands: bool) -> Iterator[Subagent]:
    from harness.subagents.kinds import subagent_kinds

    wanted = definition.settings.subagents
    if not settings.subagents.enabled or not wanted:
        return
    commands = commands and definition.settings.features.sandbox
    for name, kind in subagent_kinds(settings.subagents, bash=commands).items():
        if isinstance(wanted, bool) or name in wanted:
            yield _subagent(kind)


def _subagent(kind: Kind) -> Subagent:
    from harness.subagents.config import INHERIT

    return Subagent(
        name=kind.name,
        description=kind.description,
        model=None if kind.model == INHERIT else kind.model,
        tools=kind.tools,
        without=tuple(sorted(kind.disallowed)),
        skills=kind.skills,
        model_calls=kind.max_turns,
        seconds=kind.timeout_seconds,
    )


def _limits(settings: Settings, *, delegates: bool) -> Limits:
    return Limits(
        model_calls=settings.limits.model_calls,
        seconds=settings.limits.run_seconds,
        subagents=settings.subagents.per_run if delegates else 0,
        tokens=settings.budgets.run.tokens,
        money=settings.budgets.run.money,
    )


def models_of(parts: HttpParts) -> tuple[Model, ...]:
    """The models that can be chosen in a chat, the default one first."""
    health, known = parts.models.known(), {each.name: each for each in parts.settings().models}
    found = []
    for place, each in enumerate(parts.agents.models):
        state, configured = health.get(each.name), known.get(each.name)
        price = configured.price if configured is not None else None
        found.append(
            Model(
                name=each.name,
                detail=each.detail,
                thinks=each.thinks,
                default=place == 0,
                works=None if state is None else state.works,
                context_window=configured.context_window if configured is not None else None,
                sees=configured is not None and configured.supports_vision,
                price=None
                if price is None
                else Price(read=price.input, written=price.output, cached=price.cached, currency=price.currency),
                fallbacks=configured.fallbacks if configured is not None else (),
            )
        )
    return tuple(found)
