"""`antler prompt`: what the model reads ahead of a conversation, built by the same parts as the gateway's."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

from bot.agents.profiles import AgentChoices
from bot.clock import SystemClock
from bot.control import logs
from bot.files.sandboxes import START_SECONDS, Sandboxes
from bot.skills.folders import editing_of
from bot.skills.service import SkillService
from bot.store import conversations, runs, sql
from bot.usage.days import zone_of
from channels.registry import name_of
from harness.agents.parts import ExtraSettings, Parts
from harness.context import COMMANDS, Place, RunContext, Speaker
from harness.errors import ModelFailure, SetupError
from harness.files.spool import Spool, SpoolSettings
from harness.knowledge.port import Looked
from harness.mcp.pool import McpPool
from harness.memory.model import Memory
from harness.memory.store import NotKept, Recalled, Remembering
from harness.ports import MemoryEffectLog, MemoryRunLedger
from harness.scheduling.schedules import MemorySchedules, Scheduling

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from bot.settings import Settings
    from bot.store.rows import ConversationRow, RunRow
    from harness.knowledge.port import Asker

HINT = "/whoami in the chat shows its id, `antler check-config` the accounts"
ESTIMATE = "estimated: one token per 4 ASCII characters or per other character"


class Unanswerable(Exception):
    """The prompt cannot be built; the text says which key, option or command to change."""


def show(settings: Settings, chat: str | None, agent: str | None) -> int:
    """Print the prompt of a chat, or of a new private one; returns the exit code."""
    try:
        print(asyncio.run(_shown(settings, chat, agent)))
    except (Unanswerable, SetupError) as error:
        return logs.complain(error)
    except ModelFailure as error:
        return logs.complain(f"the model {error.model} cannot be used: {error.detail}; see `models`")
    return 0


async def _shown(settings: Settings, chat: str | None, agent: str | None) -> str:
    choices = AgentChoices.of(settings)
    ctx = _stored(settings, choices, chat) if chat is not None else _new(settings, choices)
    if agent is not None:
        if agent not in choices.definitions:
            known = ", ".join(choices.definitions)
            raise Unanswerable(f"--agent: no agent {agent} in agents_dir ({settings.agents_dir}); available: {known}")
        own = choices.definitions[agent].settings.model
        ctx = replace(ctx, agent=agent, model=ctx.model if chat is not None or own is None else own)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="antler-prompt-")))
        sandboxes = Sandboxes(settings.sandbox, folder, settings.network_route)
        stack.push_async_callback(sandboxes.shutdown, START_SECONDS)
        servers = McpPool(
            settings.mcp_servers, folder=settings.data_dir, route=settings.network_route, clock=SystemClock()
        )
        stack.push_async_callback(servers.close)
        servers.start()
        # Imported here: what builds agents takes a second to import, and faults of the options are reported first.
        from harness.run.runner import make_harness

        setup = await sandboxes.start()
        parts = replace(
            _parts(settings, choices, folder), sandbox=setup, servers=servers if settings.mcp_servers else None
        )
        harness = await make_harness(parts, str(folder / "checkpoints.db"))
        stack.push_async_callback(harness.close)
        remarks = [f"sandbox: {sandboxes.facts}", *(f"mcp: {facts}" for facts in servers.facts)]
        if chat is not None and not ctx.place.commands:
            remarks.append("chat: no stored message is left, so the place is described as for a private chat")
        return _page(ctx, *await harness.prompt(ctx), remarks)


def _page(ctx: RunContext, sections: Sequence[tuple[str, str]], tools: Sequence[str], remarks: list[str]) -> str:
    from harness.skills.prompt import tokens  # a heavy import, like the harness

    sizes = [(name, round(tokens(text))) for name, text in sections]
    parts = [f"=== {name} ({size} tokens)\n{text}" for (name, size), (_, text) in zip(sizes, sections, strict=True)]
    width = max(len(name) for name, _ in sizes)
    lines = [f"{name:<{width}} {size:>6}" for name, size in sizes]
    lines.append(f"{'total':<{width}} {sum(size for _, size in sizes):>6}  {ESTIMATE}")
    beside = round(sum(map(tokens, tools)))
    lines.append(
        f"In addition, {len(tools)} tools with their descriptions: {beside}. Agent {ctx.agent}, model {ctx.model}."
    )
    return "\n".join([*parts, *lines, *remarks])


def _new(settings: Settings, choices: AgentChoices) -> RunContext:
    """A private chat of the first account in which no one has written yet."""
    account = next(iter(settings.channels))
    place = Place(platform=name_of(settings.channels[account].type), commands=tuple((c, f"/{c}") for c in COMMANDS))
    agent = settings.agent_for(account)
    model = choices.definitions[agent].settings.model or choices.models[0].name
    return _context(settings, account, f"{account}:0", f"{account}:0", place, agent=agent, model=model)


def _stored(settings: Settings, choices: AgentChoices, chat: str) -> RunContext:
    """The chat as stored: its choices, and the place as reported with its newest message."""
    row, last = _read(settings, chat)
    if row.account not in settings.channels:
        raise Unanswerable(f"--chat {chat}: channels no longer has an account {row.account}")
    place = Place(platform=name_of(settings.channels[row.account].type))
    context = last.context if last is not None and last.is_readable else None
    made = _context(
        settings,
        row.account,
        row.key,
        row.owner,
        context.place if context is not None else place,
        agent=choices.agent_of(row),
        model=choices.model_of(row),
    )
    is_group = context.is_group if context is not None else row.owner == row.key and "@" in row.key
    return replace(made, is_group=is_group, skills_off=row.skills_off, timezone=zone_of(row, settings.timezone))


def _context(
    settings: Settings, account: str, key: str, owner: str, place: Place, *, agent: str, model: str
) -> RunContext:
    return RunContext(
        thread_id="prompt",
        run_id="prompt",
        account=account,
        conversation=key,
        owner=owner,
        speaker=Speaker(id=owner, display_name=""),
        is_group=False,
        locale="en",
        model=model,
        agent=agent,
        timezone=settings.timezone,
        place=place,
    )


def _read(settings: Settings, chat: str) -> tuple[ConversationRow, RunRow | None]:
    """The conversation and its newest run. Only reads, so that a gateway may be running. Raises Unanswerable."""
    url = sql.parse(settings.database_url)
    if url.database is not None and url.get_backend_name() == "sqlite" and not Path(url.database).exists():
        raise Unanswerable(f"--chat: no database in data_dir ({settings.data_dir}) yet; `antler run` creates it")
    engine = sql.reader_engine(url)
    try:
        with engine.connect() as tx, tx.begin():
            row = conversations.load(tx, chat)
            if row is None:
                raise Unanswerable(f"--chat: there is no conversation {chat} yet; {HINT}")
            return row, next(iter(runs.recent(tx, row.key, 1)), None)
    except DBAPIError as error:
        place = url.render_as_string(hide_password=True)
        raise Unanswerable(f"--chat: the database {place} cannot be read ({type(error.orig).__name__})") from error
    finally:
        engine.dispose()


class _NoMemories:
    """Memories that are empty and keep nothing, since only a prompt is built."""

    async def recalled(self, ctx: RunContext) -> Recalled:
        return Recalled(memory=Memory())

    async def remember(self, ctx: RunContext, *_: object) -> NoReturn:
        raise NotKept("nothing is kept here")


class _NoKnowledge:
    """Collections that are empty."""

    async def search(self, query: str, asker: Asker, collections: Sequence[str] = ()) -> Looked:
        return Looked()


def _parts(settings: Settings, choices: AgentChoices, folder: Path) -> Parts:
    """The parts of a gateway with these settings; what an answer would change is kept in memory only."""
    clock = SystemClock()
    skills = SkillService.of(settings, choices, lambda thread_id: None).source()
    return Parts(
        models=settings.models,
        tool_search=settings.tool_search,
        subagents=settings.subagents,
        extras=ExtraSettings(
            web=settings.web, tools=settings.tools, groups=settings.tool_groups, route=settings.network_route
        ),
        definitions=choices.definitions,
        effects=MemoryEffectLog(),
        ledger=MemoryRunLedger(),
        clock=clock,
        route=settings.model_route,
        spool=Spool(SpoolSettings(folder=folder / "spool")),
        scheduling=Scheduling(schedules=MemorySchedules(clock)) if settings.schedules.enabled else None,
        skills=replace(skills, editing=editing_of(settings)),
        remembering=Remembering(memories=_NoMemories(), settings=settings.memory) if settings.memory.enabled else None,
        knowledge=_NoKnowledge() if settings.knowledge.enabled else None,
    )
